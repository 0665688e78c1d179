"""Writes the corpora of the HTTP/2 fuzzers: sessions of a client and of a server, frame by frame. usage: make_corpus.py"""
import gzip, pathlib, struct

HERE = pathlib.Path(__file__).resolve().parent / "corpus"
DATA, HEADERS, RST, SETTINGS, PING, GOAWAY, WINDOW, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, END_HEADERS, ACK, PADDED = 1, 4, 1, 8


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def text(value):
    value = value.encode() if isinstance(value, str) else value
    return bytes([len(value)]) + value if len(value) < 127 else b"\x7f" + varint(len(value) - 127) + value


def varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def literal(name, value):
    return b"\0" + text(name) + text(value)


def request(path, *extra, kind="application/grpc"):
    block = b"\x83\x86" + b"\x04" + text(path) + b"\x01" + text("x") + literal("content-type", kind) + literal("te", "trailers")
    return block + b"".join(literal(*pair) for pair in extra)


def message(payload, flag=0):
    return bytes([flag]) + struct.pack(">I", len(payload)) + payload


def call(stream, path, payload, *extra, **options):
    return (frame(HEADERS, END_HEADERS, stream, request(path, *extra, **options)) +
            frame(DATA, END_STREAM, stream, message(payload)))


def response(stream, payload, *trailers, initial=(), encoding=None):
    head = b"\x88" + literal("content-type", "application/grpc") + b"".join(literal(*pair) for pair in initial)
    if encoding:
        head += literal("grpc-encoding", encoding)
    tail = b"".join(literal(*pair) for pair in trailers or [("grpc-status", "0")])
    data = frame(DATA, 0, stream, payload) if payload else b""
    return frame(HEADERS, END_HEADERS, stream, head) + data + frame(HEADERS, END_HEADERS | END_STREAM, stream, tail)


