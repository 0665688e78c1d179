"""ADBC's Flight SQL driver: statements that change things, parameters, ingestion, metadata."""
import datetime, decimal, threading, time
import pytest

pa = pytest.importorskip("pyarrow")
adm = pytest.importorskip("adbc_driver_manager")
dbapi = pytest.importorskip("adbc_driver_flightsql.dbapi")
from conftest import start_server


def test_statements_that_change_things_run_once_whichever_way_they_come(connect, run, table):
    run(f"CREATE TABLE {table} (a INT, b VARCHAR)")
    run(f"INSERT INTO {table} VALUES (1, 'x')")  # prepared, then the query path
    connection = connect()
    with connection.cursor() as cursor:  # the update path
        cursor.adbc_statement.set_sql_query(f"INSERT INTO {table} VALUES (2, 'y'), (3, 'z')")
        assert cursor.adbc_statement.execute_update() == 2
    with connection.cursor() as cursor:  # the reader is dropped unread
        cursor.execute(f"INSERT INTO {table} VALUES (4, 'w')")
    assert run(f"SELECT a, b FROM {table} ORDER BY a") == [(1, "x"), (2, "y"), (3, "z"), (4, "w")]


def test_update_and_delete(run, table):
    run(f"CREATE TABLE {table} AS SELECT * FROM (VALUES (1, 'a'), (2, 'b'), (3, NULL)) AS v(n, s)")
    run(f"UPDATE {table} SET s = 'changed', n = n * 10 WHERE s IS NULL OR n = 1")
    assert run(f"SELECT n, s FROM {table} ORDER BY n") == [(2, "b"), (10, "changed"), (30, "changed")]
    run(f"DELETE FROM {table} WHERE s = 'changed' AND n > 20")
    assert run(f"SELECT n FROM {table} ORDER BY n") == [(2,), (10,)]
    run(f"DELETE FROM {table}")
    assert run(f"SELECT count(*) FROM {table}") == [(0,)]


def test_a_column_list_decides_the_places(run, table):
    run(f"CREATE TABLE {table} (a INT, b VARCHAR, c DOUBLE)", f"INSERT INTO {table} (c, a) VALUES (1.5, 7)")
    assert run(f"SELECT * FROM {table}") == [(7, None, 1.5)]


def test_views(run, table):
    run(f"CREATE VIEW {table}_v AS SELECT 1 AS x UNION ALL SELECT 2", f"CREATE VIEW {table}_n (x, y) AS SELECT 5, 6")
    assert run(f"SELECT sum(x) FROM {table}_v") == [(3,)]
    assert run(f"SELECT y, x FROM {table}_n") == [(6, 5)]
    with pytest.raises(adm.Error):
        run(f"DROP TABLE {table}_v")
    run(f"DROP VIEW {table}_v", f"DROP VIEW {table}_n")


def test_external_tables_and_copy(run, table, tmp_path):
    run(f"COPY (SELECT 1 AS a, 'x' AS b UNION ALL SELECT 2, 'y') TO '{tmp_path}/out' STORED AS PARQUET")
    run(f"CREATE EXTERNAL TABLE {table} STORED AS PARQUET LOCATION '{tmp_path}/out'")
    assert run(f"SELECT a, b FROM {table} ORDER BY a") == [(1, "x"), (2, "y")]


@pytest.mark.parametrize("value", [7, -1.5, "né 'quoted' \\ text", True, None, datetime.date(2024, 2, 29), decimal.Decimal("-0.05"),
                                   b"\x00\xff'", datetime.datetime(1969, 12, 31, 23, 59, 59, 999999)])
def test_parameters_come_back_as_they_went(connect, value):
    kinds = {int: "BIGINT", float: "DOUBLE", str: "VARCHAR", bool: "BOOLEAN", type(None): "VARCHAR", datetime.date: "DATE",
             decimal.Decimal: "DECIMAL(10, 2)", bytes: "BYTEA", datetime.datetime: "TIMESTAMP"}
    with connect().cursor() as cursor:
        cursor.execute(f"SELECT CAST(? AS {kinds[type(value)]}) AS v", parameters=(value,))
        assert cursor.fetchone()[0] == value


