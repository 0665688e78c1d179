"""Flight SQL in front of a Ballista cluster: what ADBC asks for runs on the executors, or is said not to."""
import decimal, threading, time, uuid
import pytest
from conftest import PATIENCE, ROOT, TABLES, Server

pa = pytest.importorskip("pyarrow")
adm = pytest.importorskip("adbc_driver_manager")
dbapi = pytest.importorskip("adbc_driver_flightsql.dbapi")
flight = pytest.importorskip("pyarrow.flight")

SLOW = "SELECT sum(a.l_quantity * b.l_quantity) AS s FROM lineitem a CROSS JOIN lineitem b"


@pytest.fixture(scope="module")
def refusing(cluster):
    """What the cluster does not run fails, so that what passes has run there."""
    with Server("--backend", cluster.url, "--fallback", "refuse", "--set", "frontends.flightsql.hand_through=true") as running:
        yield running


@pytest.fixture()
def connect(refusing):
    opened = []

    def open_one(**options):
        opened.append(dbapi.connect(refusing.grpc_url, autocommit=True, db_kwargs=options or None))
        return opened[-1]

    yield open_one
    for connection in opened:
        connection.close()


@pytest.fixture()
def writing(server):
    """What writes runs in the server, what reads on the cluster: it has no operator that writes."""
    with dbapi.connect(server.grpc_url, autocommit=True) as connection, connection.cursor() as one:
        yield one


@pytest.fixture()
def cursor(connect):
    with connect().cursor() as one:
        yield one


@pytest.fixture(scope="module")
def tables(refusing, tpch_folder):
    with dbapi.connect(refusing.grpc_url, autocommit=True) as connection, connection.cursor() as one:
        for name in TABLES:
            one.execute(f"CREATE EXTERNAL TABLE {name} STORED AS PARQUET LOCATION '{tpch_folder}/{name}.parquet'")
    return tpch_folder


def ask(cursor, text, parameters=None):
    cursor.execute(text, parameters=parameters)
    return cursor.fetchall()


def oracle(folder, text):
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        for name in TABLES:
            connection.execute(f"CREATE VIEW {name} AS SELECT * FROM '{folder}/{name}.parquet'")
        return connection.execute(text).fetchall()


def same(left, right):
    def plain(value):
        return float(value) if isinstance(value, (int, float, decimal.Decimal)) else value
    assert len(left) == len(right)
    for a, b in zip(left, right):
        for x, y in zip(map(plain, a), map(plain, b), strict=True):
            assert x == (pytest.approx(y, rel=1e-6, abs=1e-6) if isinstance(y, float) else y)


@pytest.mark.parametrize("number", [1, 3, 5, 6, 10, 12, 14, 19])
def test_tpch_in_sql(cursor, tables, number):
    text = (ROOT / f"tests/data/tpch/q{number:02d}.sql").read_text()
    same(ask(cursor, text), oracle(tables, text))


def test_prepared_statements_run_with_each_row(cursor, tables):
    text = "SELECT n_name FROM nation WHERE n_nationkey = ?"
    cursor.adbc_prepare(text)
    for key, name in ((7, "GERMANY"), (0, "ALGERIA")):
        assert ask(cursor, text, (key,)) == [(name,)]
    assert ask(cursor, "SELECT count(*) FROM nation WHERE n_regionkey = $region AND n_nationkey > $least",
               pa.record_batch({"least": [5], "region": [3]})) == [(5,)]


def test_metadata_is_that_of_the_warehouse(connect, tables):
    found = connect().adbc_get_objects(depth="all", table_name_filter="nat%").read_all().to_pylist()
    names = [t["table_name"] for c in found for s in c["catalog_db_schemas"] for t in s["db_schema_tables"]]
    assert names == ["nation"]
    columns = [c["column_name"] for f in found for s in f["catalog_db_schemas"] for t in s["db_schema_tables"] for c in t["table_columns"]]
    assert columns == ["n_nationkey", "n_name", "n_regionkey", "n_comment"]
    assert connect().adbc_get_table_schema("nation").names == columns


def test_ingested_rows_are_read_by_the_executors(writing):
    cursor = writing
    name = "i" + uuid.uuid4().hex[:8]
    rows = pa.table({"k": list(range(20000)), "v": [f"v{i % 10}" for i in range(20000)]})
    assert cursor.adbc_ingest(name, rows, mode="create") == 20000
    assert cursor.adbc_ingest(name, rows, mode="append") == 20000
    assert ask(cursor, f"SELECT v, count(*), sum(k) FROM {name} WHERE v IN ('v1', 'v2') GROUP BY v ORDER BY v") == [
        ("v1", 4000, 39984000), ("v2", 4000, 39988000)]
    ask(cursor, f"DROP TABLE {name}")


def test_changes_are_seen_by_the_next_query(writing):
    cursor = writing
    name = "c" + uuid.uuid4().hex[:8]
    ask(cursor, f"CREATE TABLE {name} AS SELECT value AS a FROM generate_series(1, 1000) AS t(value)")
    ask(cursor, f"INSERT INTO {name} VALUES (5000)")
    ask(cursor, f"DELETE FROM {name} WHERE a <= 500")
    ask(cursor, f"UPDATE {name} SET a = a + 1 WHERE a = 5000")
    assert ask(cursor, f"SELECT count(*), max(a) FROM {name}") == [(501, 5001)]
    ask(cursor, f"DROP TABLE {name}")


