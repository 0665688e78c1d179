"""Seeds of fuzz_ballista_client: messages as schedulers and executors send them, and damaged ones. usage: make_corpus_ballista_client.py"""
import pathlib, random, struct
import pyarrow as pa

out = pathlib.Path(__file__).with_name("corpus") / "ballista_client"
out.mkdir(exist_ok=True)
random.seed(7)


def varint(n):
    parts = b""
    while n > 127:
        parts, n = parts + bytes([n & 127 | 128]), n >> 7
    return parts + bytes([n])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def save(name, data):
    (out / name).write_bytes(data)
    cut = data[:max(2, len(data) * 2 // 3)]
    (out / f"{name}_cut").write_bytes(cut)
    wrong = bytearray(data)
    for _ in range(6):
        wrong[random.randrange(1, len(wrong))] = random.randrange(256)
    (out / f"{name}_wrong").write_bytes(bytes(wrong))


location = field(2, field(1, "job") + field(2, 3) + field(4, 1)) + field(3, field(1, "ex") + field(2, "::1") + field(3, 50051)) \
    + field(4, field(1, 10) + field(3, 2 ** 64 - 1)) + field(6, 7) + field(7, 1)
save("job_done", b"j" + field(1, field(5, "job") + field(6, "name") + field(4, field(1, location) * 3 + field(2, 1) + field(3, 2) + field(4, 3))) + field(3, "proxy:1"))
mark = "3\nDIVIDE_BY_ZERO\n-1\n6279\n61\n62\n".encode().hex()
save("job_failed", b"j" + field(1, field(5, "job") + field(3, field(1, f"Task failed: x [[trn:{mark}]]") + field(2, 1))))
metric = field(4, field(1, 5) + field(16, 0)) + field(4, field(6, field(1, "bytes \"x\"") + field(2, 9))) + field(4, field(14, field(1, "r") + field(2, 1)))
save("metrics", b"m" + field(1, field(1, 1) + field(2, 2) + field(3, field(1, 0) + field(2, "Exec") + field(3, "Exec: a=1\n") + metric)) * 2)

schema = pa.schema([("i", pa.int64()), ("t", pa.string()), ("l", pa.list_(pa.int32())), ("d", pa.decimal128(10, 2)), ("b", pa.bool_())])
rows = [{"i": n, "t": f"text {n}" if n % 3 else None, "l": list(range(n % 4)) if n % 5 else None, "d": None, "b": n % 2 == 0} for n in range(20)]
batch = pa.RecordBatch.from_pylist(rows, schema=schema)
for name, codec in (("plain", None), ("lz4", "lz4"), ("zstd", "zstd")):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        writer.write_batch(batch)
        writer.write_batch(batch.slice(3, 4))
    data = sink.getvalue().to_pybytes()
    save(f"file_{name}", b"f" + data)
    at, kinds = 0, []
    while True:
        size = struct.unpack_from("<I", data, at + 4)[0]
        if size == 0:
            break
        message = pa.ipc.read_message(data[at:])
        body = message.body.to_pybytes() if message.body is not None else b""
        kinds.append((data[at + 8:at + 8 + size], body))
        at += 8 + size + len(body)
    if codec is None:
        save("schema", b"s" + kinds[0][0])
    save(f"batch_{name}", b"b" + struct.pack("<H", len(kinds[1][0])) + kinds[1][0] + kinds[1][1])
