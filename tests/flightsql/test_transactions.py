"""Transactions and savepoints through ADBC, and what others see of them meanwhile."""
import os, signal, uuid
import pytest
from conftest import start_server

pa = pytest.importorskip("pyarrow")
adm = pytest.importorskip("adbc_driver_manager")
dbapi = pytest.importorskip("adbc_driver_flightsql.dbapi")


@pytest.fixture(params=["memory", "directory"])
def where(request, tmp_path):
    process, where = start_server(*(["--warehouse", str(tmp_path / "w")] if request.param == "directory" else []))
    yield where
    process.terminate()
    assert process.wait(30) == 0


def ask(connection, text):
    with connection.cursor() as cursor:
        cursor.execute(text)
        return cursor.fetchall()


def opened(where, autocommit=True):
    return dbapi.connect(f"grpc://{where}", autocommit=autocommit)


def test_commit_and_rollback(where):
    with opened(where) as other, opened(where, False) as own:
        ask(own, "CREATE TABLE t (a INT)")
        ask(own, "INSERT INTO t VALUES (1), (2)")
        assert ask(own, "SELECT sum(a) FROM t") == [(3,)]
        with pytest.raises(adm.Error):
            ask(other, "SELECT * FROM t")
        own.commit()
        assert ask(other, "SELECT sum(a) FROM t") == [(3,)]
        ask(own, "INSERT INTO t VALUES (10)")
        ask(own, "DELETE FROM t WHERE a = 1")
        assert ask(own, "SELECT a FROM t ORDER BY a") == [(2,), (10,)]
        assert ask(other, "SELECT a FROM t ORDER BY a") == [(1,), (2,)]
        own.rollback()
        assert ask(own, "SELECT a FROM t ORDER BY a") == [(1,), (2,)]
        ask(own, "DROP TABLE t")
        own.rollback()
        assert ask(other, "SELECT a FROM t ORDER BY a") == [(1,), (2,)]


def test_one_commit_publishes_all_tables(where):
    with opened(where) as other, opened(where, False) as own:
        ask(own, "CREATE SCHEMA s")
        ask(own, "CREATE TABLE s.a AS SELECT 1 AS x")
        ask(own, "CREATE TABLE s.b AS SELECT 2 AS x")
        ask(own, "CREATE VIEW s.v AS SELECT x FROM s.a UNION ALL SELECT x FROM s.b")
        own.commit()
        assert ask(other, "SELECT x FROM s.v ORDER BY x") == [(1,), (2,)]
        ask(own, "UPDATE s.a SET x = 7")
        ask(own, "DROP TABLE s.b")
        own.rollback()
        assert ask(other, "SELECT x FROM s.v ORDER BY x") == [(1,), (2,)]


def test_a_transaction_reads_one_snapshot(where):
    with opened(where) as other, opened(where, False) as own:
        ask(other, "CREATE TABLE t AS SELECT 1 AS a")
        assert ask(own, "SELECT count(*) FROM t") == [(1,)]
        ask(other, "INSERT INTO t VALUES (2)")
        ask(other, "CREATE TABLE u AS SELECT 1 AS a")
        assert ask(own, "SELECT count(*) FROM t") == [(1,)]
        with pytest.raises(adm.Error):
            ask(own, "SELECT * FROM u")
        with pytest.raises(adm.Error, match="begin it again"):  # what it read is no longer the newest
            ask(own, "INSERT INTO t VALUES (3)")
        own.rollback()
        ask(own, "INSERT INTO t VALUES (3)")
        own.commit()
        assert ask(other, "SELECT count(*) FROM t") == [(3,)]


def test_ingestion_and_metadata_are_part_of_it(where):
    with opened(where) as other, opened(where, False) as own:
        with own.cursor() as cursor:
            cursor.adbc_ingest("t", pa.table({"a": [1, 2, 3]}), mode="create")
        assert own.adbc_get_table_schema("t").names == ["a"]
        with pytest.raises(adm.Error):
            other.adbc_get_table_schema("t")
        own.rollback()
        with pytest.raises(adm.Error):
            ask(own, "SELECT * FROM t")
        own.rollback()
        with own.cursor() as cursor:
            cursor.adbc_ingest("t", pa.table({"a": [1, 2, 3]}), mode="create")
            cursor.adbc_ingest("t", pa.table({"a": [4]}), mode="append")
        own.commit()
        assert ask(other, "SELECT sum(a) FROM t") == [(10,)]