def test_types_of_parameters_are_inferred(connect, run, table):
    run(f"CREATE TABLE {table} (a INT, b VARCHAR, d DATE)")
    with connect().cursor() as cursor:
        schema = cursor.adbc_prepare(f"SELECT * FROM {table} WHERE a > ? AND b = ? AND d < ?")
        assert [str(field.type) for field in schema] == ["int32", "string", "date32[day]"]
        schema = cursor.adbc_prepare(f"INSERT INTO {table} (d, a) VALUES (?, ?)")
        assert [str(field.type) for field in schema] == ["date32[day]", "int32"]


def test_many_rows_of_parameters(connect, run, table):
    run(f"CREATE TABLE {table} (a BIGINT, b VARCHAR)")
    with connect().cursor() as cursor:
        cursor.executemany(f"INSERT INTO {table} VALUES (?, ?)", [(i, f"row {i}") for i in range(5000)])
        assert cursor.rowcount in (5000, -1)
        cursor.executemany(f"UPDATE {table} SET b = ? WHERE a = ?", [("first", 0), ("second", 1)])
    assert run(f"SELECT count(*), sum(a), min(b) FROM {table}") == [(5000, 12497500, "first")]


def test_wrong_parameters(connect, run, table):
    run(f"CREATE TABLE {table} (a BIGINT)")
    with connect().cursor() as cursor:
        for parameters in [(1, 2), ()]:
            with pytest.raises(adm.Error):
                cursor.execute(f"SELECT ? + 1", parameters=parameters)
                cursor.fetchall()
        with pytest.raises(adm.Error):
            cursor.executemany(f"INSERT INTO {table} VALUES (?)", [("not a number",)])
    assert run(f"SELECT count(*) FROM {table}") == [(0,)]


def test_a_prepared_query_sees_new_rows(connect, run, table):
    run(f"CREATE TABLE {table} (a BIGINT)")
    with connect().cursor() as cursor:
        for expected in range(3):
            cursor.execute(f"SELECT count(*) FROM {table}")
            assert cursor.fetchone()[0] == expected
            run(f"INSERT INTO {table} VALUES (1)")


def test_ingestion_modes(connect, run, table):
    rows = pa.table({"i": pa.array([1, 2, None]), "s": ["a", "b", None]})
    with connect().cursor() as cursor:
        assert cursor.adbc_ingest(table, rows, mode="create") in (3, -1)
        with pytest.raises(adm.Error):
            cursor.adbc_ingest(table, rows, mode="create")
        cursor.adbc_ingest(table, rows.select(["s", "i"]), mode="append")  # by name
        assert run(f"SELECT count(*), sum(i), count(s) FROM {table}") == [(6, 6, 4)]
        cursor.adbc_ingest(table, rows.slice(0, 1), mode="replace")
        assert run(f"SELECT count(*) FROM {table}") == [(1,)]
        cursor.adbc_ingest(table, rows, mode="create_append")
        assert run(f"SELECT count(*) FROM {table}") == [(4,)]
        with pytest.raises(adm.Error):
            cursor.adbc_ingest(table + "_no", rows, mode="append")


def test_a_large_ingestion_goes_through_a_file(connect, run, table):
    batch = pa.record_batch({"i": pa.array(range(100_000), pa.int64()), "s": pa.array(["x" * 90] * 100_000)})
    reader = pa.RecordBatchReader.from_batches(batch.schema, (batch for _ in range(8)))  # about 80 MB
    with connect().cursor() as cursor:
        cursor.adbc_ingest(table, reader, mode="create")
    assert run(f"SELECT count(*), sum(i) FROM {table}") == [(800_000, 8 * 4999950000)]


