"""A server at its limits: memory, a full disk while it spills; calls that are cancelled, or whose clients vanish, at every stage of every
kind of operation. Each prints what it did to the server's memory, while another client is served."""
import os, pathlib, re, shutil, subprocess, threading, time, uuid
import grpc, pytest
from conftest import PROGRAM, Server

import pyspark.sql.connect.proto as pb
import pyspark.sql.connect.proto.base_pb2_grpc as stubs

CODES = grpc.StatusCode


class Client:
    def __init__(self, server):
        options = [("grpc.max_receive_message_length", 1 << 28), ("grpc.use_local_subchannel_pool", 1)]
        self.channel = grpc.insecure_channel(server.address, options=options)
        self.stub = stubs.SparkConnectServiceStub(self.channel)
        self.session = str(uuid.uuid4())
        self.user = pb.UserContext(user_id="t")

    def plan(self, sql):
        return pb.Plan(root=pb.Relation(sql=pb.SQL(query=sql)))

    def command(self, sql):
        return pb.Plan(command=pb.Command(sql_command=pb.SqlCommand(input=pb.Relation(sql=pb.SQL(query=sql)))))

    def execute(self, plan, reattachable=False):
        request = pb.ExecutePlanRequest(session_id=self.session, user_context=self.user, operation_id=str(uuid.uuid4()), plan=plan)
        if reattachable:
            request.request_options.add().reattach_options.reattachable = True
        return self.stub.ExecutePlan(request, timeout=60)

    def rows(self, sql):
        return sum(response.arrow_batch.row_count for response in self.execute(self.plan(sql)))

    def schema(self, sql):
        request = pb.AnalyzePlanRequest(session_id=self.session, user_context=self.user)
        request.schema.plan.CopyFrom(self.plan(sql))
        return self.stub.AnalyzePlan.future(request, timeout=60)


