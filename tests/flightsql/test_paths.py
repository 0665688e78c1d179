"""The files of a warehouse's tables are no way around the rules about its tables."""
import json, pathlib
import pytest
from conftest import start_server

adm = pytest.importorskip("adbc_driver_manager")
dbapi = pytest.importorskip("adbc_driver_flightsql.dbapi")

RULES = {
    "denied unless allowed": lambda folder: {"rules": [{"users": "*", "allow": "all", "tables": "*", "views": "*", "databases": "*"}]},
    "allowed unless denied": lambda folder: {"default": "allow", "rules": [{"users": "*", "deny": "all", "paths": f"{folder}/warehouse"}]},
}


@pytest.fixture(params=RULES)
def guarded(request, tmp_path):
    (tmp_path / "warehouse").mkdir()
    (tmp_path / "trunnion.yaml").write_text(json.dumps({"listen": "127.0.0.1:0", "warehouse": f"{tmp_path}/warehouse",
                                                        "layers": [{"authorize": RULES[request.param](tmp_path)}]}))
    process, address = start_server("--config", f"{tmp_path}/trunnion.yaml")
    with dbapi.connect(f"grpc://{address}", autocommit=True) as connection:
        yield connection, tmp_path / "warehouse"
    process.terminate()
    assert process.wait(30) == 0


def ask(connection, text):
    with connection.cursor() as cursor:
        cursor.execute(text)
        return cursor.fetchall()


def test_tables_are_readable_and_their_files_are_not(guarded):
    connection, folder = guarded
    ask(connection, "CREATE TABLE t AS SELECT 1 AS a")
    ask(connection, "INSERT INTO t VALUES (2)")
    assert ask(connection, "SELECT a FROM t ORDER BY a") == [(1,), (2,)]
    files = sorted(path for path in folder.glob("t/_w-*/**/*") if path.is_file())
    assert files
    for path in [files[0], files[0].parent, folder / "t", folder, folder / "t" / ".." / "t"]:
        with pytest.raises(adm.Error, match="may not"):
            ask(connection, f"CREATE EXTERNAL TABLE around STORED AS PARQUET LOCATION '{path}'")
    with pytest.raises(adm.Error, match="may not"):
        ask(connection, f"COPY (SELECT 1 AS a) TO '{folder}/t/mine.parquet' STORED AS PARQUET")
    connection.adbc_connection.set_options(**{"adbc.flight.sql.session.option.dialect": "spark"})
    with pytest.raises(adm.Error, match="may not"):
        ask(connection, f"SELECT * FROM parquet.`{files[0]}`")
    assert ask(connection, "SELECT a FROM t ORDER BY a") == [(1,), (2,)]


@pytest.mark.parametrize("where", ["made at the start", "in memory", "another catalog"])
def test_files_are_closed_also_when_the_directory_is_not_there_yet(tmp_path, monkeypatch, where):
    settings = {"listen": "127.0.0.1:0", "layers": [{"authorize": {"default": "allow", "rules": []}}]}
    (tmp_path / "outside").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    if where == "made at the start":
        settings["warehouse"] = f"{tmp_path}/trunnion-new/"
    if where == "another catalog":
        settings["catalogs"] = {"other": {"warehouse": {"directory": f"{tmp_path}/trunnion-new"}}}
    (tmp_path / "trunnion.yaml").write_text(json.dumps(settings))
    process, address = start_server("--config", f"{tmp_path}/trunnion.yaml")
    with dbapi.connect(f"grpc://{address}", autocommit=True) as connection:
        table = "other.default.t" if where == "another catalog" else "t"
        ask(connection, f"CREATE TABLE {table} AS SELECT 1 AS a")
        ask(connection, f"COPY (SELECT 1 AS a) TO '{tmp_path}/outside/a.parquet' STORED AS PARQUET")
        ask(connection, f"CREATE EXTERNAL TABLE open STORED AS PARQUET LOCATION '{tmp_path}/outside/a.parquet'")
        file, = [path for path in tmp_path.glob("trunnion-*/t/_w-*/**/*") if path.is_file()]
        with pytest.raises(adm.Error, match="may not"):
            ask(connection, f"CREATE EXTERNAL TABLE around STORED AS PARQUET LOCATION '{file}'")
    process.terminate()
    assert process.wait(30) == 0


def test_ingestions_that_go_through_a_file_need_no_right_to_its_path(guarded):
    connection, _ = guarded
    pa = pytest.importorskip("pyarrow")
    batch = pa.record_batch({"i": pa.array(range(100_000), pa.int64()), "s": ["x" * 100] * 100_000})
    for temporary in (False, True):
        with connection.cursor() as cursor:
            rows = pa.RecordBatchReader.from_batches(batch.schema, iter([batch] * 4))  # more than is kept in memory
            assert cursor.adbc_ingest("large", rows, mode="create", temporary=temporary) == 400_000
        assert ask(connection, "SELECT count(*), sum(length(s)) FROM large") == [(400_000, 40_000_000)]