def test_several_endpoints_are_parts_of_one_result(connect, tables, refusing):
    connection = connect()
    connection.adbc_connection.set_options(**{"adbc.flight.sql.session.option.endpoints": 4})
    with connection.cursor() as cursor:
        partitions, _ = cursor.adbc_execute_partitions("SELECT l_orderkey, l_linenumber FROM lineitem ORDER BY l_orderkey, l_linenumber")
        assert len(partitions) == 4
        rows = []
        for part in partitions:  # read by another process, as it were
            with connect().cursor() as other:
                other.adbc_read_partition(part)
                rows += other.fetchall()
    assert rows == oracle(tables, "SELECT l_orderkey, l_linenumber FROM lineitem ORDER BY ALL")


def test_results_are_handed_through_when_that_is_asked_for(connect, tables, refusing):
    """Rows come from the executors, by their own addresses: ours is not asked for any."""
    text = "SELECT n_name, count(*) AS n FROM nation JOIN customer ON n_nationkey = c_nationkey GROUP BY n_name"
    expected = sorted(oracle(tables, text))
    connection = connect(**{"adbc.flight.sql.rpc.with_cookie_middleware": "true"})
    connection.adbc_connection.set_options(**{"adbc.flight.sql.session.option.locations": "executors"})
    assert sorted(ask(connection.cursor(), text)) == expected
    with flight.connect(refusing.grpc_url) as client:
        option = b"".join([b"\x0a", bytes([2 + 9 + 2 + 11]), b"\x0a\x09locations", b"\x12\x0b\x0a\x09executors"])
        list(client.do_action(flight.Action("SetSessionOptions", option)))
        query = text.encode()
        command = b"\x0a\x43type.googleapis.com/arrow.flight.protocol.sql.CommandStatementQuery" + b"\x12" + varint(len(query) + len(varint(len(query))) + 1)
        info = client.get_flight_info(flight.FlightDescriptor.for_command(command + b"\x0a" + varint(len(query)) + query))
        assert info.endpoints and info.total_records == 25
        rows = []
        for endpoint in info.endpoints:
            place, = endpoint.locations
            assert place.uri.decode() not in (refusing.grpc_url, "arrow-flight-reuse-connection://?")
            assert endpoint.expiration_time is not None
            with flight.connect(place) as executor:
                part = executor.do_get(endpoint.ticket).read_all()
                assert part.schema.names == info.schema.names
                rows += [tuple(row.values()) for row in part.to_pylist()]
            with pytest.raises(pa.ArrowException):  # not here
                client.do_get(endpoint.ticket).read_all()
        assert sorted(rows) == expected


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + bytes([value]))


def test_a_cancel_ends_the_job_on_the_cluster(connect, tables):
    cursor, said = connect().cursor(), []

    def go():
        try:
            cursor.execute(SLOW)
            said.append(cursor.fetchall())
        except adm.Error as error:
            said.append(error.status_code)

    thread = threading.Thread(target=go)
    thread.start()
    time.sleep(2)
    assert thread.is_alive(), said
    cursor.adbc_cancel()
    thread.join(PATIENCE)
    assert not thread.is_alive() and said == [adm.AdbcStatusCode.CANCELLED]
    with connect().cursor() as other:  # the executors' slots are free again
        assert ask(other, "SELECT count(*) FROM nation WHERE n_nationkey < 9") == [(9,)]
    cursor.close()


def test_failures_on_the_executors_name_what_failed(cursor, tables):
    with pytest.raises(adm.Error, match="(?i)divi"):
        ask(cursor, "SELECT 1 / (n_nationkey - 5) AS x FROM nation")
    assert ask(cursor, "SELECT count(*) FROM region") == [(5,)]


def test_kept_rows_are_read_by_the_executors(cluster, connect, tmp_path):
    """They lie in a file of the server's, which it maps for itself alone: executors read a copy in the spool directory; where
    there is none, such a query does not run on the cluster, and says so."""
    batch = pa.record_batch({"i": pa.array(range(100_000), pa.int64()), "s": ["x" * 100] * 100_000})

    def kept(cursor):
        rows = pa.RecordBatchReader.from_batches(batch.schema, iter([batch] * 4))  # more than an ingestion keeps in memory
        cursor.adbc_ingest("kept_here", rows, mode="create", temporary=True)
        return ask(cursor, "SELECT count(*), sum(i), min(length(s)) FROM kept_here")

    with connect().cursor() as cursor, pytest.raises(adm.Error, match="cannot run on a Ballista cluster"):
        kept(cursor)
    with Server("--backend", cluster.url, "--fallback", "refuse", "--cluster-spool-dir", tmp_path) as spooling:
        with dbapi.connect(spooling.grpc_url, autocommit=True) as connection, connection.cursor() as cursor:
            assert kept(cursor) == [(400_000, 4 * 4_999_950_000, 100)]
    assert list(tmp_path.iterdir()) == []
