"""Other people's servers with Spark Connect mounted in them: libgrpc, libgrpc++, grpcio, grpc-go, tonic. Same process, their sockets.
TRUNNION_LIB_DIR: where libtrunnion.so, the engine and the functions lie (default build/release). TRUNNION_HOST_FLAGS: more flags for
the compilers of hosts/grpc_core and hosts/grpcpp, such as -fsanitize=address,undefined."""
import contextlib, hashlib, os, pathlib, re, shutil, signal, subprocess, sys, threading, time, uuid
import grpc
import pytest
from pyspark.errors import AnalysisException, ArithmeticException, ParseException, PySparkException
from pyspark.sql import Row, SparkSession, functions as F
import pyspark.sql.connect.proto as pb2
from conftest import CACHE, ROOT, TABLES
from test_service import Cutting
from test_tpch import same
from tpch_dataframe import QUERIES

LIBRARIES = pathlib.Path(os.environ.get("TRUNNION_LIB_DIR", ROOT / "build/release")).absolute()
SANITIZE = os.environ.get("TRUNNION_HOST_FLAGS", "").split()
SERVICE = "/spark.connect.SparkConnectService/"


def build_go():
    folder = CACHE / "go"
    folder.mkdir(parents=True, exist_ok=True)
    headers = hashlib.sha256(b"".join(p.read_bytes() for p in sorted([*(ROOT / "include").rglob("*.h"), ROOT / "hosts/testing/echo.c"]))).hexdigest()
    flags = {"CGO_CFLAGS": f"-DTRUNNION_HEADERS=0x{headers[:8]}",  # go build does not see that they changed
             "CGO_LDFLAGS": f"-L{LIBRARIES}"}
    subprocess.run(["go", "build", "-o", folder, "./cmd/sparkserver", "./internal/echoserver"], cwd=ROOT / "hosts/go", env=os.environ | flags, check=True)
    return folder


def build_tonic():
    target = CACHE / "tonic-target"
    subprocess.run(["cargo", "build", "--quiet", "--locked", "--examples"], cwd=ROOT / "hosts/tonic", check=True,
                   env=os.environ | {"CARGO_TARGET_DIR": str(target), "TRUNNION_LIB_DIR": str(LIBRARIES)})
    return target / "debug/examples"


def build_grpc_core():
    folder = CACHE / "grpc_core"
    folder.mkdir(parents=True, exist_ok=True)
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "grpc"], capture_output=True, text=True, check=True).stdout.split()
    here = ROOT / "hosts/grpc_core"
    subprocess.run(["cc", "-std=gnu17", "-g", "-O1", "-Wall", "-Wextra", "-Werror", *SANITIZE, "-I", ROOT / "include", *sorted(here.glob("*.c")),
                    "-o", folder / "sparkserver", f"-L{LIBRARIES}", "-ltrunnion", *flags, "-ldl", "-pthread"], check=True)
    return folder


def build_grpcpp():
    folder = CACHE / "grpcpp"
    folder.mkdir(parents=True, exist_ok=True)
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "grpc++", "grpc"], capture_output=True, text=True, check=True).stdout.split()
    common = ["-g", "-O1", "-Wall", "-Wextra", "-Werror", *SANITIZE, "-I", ROOT / "include"]
    objects = []
    for name in ("exchange", "example_routes"):
        objects.append(folder / f"{name}.o")
        subprocess.run(["cc", "-std=gnu17", *common, "-c", ROOT / f"hosts/grpc_core/{name}.c", "-o", objects[-1]], check=True)
    subprocess.run(["c++", "-std=c++17", *common, *sorted((ROOT / "hosts/grpcpp").glob("*.cc")), *objects,
                    "-o", folder / "sparkserver", f"-L{LIBRARIES}", "-ltrunnion", *flags, "-ldl", "-pthread"], check=True)
    return folder


def build_python(flags=""):
    """Nothing to compile: the program is a script."""
    folder = CACHE / f"grpcio{flags}"
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "sparkserver"
    program.write_text(f"#!/bin/sh\nTRUNNION_LIBRARY={LIBRARIES}/libtrunnion.so exec {sys.executable} {ROOT}/hosts/python/sparkserver.py {flags} \"$@\"\n")
    program.chmod(0o755)
    return folder