P = "/t.Test/"
CLIENT = {
    "echo": call(1, P + "Echo", b"hello"),
    "all_methods": b"".join(call(1 + 2 * i, P + m, b"3 100") for i, m in enumerate(
        ["Echo", "Small", "Fail", "Stream", "Sum", "Chat", "Worker", "Abort", "None"])),
    "metadata": call(1, P + "Echo", b"x", ("x-echo", "v"), ("x-echo-bin", "AAECAw=="), ("x-echo-bin", "AA,BB"), ("grpc-timeout", "1S")),
    "deadline": call(1, P + "Hang", b"x", ("grpc-timeout", "1m")),
    "bad_timeout": call(1, P + "Echo", b"x", ("grpc-timeout", "99999999999S")),
    "bad_binary": call(1, P + "Echo", b"x", ("a-bin", "!!!")),
    "gzip": frame(HEADERS, END_HEADERS, 1, request(P + "Echo", ("grpc-encoding", "gzip"), ("grpc-accept-encoding", "gzip"))) +
            frame(DATA, END_STREAM, 1, message(gzip.compress(b"a" * 2000, mtime=0), 1)),
    "deflate_broken": frame(HEADERS, END_HEADERS, 1, request(P + "Echo", ("grpc-encoding", "deflate"))) +
                      frame(DATA, END_STREAM, 1, message(b"\x78\x9c\x01\x02", 1)),
    "flag_without_encoding": frame(HEADERS, END_HEADERS, 1, request(P + "Echo")) + frame(DATA, END_STREAM, 1, message(b"x", 1)),
    "two_messages": frame(HEADERS, END_HEADERS, 1, request(P + "Echo")) + frame(DATA, END_STREAM, 1, message(b"x") + message(b"y")),
    "cut_message": frame(HEADERS, END_HEADERS, 1, request(P + "Sum")) + frame(DATA, 0, 1, message(b"abcdef")[:7]) +
                   frame(DATA, END_STREAM, 1, message(b"abcdef")[7:]),
    "half_message": frame(HEADERS, END_HEADERS, 1, request(P + "Chat")) + frame(DATA, END_STREAM, 1, b"\0\0\0\0\x09abc"),
    "huge_prefix": frame(HEADERS, END_HEADERS, 1, request(P + "Echo")) + frame(DATA, 0, 1, b"\0\xff\xff\xff\xff"),
    "reset": frame(HEADERS, END_HEADERS, 1, request(P + "Hang")) + frame(RST, 0, 1, b"\0\0\0\x08"),
    "reset_of_a_stream": call(1, P + "Stream", b"1000 1000") + frame(RST, 0, 1, b"\0\0\0\x08"),
    "continuation": frame(HEADERS, 0, 1, request(P + "Echo")[:20]) + frame(CONTINUATION, END_HEADERS, 1, request(P + "Echo")[20:]) +
                    frame(DATA, END_STREAM, 1, message(b"x")),
    "padded": frame(HEADERS, END_HEADERS, 1, request(P + "Echo")) + frame(DATA, PADDED | END_STREAM, 1, b"\x03" + message(b"x") + b"\0\0\0"),
    "settings_windows_pings": frame(SETTINGS, 0, 0, b"\0\4\0\0\0\1\0\5\0\0\x40\0\0\6\0\0\1\0") + frame(WINDOW, 0, 0, b"\0\1\0\0") +
                              frame(PING, 0, 0, b"12345678") + call(1, P + "Stream", b"5 3000") + frame(WINDOW, 0, 1, b"\0\1\0\0"),
    "window_overflow": frame(WINDOW, 0, 0, b"\x7f\xff\xff\xff") * 2,
    "goaway": call(1, P + "Echo", b"x") + frame(GOAWAY, 0, 0, b"\0\0\0\0\0\0\0\0"),
    "not_grpc": call(1, P + "Echo", b"x", kind="text/html") + frame(HEADERS, END_HEADERS | END_STREAM, 3, b"\x82\x86\x04\x01/\x01\x01x"),
    "trailers_from_the_client": frame(HEADERS, END_HEADERS, 1, request(P + "Sum")) + frame(DATA, 0, 1, message(b"x")) +
                                frame(HEADERS, END_HEADERS | END_STREAM, 1, literal("x-trailer", "1")),
    "table_size": frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\x3f\xe1\x7f" + request(P + "Echo")),
}
SERVER = {
    "unary": response(1, message(b"answer")),
    "three": response(1, message(b"a")) + response(3, message(b"b") + message(b"c")) + response(5, message(b"d")),
    "trailers_only": frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\x88" + literal("content-type", "application/grpc") +
                           literal("grpc-status", "3") + literal("grpc-message", "bad%20%E2%98%BA%0") +
                           literal("grpc-status-details-bin", "AAECAw")),
    "bad_status": response(1, b"", ("grpc-status", "999")) + response(3, b"", ("grpc-status", "-1")) + response(5, b"", ("x", "y")),
    "http_error": frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\x0d"[:0] + b"\x08" + text("503")) +
                  frame(HEADERS, END_HEADERS, 3, b"\x8d") + frame(DATA, END_STREAM, 3, b"<html>"),
    "informational": frame(HEADERS, END_HEADERS, 1, b"\x08" + text("103") + literal("link", "x")) + response(1, message(b"x")),
    "gzip": response(1, message(gzip.compress(b"b" * 5000, mtime=0), 1), encoding="gzip"),
    "unknown_encoding": response(1, message(b"x", 1), encoding="snappy"),
    "refused": frame(RST, 0, 1, b"\0\0\0\x07") + frame(RST, 0, 3, b"\0\0\0\x08") + frame(RST, 0, 5, b"\0\0\0\0"),
    "goaway_below": frame(GOAWAY, 0, 0, b"\0\0\0\x01\0\0\0\0") + response(1, message(b"x")),
    "two_messages_for_one": response(1, message(b"x") + message(b"y")),
    "no_message": response(1, b""),
    "half_message": frame(HEADERS, END_HEADERS, 3, b"\x88" + literal("content-type", "application/grpc")) +
                    frame(DATA, END_STREAM, 3, b"\0\0\0\0\x09abc"),
    "huge_prefix": frame(HEADERS, END_HEADERS, 3, b"\x88" + literal("content-type", "application/grpc")) +
                   frame(DATA, 0, 3, b"\0\xff\xff\xff\xff"),
    "metadata": response(1, message(b"x"), ("grpc-status", "0"), ("t-bin", "AA=="), ("t-bin", "AA,,BB"), ("grpc-retry-pushback-ms", "5"),
                         initial=[("x-a", "1"), ("y-bin", "AAEC")]),
    "pushback": response(1, b"", ("grpc-status", "14"), ("grpc-retry-pushback-ms", "99999999")),
    "push_promise": frame(5, END_HEADERS, 1, b"\0\0\0\x02" + request(P + "Echo")),
    "settings_and_pings": frame(SETTINGS, 0, 0, b"\0\3\0\0\0\0\0\4\0\0\0\0") + frame(PING, 0, 0, b"12345678") + frame(WINDOW, 0, 1, b"\0\0\0\1"),
    "http1": b"HTTP/1.1 400 Bad Request\r\n\r\n",
}
for name, files, head in [("h2_server", CLIENT, b"\0"), ("h2_client", SERVER, b"")]:
    (HERE / name).mkdir(parents=True, exist_ok=True)
    for key, value in files.items():
        (HERE / name / key).write_bytes(head + value)
(HERE / "h2_server/no_preface").write_bytes(b"\1GET / HTTP/1.1\r\n\r\n")
(HERE / "h2_server/preface_by_hand").write_bytes(b"\1PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0) + CLIENT["echo"])