def test_an_ingestion_that_breaks_leaves_nothing(connect, run, table):
    def batches():
        yield pa.record_batch({"i": pa.array([1, 2])})
        raise RuntimeError("the source broke")

    reader = pa.RecordBatchReader.from_batches(pa.schema([("i", pa.int64())]), batches())
    with connect().cursor() as cursor:
        with pytest.raises(Exception):
            cursor.adbc_ingest(table, reader, mode="create")
    with pytest.raises(adm.Error):
        run(f"SELECT * FROM {table}")


def test_temporary_tables_are_the_sessions(connect):
    first, second = connect(), connect()
    with first.cursor() as cursor:
        cursor.adbc_ingest("mine", pa.table({"a": [1, 2, 3]}), mode="create", temporary=True)
        cursor.execute("SELECT sum(a) FROM mine")
        assert cursor.fetchone()[0] == 6
    with second.cursor() as cursor, pytest.raises(adm.Error):
        cursor.execute("SELECT * FROM mine")


def test_columns_of_tables(connect, run, table):
    run(f"CREATE TABLE {table} (a INT NOT NULL, b VARCHAR, c DECIMAL(12, 3), PRIMARY KEY (a))")
    schema = connect().adbc_get_table_schema(table)
    assert [(field.name, str(field.type), field.nullable) for field in schema] == [
        ("a", "int32", False), ("b", "string", True), ("c", "decimal128(12, 3)", True)]
    assert schema.field("c").metadata[b"ARROW:FLIGHT:SQL:TYPE_NAME"] == b"DECIMAL(12, 3)"


def test_either_dialect_over_the_same_tables(connect, table):
    connection = connect()
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {table} AS SELECT 7 AS a, 2 AS b")
        connection.adbc_connection.set_options(**{"adbc.flight.sql.session.option.dialect": "spark"})
        cursor.execute(f"SELECT a DIV b, `a` FROM {table}")
        assert cursor.fetchall() == [(3, 7)]
        cursor.execute("SELECT upper(concat_ws('-', 'a', 'b')) AS x LATERAL VIEW explode(array(1, 2)) t AS y")
        assert cursor.fetchall() == [("A-B",), ("A-B",)]
        connection.adbc_connection.set_options(**{"adbc.flight.sql.session.option.dialect": "datafusion"})
        cursor.execute(f'SELECT "a"::VARCHAR || \'!\' FROM {table}')
        assert cursor.fetchall() == [("7!",)]


TEN = "(" + " UNION ALL ".join(f"SELECT {i} AS v" for i in range(10)) + ")"
# Many rows; and none, whose condition is tried on 10^11 pairs.
LONG = {
    "rows": "SELECT SUM((t0.v * 7 + t1.v * 5 + t8.v) % 11) FROM " + " CROSS JOIN ".join(f"{TEN} AS t{i}" for i in range(9)),
    "nothing": "SELECT COUNT(*) FROM generate_series(1, 1000000) a JOIN generate_series(1, 100000) b ON a.value * b.value % 7 < -1",
}


@pytest.mark.parametrize("slow", LONG.values(), ids=LONG)
def test_a_long_query_leaves_the_server_alive_and_a_cancel_frees_it(connect, slow):
    cursor = connect().cursor()
    said = []

    def go():
        try:
            cursor.execute(slow)
            said.append(cursor.fetchall())
        except adm.Error as error:
            said.append(error.status_code)

    thread = threading.Thread(target=go)
    thread.start()
    time.sleep(0.5)
    start = time.monotonic()
    with connect().cursor() as other:
        other.execute("SELECT 1")
        assert other.fetchone()[0] == 1
    assert time.monotonic() - start < 2
    start = time.monotonic()
    cursor.adbc_cancel()
    thread.join(20)
    assert not thread.is_alive() and said == [adm.AdbcStatusCode.CANCELLED]
    assert time.monotonic() - start < 2
    cursor.close()


def test_other_readers_of_adbc(address, connect, run):
    polars = pytest.importorskip("polars")
    connection = connect()
    frame = polars.read_database("SELECT 1 AS a, 'x' AS b", connection)
    assert frame.rows() == [(1, "x")]


