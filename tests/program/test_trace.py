"""Spans reach an OpenTelemetry collector that the server's file names."""
import json, subprocess, sys, threading
from concurrent import futures
import grpc
import pytest
from conftest import Server, run

PATH = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


class Collector(grpc.GenericRpcHandler):
    """grpcio's server; keeps the requests as bytes."""

    def __init__(self):
        self.requests, self.arrived = [], threading.Event()
        self.server = grpc.server(futures.ThreadPoolExecutor(2), handlers=[self])
        self.port = self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()

    def service(self, details):
        def export(request, context):
            self.requests.append(request)
            self.arrived.set()
            return b""
        return grpc.unary_unary_rpc_method_handler(export) if details.method == PATH else None


QUERY = """
import os, sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote(sys.argv[1]).create()
print(spark.range(3).count(), flush=True)
os._exit(0)  # grpcio may wait for itself when the interpreter collects its channel
"""


def query(server, folder):
    (folder / "query.py").write_text(QUERY)
    done = subprocess.run([sys.executable, str(folder / "query.py"), f"sc://{server.address}"], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "3", done.stderr[-2000:]


def config(folder, **trace):
    (folder / "trunnion.yaml").write_text(json.dumps({"listen": "127.0.0.1:0", "layers": [{"trace": trace}]}))
    return folder / "trunnion.yaml"


def fields(message):
    """[(number, bytes)] of a protobuf message's texts and messages."""
    at, out = 0, []

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            value, shift, at = value | (byte & 0x7f) << shift, shift + 7, at + 1
            if byte < 0x80:
                return value

    while at < len(message):
        tag = varint()
        if tag & 7 == 2:
            size = varint()
            out.append((tag >> 3, message[at:at + size]))
            at += size
        elif tag & 7 == 0:
            varint()
        else:
            at += 8 if tag & 7 == 1 else 4
    return out


def test_spans_reach_the_collector(tmp_path):
    collector = Collector()
    with Server("--config", config(tmp_path, otlp=f"http://127.0.0.1:{collector.port}", service="shop")) as server:
        query(server, tmp_path)
        assert collector.arrived.wait(20), "a few spans are sent after a while, without a whole batch"
    collector.server.stop(0)
    spans = []
    for request in collector.requests:
        resource = dict(fields(request))[1]
        assert b"service.name" in dict(fields(resource))[1] and b"shop" in dict(fields(resource))[1]
        spans += [dict(fields(span)) for number, span in fields(dict(fields(resource))[2]) if number == 2]
    assert {b"call", b"execute", b"fetch"} <= {span[5] for span in spans}
    assert all(len(span[1]) == 16 and len(span[2]) == 8 for span in spans)


def test_queries_do_not_wait_for_a_collector_that_is_not_there(tmp_path):
    with Server("--config", config(tmp_path, otlp="http://127.0.0.1:1")) as server:
        query(server, tmp_path)


@pytest.mark.parametrize("url", ["127.0.0.1:4317", "ftp://x:1", "http://host", "http://host:4317/v1/traces"])
def test_other_addresses_are_mistakes(tmp_path, url):
    status, _, err = run("serve", "--check", "--config", config(tmp_path, otlp=url))
    assert status == 2 and "otlp" in err and url in err, err
