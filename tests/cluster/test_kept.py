"""Jobs of Ballista's clients that a server keeps (`jobs:`): they survive its SIGKILL, and other servers over the same store
answer for them."""
import os, re, signal, subprocess, time
import pytest

grpc = pytest.importorskip("grpc")
import pyarrow as pa
from conftest import CLIENT, PROGRAM, ROOT, Client, Server
from raw_client import Client as Raw, params, ticket_of

LONG = "SELECT count(*) AS n FROM lineitem a, lineitem b, lineitem c WHERE a.l_orderkey + b.l_partkey + c.l_suppkey = -1"
LEASE = "300ms"


@pytest.fixture(scope="module")
def plan_of(tpch_folder):
    """A plan's bytes, as the stock client encodes it."""
    if not CLIENT:
        pytest.skip("the stock client is not built: make engine")
    with Server() as server, Client(server.df_url) as client:
        client.tables(tpch_folder)
        plans = {sql: bytes.fromhex(client.ask(encode=sql)["plan"])
                 for sql in [LONG, "SELECT 7 AS x", "SELECT * FROM lineitem", "SELECT 1 / (n_nationkey - n_nationkey) FROM nation"]}
    return plans.__getitem__


class Kept(Server):
    """A server over the store of `folder`."""

    def __init__(self, folder, lost="report", more="", keep="24h"):
        self.folder = folder
        self.where = ["--jobs-store", str(folder / "jobs.sqlite"), "--jobs-output", str(folder / "outputs")]
        config = folder / "t.yaml"
        config.write_text(f"jobs: {{lost: {lost}, lease: {LEASE}, keep: {keep}}}\n{more}")
        super().__init__("--config", config, *self.where)
        self.raw = Raw(self.address)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.raw.close()

    def __exit__(self, *arguments):
        self.raw.close()
        if self.process.poll() is None:
            super().__exit__(*arguments)

    def status(self, job_id):
        return self.raw.call("GetJobStatus", job_id=job_id).status

    def wait(self, job_id, *kinds):
        for _ in range(2000):
            status = self.status(job_id)
            if status.WhichOneof("status") in kinds:
                return status
            time.sleep(0.01)
        pytest.fail(f"it is {status}")


def jobs(folder, *arguments, binary=False):
    where = ["--jobs-store", str(folder / "jobs.sqlite"), "--jobs-output", str(folder / "outputs")]
    return subprocess.run([str(PROGRAM), "jobs", *arguments, *where], capture_output=True, text=not binary, timeout=60)


def submit(server, plan, **settings):
    """By ExecuteQuery, whose answer has the id of a job that is recorded."""
    answer = server.raw.call("ExecuteQuery", **params({"logical_plan": plan, "settings": settings}))
    return answer.success.job_id


def test_a_job_that_is_over_outlives_its_server(plan_of, tmp_path):
    with Kept(tmp_path) as server:
        *_, last = server.raw.push(logical_plan=plan_of("SELECT * FROM lineitem"), settings={"ballista.job.name": "all of it"})
        ticket = ticket_of(last.status.successful.partition_location[0])
        before, _ = server.raw.fetch(ticket)
        *_, failed = server.raw.push(logical_plan=plan_of("SELECT 1 / (n_nationkey - n_nationkey) FROM nation"))
        assert "ivi" in failed.status.failed.error
        server.kill()
    with Kept(tmp_path) as server:
        again = server.raw.call("GetJobStatus", job_id=last.status.job_id)
        assert again.local and again.status.job_name == "all of it"
        location = again.status.successful.partition_location[0]
        assert ticket_of(location) == ticket and location.partition_stats.num_rows == 60175
        table, sizes = server.raw.fetch(ticket)
        assert table.equals(before) and max(sizes) < (2 << 20) + (64 << 10)
        assert server.status(failed.status.job_id).failed.error == failed.status.failed.error
        assert not server.raw.call("CancelJob", job_id=last.status.job_id).cancelled
        assert server.raw.fetch(ticket)[0].num_rows == 60175
        server.raw.call("CleanJobData", job_id=last.status.job_id)
        with pytest.raises(grpc.RpcError) as caught:
            server.raw.fetch(ticket)
        assert caught.value.code() == grpc.StatusCode.NOT_FOUND
        assert server.status(last.status.job_id).WhichOneof("status") == "successful"


