"""Writes the corpus of the Flight fuzzer (needs pyarrow). usage: make_corpus_flight.py"""
import datetime, decimal, pathlib, struct

import pyarrow as pa

FOLDER = pathlib.Path(__file__).resolve().parent / "corpus/flight"
FOLDER.mkdir(parents=True, exist_ok=True)


def varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def command(file, name, *fields):
    any_ = field(1, "type.googleapis.com/arrow.flight.protocol.sql." + name) + field(2, b"".join(fields))
    (FOLDER / file).write_bytes(b"c" + any_)


command("query", "CommandStatementQuery", field(1, "SELECT a, 'it''s', \"Q\", $1, ? FROM t -- x\n WHERE b > /* c */ 1.5e3;"))
command("create", "CommandStatementUpdate", field(1, "CREATE TABLE t (a INT PRIMARY KEY, b DECIMAL(10, 2) UNIQUE, CONSTRAINT k FOREIGN KEY (a, b) "
        "REFERENCES s.u (x, y) ON DELETE CASCADE, UNIQUE (b))"))
command("temporary", "CommandStatementUpdate", field(1, "CREATE OR REPLACE TEMPORARY TABLE t AS SELECT `a` FROM b"))
command("insert", "CommandStatementUpdate", field(1, "INSERT INTO a.b.c (x, y) VALUES (?, CAST(? AS INT))"), field(2, b"transaction"))
command("ingest", "CommandStatementIngest", field(1, field(1, 1) + field(2, 3)), field(2, "t"), field(3, "s"), field(4, "c"), field(5, 1),
        field(1000, field(1, "k") + field(2, "v")))
command("substrait", "CommandStatementSubstraitPlan", field(1, field(1, b"\x00\x01") + field(2, "0.54")))
command("prepared", "CommandPreparedStatementQuery", field(1, b"6f1e0000-0000-0000-0000-000000000000"))
command("tables", "CommandGetTables", field(1, "c"), field(2, "s%"), field(3, "t_"), field(4, "TABLE"), field(4, "VIEW"), field(5, 1))
command("sql_info", "CommandGetSqlInfo", field(1, varint(0) + varint(1) + varint(512)))
command("ticket", "TicketStatementQuery", field(1, b"6f1e0000-0000-0000-0000-000000000000"))


def put(file, batch):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    out = b"p"
    for message in pa.ipc.MessageReader.open_stream(sink.getvalue()):
        body = message.body.to_pybytes() if message.body is not None else b""
        data = field(2, message.metadata.to_pybytes()) + field(3, b"m") + field(1000, body)
        out += struct.pack(">H", len(data)) + data
    (FOLDER / file).write_bytes(out)


put("put_numbers", pa.record_batch({"a": pa.array([1, None], pa.int64()), "b": pa.array([1.5, float("nan")]), "c": pa.array([-1, 2], pa.int8()),
                                    "d": pa.array([True, None])}))
put("put_texts", pa.record_batch({"a": ["it's", None], "b": pa.array([b"\x00\xff", b""]), "c": pa.array(["x", "long"], pa.large_string())}))
put("put_times", pa.record_batch({"a": [datetime.date(2024, 2, 29)], "b": pa.array([-1], pa.timestamp("us", "UTC")), "c": pa.array([1], pa.time64("us")),
                                  "d": [decimal.Decimal("-0.05")]}))
put("put_none", pa.record_batch({"a": pa.array([], pa.int64())}))
put("put_nested", pa.record_batch({"l": pa.array([[1, 2], None], pa.list_(pa.int32()))}))
