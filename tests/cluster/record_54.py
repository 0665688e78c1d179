"""Records requests as a 54.x client makes them, once, with PyPI's datafusion 54 (whose plans Ballista 54.1 sends) in an
environment of its own: plans of that version's encoder, all of its settings, no version. What comes out is kept in
requests_54/; expected.json has the rows that this datafusion itself gives. usage: record_54.py"""
import json, pathlib
import datafusion
from datafusion import SessionContext, col

assert datafusion.__version__.startswith("54."), datafusion.__version__
FOLDER = pathlib.Path(__file__).parent / "requests_54"
FOLDER.mkdir(exist_ok=True)
context = SessionContext(datafusion.SessionConfig().with_information_schema(True))
TABLE = "(VALUES (1, 'x', 2.5), (2, 'y', NULL), (3, 'x', 0.5)) AS t(a, b, c)"
QUERIES = {
    "values": f"SELECT a + 1 AS n, upper(b) AS b FROM {TABLE} ORDER BY n DESC",
    "aggregate": f"SELECT b, count(*) AS n, sum(c) AS s FROM {TABLE} GROUP BY b ORDER BY b",
    "join": f"SELECT l.a AS a, r.b AS b FROM {TABLE} JOIN (VALUES (1, 'one'), (3, 'three')) AS r(a, b) ON t.a = r.a ORDER BY a".replace("l.a", "t.a"),
    "not_in": f"SELECT a FROM {TABLE} WHERE a NOT IN (SELECT a FROM (VALUES (2)) AS u(a)) ORDER BY a",
    "window": f"SELECT a, row_number() OVER (PARTITION BY b ORDER BY a) AS n FROM {TABLE} ORDER BY a",
    "unnest": "SELECT unnest(l) AS x FROM (VALUES ([1, NULL, 2]), (NULL), ([3])) AS t(l)",
}


def varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(number, value):
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


pairs = [(row["name"], row["value"]) for row in context.sql("SELECT name, value FROM information_schema.df_settings").to_pylist()]
settings = b"".join(field(4, field(1, name) + (b"" if value is None else field(2, value))) for name, value in pairs)
assert len(pairs) > 100


def record(name, frame):
    plan = frame.optimized_logical_plan().to_proto()
    (FOLDER / name).write_bytes(field(1, plan) + field(3, "f1d5a1d0-0000-4000-8000-000000000054") + settings + field(5, "operation"))
    return [list(row.values()) for row in frame.to_pylist()]


expected = {name: record(name, context.sql(sql)) for name, sql in QUERIES.items()}
lists = context.sql("SELECT a, l FROM (VALUES (1, [1, NULL, 2]), (2, NULL), (3, [3])) AS t(a, l)")
expected["unnest_drops_nulls"] = record("unnest_drops_nulls", lists.unnest_columns("l", preserve_nulls=False))
expected["unnest_keeps_nulls"] = record("unnest_keeps_nulls", lists.unnest_columns("l", preserve_nulls=True))
assert expected["unnest_drops_nulls"] != expected["unnest_keeps_nulls"]
(FOLDER / "expected.json").write_text(json.dumps(expected, indent=0, default=str) + "\n")
print(json.dumps(expected, default=str))