def test_forged_tickets_of_kept_jobs(plan_of, tmp_path):
    with Kept(tmp_path) as server:
        *_, mine = server.raw.push(logical_plan=plan_of("SELECT 7 AS x"))
        *_, other = server.raw.push(logical_plan=plan_of("SELECT 7 AS x"))
        server.kill()
    with Kept(tmp_path) as server:
        location, theirs = (last.status.successful.partition_location[0] for last in (mine, other))
        for change in [{"file_id": theirs.file_id}, {"file_id": 0}, {"job_id": "../outputs/" + mine.status.job_id[:25]},
                       {"job_id": ".tickets"}, {"job_id": theirs.partition_id.job_id}, {"stage_id": 2}]:
            with pytest.raises(grpc.RpcError) as caught:
                server.raw.fetch(ticket_of(location, **change))
            assert caught.value.code() == grpc.StatusCode.NOT_FOUND, change
        assert server.raw.fetch(ticket_of(location))[0].to_pylist() == [{"x": 7}]
    assert (tmp_path / "outputs/.tickets").stat().st_mode & 0o777 == 0o600


def test_a_job_that_ran_is_reported_lost(plan_of, tmp_path):
    with Kept(tmp_path) as server:
        job_id = submit(server, plan_of(LONG))
        server.wait(job_id, "running")
        server.kill()
    with Kept(tmp_path) as server:
        assert "lost" in server.wait(job_id, "failed").failed.error
        listed = jobs(tmp_path, "list", "--state", "lost")
        assert listed.returncode == 0 and listed.stdout.startswith(job_id + "\tlost\t"), listed.stderr


def test_a_job_that_ran_runs_again_where_that_is_wanted(plan_of, tmp_path):
    with Kept(tmp_path, lost="resubmit") as server:
        long, short = submit(server, plan_of(LONG)), submit(server, plan_of("SELECT 7 AS x"))
        server.wait(long, "running")
        server.wait(short, "successful")
        server.kill()
    with Kept(tmp_path, lost="resubmit") as server:
        assert server.wait(long, "queued", "running")
        for _ in range(500):  # until the first server's lease has run out, and this one has it
            if "attempt    2" in jobs(tmp_path, "status", long).stdout and server.status(long).WhichOneof("status") == "running":
                break
            time.sleep(0.02)
        else:
            pytest.fail(jobs(tmp_path, "status", long).stdout)
        assert "attempt    1" in jobs(tmp_path, "status", short).stdout
        assert server.raw.call("CancelJob", job_id=long).cancelled
        assert server.wait(long, "failed").failed.error == "Cancelled"
        server.kill()
    with Kept(tmp_path, lost="resubmit") as server:  # what was cancelled stays so
        assert server.status(long).failed.error == "Cancelled"


def test_a_server_that_ends_leaves_its_jobs(plan_of, tmp_path):
    with Kept(tmp_path, lost="resubmit") as server:
        call = server.raw.push(logical_plan=plan_of(LONG))
        job_id = next(call).status.job_id
        call.cancel()  # its client is gone, and it runs on
        server.wait(job_id, "running")
    with Kept(tmp_path, lost="resubmit") as server:
        server.wait(job_id, "running")
        assert server.raw.call("CancelJob", job_id=job_id).cancelled
        assert server.wait(job_id, "failed").failed.error == "Cancelled"


def test_two_servers_over_one_store(plan_of, tmp_path):
    with Kept(tmp_path) as one, Kept(tmp_path) as two:
        *_, last = one.raw.push(logical_plan=plan_of("SELECT 7 AS x"))
        assert two.raw.table_of(two.raw.call("GetJobStatus", job_id=last.status.job_id)).to_pylist() == [{"x": 7}]
        job_id = submit(one, plan_of(LONG))
        two.wait(job_id, "running")
        assert two.raw.call("CancelJob", job_id=job_id).cancelled
        assert one.wait(job_id, "failed").failed.error == two.wait(job_id, "failed").failed.error == "Cancelled"


