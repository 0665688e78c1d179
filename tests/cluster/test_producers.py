"""Plans made by others - PyPI's datafusion, ibis-substrait, isthmus - run through the Ballista frontend and give DuckDB's answers.
Part of the rotating tier (`tests/rotating.py --only producers`), which sets TRUNNION_PRODUCERS. Producers live in environments of their
own below the cache, made once; what cannot be installed is skipped aloud."""
import datetime, decimal, json, os, pathlib, shutil, subprocess, sys
import pytest

pytest.importorskip("grpc")
from conftest import CACHE, ROOT, TABLES, Server, tpch
from raw_client import Client as Raw

if not os.environ.get("TRUNNION_PRODUCERS"):
    pytest.skip("plans of other producers are part of the rotating tier", allow_module_level=True)
HERE = pathlib.Path(__file__).parent
QUERIES = {f"q{number:02d}": (ROOT / f"tests/data/tpch/q{number:02d}.sql").read_text() for number in range(1, 23)}
# What a producer itself cannot make.
DATAFUSION_CANNOT = {"q02", "q04", "q17", "q20", "q21", "q22"}  # correlated subqueries in Substrait
ISTHMUS_CANNOT = {"q11", "q15"}                                 # Calcite's parser: `value` is reserved; columns of a CTE
IBIS = ["aggregate", "arithmetic", "case", "filter", "join", "like", "limit", "nulls", "three_joins", "union"]


def environment(name, *packages):
    python = CACHE / f"{name}-venv/bin/python"
    if python.exists():
        return python
    subprocess.check_call([sys.executable, "-m", "venv", str(python.parent.parent)])
    done = subprocess.run([str(python), "-m", "pip", "install", "-q", "--no-input", *packages], capture_output=True, text=True)
    if done.returncode:
        shutil.rmtree(python.parent.parent)
        pytest.skip(f"{' '.join(packages)} cannot be installed: {done.stderr[-300:]}")
    return python


@pytest.fixture(scope="module")
def folder():
    return tpch("0.01")


@pytest.fixture(scope="module")
def oracle(folder):
    connection = pytest.importorskip("duckdb").connect()
    for name in TABLES:
        connection.execute(f"create view {name} as from '{folder}/{name}.parquet'")
    return connection


@pytest.fixture(scope="module")
def server(folder):
    dbapi = pytest.importorskip("adbc_driver_flightsql.dbapi")
    with Server() as running:
        with dbapi.connect(running.grpc_url, autocommit=True) as connection, connection.cursor() as cursor:
            for name in TABLES:
                cursor.execute(f"CREATE EXTERNAL TABLE {name} STORED AS PARQUET LOCATION '{folder}/{name}.parquet'")
        client = Raw(running.address)
        yield client
        client.close()


@pytest.fixture(scope="module")
def by_datafusion(folder, tmp_path_factory):
    python, out = environment("producers", "datafusion==55.*"), tmp_path_factory.mktemp("datafusion")
    request = {"tables": {name: f"{folder}/{name}.parquet" for name in TABLES}, "queries": QUERIES,
               "formats": ["logical", "physical", "substrait"]}
    done = subprocess.run([str(python), str(HERE / "producer.py"), str(out)], input=json.dumps(request), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)["failed"]) == DATAFUSION_CANNOT
    return out