def test_temporary_tables_are_the_sessions(connect, run, table):
    mine, other = connect(), connect()

    def on(connection, text):
        with connection.cursor() as cursor:
            cursor.execute(text)
            return cursor.fetchall()

    on(mine, f"CREATE TEMPORARY TABLE {table} AS SELECT 1 AS a, 'x' AS b UNION ALL SELECT 2, NULL")
    assert on(mine, f"SELECT a, b FROM {table} ORDER BY a") == [(1, "x"), (2, None)]
    with pytest.raises(adm.Error):
        on(other, f"SELECT * FROM {table}")
    with pytest.raises(adm.Error):
        on(mine, f"CREATE TEMP TABLE {table} (a INT)")
    on(mine, f"CREATE TEMP TABLE IF NOT EXISTS {table} (a INT)")
    assert on(mine, f"SELECT count(*) FROM {table}") == [(2,)]
    on(mine, f"CREATE OR REPLACE TEMPORARY TABLE {table} AS SELECT a + 10 AS a FROM {table}")  # out of itself
    assert on(mine, f"SELECT a FROM {table} ORDER BY a") == [(11,), (12,)]
    on(mine, f"DROP TABLE {table}")
    with pytest.raises(adm.Error):
        on(mine, f"SELECT * FROM {table}")


def test_temporary_tables_are_written_to(connect, run, table):
    run(f"CREATE TABLE {table} AS SELECT 100 AS a, 'lasting' AS b")
    run(f"CREATE TEMPORARY TABLE {table} (a BIGINT, b VARCHAR)")  # hides it
    with connect().cursor() as other:  # whose session has no such table
        other.execute(f"SELECT b FROM {table}")
        assert other.fetchall() == [("lasting",)]
    run(f"INSERT INTO {table} VALUES (1, 'x'), (2, 'y')")
    run(f"INSERT INTO {table} (b) SELECT 'z'")
    run(f"INSERT INTO {table} VALUES (?, ?)", parameters=(4, "w"))
    assert run(f"SELECT a, b FROM {table} ORDER BY b") == [(4, "w"), (1, "x"), (2, "y"), (None, "z")]
    run(f"UPDATE {table} SET a = a * 10 WHERE b = 'x'", f"DELETE FROM {table} WHERE a = 2")
    assert run(f"SELECT a, b FROM {table} ORDER BY b") == [(4, "w"), (10, "x"), (None, "z")]
    run(f"INSERT INTO {table} SELECT * FROM {table}")
    assert run(f"SELECT count(*), sum(a) FROM {table}") == [(6, 28)]
    with pytest.raises(adm.Error, match="got 1 values"):
        run(f"INSERT INTO {table} VALUES (1)")
    with pytest.raises(adm.Error, match="temporary"):
        run(f"ALTER TABLE {table} RENAME TO {table}_2")
    run(f"TRUNCATE TABLE {table}")
    assert run(f"SELECT count(*) FROM {table}") == [(0,)]
    run(f"DROP TABLE {table}")
    assert run(f"SELECT a, b FROM {table}") == [(100, "lasting")]  # untouched


def test_rows_are_ingested_into_temporary_tables(connect, table):
    with connect().cursor() as cursor:
        cursor.adbc_ingest(table, pa.table({"a": [1, 2]}), mode="create", temporary=True)
        cursor.adbc_ingest(table, pa.table({"a": [3]}), mode="append", temporary=True)
        cursor.execute(f"INSERT INTO {table} SELECT a - a FROM {table}")
        assert cursor.rowcount == 3
        cursor.execute(f"SELECT sum(a) FROM {table}")
        assert cursor.fetchall() == [(6,)]
        with pytest.raises(adm.Error, match="columns"):
            cursor.adbc_ingest(table, pa.table({"b": ["x"]}), mode="append", temporary=True)
        cursor.adbc_ingest(table, pa.table({"b": ["x"]}), mode="replace", temporary=True)
        cursor.execute(f"SELECT b FROM {table}")
        assert cursor.fetchall() == [("x",)]


