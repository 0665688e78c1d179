"""Writes the corpus of the Ballista fuzzer (needs PyPI's datafusion, for plans). usage: make_corpus_ballista.py"""
import pathlib
from datafusion import SessionContext

FOLDER = pathlib.Path(__file__).resolve().parent / "corpus/ballista"
FOLDER.mkdir(parents=True, exist_ok=True)
PLANS = {
    "copy_csv": "COPY (SELECT 1 AS a, 'x' AS b) TO 'out.csv' STORED AS CSV OPTIONS ('format.has_header' 'true')",
    "copy_parquet": "COPY (VALUES (1), (2)) TO 'out' STORED AS PARQUET",
    "explain": "EXPLAIN SELECT 1",
    "unnest": "SELECT unnest([1, NULL, 2]) AS x",
    "subquery": "SELECT a, (SELECT max(x) FROM (SELECT unnest([1, 2]) AS x)) FROM (VALUES (1), (2)) AS t(a) WHERE a > 1 ORDER BY a LIMIT 3",
    "window": "SELECT a, sum(a) OVER (PARTITION BY b ORDER BY a) FROM (VALUES (1, 'x'), (2, 'y')) AS t(a, b)",
    "expressions": "SELECT CASE WHEN a BETWEEN 1 AND 2 THEN a ELSE -a END, a IN (1, 2, 3), b LIKE 'x%', CAST(a AS VARCHAR), a IS NULL "
                   "FROM (VALUES (1, 'x')) AS t(a, b) GROUP BY ROLLUP (a, b)",
}


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


def pair(key, value=None):
    return field(4, field(1, key) + (b"" if value is None else field(2, value)))


settings = pair("ballista.job.name", "nightly") + pair("datafusion.execution.time_zone") + pair("s3.secret_access_key", "hidden")
for name, sql in PLANS.items():
    plan = SessionContext().sql(sql).logical_plan().to_bytes()
    (FOLDER / f"plan_{name}").write_bytes(b"p" + plan)
    (FOLDER / f"query_{name}").write_bytes(b"e" + field(1, plan) + field(3, "session") + settings + field(5, "operation"))
encoded = field(1, "sample.v1") + field(2, b"\0\1\2") + field(3, field(1, "k") + field(2, "v"))
(FOLDER / "query_encoded").write_bytes(b"e" + field(8, encoded) + field(3, "session"))
(FOLDER / "query_substrait").write_bytes(b"e" + field(6, b"\x0a\x02ok") + settings)
job = "01a22d14-d9a5-7672-bab2-36e627ce2889"
newer = field(1, job) + field(2, 1) + field(5, "localhost") + field(6, 50050) + field(7, 2**64 - 1)
(FOLDER / "ticket_55").write_bytes(b"t" + field(3, newer + field(9, 1) + field(10, 1) + field(11, field(1, 8) + field(2, 16))))
(FOLDER / "ticket_54").write_bytes(b"t" + field(3, newer + field(8, 1)) + field(100, field(1, "k")))
(FOLDER / "metrics").write_bytes(b'm[{"node":0,"parent":-1,"name":"SortExec","metrics":{"output_rows":5,"elapsed_compute":7.5e3}},'
                                 b'{"node":1,"parent":0,"name":"DataSourceExec","metrics":{"time_opening":1,"files":2}}]')