@pytest.fixture(scope="module")
def by_ibis(folder, tmp_path_factory):
    # Newer releases of substrait have renamed what ibis-substrait 4.0.1 looks for.
    python = environment("ibis", "ibis-substrait==4.0.1", "ibis-framework[duckdb]==9.5.*", "substrait==0.19.0")
    out = tmp_path_factory.mktemp("ibis")
    done = subprocess.run([str(python), str(HERE / "producer_ibis.py"), str(folder), str(out)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert set(said["failed"]) == {"distinct"}
    return out, said["made"]


CREATE = {"int64": "BIGINT", "int32": "INT", "string": "VARCHAR", "large_string": "VARCHAR", "string_view": "VARCHAR", "date32[day]": "DATE",
          "decimal128(15, 2)": "DECIMAL(15,2)"}


@pytest.fixture(scope="module")
def by_isthmus(folder, tmp_path_factory):
    if not shutil.which("mvn") or not shutil.which("javac"):
        pytest.skip("no Maven or JDK on this machine")
    jars, scratch = CACHE / "isthmus-0.52.0", tmp_path_factory.mktemp("isthmus")
    if not (jars / ".complete").exists():
        done = subprocess.run(["mvn", "-q", "-B", "-f", str(HERE / "isthmus.pom.xml"), "dependency:copy-dependencies",
                               f"-DoutputDirectory={jars}"], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"isthmus cannot be fetched: {done.stdout[-300:]}")
        (jars / ".complete").touch()
    import pyarrow.parquet as pq
    lines = [f"CREATE TABLE {name} (" + ", ".join(f"{f.name} {CREATE[str(f.type)]}" for f in pq.read_schema(folder / f"{name}.parquet")) + ")"
             for name in TABLES]
    (scratch / "tables.sql").write_text("\n".join(lines))
    (scratch / "queries").mkdir(), (scratch / "plans").mkdir()
    for name, text in QUERIES.items():
        (scratch / f"queries/{name}.sql").write_text(text)
    subprocess.check_call(["javac", "-cp", f"{jars}/*", "-d", str(scratch / "classes"), str(HERE / "Isthmus.java")])
    subprocess.check_call(["java", "-cp", f"{jars}/*:{scratch}/classes", "Isthmus", str(scratch / "tables.sql"), str(scratch / "queries"),
                           str(scratch / "plans")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert set(QUERIES) - {path.name for path in (scratch / "plans").iterdir()} == ISTHMUS_CANNOT
    return scratch / "plans"


def close(ours, theirs):
    """Numbers to the last digit that the coarser of both shows: some are rounded there, some cut."""
    if isinstance(theirs, (int, float, decimal.Decimal)) and isinstance(ours, (int, float, decimal.Decimal)):
        a, b = float(ours), float(theirs)
        digits = min(-x.as_tuple().exponent if isinstance(x, decimal.Decimal) else 12 for x in (ours, theirs))
        return abs(a - b) <= max(1e-9 * abs(b), 10.0 ** -digits * (1 + 1e-9))
    if isinstance(theirs, datetime.datetime) and not isinstance(ours, datetime.datetime):
        theirs = theirs.date()
    return (ours.rstrip() == theirs.rstrip()) if isinstance(ours, str) and isinstance(theirs, str) else ours == theirs


def same(table, expected):
    assert table.num_rows == len(expected)
    columns = [column.to_pylist() for column in table.columns]
    assert len(columns) == (len(expected[0]) if expected else len(columns))
    for place, row in enumerate(expected):
        assert all(close(column[place], value) for column, value in zip(columns, row)), (place, row, [c[place] for c in columns])


@pytest.mark.parametrize("name", sorted(QUERIES))
@pytest.mark.parametrize("kind", ["logical", "physical", "substrait"])
def test_datafusion_s(server, oracle, by_datafusion, kind, name):
    path = by_datafusion / f"{name}.{kind}"
    if kind == "substrait" and name in DATAFUSION_CANNOT:
        assert not path.exists()
        return
    same(server.run(**{f"{kind}_plan": path.read_bytes()}), oracle.execute(QUERIES[name]).fetchall())


@pytest.mark.parametrize("name", IBIS)
def test_ibis_s(server, by_ibis, name):
    out, made = by_ibis
    table = server.run(substrait_plan=(out / name).read_bytes())
    rows = [[str(value) for value in row] for row in zip(*(column.to_pylist() for column in table.columns))]
    assert len(rows) == len(made[name]) > 0
    for ours, theirs in zip(rows, made[name]):
        assert all(a == b or close(decimal.Decimal(a), decimal.Decimal(b)) for a, b in zip(ours, theirs)), (ours, theirs)


@pytest.mark.parametrize("name", sorted(set(QUERIES) - ISTHMUS_CANNOT))
def test_isthmus_s(server, oracle, by_isthmus, name):
    same(server.run(substrait_plan=(by_isthmus / name).read_bytes()), oracle.execute(QUERIES[name]).fetchall())