def test_temporary_views(connect, run, table):
    run(f"CREATE TABLE {table} AS SELECT 1 AS a UNION ALL SELECT 2", f"CREATE SCHEMA {table}_s")
    run(f"CREATE TEMPORARY VIEW {table}_v AS SELECT a, a * 2 AS b FROM {table}")
    run(f"CREATE TEMP VIEW {table}_w (s) AS SELECT sum(b) FROM {table}_v")
    assert run(f"SELECT * FROM {table}_v ORDER BY a") == [(1, 2), (2, 4)]
    run(f"USE {table}_s")  # names in it mean what they meant
    assert run(f"SELECT s FROM {table}_w") == [(6,)]
    run("USE default", f"INSERT INTO {table} VALUES (3)")
    assert run(f"SELECT s FROM {table}_w") == [(12,)]
    with pytest.raises(adm.Error, match="exists already"):
        run(f"CREATE TEMPORARY VIEW {table}_v AS SELECT 1 AS x")
    run(f"CREATE OR REPLACE TEMPORARY VIEW {table}_v AS SELECT 5 AS b", f"CREATE TEMPORARY VIEW IF NOT EXISTS {table}_v AS SELECT 6 AS b")
    assert run(f"SELECT s FROM {table}_w") == [(5,)]
    with connect().cursor() as other, pytest.raises(adm.Error):
        other.execute(f"SELECT * FROM {table}_v")
    for text in [f"DROP TABLE {table}_v", f"INSERT INTO {table}_v VALUES (1)", f"CREATE VIEW {table}_lasting AS SELECT * FROM {table}_v"]:
        with pytest.raises(adm.Error):
            run(text)
    run(f"DROP VIEW {table}_w", f"DROP VIEW {table}_v", f"DROP SCHEMA {table}_s")
    with pytest.raises(adm.Error):
        run(f"SELECT * FROM {table}_v")


def test_a_large_temporary_table_goes_through_a_file(connect, table):
    with connect().cursor() as cursor:
        cursor.execute(f"CREATE TEMPORARY TABLE {table} AS SELECT value, repeat('x', 100) AS s FROM generate_series(1, 500000)")
        cursor.execute(f"SELECT count(*), sum(value), min(length(s)) FROM {table}")
        assert cursor.fetchall() == [(500_000, 125_000_250_000, 100)]


def test_keys_of_tables_are_told(address, run, table):
    flight = pytest.importorskip("pyarrow.flight")
    run(f"CREATE TABLE {table} (a INT PRIMARY KEY, b VARCHAR NOT NULL, CONSTRAINT parent FOREIGN KEY (b) REFERENCES other (x) ON DELETE CASCADE)")
    with flight.connect(f"grpc://{address}") as client:

        def keys(command):
            any_ = proto(1, "type.googleapis.com/arrow.flight.protocol.sql." + command) + proto(2, proto(3, table))
            info = client.get_flight_info(flight.FlightDescriptor.for_command(any_))
            return client.do_get(info.endpoints[0].ticket).read_all().to_pylist()

        assert [key["column_name"] for key in keys("CommandGetPrimaryKeys")] == ["a"]
        assert [(key["fk_column_name"], key["pk_table_name"], key["pk_column_name"], key["fk_key_name"])
                for key in keys("CommandGetImportedKeys")] == [("b", "other", "x", "parent")]


def test_transactions_by_statements(run, connect, table):
    other = connect()

    def count():
        with other.cursor() as cursor:
            cursor.execute(f"SELECT count(*) FROM {table}")
            return cursor.fetchone()[0]

    run(f"CREATE TABLE {table} AS SELECT 1 AS a")
    for text in ["COMMIT", "ROLLBACK"]:
        with pytest.raises(adm.Error, match="in no transaction"):
            run(text)
    for begin, end, rows in [("BEGIN", "COMMIT", 3), ("START TRANSACTION", "ROLLBACK", 3), ("BEGIN", "COMMIT", 5)]:
        before = count()
        run(begin, f"INSERT INTO {table} VALUES (2)", f"INSERT INTO {table} VALUES (3)")
        assert run(f"SELECT count(*) FROM {table}") == [(before + 2,)]
        assert count() == before
        with pytest.raises(adm.Error, match="in a transaction already"):
            run("BEGIN")
        run(end)
        assert count() == rows
        assert run(f"SELECT count(*) FROM {table}") == [(rows,)]