class Bystander(threading.Thread):
    """Asks a small question all the time; must always be answered."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.client, self.asked, self.problem, self.stop = Client(server), 0, None, threading.Event()

    def run(self):
        while not self.stop.is_set():
            try:
                assert self.client.rows("select 1") == 1
                self.asked += 1
            except Exception as error:  # noqa: BLE001
                self.problem = str(error)[:300]
                return
            time.sleep(0.01)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.join(60)
        assert not self.problem, self.problem
        assert self.asked


def status(server, name):
    return int(re.search(name + r":\s+(\d+)", pathlib.Path(f"/proc/{pid_of(server)}/status").read_text()).group(1))


def pid_of(server):
    """Of the program itself, also below a shell."""
    children = pathlib.Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
    return int(children[0]) if children and "trunnion" in pathlib.Path(f"/proc/{children[0]}/comm").read_text() else server.process.pid


def report(server, what, before):
    print(f"{what}: peak {(status(server, 'VmHWM') - before) >> 10} MiB above {before >> 10} MiB")


SORT = "select id, cast(id * 7919 % 1000003 as string) as s from range({rows}) order by s, id"


def test_memory_limit_reached():
    with Server("--listen", "127.0.0.1:0", "--set", "backend.embedded.memory=48M", "--set", "backend.embedded.threads=2") as server, Bystander(server):
        before, client = status(server, "VmRSS"), Client(server)
        with pytest.raises(grpc.RpcError) as caught:  # what a hash join holds cannot be spilled
            client.rows("select count(*) from range(20000000) a join (select id, cast(id as string) s from range(8000000)) b on a.id = b.id and length(b.s) > 0")
        assert caught.value.code() in (CODES.RESOURCE_EXHAUSTED, CODES.INTERNAL) and "memory" in caught.value.details().lower()
        assert client.rows("select 1") == 1
        report(server, "memory limit", before)
        assert status(server, "VmHWM") - before < 900 << 10


def test_what_does_not_fit_is_spilled(tmp_path):
    with Server("--listen", "127.0.0.1:0", "--set", "backend.embedded.memory=48M", "--set", "backend.embedded.threads=2",
                "--set", f"backend.embedded.spill_dir={tmp_path}") as server, Bystander(server):
        before, client = status(server, "VmRSS"), Client(server)
        assert client.rows(SORT.format(rows=2000000)) == 2000000
        report(server, "spilled sort", before)
        assert not any(path.is_file() for path in tmp_path.rglob("*")), "spilled files are gone"


def test_disk_full_while_spilling(tmp_path):
    if os.geteuid() != 0 or not shutil.which("unshare"):
        pytest.skip("not root: no small file system can be made, a full disk is NOT tested")
    script = f"mount -t tmpfs -o size=3m tmpfs {tmp_path} && exec {PROGRAM} \"$@\""
    class Small(Server):
        def __init__(self):
            self.process = subprocess.Popen(["unshare", "-m", "sh", "-c", script, "sh", "serve", "--listen", "127.0.0.1:0",
                                             "--set", "backend.embedded.memory=48M", "--set", "backend.embedded.threads=2",
                                             "--set", f"backend.embedded.spill_dir={tmp_path}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            line = self.process.stdout.readline().decode()
            match = re.search(r"sc://(\S+?):(\d+)", line)
            if not match:
                pytest.skip("a file system cannot be mounted here: a full disk is NOT tested: " + self.process.communicate()[1].decode()[:200])
            self.address = f"{match.group(1)}:{match.group(2)}"
    with Small() as server, Bystander(server):
        before, client = status(server, "VmRSS"), Client(server)
        for _ in range(3):
            with pytest.raises(grpc.RpcError) as caught:
                client.rows(SORT.format(rows=4000000))
            assert caught.value.code() in (CODES.RESOURCE_EXHAUSTED, CODES.INTERNAL)
            assert re.search(r"space|disk|spill|storage", caught.value.details(), re.I), caught.value.details()
            assert client.rows("select 1") == 1
        report(server, "full disk", before)


# ---- cancels and vanishing clients ----

SLOW = "select count(*) from range(1000000) a join range(2000) b on a.id % 1000 = b.id % 999 and a.id > b.id"
QUERIES = {
    "scan": "select * from range(2000000)",
    "sort": SORT.format(rows=300000),
    "aggregate": "select id % 100000 as k, count(*), collect_list(id) from range(300000) group by k",
    "join": SLOW,
    "window": "select sum(id) over (partition by id % 10 order by id) from range(200000)",
    "pivot": "select * from (select id % 3 as k, id % 5 as p from range(200000)) pivot (count(*) for p in (0, 1, 2))",
    "fold": "select aggregate(sequence(1, 100000 + cast(id as int)), 0L, (a, x) -> a + x) from range(1)",
}


def kinds(tmp_path):
    """Each: a function of a client that begins a call."""
    out = {name: lambda c, sql=sql: c.execute(c.plan(sql)) for name, sql in QUERIES.items()}
    out |= {name + ", reattachable": lambda c, sql=QUERIES[name]: c.execute(c.plan(sql), True) for name in ("scan", "join")}
    out["schema"] = lambda c: c.schema("select * from (select id % 5 as p from range(500000)) pivot (count(*) for p in (0, 1))")
    out["insert"] = lambda c: c.execute(c.command("insert into target select id from range(500000)"))
    out["create table"] = lambda c: c.execute(c.command(f"create table t{uuid.uuid4().hex} using parquet as select * from range(500000)"))
    out["write"] = lambda c: c.execute(c.command(f"insert overwrite directory '{tmp_path}/{uuid.uuid4().hex}' using parquet select * from range(500000)"))
    return out


STAGES = ["at once", 0.001, 0.01, 0.05, "first message"]


def wait_until_idle(server, client):
    """Nothing runs any more: the server's processor time stands still."""
    def ticks():
        fields = pathlib.Path(f"/proc/{pid_of(server)}/stat").read_text().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])
    for _ in range(200):
        before = ticks()
        time.sleep(0.1)
        if ticks() - before <= 2:
            return True
    return False


@pytest.mark.parametrize("way", ["cancel", "vanish"])
def test_every_stage_of_every_operation(tmp_path, way):
    with Server("--listen", "127.0.0.1:0", "--set", "frontends.spark.detached=1s") as server:
        setup = Client(server)
        list(setup.execute(setup.command("create table target (id bigint) using parquet")))
        setup.rows("select 1")
        with Bystander(server):
            begin = kinds(tmp_path)
            for begin_call in begin.values():  # what is made once is made
                call = begin_call(Client(server))
                call.cancel()
            before, descriptors = status(server, "VmRSS"), len(os.listdir(f"/proc/{pid_of(server)}/fd"))
            for name, begin_call in begin.items():
                for stage in STAGES:
                    client = Client(server)
                    call = begin_call(client)
                    if stage == "first message" and name != "schema":  # whose only message is its end
                        try:
                            next(call)
                        except (StopIteration, grpc.RpcError):
                            pass
                    elif not isinstance(stage, str):
                        time.sleep(stage)
                    if way == "cancel":
                        call.cancel()
                        assert client.rows("select 1") == 1, f"{name}, {stage}: its session lives on"
                    client.channel.close()
            assert setup.rows("select count(*) from target") == 1
        assert wait_until_idle(server, setup), "something computes on"
        report(server, f"{len(begin) * len(STAGES)} calls, {way}", before)
        for _ in range(100):
            left = len(os.listdir(f"/proc/{pid_of(server)}/fd"))
            if left <= descriptors + 8:
                break
            time.sleep(0.1)
        assert left <= descriptors + 8, f"{left} descriptors, {descriptors} before"