def has(package):
    return subprocess.run(["pkg-config", "--exists", package]).returncode == 0


class Kind:
    def __init__(self, build, missing, takes_library=True, has_owner=True, has_interceptor=True):
        self.build, self.missing = build, missing
        self.has_interceptor = has_interceptor  # sparkserver's own puts "seen-by" into every reply
        self.takes_library = takes_library  # sparkserver LIBRARY serves the checking frontend
        self.has_owner = has_owner          # ... takes --tls, and has a service of its own beside ours


HOSTS = {"grpc_core": Kind(build_grpc_core, lambda: not has("grpc") and "libgrpc-dev", has_interceptor=False),
         "grpcpp": Kind(build_grpcpp, lambda: not has("grpc++") and "libgrpc++-dev"),
         "python": Kind(build_python, lambda: False),
         "python_aio": Kind(lambda: build_python("--aio"), lambda: False),
         "go": Kind(build_go, lambda: not shutil.which("go") and "go", False),
         "tonic": Kind(build_tonic, lambda: not shutil.which("cargo") and "cargo", False, False, False)}
ENGINE = ("libtrunnion_engine.so", "libtrunnion_functions.so")


class Host:
    def __init__(self, name, folder, program="sparkserver", arguments=ENGINE, options=(), **environment):
        self.name = name
        self.process = subprocess.Popen(
            [folder / program, *options, *(LIBRARIES / argument for argument in arguments)], stdout=subprocess.PIPE, text=True,
            env=os.environ | {"LD_LIBRARY_PATH": str(LIBRARIES), "GODEBUG": "cgocheck=1"} | environment)
        line = self.process.stdout.readline()
        match = re.search(r"sc://(\S+)", line)
        assert match, f"the host did not start: {line!r}, exit {self.process.wait()}"
        self.url, self.address = match.group(0), match.group(1)

    def session(self):
        return SparkSession.builder.remote(self.url).create()

    def resident_bytes(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status).group(1)) << 10

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def stop(self):
        self.process.terminate()
        return self.process.wait(30)


@pytest.fixture(scope="module", params=HOSTS)
def program(request):
    kind = HOSTS[request.param]
    if kind.missing():
        pytest.skip(f"{kind.missing()} is not installed: hosts/{request.param} is NOT tested")
    if not (LIBRARIES / "libtrunnion.so").exists():
        pytest.fail(f"there is no {LIBRARIES}/libtrunnion.so: build it, or set TRUNNION_LIB_DIR")
    return request.param, kind.build()


@pytest.fixture(scope="module")
def host(program):
    host = Host(*program)
    yield host
    assert host.process.poll() is None, "the host must have survived the tests"
    assert host.stop() == 0, "the host must end cleanly"


@pytest.fixture()
def spark(host):
    session = host.session()
    yield session
    session.stop()


@pytest.fixture()
def channel(host):
    with grpc.insecure_channel(host.address) as channel:
        yield channel


def eventually(holds, seconds=20):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if holds():
            return True
        time.sleep(0.05)
    return holds()


# ---- what clients see

def test_the_library_opens_no_socket():
    symbols = subprocess.run(["nm", "-D", "--undefined-only", LIBRARIES / "libtrunnion.so"], capture_output=True, text=True, check=True)
    names = {line.split()[-1].split("@")[0] for line in symbols.stdout.splitlines()}
    assert "malloc" in names  # nm was understood
    assert not names & {"socket", "socketpair", "bind", "listen", "accept", "accept4", "connect", "getaddrinfo"}
    assert not [name for name in names if name.startswith("uv_")]


def test_queries(spark, capsys):
    assert spark.range(3).collect() == [Row(id=0), Row(id=1), Row(id=2)]
    assert spark.range(5, 5).collect() == []
    assert spark.sql("select id % 3 as k, count(*) as n from range(10) group by 1 order by 1").collect() == [(0, 4), (1, 3), (2, 3)]
    spark.range(3).show()
    assert capsys.readouterr().out == "+---+\n| id|\n+---+\n|  0|\n|  1|\n|  2|\n+---+\n\n"


def test_large_results_arrive_whole_and_in_order(spark):
    ids = spark.range(5_000_000).toArrow().column("id").to_numpy()
    assert len(ids) == 5_000_000 and (ids[1:] == ids[:-1] + 1).all() and ids[0] == 0