def test_views_of_either_dialect_are_readable_in_the_engines(connect, run, table):
    spark = connect()
    with spark.cursor() as cursor:
        spark.adbc_connection.set_options(**{"adbc.flight.sql.session.option.dialect": "spark"})
        cursor.execute(f"CREATE TABLE {table} AS SELECT 1 AS a UNION ALL SELECT 2")
        cursor.execute(f"CREATE VIEW {table}_v AS SELECT a, a + 1 AS b, concat_ws('-', 'x', a) AS `c d` FROM {table}")
    run(f"CREATE VIEW {table}_w AS SELECT b, \"c d\" FROM {table}_v WHERE a > 1")
    assert run(f"SELECT * FROM {table}_v ORDER BY a") == [(1, 2, "x-1"), (2, 3, "x-2")]
    assert run(f"SELECT * FROM {table}_w") == [(3, "x-2")]
    run(f"DROP VIEW {table}_w", f"DROP VIEW {table}_v")


def test_parameters_with_names_are_bound_by_the_columns_names(connect, table):
    connection = connect()
    rows = pa.record_batch({"b": ["x", "y"], "$a": [1, 2]})
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {table} (a BIGINT, b VARCHAR)")
        assert [(f.name, str(f.type)) for f in cursor.adbc_prepare(f"INSERT INTO {table} VALUES ($a, $b)")] == [("a", "int64"), ("b", "string")]
        cursor.executemany(f"INSERT INTO {table} VALUES ($a, $b)", rows)
        cursor.execute(f"SELECT a, b FROM {table} WHERE b = :who OR a = :who_else AND b <> :who ORDER BY a",
                       parameters=pa.record_batch({"who_else": [2], "who": ["x"]}))
        assert cursor.fetchall() == [(1, "x"), (2, "y")]
        cursor.execute("SELECT CAST($a AS BIGINT) - CAST($b AS BIGINT) AS d", parameters=(50, 8))  # by place: the driver calls them 0 and 1
        assert cursor.fetchall() == [(42,)]
        with pytest.raises(adm.Error, match="'b'"):
            cursor.execute("SELECT CAST($a AS BIGINT) - CAST($b AS BIGINT) AS d", parameters=pa.record_batch({"a": [1], "c": [2]}))
        with pytest.raises(adm.Error, match="not both"):
            cursor.execute("SELECT $a, ?", parameters=(1, 2))
        cursor.execute("SELECT [1, 2, 3][2:3] AS s, '$a :b' AS t, 1::BIGINT AS n")  # no parameters
        assert cursor.fetchall() == [([2, 3], "$a :b", 1)]
        cursor.execute("SELECT $$hello world ? it's -- $1$$ AS s, $t1$ $a $$ $t1$ AS t, 1 AS a$b")  # texts in dollars: none either
        assert cursor.fetchall() == [("hello world ? it's -- $1", " $a $$ ", 1)]
        cursor.execute("SELECT $$a $b$$ || CAST($b AS VARCHAR) AS s", parameters=pa.record_batch({"b": ["c"]}))
        assert cursor.fetchall() == [("a $bc",)]
        for text in ("SELECT $$a", "SELECT $a$ $a $"):
            with pytest.raises(adm.Error, match="inside of quotes"):
                cursor.execute(text)
        connection.adbc_connection.set_options(**{"adbc.flight.sql.session.option.dialect": "spark"})
        cursor.execute(f"SELECT a FROM {table} WHERE b = :who", parameters=pa.record_batch({"who": ["y"]}))
        assert cursor.fetchall() == [(2,)]


