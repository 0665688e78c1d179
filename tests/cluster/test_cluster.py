"""`trunnion cluster`, and the programs that it starts: a cluster runs the stock client's queries; exactly its processes end."""
import os, pathlib, signal, subprocess, sys, time
import pytest
from conftest import BALLISTA, PATIENCE, PROGRAM, Client, Cluster, Failed


def command(*arguments, **options):
    return subprocess.run([str(PROGRAM), "cluster", *map(str, arguments)], capture_output=True, text=True, timeout=PATIENCE, **options)


def lives(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def mentioned(text):
    """Processes whose command line has this text."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += [path.parent.name] if str(text) in path.read_text().replace("\0", " ") else []
        except OSError:
            pass  # it ended meanwhile
    return found


# ---- queries ----

def test_two_executors_share_a_query(client, tpch_folder):
    client.tables(tpch_folder, "lineitem")
    rows = client.rows("select l_returnflag, count(*) as n from lineitem group by l_returnflag order by 1")
    # TPC-H's generator is deterministic: at scale 0.01 these are its flags
    assert rows == [{"l_returnflag": "A", "n": 14876}, {"l_returnflag": "N", "n": 30397}, {"l_returnflag": "R", "n": 14902}]


def test_our_functions_run_on_executors(client, tpch_folder):
    """A name of the library: planned by no stock client, so the plan is made where the name is known."""
    with pytest.raises(Failed, match="(?i)function"):
        client.rows("select \"trn.no_such_function\"(1)")


def test_a_stock_cluster_runs_standard_queries(stock_cluster, tpch_folder):
    with Client(stock_cluster.df_url) as client:
        client.tables(tpch_folder, "nation")
        assert client.rows("select count(*) as n from nation where n_regionkey = 1") == [{"n": 5}]


def test_polling_and_pushed_status_give_the_same(cluster, client, tpch_folder):
    with Client(cluster.df_url, "--pull") as polls:
        for each in (polls, client):
            each.tables(tpch_folder, "orders")
        sql = "select o_orderpriority, count(*) as n from orders group by 1 order by 1"
        assert polls.rows(sql) == client.rows(sql)
        assert len(client.rows(sql)) == 5


def test_deep_plans_do_not_end_the_programs(client):
    """Threads have stacks for them, the executors' own ones too."""
    sum_of = " + ".join(["cast(o_custkey as bigint)"] * 40)
    nested = "o_custkey"
    for _ in range(30):
        nested = f"abs({nested})"
    assert client.ask(sql=f"select {sum_of}, {nested} from orders limit 1")["rows"] == 1


def test_explain_shows_the_stages(client, tpch_folder):
    client.tables(tpch_folder, "nation")
    plans = {row["plan_type"]: row["plan"] for row in client.rows("explain select n_regionkey, count(*) from nation group by 1")}
    assert set(plans) >= {"logical_plan", "physical_plan", "distributed_plan"}


def test_jobs_are_known_by_their_ids(client, tpch_folder):
    client.tables(tpch_folder, "nation")
    job = client.ask(submit="select n_regionkey, count(*) as n from nation group by 1")["job"]
    deadline = time.monotonic() + PATIENCE
    while (status := client.ask(status=job))["state"] not in ("successful", "failed"):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert status["state"] == "successful" and sum(place["rows"] for place in status["locations"]) == 5
    assert client.ask(metrics=job)["stages"]


def test_another_major_version_is_refused(client):
    with pytest.raises(Failed, match="major version"):
        client.ask(submit="select 1 + 1", version="54.1.0")


# ---- up and down ----

@pytest.fixture()
def small(programs, tmp_path):
    with Cluster(tmp_path / "work", "--executors", "1") as running:
        yield running


def test_status_tells_what_runs_and_down_ends_exactly_that(small):
    pids = small.pids()
    assert set(pids) == {"scheduler", "executor-1"} and all(lives(pid) for pid in pids.values())
    assert small.command("status").returncode == 0 and small.address in small.command("status").stdout
    bystander = subprocess.Popen([BALLISTA, "scheduler", "--bind-port", "0", "--bind-host", "127.0.0.1", "--stock"],
                                 stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert b"ready on" in bystander.stdout.readline()
        assert "2 processes ended" in small.down()
        assert not any(lives(pid) for pid in pids.values())
        assert bystander.poll() is None, "another scheduler is not ours to end"
    finally:
        bystander.terminate()
    assert bystander.wait(30) == 0, "SIGTERM is a good end"
    assert small.command("status").returncode == 1
    assert small.command("down").returncode == 0, "there is nothing to do"


def test_a_second_cluster_in_the_same_folder_is_refused(small):
    again = small.command("up", "--program", BALLISTA)
    assert again.returncode == 1 and "a cluster runs in" in again.stderr
    assert small.command("status").returncode == 0


def test_what_ended_by_itself_is_seen_and_cleared_away(small):
    os.kill(small.pids()["executor-1"], signal.SIGKILL)
    deadline = time.monotonic() + PATIENCE
    while small.command("status").returncode == 0:
        assert time.monotonic() < deadline
    assert "gone" in small.command("status").stdout
    assert "1 processes ended" in small.down()


def test_an_id_that_is_another_process_by_now_is_left_alone(small):
    """The state names a process by its start, too."""
    state = small.work_dir / "cluster.state"
    other = subprocess.Popen(["sleep", "600"])
    try:
        kept = state.read_text()
        lines = kept.splitlines()
        words = lines[2].split()
        words[1] = str(other.pid)
        state.write_text("\n".join([lines[0], lines[1], " ".join(words)]) + "\n")
        assert small.command("status").returncode == 1
        state.write_text("\n".join([lines[0], " ".join(words)]) + "\n")
        assert "0 processes ended" in small.down()
        assert other.poll() is None
        state.write_text(kept)
    finally:
        other.kill()
        other.wait()


def test_a_start_that_fails_says_where_the_log_is_and_leaves_nothing(programs, tmp_path):
    failed = command("up", "--work-dir", tmp_path / "work", "--program", BALLISTA, "--functions", "/nowhere/at/all.so")
    assert failed.returncode == 1
    assert "scheduler.log" in failed.stderr and "/nowhere/at/all.so" in failed.stderr
    assert not (tmp_path / "work/cluster.state").exists()


def test_an_executor_that_does_not_start_ends_the_scheduler_too(programs, tmp_path):
    failed = command("up", "--work-dir", tmp_path / "work", "--program", BALLISTA, "--executor-memory", "many")
    assert failed.returncode == 1 and "executor-1.log" in failed.stderr
    assert not (tmp_path / "work/cluster.state").exists()
    assert not mentioned(tmp_path)


def test_a_program_that_never_says_it_is_ready(tmp_path):
    silent = tmp_path / "silent"
    silent.write_text("#!/bin/sh\nexec sleep 600\n")
    silent.chmod(0o755)
    late = command("up", "--work-dir", tmp_path / "work", "--program", silent, "--wait", "300ms")
    assert late.returncode == 1 and "was not ready in time" in late.stderr
    assert not mentioned(silent) and not mentioned(tmp_path)


def test_a_state_that_is_none_is_named(tmp_path):
    (tmp_path / "cluster.state").write_text("scheduler 1 1 1\n")
    for name in ["up", "down", "status"]:
        done = command(name, "--work-dir", tmp_path, *(["--program", "/bin/true"] if name == "up" else []))
        assert done.returncode == 1 and "is no state of a cluster" in done.stderr


def test_a_state_whose_names_lead_elsewhere_is_none(tmp_path):
    (tmp_path / "cluster.state").write_text("trunnion cluster 1 own\n../scheduler 1 1 127.0.0.1:1\n")
    done = command("status", "--work-dir", tmp_path)
    assert done.returncode == 1 and "is no state of a cluster" in done.stderr


def test_a_directory_that_others_write_to_is_refused(tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    for mode in [0o777, 0o770]:
        work.chmod(mode)
        done = command("status", "--work-dir", work)
        assert done.returncode == 2 and "others can write to it" in done.stderr
    work.chmod(0o755)
    assert command("status", "--work-dir", work).returncode == 1
    if os.getuid() == 0:
        os.chown(work, 12345, 12345)
        done = command("status", "--work-dir", work)
        assert done.returncode == 2 and "belongs to somebody else" in done.stderr


@pytest.mark.parametrize("arguments, says", [
    (["up", "--executors", "0"], "--executors"), (["up", "--executors", "many"], "--executors"), (["up", "--nonsense"], "--nonsense"),
    (["down", "--stock"], "no option of down"), (["up", "--wait", "soon"], "wait"), (["up", "--executors"], "wants a value"),
    (["fly"], "no command"), ([], "usage"),
])
def test_wrong_arguments_are_named(tmp_path, arguments, says):
    wrong = command(*arguments, env=dict(os.environ, TMPDIR=str(tmp_path)))
    assert wrong.returncode == 2 and says in wrong.stderr


def test_help(tmp_path):
    shown = command("--help")
    assert shown.returncode == 0 and "--executors" in shown.stdout and "ballista://" in shown.stdout
    manual = subprocess.run([str(PROGRAM), "--man", "1"], capture_output=True, text=True)
    assert "OPTIONS OF CLUSTER" in manual.stdout


# ---- ours in front ----

def test_names_outlive_the_request(server, tpch_folder):
    """A query on a cluster is done long after its request's message is gone."""
    script = """
import os, sys
from pyspark.sql import SparkSession, functions as F
spark = SparkSession.builder.remote(sys.argv[1]).create()
rows = spark.read.parquet(sys.argv[2] + "/lineitem.parquet").groupBy("l_returnflag")
for _ in range(3):
    print(rows.agg(F.sum(F.col("l_extendedprice") * F.col("l_discount")).alias("revenue"))._show_string(2).splitlines()[1], flush=True)
os._exit(0)
"""
    done = subprocess.run([sys.executable, "-", server.spark_url, str(tpch_folder)], input=script, capture_output=True, text=True,
                          timeout=PATIENCE)
    assert [line.replace(" ", "") for line in done.stdout.splitlines()] == ["|l_returnflag|revenue|"] * 3, done.stderr[-500:]