def test_what_was_seen_before_a_rollback_is_not_remembered(where):
    """Version numbers of a transaction never come again: nobody may take its tables for later ones."""
    with opened(where) as other, opened(where, False) as own:
        ask(other, "CREATE TABLE t AS SELECT 1 AS a")
        for i in range(3):
            ask(own, f"INSERT INTO t VALUES ({100 + i})")
            assert ask(own, "SELECT max(a) FROM t") == [(100 + i,)]
            own.rollback()
            ask(other, f"INSERT INTO t VALUES ({i + 2})")
            assert ask(own, "SELECT max(a) FROM t") == [(i + 2,)]
            own.rollback()


def test_a_connection_that_closes_rolls_back(where):
    with opened(where) as other:
        own = opened(where, False)
        ask(own, "CREATE TABLE t AS SELECT 1 AS a")
        own.close()
        with pytest.raises(adm.Error):
            ask(other, "SELECT * FROM t")
        ask(other, "CREATE TABLE t AS SELECT 2 AS a")  # and nobody waits for it
        assert ask(other, "SELECT a FROM t") == [(2,)]


def test_readers_are_not_kept_waiting(where):
    with opened(where) as other, opened(where, False) as own:
        ask(other, "CREATE TABLE t AS SELECT 1 AS a")
        ask(own, "INSERT INTO t VALUES (2)")
        for _ in range(20):
            assert ask(other, "SELECT a FROM t") == [(1,)]
        own.commit()
        assert ask(other, "SELECT count(*) FROM t") == [(2,)]


def test_temporary_tables_outlive_it(where):
    with opened(where, False) as own:
        ask(own, "CREATE TEMPORARY TABLE tt AS SELECT 5 AS a")
        own.commit()
        assert ask(own, "SELECT a FROM tt") == [(5,)]
        own.rollback()
        assert ask(own, "SELECT a FROM tt") == [(5,)]


def test_settings_outlive_it(where):
    with opened(where, False) as own:
        ask(own, "CREATE SCHEMA s")
        own.commit()
        own.adbc_current_db_schema = "s"
        ask(own, "CREATE TABLE t AS SELECT 5 AS a")
        own.commit()
        assert ask(own, "SELECT a FROM s.t") == [(5,)]
        assert own.adbc_current_db_schema == "s"


def test_external_tables_are_refused_by_name(where, tmp_path):
    with opened(where, False) as own:
        ask(own, f"COPY (SELECT 1 AS a) TO '{tmp_path}/e' STORED AS PARQUET")
        ask(own, f"CREATE EXTERNAL TABLE e STORED AS PARQUET LOCATION '{tmp_path}/e'")
        with pytest.raises(adm.Error, match="no part of a transaction"):
            ask(own, "INSERT INTO e VALUES (1)")


def test_a_killed_server_leaves_nothing_of_it(tmp_path):
    folder = tmp_path / "w"
    process, where = start_server("--warehouse", str(folder))
    with opened(where) as other:
        ask(other, "CREATE TABLE kept AS SELECT 1 AS a")
        own = opened(where, False)
        ask(own, "CREATE TABLE lost AS SELECT 2 AS a")
        ask(own, "INSERT INTO kept VALUES (2)")
        assert [name for name in os.listdir(folder) if name.startswith("_t-")]
        process.send_signal(signal.SIGKILL)
        process.wait()
    process, where = start_server("--warehouse", str(folder))
    try:
        with opened(where) as other:
            assert ask(other, "SELECT a FROM kept") == [(1,)]
            with pytest.raises(adm.Error):
                ask(other, "SELECT * FROM lost")
        assert not [name for name in os.listdir(folder) if name.startswith("_t-")]
    finally:
        process.terminate()
        assert process.wait(30) == 0
