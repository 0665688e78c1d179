"""Large, deep and broken inputs through a stock client and as raw bytes: an answer or a named error, and the server lives."""
import os, signal, subprocess, sys, time, uuid
import grpc
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.connect.proto import base_pb2 as pb
from pyspark.sql.connect.proto import base_pb2_grpc


def alive(spark):
    assert [r.id for r in spark.range(3).collect()] == [0, 1, 2]


def test_sum_of_600_terms(spark):
    text = " + ".join(f"id * {i}" for i in range(600))
    assert spark.range(3).selectExpr(f"{text} as s").collect()[2].s == 2 * sum(range(600))
    assert spark.sql("select " + " + ".join(["1"] * 600)).collect()[0][0] == 600


def test_or_of_1000_terms(spark):
    text = " or ".join(f"id = {2 * i}" for i in range(1000))
    assert spark.range(3000).where(text).count() == 1000


def test_3000_nested_parentheses(spark):
    assert spark.sql("select " + "(" * 3000 + "1" + ")" * 3000).collect()[0][0] == 1


def test_2000_columns(spark):
    frame = spark.range(2).select(*[(F.col("id") + i).alias(f"c{i}") for i in range(2000)])
    assert frame.collect()[1].c1999 == 2000


def raw_plan(depth):
    """range(1) under `depth` filters, built inside out as bytes (the client library itself cannot nest so deep)."""
    def field(number, data):
        out, size = bytes([number << 3 | 2]), len(data)
        while True:
            byte, size = size & 127, size >> 7
            if not size:
                return out + bytes([byte]) + data
            out += bytes([byte | 128])
    # Relation{range=15}, then Relation{filter=4 {input=1, condition=2 {literal=1 {boolean=3: true}}}}
    condition = field(2, field(1, bytes([3 << 3, 1])))
    relation = field(15, bytes([2 << 3, 1, 3 << 3, 1]))
    parts, size = [], len(relation)
    for _ in range(depth):
        head = field(1, b"\0" * size)[: -size]
        inner = len(head) + size + len(condition)
        outer = field(4, b"\0" * inner)[: -inner]
        parts.append((outer + head, condition))
        size = len(outer) + inner
    return b"".join(p[0] for p in reversed(parts)) + relation + b"".join(p[1] for p in parts)


def execute_raw(server, plan):
    """ExecutePlan with a plan given as bytes; gives the responses' bytes."""
    request = pb.ExecutePlanRequest(session_id=str(uuid.uuid4()), user_context=pb.UserContext(user_id="t"))
    def wrap(number, data):
        size, out = len(data), bytes([number << 3 | 2])
        while size > 127:
            out += bytes([size & 127 | 128])
            size >>= 7
        return out + bytes([size]) + data
    data = request.SerializeToString() + wrap(3, wrap(1, plan))
    with grpc.insecure_channel(server.replace("sc://", "")) as channel:
        call = channel.unary_stream("/spark.connect.SparkConnectService/ExecutePlan")
        return list(call(data, timeout=60))


@pytest.mark.parametrize("depth", [0, 100, 400, 2000, 100_000])
def test_nested_plan(server, spark, depth):
    try:
        assert execute_raw(server, raw_plan(depth))
    except grpc.RpcError as error:
        assert depth > 400, error
        assert error.code() in (grpc.StatusCode.INTERNAL, grpc.StatusCode.RESOURCE_EXHAUSTED), error
        assert error.details()
    alive(spark)


@pytest.mark.parametrize("data", [b"\xff" * 100, b"\x0a", b"\x1a\x05\x0a\xff\xff\xff\x7f", b"\x0b\x0c", os.urandom(1000)])
def test_malformed_message(server, spark, data):
    with grpc.insecure_channel(server.replace("sc://", "")) as channel:
        with pytest.raises(grpc.RpcError) as error:
            list(channel.unary_stream("/spark.connect.SparkConnectService/ExecutePlan")(data, timeout=30))
    assert error.value.code() in (grpc.StatusCode.INTERNAL, grpc.StatusCode.INVALID_ARGUMENT)
    alive(spark)


def test_killed_client(server, spark, tmp_path):
    """kill -9 in the middle of a large result; the server goes on."""
    program = ("import sys; from pyspark.sql import SparkSession; s = SparkSession.builder.remote(sys.argv[1]).create()\n"
               "it = s.range(50_000_000).toLocalIterator(); next(it); print('ready', flush=True)\n"
               "for _ in it: pass")
    script = tmp_path / "client.py"  # pyspark-client 4.2 does not work under python -c
    script.write_text(program)
    client = subprocess.Popen([sys.executable, str(script), server], stdout=subprocess.PIPE, text=True)
    assert client.stdout.readline() == "ready\n"
    client.send_signal(signal.SIGKILL)
    client.wait()
    alive(spark)


def test_missing_path(spark):
    with pytest.raises(PySparkException) as error:
        spark.read.parquet("/no/such/file.parquet").collect()
    assert error.value.getCondition() == "PATH_NOT_FOUND"


def test_reattach_replays_exactly(server):
    """Break the stream after some responses and reattach from the last one seen: nothing lost, nothing repeated."""
    session, operation = str(uuid.uuid4()), str(uuid.uuid4())
    with grpc.insecure_channel(server.replace("sc://", ""), [("grpc.max_receive_message_length", 1 << 28)]) as channel:
        stub = base_pb2_grpc.SparkConnectServiceStub(channel)
        user = pb.UserContext(user_id="t")
        plan = pb.Plan()
        plan.root.range.start, plan.root.range.end, plan.root.range.step = 0, 300_000, 1
        options = [pb.ExecutePlanRequest.RequestOption(reattach_options=pb.ReattachOptions(reattachable=True))]
        call = stub.ExecutePlan(pb.ExecutePlanRequest(session_id=session, user_context=user, plan=plan,
                                                      operation_id=operation, request_options=options))
        seen = []
        for response in call:
            seen.append(response)
            if response.HasField("arrow_batch"):
                break
        call.cancel()
        complete = False
        while not complete:
            call = stub.ReattachExecute(pb.ReattachExecuteRequest(session_id=session, user_context=user,
                                                                  operation_id=operation, last_response_id=seen[-1].response_id))
            for n, response in enumerate(call):
                seen.append(response)
                complete = response.HasField("result_complete")
                if n == 2 and not complete:
                    call.cancel()
                    break
        ids = [r.response_id for r in seen]
        assert len(set(ids)) == len(ids)
        import pyarrow as pa
        rows = []
        for response in seen:
            if response.HasField("arrow_batch"):
                rows += pa.ipc.open_stream(response.arrow_batch.data).read_all().column(0).to_pylist()
        assert rows == list(range(300_000))
