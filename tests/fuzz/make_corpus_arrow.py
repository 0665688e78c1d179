"""Writes the corpus of the Arrow IPC fuzzer (needs pyarrow). usage: make_corpus_arrow.py"""
import pathlib, struct

import pyarrow as pa

FOLDER = pathlib.Path(__file__).resolve().parent / "corpus/ipc"
FOLDER.mkdir(parents=True, exist_ok=True)


def write(name, message):
    """Head length, head without the prefix, body."""
    raw = message.serialize().to_pybytes()
    start = 8 if raw[:4] == b"\xff\xff\xff\xff" else 4
    size = struct.unpack("<i", raw[start - 4:start])[0]
    (FOLDER / name).write_bytes(struct.pack(">H", size) + raw[start:])


def messages(batch):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return list(pa.ipc.MessageReader.open_stream(sink.getvalue()))


batches = {
    "long_and_text": pa.record_batch({"a": pa.array([1, None, 3], pa.int64()), "b": pa.array(["x", None, "long text"])}),
    "empty": pa.record_batch({"a": pa.array([], pa.int64()), "b": pa.array([], pa.string())}),
    "numbers": pa.record_batch({"i": pa.array([1], pa.int8()), "f": pa.array([1.5], pa.float64()), "d": pa.array([1], pa.decimal128(10, 2))}),
    "times": pa.record_batch({"t": pa.array([1], pa.timestamp("us", "UTC")), "d": pa.array([1], pa.date32())}),
    "large": pa.record_batch({"a": pa.array([1], pa.int64()), "b": pa.array(["x"], pa.large_string())}),
    "nested": pa.record_batch({"l": pa.array([[1, 2], None], pa.list_(pa.int32()))}),
    "dictionary": pa.record_batch({"d": pa.array(["a", "b", "a"]).dictionary_encode()}),
}
for name, batch in batches.items():
    for index, message in enumerate(messages(batch)):
        write(f"{name}_{index}", message)