def test_statements_of_sparks_dialect(address, connect, table):
    connection = connect()
    connection.adbc_connection.set_options(**{"adbc.flight.sql.session.option.dialect": "spark"})

    def ask(text, parameters=None):
        with connection.cursor() as cursor:
            cursor.execute(text, parameters=parameters)
            return cursor.fetchall() or cursor.rowcount

    ask(f"CREATE TABLE {table} (a INT, p STRING, b STRING COMMENT 'what', PRIMARY KEY (a)) USING parquet PARTITIONED BY (p) TBLPROPERTIES ('k' = 'v')")
    assert connection.adbc_get_table_schema(table).names == ["a", "b", "p"]  # partition columns last
    assert ask(f"INSERT INTO {table} VALUES (1, 'x', 'one'), (2, 'y', 'one')") == 2
    assert ask(f"INSERT INTO {table} (p, a) SELECT 'two', 3") == 1
    assert ask(f"INSERT INTO {table} VALUES (?, ?, ?)", (4, "z", "two")) == 1
    assert ask(f"UPDATE {table} SET b = concat(b, '!'), p = 'three' WHERE a % 2 = 0 AND b IS NOT NULL") == 4
    assert ask(f"SELECT a, b, p FROM {table} ORDER BY a") == [(1, "x", "one"), (2, "y!", "three"), (3, None, "two"), (4, "z!", "three")]
    assert ask(f"DELETE FROM {table} AS t WHERE t.b > 'y'") == 2
    ask(f"CREATE OR REPLACE VIEW {table}_v (n COMMENT 'count', s) AS SELECT count(*), sum(a) FROM {table}")
    assert ask(f"SELECT n, s FROM {table}_v") == [(2, 4)]
    ask(f"DROP VIEW {table}_v")
    ask(f"CREATE SCHEMA {table}_s COMMENT 'mine'")
    ask(f"USE {table}_s")
    ask("CREATE TABLE t AS SELECT 1 AS a")
    ask("ALTER TABLE t RENAME TO u")
    assert ask(f"SELECT a FROM {table}_s.u") == [(1,)]
    ask("TRUNCATE TABLE u")
    assert ask("SELECT count(*) FROM u") == [(0,)]
    ask("USE default")
    ask(f"DROP SCHEMA {table}_s CASCADE")
    ask("SET spark.sql.ansi.enabled = false")
    assert ask("SELECT CAST('x' AS INT)") == [(None,)]
    for refused, why in (("CACHE TABLE t", "session of Spark Connect"), ("BEGIN SELECT 1; END", "script"), ("SELEC 1", "PARSE_SYNTAX_ERROR"),
                         (f"UPDATE {table} SET nothing = 1", "has not"), (f"ALTER TABLE {table} ADD COLUMN c INT", "ALTER TABLE")):
        with pytest.raises(adm.Error, match=why):
            ask(refused)
    flight = pytest.importorskip("pyarrow.flight")
    with flight.connect(f"grpc://{address}") as client:
        of = proto(1, "type.googleapis.com/arrow.flight.protocol.sql.CommandGetPrimaryKeys") + proto(2, proto(3, table))
        keys = client.do_get(client.get_flight_info(flight.FlightDescriptor.for_command(of)).endpoints[0].ticket).read_all()
        assert keys.column("column_name").to_pylist() == ["a"]


def test_spark_statements_do_not_change_what_a_temporary_table_hides(connect, run, table):
    run(f"CREATE TABLE {table} AS SELECT 1 AS a")
    connection = connect()
    with connection.cursor() as cursor:
        cursor.adbc_ingest(table, pa.table({"a": [7, 8]}), mode="create", temporary=True)
        connection.adbc_connection.set_options(**{"adbc.flight.sql.session.option.dialect": "spark"})
        for text in ("DROP TABLE {0}", "INSERT INTO {0} VALUES (2)", "DELETE FROM {0}", "UPDATE {1} SET a = 3", "TRUNCATE TABLE {0}",
                     "ALTER TABLE {0} RENAME TO {0}_b"):
            with pytest.raises(adm.Error, match="is temporary"):
                cursor.execute(text.format(table, f"`{table.upper()}`"))
        with pytest.raises(adm.Error, match="is temporary"):
            cursor.executemany(f"INSERT INTO {table} VALUES (?)", [(2,), (3,)])
        assert run(f"SELECT a FROM {table}") == [(1,)]
        cursor.execute(f"DROP TABLE default.{table}")
        connection.adbc_connection.set_options(**{"adbc.flight.sql.session.option.dialect": "datafusion"})
        cursor.execute(f"SELECT a FROM {table} ORDER BY a")
        assert cursor.fetchall() == [(7,), (8,)]


