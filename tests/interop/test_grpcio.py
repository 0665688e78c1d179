"""grpcio against grpc_interop_server. TRUNNION_BUILD names the folder that holds it."""

import os
import pathlib
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

grpc = pytest.importorskip("grpc")
SERVICE = "/grpc.testing.TestService/"


def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def delimited(tag, data):
    return bytes([tag << 3 | 2]) + varint(len(data)) + data


def response(size, interval_us=0):
    """One response_parameters of a StreamingOutputCallRequest."""
    return delimited(2, b"\x08" + varint(size) + (b"\x10" + varint(interval_us) if interval_us else b""))


def same(data):
    return data


@pytest.fixture(scope="module")
def port():
    program = os.path.join(os.environ.get("TRUNNION_BUILD", pathlib.Path(__file__).resolve().parents[2] / "build/release"), "grpc_interop_server")
    if not os.path.exists(program):
        pytest.skip(f"{program} is absent")
    server = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    yield int(server.stdout.readline().split()[1])
    server.stdin.close()
    assert server.wait(10) == 0


@pytest.fixture
def channel(port):
    with grpc.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.max_receive_message_length", -1)]) as channel:
        yield channel


def test_metadata_is_echoed(channel):
    unary = channel.unary_unary(SERVICE + "UnaryCall", same, same)
    sent = [("x-grpc-test-echo-initial", "text"), ("x-grpc-test-echo-trailing-bin", bytes(range(256)))]
    reply, call = unary.with_call(b"\x10" + varint(1000), metadata=sent)
    assert len(reply) == 1000 + 6
    assert ("x-grpc-test-echo-initial", "text") in call.initial_metadata()
    assert ("x-grpc-test-echo-trailing-bin", bytes(range(256))) in call.trailing_metadata()


def test_status_message_arrives_as_sent(channel):
    text = "\t\ntest with whitespace\r\nand Unicode BMP \u263a and non-BMP \U0001f608, 100%\t\n"
    with pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary(SERVICE + "UnaryCall", same, same)(
            delimited(7, b"\x08\x02" + delimited(2, text.encode()))
        )
    assert (caught.value.code(), caught.value.details()) == (grpc.StatusCode.UNKNOWN, text)


def test_unknown_methods_are_unimplemented(channel):
    for path in (SERVICE + "UnimplementedCall", "/grpc.testing.Other/Call", "/"):
        with pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary(path, same, same)(b"")
        assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED
        assert path in caught.value.details()


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_compressed_uploads_and_downloads(port, compression):
    body = delimited(1, delimited(2, b"z" * 3_000_000))
    with grpc.insecure_channel(f"127.0.0.1:{port}", compression=compression) as channel:
        total = channel.stream_unary(SERVICE + "StreamingInputCall", same, same)(iter([body] * 3))
        assert total == b"\x08" + varint(9_000_000)
        unary = channel.unary_unary(SERVICE + "UnaryCall", same, same)
        reply = unary(b"\x10" + varint(1_000_000), metadata=[("x-trunnion-test-compress", "1")])
        assert len(reply) == 1_000_000 + 8


def test_streams_of_all_sizes(channel):
    stream = channel.unary_stream(SERVICE + "StreamingOutputCall", same, same)
    sizes = [1, 0, 16384, 5_000_000, 70_000, 3]
    got = [len(message) for message in stream(b"".join(response(size) for size in sizes))]
    assert len(got) == len(sizes)
    assert all(0 <= total - size <= 12 for total, size in zip(got, sizes))


def test_a_deadline_is_never_reported_as_a_cancel(channel):
    stream = channel.unary_stream(SERVICE + "StreamingOutputCall", same, same)

    def run(number):
        try:
            return list(stream(response(10) + response(10, 5_000_000), timeout=0.01 + number % 7 * 0.003))
        except grpc.RpcError as error:
            return error.code()

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(run, range(300))) == {grpc.StatusCode.DEADLINE_EXCEEDED}


def test_cancel_in_the_middle_leaves_the_channel_usable(channel):
    stream = channel.unary_stream(SERVICE + "StreamingOutputCall", same, same)
    for _ in range(50):
        call = stream(response(100_000) * 200)
        next(call)
        call.cancel()
    assert len(list(stream(response(10)))) == 1


def test_a_message_over_the_limit_is_resource_exhausted(port):
    with grpc.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.max_send_message_length", -1)]) as channel:
        with pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary(SERVICE + "UnaryCall", same, same)(bytes(130 << 20))
    assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "larger than max" in caught.value.details()
