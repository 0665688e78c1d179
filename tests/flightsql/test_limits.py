"""What is large or many: texts, catalogs, clients that vanish. Each limit is named."""
import threading, time
import pytest

pa = pytest.importorskip("pyarrow")
flight = pytest.importorskip("pyarrow.flight")
adm = pytest.importorskip("adbc_driver_manager")
dbapi = pytest.importorskip("adbc_driver_flightsql.dbapi")
from conftest import start_server
from test_poll import query


@pytest.fixture(scope="module")
def own():
    process, address = start_server()
    yield address
    process.terminate()
    assert process.wait(30) == 0


def test_texts_of_a_hundred_megabytes_are_refused_by_name(own):
    with flight.connect(f"grpc://{own}") as client:
        for size in (17 << 20, 100 << 20):
            with pytest.raises(pa.ArrowInvalid, match="the limit is 16777216"):
                client.get_flight_info(query("SELECT '" + "x" * size + "'"))
        with pytest.raises(pa.ArrowInvalid, match="larger than max"):  # of any message
            client.get_flight_info(query("SELECT '" + "x" * (129 << 20) + "'"))
        assert client.do_get(client.get_flight_info(query("SELECT 1 AS x")).endpoints[0].ticket).read_all().num_rows == 1


def test_a_text_of_some_megabytes_runs(own):
    with dbapi.connect(f"grpc://{own}", autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT length('" + "x" * (4 << 20) + "') AS n")
        assert cursor.fetchone() == (4 << 20,)


def test_metadata_of_a_thousand_tables(own):
    with dbapi.connect(f"grpc://{own}", autocommit=False) as connection:
        with connection.cursor() as cursor:
            for i in range(1000):
                cursor.adbc_statement.set_sql_query(f"CREATE TABLE many_{i:04} (a BIGINT, b VARCHAR)")
                cursor.adbc_statement.execute_update()
        connection.commit()
        found = connection.adbc_get_objects(depth="all", table_name_filter="many_%").read_all().to_pylist()
        tables = [t for c in found for s in c["catalog_db_schemas"] for t in s["db_schema_tables"]]
        assert [t["table_name"] for t in tables] == [f"many_{i:04}" for i in range(1000)]
        assert all([c["column_name"] for c in t["table_columns"]] == ["a", "b"] for t in tables)


def test_clients_that_vanish_leave_nothing_behind(own):
    """In the middle of a DoGet, a DoPut, a poll, a transaction; then the server is as quick as before, and its tables whole."""
    def vanish(step):
        client = flight.connect(f"grpc://{own}")
        connection = dbapi.connect(f"grpc://{own}", autocommit=False)
        if step == 0:
            reader = client.do_get(client.get_flight_info(query("SELECT value FROM generate_series(1, 100000000) AS t(value)")).endpoints[0].ticket)
            reader.read_chunk()
        elif step == 1:
            with connection.cursor() as cursor:
                def batches():
                    yield pa.record_batch({"a": [1]})
                    raise RuntimeError("gone")
                with pytest.raises(Exception):
                    cursor.adbc_ingest("vanished", pa.RecordBatchReader.from_batches(pa.schema({"a": pa.int64()}), batches()))
        elif step == 2:
            with connection.cursor() as cursor:
                cursor.adbc_statement.set_options(**{"adbc.statement.exec.incremental": "true"})
                cursor.adbc_statement.set_sql_query("SELECT value FROM generate_series(1, 100000000) AS t(value)")
                cursor.adbc_statement.execute_partitions()
        elif step == 3:
            with connection.cursor() as cursor:
                cursor.execute("CREATE TABLE vanished AS SELECT 1 AS a")
        client.close()
        connection.close()

    threads = [threading.Thread(target=vanish, args=(i % 4,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)
    with dbapi.connect(f"grpc://{own}", autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE vanished AS SELECT 5 AS a")  # nothing of that name, and nobody holds the right to write
        cursor.execute("SELECT a FROM vanished")
        assert cursor.fetchall() == [(5,)]