def test_users_see_their_own_jobs_also_after_a_restart(plan_of, tmp_path):
    tokens, lines = {}, []
    for name in ("ann", "bob"):
        made = subprocess.run([str(PROGRAM), "new-token", name], capture_output=True, text=True)
        lines.append(next(line for line in made.stdout.splitlines() if ":" in line and line[0] != "#"))
        tokens[name] = made.stderr.split()[-1]
    (tmp_path / "tokens").write_text("\n".join(lines) + "\n")
    more = f"auth: {{tokens: {tmp_path}/tokens}}\n"
    with Kept(tmp_path, more=more) as server:
        ann = Raw(server.address, metadata=[("authorization", f"Bearer {tokens['ann']}")])
        *_, last = ann.push(logical_plan=plan_of("SELECT 7 AS x"))
        ann.close()
        server.kill()
    with Kept(tmp_path, more=more) as server:
        ann, bob = (Raw(server.address, metadata=[("authorization", f"Bearer {tokens[name]}")]) for name in ("ann", "bob"))
        job_id, ticket = last.status.job_id, ticket_of(last.status.successful.partition_location[0])
        assert not bob.call("GetJobStatus", job_id=job_id).HasField("status")
        assert not bob.call("CancelJob", job_id=job_id).cancelled
        with pytest.raises(grpc.RpcError) as caught:
            bob.fetch(ticket, metadata=bob.metadata)
        assert caught.value.code() == grpc.StatusCode.NOT_FOUND
        assert ann.call("GetJobStatus", job_id=job_id).status.WhichOneof("status") == "successful"
        assert ann.fetch(ticket)[0].to_pylist() == ann.fetch(ticket, metadata=ann.metadata)[0].to_pylist() == [{"x": 7}]
        ann.close(), bob.close()


