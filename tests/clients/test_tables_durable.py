"""Tables outlive servers: restarts, kills at any moment, two servers over one warehouse, snapshots of running queries."""
import os, pathlib, signal, subprocess, sys, threading, time
import pytest

sys.path.insert(0, os.path.dirname(__file__))
from conftest import start_server

pytestmark = pytest.mark.skipif("TRUNNION_URL" in os.environ and "TRUNNION_PROGRAM" not in os.environ,
                                reason="needs a server of its own")


class Server:
    def __init__(self, warehouse):
        from pyspark.sql import SparkSession
        self.process, url = start_server("--warehouse", str(warehouse))
        self.spark = SparkSession.builder.remote(url).create()

    def sql(self, text):
        return self.spark.sql(text)

    def rows(self, text):
        return [tuple(row) for row in self.sql(text).collect()]

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(30)

    def stop(self):
        self.spark.stop()
        self.process.terminate()
        self.process.wait(30)


def data_files(warehouse):
    return [path for path in pathlib.Path(warehouse).rglob("*") if path.is_file() and "catalog.sqlite" not in path.name
            and "_processes" not in path.parts]


def test_a_restart_keeps_tables_views_and_databases(tmp_path):
    server = Server(tmp_path)
    server.sql("CREATE DATABASE d COMMENT 'kept'")
    server.sql("CREATE TABLE d.t (a INT COMMENT 'ca', p STRING) USING parquet PARTITIONED BY (p) TBLPROPERTIES ('k'='v')")
    server.sql("INSERT INTO d.t VALUES (1, 'x'), (2, 'y')")
    server.sql("CREATE VIEW d.v AS SELECT a + 1 AS b FROM d.t")
    server.stop()
    server = Server(tmp_path)
    assert server.rows("SELECT * FROM d.t ORDER BY a") == [(1, "x"), (2, "y")]
    assert server.rows("SELECT * FROM d.v ORDER BY b") == [(2,), (3,)]
    assert server.rows("SHOW PARTITIONS d.t") == [("p=x",), ("p=y",)]
    assert server.rows("SHOW TBLPROPERTIES d.t") == [("k", "v")]
    assert server.rows("DESCRIBE d.t")[0] == ("a", "int", "ca")
    assert ("Comment", "kept") in server.rows("DESCRIBE DATABASE d")
    server.stop()


BIG = "SELECT id AS a, repeat(cast(id AS string), 20) AS b FROM range(3000000)"


@pytest.mark.parametrize("delay", [0.05, 0.3, 0.8, 1.5])
@pytest.mark.parametrize("statement", ["CREATE TABLE big USING parquet AS " + BIG, "INSERT INTO t " + BIG, "INSERT OVERWRITE t " + BIG])
def test_a_kill_in_the_middle_leaves_all_or_nothing(tmp_path, statement, delay):
    server = Server(tmp_path)
    server.sql("CREATE TABLE t (a BIGINT, b STRING) USING parquet")
    server.sql("INSERT INTO t VALUES (-1, 'kept')")

    def run():
        try:
            server.sql(statement)
        except Exception:
            pass
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    time.sleep(delay)
    server.kill()
    server = Server(tmp_path)
    tables = [name for _, name, _ in server.rows("SHOW TABLES")]
    if "big" in tables:
        assert server.rows("SELECT count(*) FROM big") == [(3000000,)]
    counts = {"CREATE": [1], "INSERT I": [1, 3000001], "INSERT O": [1, 3000000]}
    expected = next(value for key, value in counts.items() if statement.startswith(key))
    assert server.rows("SELECT count(*) FROM t")[0][0] in expected
    listed = server.rows("SELECT count(DISTINCT a) FROM t")[0][0]
    assert listed in expected
    server.sql("INSERT INTO t VALUES (-2, 'goes on')")
    if expected[0] == server.rows("SELECT count(*) FROM t")[0][0] - 1 and "big" not in tables:
        assert len(data_files(tmp_path)) == 2, "what was not committed is swept"
    server.stop()


def test_two_servers_write_one_table(tmp_path):
    first, second = Server(tmp_path), Server(tmp_path)
    first.sql("CREATE TABLE t (a INT) USING parquet")
    failures = []

    def write(server, base):
        for i in range(10):
            try:
                server.sql(f"INSERT INTO t VALUES ({base + i})")
            except Exception as error:
                failures.append(error)
    threads = [threading.Thread(target=write, args=(server, base)) for server, base in ((first, 0), (second, 100))]
    [thread.start() for thread in threads]
    [thread.join(120) for thread in threads]
    assert failures == []
    expected = [(i,) for i in range(10)] + [(100 + i,) for i in range(10)]
    assert first.rows("SELECT * FROM t ORDER BY a") == second.rows("SELECT * FROM t ORDER BY a") == expected
    first.sql("ALTER TABLE t RENAME TO u")
    assert second.rows("SELECT count(*) FROM u") == [(20,)]
    first.stop()
    second.stop()


def test_a_running_query_keeps_its_snapshot(tmp_path):
    server = Server(tmp_path)
    server.sql("CREATE TABLE t USING parquet AS SELECT id, repeat('x', 1000) AS s FROM range(400000)")
    rows = server.sql("SELECT * FROM t").toLocalIterator()
    assert next(rows)[1] == "x" * 1000
    server.sql("INSERT OVERWRITE t SELECT 1, 'new'")
    server.sql("DROP TABLE t")
    assert sum(1 for _ in rows) == 400000 - 1
    server.stop()


def test_a_failing_insert_changes_nothing(tmp_path):
    server = Server(tmp_path)
    server.sql("CREATE TABLE t (a INT, p INT) USING parquet PARTITIONED BY (p)")
    server.sql("INSERT INTO t VALUES (1, 1)")
    for statement in ("INSERT OVERWRITE t SELECT if(id = 99999, raise_error('boom'), id), id % 3 FROM range(100000)",
                      "CREATE TABLE c USING parquet AS SELECT if(id = 99999, raise_error('boom'), id) AS x FROM range(100000)"):
        with pytest.raises(Exception, match="boom"):
            server.sql(statement)
    assert server.rows("SELECT * FROM t") == [(1, 1)]
    assert [name for _, name, _ in server.rows("SHOW TABLES")] == ["t"]
    deadline = time.monotonic() + 20
    while len(data_files(tmp_path)) > 1 and time.monotonic() < deadline:
        time.sleep(0.2)
    assert len(data_files(tmp_path)) == 1
    server.stop()


def test_a_full_disk_is_said_and_loses_nothing(tmp_path):
    if os.geteuid() != 0 or subprocess.call(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(tmp_path)]) != 0:
        pytest.skip("needs the right to mount a small file system")
    try:
        server = Server(tmp_path)
        server.sql("CREATE TABLE t (a BIGINT, b STRING) USING parquet")
        server.sql("INSERT INTO t VALUES (1, 'x')")
        with pytest.raises(Exception):
            server.sql("INSERT INTO t SELECT id, concat(uuid(), uuid(), uuid()) FROM range(2000000)")
        assert server.rows("SELECT * FROM t") == [(1, "x")]
        server.sql("INSERT INTO t VALUES (2, 'y')")
        assert server.rows("SELECT * FROM t ORDER BY a") == [(1, "x"), (2, "y")]
        server.stop()
    finally:
        subprocess.call(["umount", "-l", str(tmp_path)])
