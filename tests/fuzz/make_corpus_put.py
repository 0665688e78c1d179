"""Writes the corpus of the DoPut fuzzer (needs pyarrow). usage: make_corpus_put.py"""
import pathlib, struct

import pyarrow as pa

from make_corpus_flight import field, varint

FOLDER = pathlib.Path(__file__).resolve().parent / "corpus/flight_put"
FOLDER.mkdir(parents=True, exist_ok=True)


def any_(name, *fields):
    return field(1, "type.googleapis.com/arrow.flight.protocol.sql." + name) + field(2, b"".join(fields))


def put(file, command, *batches, first=b"", cut=None):
    """FlightData messages: the descriptor rides on the schema, as clients do; `first`: on a message of its own."""
    descriptor = field(1, field(1, 2) + field(2, command))
    messages = []
    if batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batches[0].schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        for message in pa.ipc.MessageReader.open_stream(sink.getvalue()):
            body = message.body.to_pybytes() if message.body is not None else b""
            messages.append(field(2, message.metadata.to_pybytes()) + field(1000, body))
    else:
        messages.append(b"")
    messages[0] = descriptor + messages[0]
    out = b"".join(struct.pack(">H", len(m)) + m for m in messages)
    (FOLDER / file).write_bytes(out[:cut])


rows = pa.record_batch({"a": pa.array([1, None, 3], pa.int64()), "b": ["x", None, "it's"]})
numbers = pa.record_batch({"p": pa.array([1, 2], pa.int32()), "q": pa.array([1.5, None])})
INGEST = (field(2, "t"), field(5, 1))
put("ingest_create", any_("CommandStatementIngest", field(1, field(1, 1) + field(2, 1)), *INGEST), rows, rows)
put("ingest_append", any_("CommandStatementIngest", field(1, field(1, 2) + field(2, 2)), *INGEST), rows)
put("ingest_replace", any_("CommandStatementIngest", field(1, field(1, 1) + field(2, 3)), field(2, "r")), rows)
put("ingest_temporary", any_("CommandStatementIngest", field(1, field(1, 1) + field(2, 1)), field(2, "k"), field(3, "s"), field(4, "c"), field(5, 1)), rows)
put("ingest_options", any_("CommandStatementIngest", field(1, field(1, 1)), field(2, "t"), field(6, b"tx"), field(1000, field(1, "k") + field(2, "v"))), rows)
put("ingest_without_rows", any_("CommandStatementIngest", field(1, field(1, 1) + field(2, 1)), field(2, "t"), field(5, 1)))
put("ingest_cut", any_("CommandStatementIngest", field(1, field(1, 1) + field(2, 1)), *INGEST), rows, cut=500)
put("ingest_nested", any_("CommandStatementIngest", field(1, field(1, 1) + field(2, 1)), field(2, "n"), field(5, 1)),
    pa.record_batch({"l": pa.array([[1], None], pa.list_(pa.int32())), "s": pa.array([{"x": 1}, None])}))
put("ingest_dictionary", any_("CommandStatementIngest", field(1, field(1, 1) + field(2, 1)), field(2, "d"), field(5, 1)),
    pa.record_batch({"d": pa.array(["a", "b", "a"]).dictionary_encode()}))
put("update", any_("CommandStatementUpdate", field(1, "CREATE TABLE t (a INT)")))
put("update_insert", any_("CommandStatementUpdate", field(1, "INSERT INTO t VALUES (1)")))
put("update_temporary", any_("CommandStatementUpdate", field(1, "CREATE TEMPORARY VIEW v AS SELECT 1 AS x")))
put("update_parameters", any_("CommandStatementUpdate", field(1, "INSERT INTO t VALUES (?, ?)")), numbers)
HANDLE = b"HANDLE##############################"
put("bind", any_("CommandPreparedStatementQuery", field(1, HANDLE)), numbers)
put("bind_update", any_("CommandPreparedStatementUpdate", field(1, HANDLE)), numbers)
put("bind_none", any_("CommandPreparedStatementQuery", field(1, HANDLE)))
put("unknown", any_("CommandNoSuchThing"), rows)
put("substrait", any_("CommandStatementSubstraitPlan", field(1, field(1, b"\x00\x01") + field(2, "0.54"))))
(FOLDER / "no_descriptor").write_bytes(struct.pack(">H", 3) + field(3, b"m"))
(FOLDER / "path_descriptor").write_bytes((lambda m: struct.pack(">H", len(m)) + m)(field(1, field(1, 1) + field(3, "a"))))