@pytest.mark.parametrize("is_kept", [False, True])
def test_tickets_are_bound_to_who_a_client_certificate_names(plan_of, tmp_path, is_kept):
    """Mutual TLS: a fetch brings a name, which must be that of who submitted, whatever the ticket knows."""
    pytest.importorskip("cryptography")
    import importlib.util
    spec = importlib.util.spec_from_file_location("test_credentials", ROOT / "tests/program/credentials.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    authority = made.Authority()
    certificate, key = authority.server()
    for name, text in [("server.pem", certificate), ("server.key", key), ("ca.pem", authority.pem)]:
        (tmp_path / name).write_bytes(text)
    more = (f"tls: {{cert: {tmp_path}/server.pem, key: {tmp_path}/server.key, client_ca: {tmp_path}/ca.pem}}\n"
            "auth: {certificates: true}\n")
    credentials = {}
    for name in ("ann", "bob"):
        own, own_key = authority.client(name)
        credentials[name] = grpc.ssl_channel_credentials(authority.pem, own_key, own)
    (tmp_path / "t.yaml").write_text(more + (f"jobs: {{store: {tmp_path}/jobs.sqlite, output: {tmp_path}/outputs}}\n" if is_kept else ""))
    with Server("--config", tmp_path / "t.yaml") as server:
        address = server.address.replace("127.0.0.1", "localhost").split("/")[0]
        ann, bob = (Raw(address, credentials=credentials[name]) for name in ("ann", "bob"))
        *_, last = ann.push(logical_plan=plan_of("SELECT 7 AS x"))
        ticket = ticket_of(last.status.successful.partition_location[0])
        with pytest.raises(grpc.RpcError) as caught:
            bob.fetch(ticket)
        assert caught.value.code() == grpc.StatusCode.NOT_FOUND
        assert not bob.call("GetJobStatus", job_id=last.status.job_id).HasField("status")
        assert not bob.call("CancelJob", job_id=last.status.job_id).cancelled
        assert ann.fetch(ticket)[0].to_pylist() == [{"x": 7}]  # without any metadata: the connection says who it is
        for change in [{"file_id": 0}, {"job_id": "../" + last.status.job_id}, {"partition_id": 1}]:
            with pytest.raises(grpc.RpcError) as caught:
                ann.fetch(ticket_of(last.status.successful.partition_location[0], **change))
            assert caught.value.code() == grpc.StatusCode.NOT_FOUND
        ann.close(), bob.close()


def test_the_program_lists_tells_cancels_and_writes(plan_of, tmp_path):
    with Kept(tmp_path) as server:
        done, runs = submit(server, plan_of("SELECT 7 AS x"), **{"ballista.job.name": "se\x1b[31mven"}), submit(server, plan_of(LONG))
        server.wait(done, "successful")
        server.wait(runs, "running")
        listed = jobs(tmp_path, "list").stdout.splitlines()
        assert [line.split("\t")[:2] for line in listed] == [[runs, "running"], [done, "succeeded"]]
        assert listed[1].endswith("\tse?[31mven")
        assert jobs(tmp_path, "list", "--state", "succeeded", "--limit=1").stdout.split("\t")[0] == done
        told = jobs(tmp_path, "status", done).stdout
        assert "rows       1\n" in told and f"location   file://{tmp_path}/outputs/{done}/1/" in told
        rows = pa.ipc.open_stream(jobs(tmp_path, "output", done, binary=True).stdout).read_all()
        assert rows.to_pylist() == [{"x": 7}]
        target = tmp_path / "rows.arrows"
        assert jobs(tmp_path, "output", done, "--to", str(target)).returncode == 0
        assert pa.ipc.open_stream(target.read_bytes()).read_all() == rows
        assert "exists" in jobs(tmp_path, "output", done, "--to", str(target)).stderr  # nothing is written over
        none = jobs(tmp_path, "output", runs)
        assert none.returncode == 1 and "it is running" in none.stderr and none.stdout == ""
        assert jobs(tmp_path, "cancel", runs).stdout.split() == [runs, "cancelled"]
        assert server.wait(runs, "failed").failed.error == "Cancelled"
    assert jobs(tmp_path, "status", "nobody").returncode == 1
    assert jobs(tmp_path, "list", "--state", "odd").returncode == jobs(tmp_path, "status").returncode == 2
    told = subprocess.run([str(PROGRAM), "jobs", "list"], capture_output=True, text=True)
    assert told.returncode == 2 and "--jobs-store" in told.stderr


def test_old_jobs_are_given_up_when_they_are_lost_and_only_then(plan_of, tmp_path):
    with Kept(tmp_path) as server:
        lost = submit(server, plan_of(LONG))
        server.wait(lost, "running")
        server.kill()
    with Kept(tmp_path, keep="1ms") as server:
        runs = submit(server, plan_of(LONG))
        server.wait(runs, "running")
        for _ in range(500):
            if lost not in jobs(tmp_path, "list").stdout:  # cancelled, and forgotten
                break
            time.sleep(0.02)
        else:
            pytest.fail(jobs(tmp_path, "list").stdout)
        os.kill(server.process.pid, signal.SIGSTOP)  # for some leases
        time.sleep(1.5)
        os.kill(server.process.pid, signal.SIGCONT)
        time.sleep(2.5)
        assert server.status(runs).WhichOneof("status") == "running"
        assert server.raw.call("CancelJob", job_id=runs).cancelled


def test_old_jobs_are_forgotten(plan_of, tmp_path):
    with Kept(tmp_path) as server:
        *_, last = server.raw.push(logical_plan=plan_of("SELECT 7 AS x"))
        server.kill()
    where = ["--jobs-store", tmp_path / "jobs.sqlite", "--jobs-output", tmp_path / "outputs", "--set", "jobs.keep=1ms"]
    with Server(*where):
        for _ in range(500):
            if jobs(tmp_path, "list").stdout == "":
                break
            time.sleep(0.02)
        else:
            pytest.fail("it is still there")
    assert not (tmp_path / "outputs" / last.status.job_id).exists()


@pytest.mark.parametrize("text, says", [("jobs: {store: x}", "go together"), ("jobs: {store: x, output: y, lost: never}", "resubmit"),
                                        ("jobs: {stor: x}", "did you mean 'store'"),
                                        ("jobs: {store: DIR/s, output: DIR/o}\nfrontends: {ballista: {hand_through: true}}", "hand_through")])
def test_settings_that_make_no_sense(tmp_path, text, says):
    (tmp_path / "t.yaml").write_text(text.replace("DIR", str(tmp_path)))
    done = subprocess.run([str(PROGRAM), "serve", "--config", tmp_path / "t.yaml", "--check"], capture_output=True, text=True)
    assert done.returncode == 2 and says in done.stderr, done.stderr
