"""Other people's servers with Spark Connect mounted in them: hosts/go in grpc-go, hosts/tonic in tonic. Same process, their sockets.
TRUNNION_LIB_DIR: where libtrunnion.so, the engine and the functions lie (default build/release)."""
import contextlib, hashlib, os, pathlib, re, shutil, signal, subprocess, sys, threading, time, uuid
import grpc
import pytest
from pyspark.errors import AnalysisException, ArithmeticException, ParseException, PySparkException
from pyspark.sql import Row, SparkSession, functions as F
import pyspark.sql.connect.proto as pb2
from conftest import CACHE, ROOT

LIBRARIES = pathlib.Path(os.environ.get("TRUNNION_LIB_DIR", ROOT / "build/release")).absolute()
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


HOSTS = {"go": ("go", build_go), "tonic": ("cargo", build_tonic)}


class Host:
    def __init__(self, name, folder, program="sparkserver", arguments=("libtrunnion_engine.so", "libtrunnion_functions.so")):
        self.name = name
        self.process = subprocess.Popen(
            [folder / program, *(LIBRARIES / argument for argument in arguments)], stdout=subprocess.PIPE, text=True,
            env=os.environ | {"LD_LIBRARY_PATH": str(LIBRARIES), "GODEBUG": "cgocheck=1"})
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
    tool, build = HOSTS[request.param]
    if not shutil.which(tool):
        pytest.skip(f"{tool} is not installed: hosts/{request.param} is NOT tested")
    if not (LIBRARIES / "libtrunnion.so").exists():
        pytest.fail(f"there is no {LIBRARIES}/libtrunnion.so: build it, or set TRUNNION_LIB_DIR")
    return request.param, build()


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

@pytest.fixture(scope="module")
def echo(program):
    library = CACHE / "libtrunnion_echo.so"
    subprocess.run(["cc", "-std=gnu17", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-I", ROOT / "include",
                    ROOT / "hosts/testing/echo.c", "-o", library, f"-L{LIBRARIES}", "-ltrunnion"], check=True)
    name, folder = program
    host = Host(name, folder, "echoserver", [library] if name == "tonic" else [])
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
    assert 40_000 < int(initial["left-ms"]) <= 50_000
    assert initial["back-text"] == "last" and initial["back-bytes-bin"] == raw
    trailing = [tuple(entry) for entry in call.trailing_metadata()]
    assert [value for key, value in trailing if key == "trail"] == ["a", "b"]
    assert ("trail-bin", b"\0\xff\1") in trailing
    call = talk(iter([]))
    assert list(call) == []
    initial = dict(call.initial_metadata())
    assert (initial["identity"], initial["left-ms"]) == ("none", "none")
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
