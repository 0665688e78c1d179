"""Polling and several endpoints by drivers that know them: ADBC's incremental execution, pyarrow's endpoints."""
import pytest

pa = pytest.importorskip("pyarrow")
flight = pytest.importorskip("pyarrow.flight")
dbapi = pytest.importorskip("adbc_driver_flightsql.dbapi")

MANY = "SELECT value AS a, 'row ' || value AS b FROM generate_series(1, {}) AS t(value)"


def test_incremental_execution(connect):
    connection = connect()
    with connection.cursor() as cursor:
        cursor.adbc_statement.set_options(**{"adbc.statement.exec.incremental": "true"})
        cursor.adbc_statement.set_sql_query(MANY.format(3000000))
        rows = parts = 0
        while True:
            partitions, _, _ = cursor.adbc_statement.execute_partitions()
            if not partitions:
                break
            for partition in partitions:
                parts += 1
                with connection.cursor() as reader:
                    reader.adbc_read_partition(partition)
                    rows += reader.fetch_arrow_table().num_rows
    assert rows == 3000000
    assert parts > 1


def test_a_failure_reaches_who_polls(connect):
    import adbc_driver_manager as adm
    with connect().cursor() as cursor:
        cursor.adbc_statement.set_options(**{"adbc.statement.exec.incremental": "true"})
        cursor.adbc_statement.set_sql_query("SELECT CAST('x' || value AS INT) FROM generate_series(1, 10) AS t(value)")
        with pytest.raises(adm.Error, match="(?i)cast"):
            while cursor.adbc_statement.execute_partitions()[0]:
                pass


@pytest.fixture()
def client(address):
    with flight.connect(f"grpc://{address}") as opened:
        yield opened


def option(key, value):
    """SetSessionOptionsRequest with one int64 or text."""
    def field(number, body):
        return bytes([number << 3 | 2, len(body)]) + body
    body = b"\x19" + value.to_bytes(8, "little") if isinstance(value, int) else field(1, value.encode())
    return flight.Action("SetSessionOptions", field(1, field(1, key.encode()) + field(2, body)))


def query(text):
    def field(number, body):
        return bytes([number << 3 | 2]) + varint(len(body)) + body

    def varint(value):
        out = b""
        while value > 127:
            out, value = out + bytes([value & 127 | 128]), value >> 7
        return out + bytes([value])
    name = b"type.googleapis.com/arrow.flight.protocol.sql.CommandStatementQuery"
    return flight.FlightDescriptor.for_command(field(1, name) + field(2, field(1, text.encode())))


def test_several_endpoints_with_locations(client):
    assert not [r.body.to_pybytes() for r in client.do_action(option("endpoints", 4)) if r.body.to_pybytes()]
    assert not [r.body.to_pybytes() for r in client.do_action(option("locations", "reuse")) if r.body.to_pybytes()]
    info = client.get_flight_info(query(MANY.format(1000000)))
    assert len(info.endpoints) == 4 and info.total_records == 1000000 and info.ordered
    assert all(str(e.locations[0].uri.decode()).startswith("arrow-flight-reuse-connection:") for e in info.endpoints)
    tables = [client.do_get(e.ticket).read_all() for e in info.endpoints]
    assert min(t.num_rows for t in tables) > 100000  # none has it all
    assert pa.concat_tables(tables).column("a").to_pylist() == sorted(pa.concat_tables(tables).column("a").to_pylist())
    assert sum(t.num_rows for t in tables) == 1000000
    assert client.do_get(info.endpoints[0].ticket).read_all().num_rows == tables[0].num_rows  # twice


def test_drivers_read_all_endpoints(connect, address):
    connection = connect()
    with connection.cursor() as cursor:
        connection.adbc_connection.set_options(**{"adbc.flight.sql.session.option.endpoints": "4"})
        cursor.execute(MANY.format(500000))
        table = cursor.fetch_arrow_table()
    assert table.num_rows == 500000
    assert table.column("a").to_pylist() == list(range(1, 500001))
