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
    with Server("--listen", "127.0.0.1:0", "--set", "backend.embedded.memory=48M", "--set", "backend.embedded.threads=1",
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


def varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(number, value):
    """Of a protobuf message: a number, or bytes."""
    return varint(number << 3) + varint(value) if isinstance(value, int) else varint(number << 3 | 2) + varint(len(value)) + value


def fields(data):
    """Numbers and values of those that hold bytes."""
    def number(at):
        value = shift = 0
        while True:
            value |= (data[at] & 127) << shift
            shift, at = shift + 7, at + 1
            if data[at - 1] < 128:
                return value, at
    at = 0
    while at < len(data):
        tag, at = number(at)
        size, at = number(at)
        if tag & 7 == 2:
            yield tag >> 3, data[at:at + size]
            at += size


FLIGHT = "/arrow.flight.protocol.FlightService/"


def sql_command(name, *parts):
    return field(1, f"type.googleapis.com/arrow.flight.protocol.sql.{name}".encode()) + field(2, b"".join(parts))


def flight_get(client, sql):
    descriptor = field(1, 2) + field(2, sql_command("CommandStatementQuery", field(1, sql.encode())))
    info = client.channel.unary_unary(FLIGHT + "GetFlightInfo")(descriptor, timeout=60)
    endpoint = dict(fields(info))[3]
    return client.channel.unary_stream(FLIGHT + "DoGet")(dict(fields(endpoint))[1], timeout=60)


def flight_put(client, table):
    """An ingestion that never comes to its end by itself."""
    import pyarrow as pa
    batch = pa.record_batch({"id": pa.array(range(20000), pa.int64())})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    messages = [field(2, m.metadata.to_pybytes()) + field(1000, m.body.to_pybytes() if m.body is not None else b"")
                for m in pa.ipc.MessageReader.open_stream(sink.getvalue())]
    command = sql_command("CommandStatementIngest", field(1, field(1, 1) + field(2, 1)), field(2, table.encode()))

    def send():
        yield field(1, field(1, 2) + field(2, command)) + messages[0]
        for _ in range(2000):
            yield messages[1]
            time.sleep(0.001)
    return client.channel.stream_stream(FLIGHT + "DoPut")(send(), timeout=60)


def kinds(tmp_path):
    """Each: a function of a client that begins a call."""
    out = {name: lambda c, sql=sql: c.execute(c.plan(sql)) for name, sql in QUERIES.items()}
    out |= {name + ", reattachable": lambda c, sql=QUERIES[name]: c.execute(c.plan(sql), True) for name in ("scan", "join")}
    out["schema"] = lambda c: c.schema("select * from (select id % 5 as p from range(500000)) pivot (count(*) for p in (0, 1))")
    out["insert"] = lambda c: c.execute(c.command("insert into target select id from range(500000)"))
    out["create table"] = lambda c: c.execute(c.command(f"create table t{uuid.uuid4().hex} using parquet as select * from range(500000)"))
    out["write"] = lambda c: c.execute(c.command(f"insert overwrite directory '{tmp_path}/{uuid.uuid4().hex}' using parquet select * from range(500000)"))
    out["flight get"] = lambda c: flight_get(c, "select value as id, cast(value as varchar) from generate_series(1, 2000000)")
    out["flight sort"] = lambda c: flight_get(c, "select value from generate_series(1, 2000000) order by value % 1000, value")
    out["flight put"] = lambda c: flight_put(c, f"p{uuid.uuid4().hex}")
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
                    if stage == "first message" and name not in ("schema", "flight put"):  # whose only message is their end
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


# ---- messages that lie ----

def nested(depth):
    """A plan of `depth` filters inside of each other; the innermost is a range."""
    inner, heads = field(15, field(2, 10) + field(3, 1)), []
    size = len(inner)
    for number in [1, 4] * depth + [1, 3]:  # Filter.input, Relation.filter, ...; Plan.root, ExecutePlanRequest.plan
        heads.append(varint(number << 3 | 2) + varint(size))
        size += len(heads[-1])
    return b"".join(reversed(heads)) + inner


def local_data():
    import pyarrow as pa
    batch = pa.record_batch({"a": pa.array([1, None, 3], pa.int64()), "b": ["x", "yy", None], "c": pa.array([[1], [], None], pa.list_(pa.int32()))})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def hostile_messages(session):
    head = field(1, session.encode())
    sql = lambda text: field(3, field(1, field(10, field(1, text))))
    yield from (head + nested(depth) for depth in (1000, 20_000, 100_000))
    yield from (head + text for text in (b"\xff" * 100, b"\x0a", b"\x1a\x05\x0a\xff\xff\xff\x7f", b"\x0b\x0c", os.urandom(2000)))
    yield head + sql(b"select '" + b"a" * (100 << 20) + b"'")  # longer than a SQL text may be
    yield head + sql(b"select " + b"(" * 1_000_000)
    yield head + sql(b"select '\xff\xfe'")
    yield head + sql(b"select 'a\x00b'")
    yield field(1, b"no-uuid") + sql(b"select 1")
    yield field(1, b"") + sql(b"select 1")
    yield head + sql(b"select 1") + field(6, b"no-uuid")
    data = local_data()
    for i in range(0, len(data), 7):  # lying, and cut, Arrow data
        yield head + field(3, field(1, field(11, field(1, data[:i] + bytes([data[i] ^ 0x55]) + data[i + 1:]))))
        yield head + field(3, field(1, field(11, field(1, data[:i]))))


def test_hostile_messages():
    with Server("--listen", "127.0.0.1:0") as server, Bystander(server):
        client = Client(server)
        client.rows("select 1")
        before, refused, answered = status(server, "VmRSS"), 0, 0
        execute = client.channel.unary_stream("/spark.connect.SparkConnectService/ExecutePlan")
        for message in hostile_messages(client.session):
            try:
                list(execute(message, timeout=60))
                answered += 1  # a changed byte may be one of the data's
            except grpc.RpcError as error:
                assert error.code() in (CODES.INTERNAL, CODES.INVALID_ARGUMENT, CODES.RESOURCE_EXHAUSTED, CODES.UNIMPLEMENTED), error
                assert error.details()
                refused += 1
        assert client.rows("select 1") == 1
        report(server, f"{refused} messages refused, {answered} answered", before)
        assert refused > 100 and status(server, "VmHWM") - before < 1200 << 10
