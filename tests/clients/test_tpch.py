"""TPC-H through stock PySpark, as SQL text and as DataFrame code, against DuckDB's answers on the same files."""
import datetime, decimal, pathlib
import pytest
import duckdb
from tpch_dataframe import QUERIES
from conftest import ROOT, TABLES


@pytest.fixture(scope="session")
def oracle(tpch_folder):
    import duckdb_extension_tpch
    connection = duckdb.connect()
    extension = next(pathlib.Path(duckdb_extension_tpch.__file__).parent.rglob("*.duckdb_extension"))
    connection.execute(f"load '{extension}'")
    for name in TABLES:
        connection.execute(f"create view {name} as from '{tpch_folder}/{name}.parquet'")
    texts = dict(connection.execute("select query_nr, query from tpch_queries()").fetchall())
    return lambda number: connection.execute(texts[number]).fetchall()


@pytest.fixture(scope="module")
def tables(server, tpch_folder):
    from pyspark.sql import SparkSession
    session = SparkSession.builder.remote(server).create()
    for name in TABLES:
        session.read.parquet(f"{tpch_folder}/{name}.parquet").createOrReplaceTempView(name)
    yield session
    session.stop()


def close(ours, theirs):
    """Numbers to 1e-9 relative, or to the last digit that the answer itself shows."""
    if isinstance(theirs, (int, float, decimal.Decimal)) and isinstance(ours, (int, float, decimal.Decimal)):
        a, b = float(ours), float(theirs)
        digits = -ours.as_tuple().exponent if isinstance(ours, decimal.Decimal) else 12
        return abs(a - b) <= max(1e-9 * abs(b), 0.5 * 10.0 ** -digits * (1 + 1e-9) if digits < 12 else 1e-12)
    if isinstance(theirs, datetime.datetime) and isinstance(ours, datetime.date):
        return theirs.date() == ours
    return ours == theirs


def same(ours, theirs):
    assert len(ours) == len(theirs), f"{len(ours)} rows, expected {len(theirs)}"
    for i, (a, b) in enumerate(zip(ours, theirs)):
        assert len(a) == len(b)
        for x, y in zip(a, b):
            assert close(x, y), f"row {i}: {tuple(a)} expected {b}"


@pytest.mark.parametrize("number", range(1, 23))
def test_sql(tables, oracle, number):
    text = (ROOT / f"tests/data/tpch/q{number:02d}.sql").read_text()
    same(tables.sql(text).collect(), oracle(number))


@pytest.mark.parametrize("number", range(1, 23))
def test_dataframe(tables, oracle, number):
    same(QUERIES[number - 1](tables.table).collect(), oracle(number))
