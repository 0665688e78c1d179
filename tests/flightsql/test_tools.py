"""Tools above the drivers: DuckDB and Ibis over ADBC, and the calls that Grafana's plugin makes.

Of dbt and Ibis no released adapter speaks to a Flight SQL server in general: dbt-qod, dbt-gizmosql and ibis-gizmosql are of one
product and send DuckDB's dialect with that product's functions; ibis-framework has no such backend (below). DuckDB's own way,
the extension adbc_scanner, is not in a package registry. What all of them would send is a text through ADBC, as here."""
import json, subprocess, uuid
import pytest
from conftest import CACHE

dbapi = pytest.importorskip("adbc_driver_flightsql.dbapi")
flight = pytest.importorskip("pyarrow.flight")
pa = pytest.importorskip("pyarrow")


def test_duckdb_reads_a_stream_of_adbc(connect):
    """Ten rows of a result without end: DuckDB must not have read it whole."""
    duckdb = pytest.importorskip("duckdb")
    with connect().cursor() as cursor:
        cursor.execute("SELECT value, value * 2 AS twice FROM generate_series(1, 100000000000) AS t(value)")
        stream = cursor.fetch_record_batch()
        assert duckdb.sql("SELECT count(*), sum(twice) FROM (SELECT * FROM stream LIMIT 10)").fetchall() == [(10, 110)]
    with connect().cursor() as cursor:
        cursor.execute("SELECT value AS k, value % 7 AS g FROM generate_series(1, 300000) AS t(value)")
        stream = cursor.fetch_record_batch()
        assert duckdb.sql("SELECT count(*), sum(k), max(g) FROM stream").fetchall() == [(300000, 45000150000, 6)]


IBIS = """
import importlib.metadata, ibis, json
from ibis import _
t = ibis.table({"k": "int64", "g": "string", "d": "date"}, name="NAME")
u = ibis.table({"g": "string", "w": "float64"}, name="NAME_w")
texts = [
    t.filter(t.k > 1).group_by("g").agg(n=_.count(), s=_.k.sum()).order_by("g"),
    t.join(u, "g").mutate(x=lambda r: r.k * r.w).select("k", "x").order_by("k"),
    t.mutate(rank=ibis.row_number().over(ibis.window(group_by="g", order_by="k"))).filter(lambda r: r.rank == 0).select("k").order_by("k"),
    t.group_by(y=_.d.year()).agg(n=_.count()).order_by("y")]
print(json.dumps({"backends": [e.name for e in importlib.metadata.entry_points(group="ibis.backends")],
                  "texts": [ibis.to_sql(text, dialect="datafusion") for text in texts]}))
"""


def test_what_ibis_compiles_for_datafusion_runs(connect, run):
    python = CACHE / "ibis-venv/bin/python"
    if not python.exists():
        pytest.skip("ibis-framework is not installed on this machine (the cluster's tests make its environment)")
    name = "ibis" + uuid.uuid4().hex[:6]
    said = subprocess.run([str(python), "-c", IBIS.replace("NAME", name)], capture_output=True, text=True, timeout=120)
    said = json.loads(said.stdout)
    assert not [backend for backend in said["backends"] if "flight" in backend or "adbc" in backend], "there is an adapter now: use it"
    run(f"CREATE TABLE {name} (k BIGINT, g VARCHAR, d DATE)", f"CREATE TABLE {name}_w (g VARCHAR, w DOUBLE)",
        f"INSERT INTO {name} VALUES (1, 'a', DATE '2023-01-01'), (2, 'a', DATE '2024-02-29'), (3, 'b', DATE '2024-03-01')",
        f"INSERT INTO {name}_w VALUES ('a', 0.5), ('b', 2)")
    assert [run(text) for text in said["texts"]] == [
        [("a", 1, 2), ("b", 1, 3)], [(1, 0.5), (2, 1.0), (3, 6.0)], [(1,), (3,)], [(2023, 1), (2024, 2)]]
    run(f"DROP TABLE {name}", f"DROP TABLE {name}_w")


# ---- Grafana's plugin: no driver, arrow-go's client with grpc's own limits ----

def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + bytes([value]))


def text(number, value):
    return varint(number << 3 | 2) + varint(len(value)) + value


def command(name, *fields):
    return flight.FlightDescriptor.for_command(
        text(1, b"type.googleapis.com/arrow.flight.protocol.sql." + name) + text(2, b"".join(fields)))


def test_the_calls_of_grafanas_plugin(address, run, table):
    """Health is SqlInfo of all codes; its query builder asks for tables of the types "BASE TABLE" and "table", and for their
    schemas; a panel's query has one endpoint, read on the same connection, in messages of less than 4 MiB."""
    run(f"CREATE TABLE {table} (time TIMESTAMP, host VARCHAR, value DOUBLE)",
        f"INSERT INTO {table} SELECT TIMESTAMP '2024-01-01 00:00:00', 'h' || CAST(v % 3 AS VARCHAR), v FROM generate_series(1, 500000) AS t(v)")
    with flight.connect(f"grpc://{address}", generic_options=[("grpc.max_receive_message_length", 4 << 20)]) as client:
        def rows(descriptor):
            info = client.get_flight_info(descriptor)
            assert len(info.endpoints) == 1  # it refuses any other count
            return client.do_get(info.endpoints[0].ticket).read_all()

        infos = dict(zip(*[column.to_pylist() for column in rows(command(b"CommandGetSqlInfo")).columns]))
        assert infos[0] == "Trunnion" and len(infos) > 80
        names = rows(command(b"CommandGetTables", text(4, b"BASE TABLE"), text(4, b"table"))).column("table_name").to_pylist()
        assert table in names
        schemas = rows(command(b"CommandGetTables", text(3, table.encode()), varint(5 << 3) + b"\x01"))
        schema = pa.ipc.read_schema(pa.py_buffer(schemas.column("table_schema")[0].as_py()))
        assert schema.names == ["time", "host", "value"]
        panel = rows(command(b"CommandStatementQuery", text(1, f"SELECT time, host, value FROM {table}".encode())))
        assert panel.num_rows == 500_000 and panel.schema.names == ["time", "host", "value"]