def test_large_requests_arrive_whole(spark):
    import pandas
    frame = pandas.DataFrame({"i": range(300_000), "t": ["some text"] * 300_000})
    row = spark.createDataFrame(frame).agg(F.sum("i"), F.count("t"), F.sum(F.length("t"))).collect()[0]
    assert tuple(row) == (299_999 * 300_000 // 2, 300_000, 2_700_000)


def test_errors_have_their_details(spark):
    with pytest.raises(AnalysisException) as error:
        spark.sql("select nope from range(3)").collect()
    assert error.value.getCondition() == "UNRESOLVED_COLUMN.WITH_SUGGESTION"
    assert error.value.getSqlState() == "42703"
    assert error.value.getMessageParameters()["objectName"] == "`nope`"
    with pytest.raises(ParseException) as error:
        spark.sql("selec 1")
    assert error.value.getCondition() == "PARSE_SYNTAX_ERROR"
    with pytest.raises(ArithmeticException) as error:
        spark.sql("select 1 div (id - 1) from range(3)").collect()
    assert error.value.getCondition() == "DIVIDE_BY_ZERO"
    name = "nöpe_" * 400  # percent-encoded, and longer than a client's headers may be
    with pytest.raises(AnalysisException) as error:
        spark.sql(f"select `{name}`").collect()
    assert name in str(error.value)


def slow(spark):
    a, b = spark.range(1_000_000_000), spark.range(1000).withColumnRenamed("id", "other")
    return a.crossJoin(b).where("id % 7919 = other + 8000").agg(F.count("*"))


def test_interrupt(spark):
    outcome = []

    def run():
        try:
            outcome.append(slow(spark).collect())
        except PySparkException as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert eventually(lambda: spark.interruptAll() != [])
    thread.join(60)
    assert not thread.is_alive()
    assert "OPERATION_CANCELED" in str(outcome[0])
    assert spark.range(2).count() == 2


def test_killed_clients_leave_nothing_behind(host, tmp_path):
    before = host.descriptors()
    script = tmp_path / "client.py"
    script.write_text("import sys\nfrom pyspark.sql import SparkSession\ns = SparkSession.builder.remote(sys.argv[1]).create()\n"
                      "rows = s.range(50_000_000).toLocalIterator()\nnext(rows)\nprint('ready', flush=True)\nfor _ in rows: pass\n")
    clients = [subprocess.Popen([sys.executable, script, host.url], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for client in clients:
        assert client.stdout.readline() == "ready\n"
    assert host.descriptors() > before
    for client in clients:
        client.send_signal(signal.SIGKILL)
        client.wait()
    assert eventually(lambda: host.descriptors() <= before)
    session = host.session()
    assert session.range(10).count() == 10
    session.stop()


def test_many_sessions_work_side_by_side(host):
    failures, before = [], host.descriptors()

    def work(number):
        try:
            session = host.session()
            session.range(number).createOrReplaceTempView("t")
            for i in range(10):
                assert session.sql(f"select count(*) + {i} from t").collect()[0][0] == number + i
                assert session.range(20_000).toArrow().num_rows == 20_000
            session.stop()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(240)
    assert not failures
    assert eventually(lambda: host.descriptors() <= before)


@pytest.fixture(scope="module")
def oracle(tpch_folder):
    import duckdb, duckdb_extension_tpch
    connection = duckdb.connect()
    extension = next(pathlib.Path(duckdb_extension_tpch.__file__).parent.rglob("*.duckdb_extension"))
    connection.execute(f"load '{extension}'")
    for name in TABLES:
        connection.execute(f"create view {name} as from '{tpch_folder}/{name}.parquet'")
    texts = dict(connection.execute("select query_nr, query from tpch_queries()").fetchall())
    return lambda number: connection.execute(texts[number]).fetchall()


@pytest.mark.parametrize("number", [1, 3, 18])
def test_tpch(spark, tpch_folder, oracle, number):
    for name in TABLES:
        spark.read.parquet(f"{tpch_folder}/{name}.parquet").createOrReplaceTempView(name)
    expected = oracle(number)
    assert expected
    same(spark.sql((ROOT / f"tests/data/tpch/q{number:02d}.sql").read_text()).collect(), expected)
    same(QUERIES[number - 1](spark.table).collect(), expected)


def test_a_cut_stream_is_reattached(spark):
    stub = Cutting(spark.client._stub, after=2)
    spark.client._stub = stub
    try:
        assert spark.range(100_000).toArrow().column("id").to_pylist() == list(range(100_000))
    finally:
        spark.client._stub = stub.stub
    assert stub.cuts >= 1 and stub.reattached >= 1


# ---- the process is the owner's

def sockets(pid):
    """(inode, address, state) of the process's sockets that are TCP; (inode, path, state) of those that are Unix."""
    inodes = {int(match.group(1)) for name in pathlib.Path(f"/proc/{pid}/fd").iterdir()
              if (match := re.match(r"socket:\[(\d+)\]", os.readlink(name)))}
    tcp, unix = [], []
    for table in ("tcp", "tcp6", "udp", "udp6"):
        for line in pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if int(fields[9]) in inodes:
                tcp.append((table, int(fields[1].rsplit(":", 1)[1], 16), fields[3]))
    for line in pathlib.Path(f"/proc/{pid}/net/unix").read_text().splitlines()[1:]:
        fields = line.split()
        if int(fields[6]) in inodes:
            unix.append((fields[7] if len(fields) > 7 else "", int(fields[3], 16)))
    return tcp, unix


def test_there_is_no_socket_but_the_owners(host, spark):
    assert spark.range(10).count() == 10
    tcp, unix = sockets(host.process.pid)
    port = int(host.address.rsplit(":", 1)[1])
    assert [entry[:2] for entry in tcp if entry[2] == "0A"] in ([("tcp", port)], [("tcp6", port)])  # 0A: listening
    assert len(tcp) > 1  # our own connection is seen
    assert {entry[1] for entry in tcp} == {port} and {entry[0] for entry in tcp} <= {"tcp", "tcp6"}
    assert all(path == "" and not flags & 0x10000 for path, flags in unix)  # pairs inside of the process at most; none listens


def test_our_libraries_ask_for_no_socket(program):
    """Calls of socket functions are told to a shim with where they come from; also the engine's."""
    shim = CACHE / "libsocket_guard.so"
    subprocess.run(["cc", "-std=gnu17", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", ROOT / "hosts/testing/socket_guard.c",
                    "-o", shim, "-ldl"], check=True)
    log = CACHE / f"socket_guard-{os.getpid()}"
    log.write_text("")
    host = Host(*program, LD_PRELOAD=str(shim), SOCKET_GUARD_LOG=str(log))
    try:
        session = host.session()
        assert session.sql("select sum(id) from range(10)").collect() == [(45,)]
        session.stop()
    finally:
        assert host.stop() == 0
    callers = log.read_text().splitlines()
    log.unlink()
    if program[0] != "go":  # whose runtime calls the kernel itself
        assert any(line.startswith("listen ") for line in callers)
    assert not [line for line in callers if "libtrunnion" in line]


def needs_owner(name):
    if not HOSTS[name].has_owner:
        pytest.skip(f"the example of hosts/{name} has no service of its own")


def test_the_owners_service_is_on_the_same_port(host, spark, channel):
    needs_owner(host.name)
    assert spark.range(3).count() == 3
    hello = channel.unary_unary("/example.Owner/Hello")
    message = b"\x0a\x0asome bytes"  # a google.protobuf.BytesValue, for hosts whose own services are protobuf
    for _ in range(20):
        assert hello(message) == message
    assert spark.range(3).count() == 3


def test_the_owners_interceptor_sees_our_calls(host, channel):
    if not HOSTS[host.name].has_interceptor:
        pytest.skip(f"the example of hosts/{host.name} has no interceptor")
    call = channel.unary_stream(SERVICE + "Config")(config_request().SerializeToString())
    assert len(list(call)) == 1
    assert dict([*call.initial_metadata(), *call.trailing_metadata()])["seen-by"] == "the-owners-interceptor"


# ---- Spark Connect with a bare gRPC client

def config_request(session="00112233-4455-6677-8899-aabbccddeeff"):
    request = pb2.ConfigRequest(session_id=session)
    request.user_context.user_id = "somebody"
    request.operation.get.keys.append("spark.sql.session.timeZone")
    return request


def execute_request(spark, df):
    client = spark.client
    request = client._execute_plan_request_with_metadata()
    request.plan.CopyFrom(df._plan.to_proto(client))
    return request


def refused(call):
    with pytest.raises(grpc.RpcError) as error:
        list(call)
    return error.value


def test_unknown_methods_are_unimplemented(channel):
    for path in (SERVICE + "Nope", "/nobody.Nothing/Ever"):
        assert refused(channel.unary_stream(path)(b"")).code() == grpc.StatusCode.UNIMPLEMENTED


def test_exactly_one_message_is_taken_where_one_is_due(channel):
    message = config_request().SerializeToString()
    config = channel.stream_stream(SERVICE + "Config")
    assert len(list(config(iter([message])))) == 1
    error = refused(config(iter([])))
    assert (error.code(), error.details()) == (grpc.StatusCode.INTERNAL, "The request ended without a message")


def test_messages_over_the_limit_are_refused(channel):
    error = refused(channel.unary_stream(SERVICE + "Config")(bytes((128 << 20) + 1)))
    assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert len(list(channel.unary_stream(SERVICE + "Config")(config_request().SerializeToString()))) == 1


def test_compressed_requests_are_read(channel):
    message = config_request().SerializeToString()
    assert list(channel.unary_stream(SERVICE + "Config")(message, compression=grpc.Compression.Gzip))


def test_the_server_itself_ends_calls_at_their_deadline(host, spark, channel):
    """The client has no deadline of its own here: the header alone reaches the server."""
    execute = channel.unary_stream(SERVICE + "ExecutePlan", request_serializer=pb2.ExecutePlanRequest.SerializeToString)
    start = time.monotonic()
    # grpc-go resets the stream at the deadline, without a word: a client that has the deadline itself knows why.
    codes = {grpc.StatusCode.DEADLINE_EXCEEDED} | ({grpc.StatusCode.CANCELLED} if host.name == "go" else set())
    error = refused(execute(execute_request(spark, slow(spark)), metadata=[("grpc-timeout", "700m")]))
    assert error.code() in codes
    assert 0.6 < time.monotonic() - start < 10
    # And when it passes while the client does not read.
    call = execute(execute_request(spark, spark.range(20_000_000)), metadata=[("grpc-timeout", "1500m")])
    next(call)
    time.sleep(2)
    assert refused(call).code() in codes


def test_clients_that_do_not_read_stop_the_query(host, spark, channel):
    execute = channel.unary_stream(SERVICE + "ExecutePlan", request_serializer=pb2.ExecutePlanRequest.SerializeToString,
                                   response_deserializer=pb2.ExecutePlanResponse.FromString)
    before = host.resident_bytes()
    call = execute(execute_request(spark, spark.range(60_000_000)))  # 480 MB
    next(call)
    time.sleep(3)
    assert host.resident_bytes() - before < 250 << 20
    assert sum(response.arrow_batch.row_count for response in call) == 60_000_000


def test_calls_that_end_are_freed(host, channel):
    config = channel.unary_unary(SERVICE + "Config")
    message = config_request().SerializeToString()
    metadata = [("some-text", "x" * 2000), ("some-bytes-bin", bytes(range(256)))]

    def many(count):
        for _ in range(count):
            config(message, metadata=metadata)
        return host.resident_bytes()

    before = many(1000)
    assert many(4000) - before < 8 << 20  # a call holds its metadata: 2 KB and more each


def test_a_host_ends_while_calls_run(program, spark):
    host = Host(*program)
    request = execute_request(spark, slow(spark))
    request.session_id = str(uuid.uuid4())  # no session of PySpark's: at exit that would look for its server for minutes
    with grpc.insecure_channel(host.address) as channel:
        execute = channel.unary_stream(SERVICE + "ExecutePlan", request_serializer=pb2.ExecutePlanRequest.SerializeToString)
        call = execute(request)
        time.sleep(1)
        assert not call.done()
        assert host.stop() == 0
        assert refused(call).code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)


# ---- the contract of a host: hosts/testing/echo.c checks every delivery

def echo_host(program, *options):
    library = CACHE / "libtrunnion_echo.so"
    subprocess.run(["cc", "-std=gnu17", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-I", ROOT / "include",
                    ROOT / "hosts/testing/echo.c", "-o", library, f"-L{LIBRARIES}", "-ltrunnion"], check=True)
    name, folder = program
    if HOSTS[name].takes_library:
        return Host(name, folder, arguments=[library], options=options)
    return Host(name, folder, "echoserver", [library] if name == "tonic" else [], options)


@pytest.fixture(scope="module")
def echo(program):
    host = echo_host(program)
    with grpc.insecure_channel(host.address) as host.channel:
        yield host
        counts = counts_of(host)
        assert counts["violations"] == 0
    assert host.stop() == 0


def counts_of(echo):
    text = echo.channel.unary_unary("/trunnion.Echo/Counts")(b"").decode()
    return {key: int(value) for key, value in (word.split("=") for word in text.split())}


def settled(echo):
    """All calls but the one that asks are over, and all slices but its own are released."""
    def holds():
        counts = counts_of(echo)
        return counts["done"] == counts["opened"] - 1 and counts["slices"] == 0
    return eventually(holds)


def test_metadata_peer_identity_and_deadline_reach_the_frontend(echo):
    talk = echo.channel.stream_stream("/trunnion.Echo/Talk")
    raw = bytes(range(256))
    call = talk(iter([b"one", b"", b"x" * 100_000]), timeout=50,
                metadata=[("some-text", "first"), ("some-text", "last"), ("some-bytes-bin", raw), ("who", "somebody")])
    assert list(call) == [b"one", b"", b"x" * 100_000]
    initial = dict(call.initial_metadata())
    assert initial["peer"].startswith("ipv4:127.0.0.1:") or initial["peer"].startswith("ipv6:[")
    assert initial["identity"] == "somebody"
    assert initial["groups"] == ("staff,night shift" if HOSTS[echo.name].has_owner else "")
    assert 40_000 < int(initial["left-ms"]) <= 50_000
    assert initial["back-text"] == "last" and initial["back-bytes-bin"] == raw
    trailing = [tuple(entry) for entry in call.trailing_metadata()]
    assert [value for key, value in trailing if key == "trail"] == ["a", "b"]
    assert ("trail-bin", b"\0\xff\1") in trailing
    call = talk(iter([]))
    assert list(call) == []
    initial = dict(call.initial_metadata())
    assert (initial["identity"], initial["left-ms"], initial["groups"]) == ("none", "none", "")
    assert settled(echo)


def test_an_error_has_its_message_details_and_trailers(echo):
    from google.rpc import error_details_pb2, status_pb2
    details = status_pb2.Status(code=9, message="m\u00fcde, 100%")
    details.details.add().Pack(error_details_pb2.ErrorInfo(reason="tired", domain="test"))
    error = refused(echo.channel.unary_stream("/trunnion.Echo/Fail")(details.SerializeToString()))
    assert (error.code(), error.details()) == (grpc.StatusCode.FAILED_PRECONDITION, "m\u00fcde, 100%")
    trailing = dict(error.trailing_metadata())
    assert status_pb2.Status.FromString(trailing["grpc-status-details-bin"]) == details
    assert trailing["trail-bin"] == b"\0\xff\1"


def test_an_abort_drops_what_is_queued(echo):
    error = refused(echo.channel.unary_stream("/trunnion.Echo/Abort")(b"never seen"))
    assert error.code() == grpc.StatusCode.DATA_LOSS
    assert settled(echo)


def test_a_methods_own_limit_holds(echo):
    talk = echo.channel.stream_stream("/trunnion.Echo/Talk")
    assert [len(m) for m in talk(iter([bytes(1 << 20)]))] == [1 << 20]
    assert refused(talk(iter([bytes((1 << 20) + 1)]))).code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert settled(echo)


def test_a_full_queue_waits_for_the_client(echo):
    before = counts_of(echo)
    call = echo.channel.unary_stream("/trunnion.Echo/Flood")(b"")
    numbers = []
    for message in call:
        numbers.append(int.from_bytes(message[:4], "little"))
        assert len(message) == 4 + (256 << 10) + 7 and message.endswith(b"unowned")
        if len(numbers) == 1:
            time.sleep(1)
            assert counts_of(echo)["slices"] < 60  # of 800: what the queue and the connection hold
    assert numbers == list(range(400))
    counts = counts_of(echo)
    assert counts["writable"] > before["writable"] + 10
    assert counts["peak"] < 100
    assert settled(echo)


def test_cancels_and_deadlines_reach_the_frontend(echo):
    wait, flood = (echo.channel.unary_stream(f"/trunnion.Echo/{name}") for name in ("Wait", "Flood"))
    before = counts_of(echo)["cancelled"]
    call = wait(b"")
    time.sleep(0.2)
    assert counts_of(echo)["cancelled"] == before
    call.cancel()
    assert eventually(lambda: counts_of(echo)["cancelled"] == before + 1)
    assert refused(wait(b"", timeout=0.3)).code() == grpc.StatusCode.DEADLINE_EXCEEDED
    assert eventually(lambda: counts_of(echo)["cancelled"] == before + 2)
    call = flood(b"")
    next(call)
    call.cancel()
    assert eventually(lambda: counts_of(echo)["cancelled"] == before + 3)
    call = flood(b"", metadata=[("grpc-timeout", "300m")])
    next(call)  # and it passes while the client does not read
    assert eventually(lambda: counts_of(echo)["cancelled"] == before + 4)
    call.cancel()
    assert settled(echo)


def test_calls_that_are_cancelled_at_any_moment_are_freed(echo):
    calls = []
    for i in range(600):
        call = echo.channel.unary_stream("/trunnion.Echo/" + ("Flood", "Wait", "Abort", "Fail")[i % 4])(b"some")
        threading.Timer(i % 29 / 1000, call.cancel).start()
        calls.append(call)
    for call in calls:
        with contextlib.suppress(grpc.RpcError):  # some end before
            list(call)
    assert settled(echo)


def test_an_owner_who_takes_unknown_calls_himself(program):
    if program[0] != "grpc_core":
        pytest.skip("only libgrpc's owners can")
    host = echo_host(program, "--registered")
    try:
        with grpc.insecure_channel(host.address) as channel:
            talk, hello = channel.stream_stream("/trunnion.Echo/Talk"), channel.unary_unary("/example.Owner/Hello")
            for i in range(20):  # more than are waited for at once
                assert list(talk(iter([b"one", b"two"]))) == [b"one", b"two"]
                assert hello(b"%d" % i) == b"%d" % i
                error = refused(channel.unary_stream("/nobody.Nothing/Ever")(b""))
                assert (error.code(), error.details()) == (grpc.StatusCode.UNIMPLEMENTED, "The owner knows no such method")
    finally:
        assert host.stop() == 0


def certificates(folder):
    """A CA, and certificates of a server and of a client that is called "analyst"; PEM files by name."""
    import datetime, ipaddress
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    now = datetime.datetime.now(datetime.timezone.utc)
    keys = {}

    def make(name, issuer):
        keys[name] = ec.generate_private_key(ec.SECP256R1())
        entry = lambda n: x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, n)])
        builder = (x509.CertificateBuilder().subject_name(entry(name)).issuer_name(entry(issuer)).public_key(keys[name].public_key())
                   .serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(hours=1))
                   .not_valid_after(now + datetime.timedelta(hours=1))
                   .add_extension(x509.BasicConstraints(ca=name == issuer, path_length=None), critical=True))
        if name == "server":
            names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        (folder / f"{name}.pem").write_bytes(builder.sign(keys[issuer], hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        (folder / f"{name}.key").write_bytes(keys[name].private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))

    for name in ("ca", "server", "analyst"):
        make(name, "ca")
    return lambda name: (folder / name).read_bytes()


def test_the_owners_tls_is_in_charge_and_names_the_client(program, tmp_path):
    needs_owner(program[0])
    read = certificates(tmp_path)
    host = echo_host(program, "--tls", tmp_path / "server.pem", tmp_path / "server.key", tmp_path / "ca.pem")
    try:
        known = grpc.ssl_channel_credentials(read("ca.pem"), read("analyst.key"), read("analyst.pem"))
        with grpc.secure_channel(host.address, known) as channel:
            call = channel.stream_stream("/trunnion.Echo/Talk")(iter([b"one"]))
            assert list(call) == [b"one"]
            assert dict(call.initial_metadata())["identity"] == "analyst"
        for channel in (grpc.secure_channel(host.address, grpc.ssl_channel_credentials(read("ca.pem"))),
                        grpc.insecure_channel(host.address)):
            with channel:
                error = refused(channel.unary_stream("/trunnion.Echo/Counts")(b"", timeout=20))
                assert error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
    finally:
        assert host.stop() == 0


# ---- hosts/tonic: backends, policies and decoders in Rust

@pytest.fixture(scope="module")
def rust():
    if not shutil.which("cargo"):
        pytest.skip("cargo is not installed: the traits of hosts/tonic are NOT tested")
    host = Host("tonic", build_tonic(), "policyserver")
    yield host
    assert host.stop() == 0


def told(host, count):
    return [host.process.stdout.readline().strip() for _ in range(count)]


def test_a_backend_in_rust_runs_and_caches_queries(rust, tpch_folder, oracle):
    session = rust.session()
    for name in TABLES:
        session.read.parquet(f"{tpch_folder}/{name}.parquet").createOrReplaceTempView(name)
    for number in (1, 3, 18):
        query, expected = QUERIES[number - 1](session.table), oracle(number)
        same(query.collect(), expected)
        assert told(rust, 1) == ["run"]
        same(query.collect(), expected)
        assert told(rust, 1) == ["hit"]
    assert session.range(5_000_000).toArrow().num_rows == 5_000_000  # too large to be kept
    assert session.range(5_000_000).toArrow().num_rows == 5_000_000
    assert told(rust, 2) == ["run", "run"]
    assert session.range(0).toArrow().num_rows == 0
    assert told(rust, 1) == ["run"]
    with pytest.raises(AnalysisException) as error:
        session.sql("select nope from lineitem").collect()
    assert error.value.getCondition() == "UNRESOLVED_COLUMN.WITH_SUGGESTION"
    with pytest.raises(ArithmeticException) as error:
        session.sql("select 1 div (id - 1) from range(3)").collect()
    assert error.value.getCondition() == "DIVIDE_BY_ZERO"  # of the inner backend, through Rust
    assert told(rust, 1) == ["run"]
    session.stop()


def test_a_policy_in_rust_knows_who_asks(rust):
    night = SparkSession.builder.remote(f"{rust.url}/;user_id=night").create()
    day = SparkSession.builder.remote(f"{rust.url}/;user_id=day").create()
    with pytest.raises(PySparkException, match="Come back tomorrow"):
        night.range(7).collect()
    assert day.range(7).count() == 7
    assert told(rust, 1) == ["run"]
    night.stop()
    day.stop()


def test_a_policy_in_rust_knows_the_groups_of_now(rust):
    session = rust.session()
    with grpc.insecure_channel(rust.address) as channel:
        execute = channel.unary_stream(SERVICE + "ExecutePlan", request_serializer=pb2.ExecutePlanRequest.SerializeToString)

        def ask(groups):
            return execute(execute_request(session, session.range(11)), metadata=[("groups", groups)])
        assert list(ask("staff,night shift"))
        assert told(rust, 1) == ["run"]
        error = refused(ask("staff,suspended"))  # in the same session, which was opened before
        assert "You are suspended" in error.details()
        assert list(ask("staff"))
        assert told(rust, 1) == ["hit"]
    session.stop()


def test_a_query_through_rust_is_interrupted(rust):
    spark = rust.session()
    outcome = []

    def run():
        try:
            outcome.append(slow(spark).collect())
        except PySparkException as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert eventually(lambda: spark.interruptAll() != [])
    thread.join(60)
    assert not thread.is_alive() and "OPERATION_CANCELED" in str(outcome[0])
    spark.stop()


def test_the_examples_in_the_documentation_compile():
    if not shutil.which("cargo"):
        pytest.skip("cargo is not installed: the documentation of hosts/tonic is NOT tested")
    result = subprocess.run(["cargo", "test", "--quiet", "--locked", "--doc"], cwd=ROOT / "hosts/tonic", capture_output=True, text=True,
                            env=os.environ | {"CARGO_TARGET_DIR": str(CACHE / "tonic-target"), "TRUNNION_LIB_DIR": str(LIBRARIES)})
    assert result.returncode == 0, result.stdout + result.stderr
    assert re.search(r"([4-9]) passed", result.stdout)