EXECUTORS = {"adbc.flight.sql.session.option.locations": "executors"}


def test_results_leave_by_executors_only_where_the_operator_says_so(connect):
    with pytest.raises(adm.Error, match="locations"):
        connect().adbc_connection.set_options(**EXECUTORS)


def test_who_asks_for_executors_where_there_are_none_gets_the_rows_as_always():
    process, address = start_server("--set", "frontends.flightsql.hand_through=true")
    with dbapi.connect(f"grpc://{address}", autocommit=True) as connection, connection.cursor() as cursor:
        connection.adbc_connection.set_options(**EXECUTORS)
        cursor.execute("SELECT count(*), sum(value) FROM generate_series(1, 1000) AS t(value)")
        assert cursor.fetchall() == [(1000, 500500)]
        with pytest.raises(adm.Error, match="no_such"):
            cursor.execute("SELECT * FROM no_such")
    process.terminate()
    assert process.wait(30) == 0


def test_databases_are_schemas(run, table):
    run(f"CREATE DATABASE IF NOT EXISTS {table}_d", f"CREATE TABLE {table}_d.t (a INT)", f"DROP TABLE {table}_d.t", f"DROP DATABASE {table}_d")


def proto(number, value):
    if isinstance(value, int):
        return bytes([number << 3, value])
    value = value.encode() if isinstance(value, str) else value
    return bytes([number << 3 | 2, len(value)]) + value


def substrait_values(name, *numbers):
    """Rows of one int64 column, as a Substrait plan."""
    schema = proto(1, name) + proto(2, proto(1, proto(7, proto(2, 2))) + proto(3, 2))
    rows = b"".join(proto(1, proto(1, proto(7, number))) for number in numbers)
    read = proto(1, proto(1, b"")) + proto(2, schema) + proto(5, rows)
    return proto(3, proto(2, proto(1, proto(1, read)) + proto(2, name))) + proto(6, proto(2, 54))


def test_substrait_plans_run_and_are_prepared(connect):
    plan = substrait_values("n", 40, 2)
    with connect().cursor() as cursor:
        cursor.execute(plan)
        assert cursor.fetchall() == [(40,), (2,)]
    with connect().cursor() as cursor:
        cursor.adbc_prepare(plan)
        for _ in range(2):
            cursor.execute(plan)
            assert cursor.fetchall() == [(40,), (2,)]
    with connect().cursor() as cursor:
        with pytest.raises(adm.Error):
            cursor.adbc_prepare(plan[:-5] + b"\xff" * 5)


def test_small_batches_are_joined_and_the_first_comes_at_once(connect):
    ten = "(VALUES " + ", ".join(f"({i})" for i in range(10)) + ")"
    sources = " CROSS JOIN ".join(f"{ten} AS t{i}(v)" for i in range(5))
    with connect().cursor() as cursor:
        cursor.execute("SELECT t0.v + t1.v * 10 + t2.v * 100 + t3.v * 1000 + t4.v * 10000 AS id FROM " + sources)
        sizes, total = [], 0
        for batch in cursor.fetch_record_batch():
            sizes.append(batch.num_rows)
            total += sum(batch.column(0).to_pylist())
    assert sum(sizes) == 100_000 and total == 4_999_950_000
    assert len(sizes) <= 200, len(sizes)  # a cross join's own have ten rows at most
