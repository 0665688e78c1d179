"""PEP 249's own test suite over ADBC, and SQLAlchemy's old dialect in an environment of its own."""
import os, pathlib, subprocess, sys, unittest
import pytest
from conftest import CACHE

dbapi20 = pytest.importorskip("dbapi20")
dbapi = pytest.importorskip("adbc_driver_flightsql.dbapi")

# What the driver itself does otherwise than the suite wants, whatever the server says.
DRIVERS_OWN = {"test_Binary", "test_callproc", "test_close", "test_fetchall", "test_fetchone", "test_non_idempotent_close",
               "test_description", "test_nextset", "test_setoutputsize"}


def test_pep_249(address):
    class Suite(dbapi20.DatabaseAPI20Test):
        driver = dbapi
        connect_args = (f"grpc://{address}",)
        connect_kw_args = {"autocommit": True}
        ddl1 = "CREATE TABLE dbapi20test_booze (name VARCHAR(20))"
        ddl2 = "CREATE TABLE dbapi20test_barflys (name VARCHAR(20), drink VARCHAR(30))"

    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(Suite).run(result)
    wrong = {test.id().rsplit(".", 1)[1]: text.splitlines()[-1] for test, text in result.errors + result.failures}
    assert set(wrong) <= DRIVERS_OWN, wrong
    assert result.testsRun >= 30


SQLALCHEMY = """
import sys
from sqlalchemy import create_engine, inspect, text
import flightsql.sqlalchemy
engine = create_engine("datafusion+flightsql://" + sys.argv[1] + "?insecure=True")
with engine.connect() as connection:
    assert connection.execute(text("select 1 as a, 'x' as b")).fetchall() == [(1, "x")]
    names = inspect(engine)
    assert "default" in names.get_schema_names()
    assert sys.argv[2] in names.get_table_names(), names.get_table_names()
    assert [(c["name"], str(c["type"])) for c in names.get_columns(sys.argv[2])] == [("a", "BIGINT"), ("b", "VARCHAR")] or \\
        [c["name"] for c in names.get_columns(sys.argv[2])] == ["a", "b"]
print("fine")
"""


def test_sqlalchemy(address, run, table):
    python = CACHE / "flightsql-dbapi-venv/bin/python"
    if not python.exists():
        done = subprocess.run([sys.executable, "-m", "venv", str(CACHE / "flightsql-dbapi-venv")], capture_output=True)
        done = done.returncode == 0 and subprocess.run(
            [str(python), "-m", "pip", "install", "-q", "flightsql-dbapi", "sqlalchemy<2", "pandas<3"], capture_output=True, timeout=300)
        if not done or done.returncode:
            pytest.skip("flightsql-dbapi cannot be installed")
    run(f"CREATE TABLE {table} (a BIGINT, b VARCHAR)")
    done = subprocess.run([str(python), "-c", SQLALCHEMY, address, table], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "fine", done.stderr[-1500:]
