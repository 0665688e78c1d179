"""An embedder in C (examples/embed_sqlite), built against the installed tree: SQLite runs the plans' SQL text, users and their
rights are in a table of its own, results are cached and traced. TPC-H's answers are DuckDB's on the same files."""
import base64, json, os, pathlib, re, signal, subprocess, sys, urllib.parse
import pytest
from conftest import BUILD, LEAVES, ROOT

EXAMPLE = ROOT / "examples/embed_sqlite"
QUERIES = {n: (ROOT / f"tests/data/tpch/q{n:02d}.sql").read_text() for n in range(1, 23)}


def call(*command, **options):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=300, **options)
    assert done.returncode == 0, f"{command}: {done.stdout[-2000:]} {done.stderr[-3000:]}"
    return done.stdout


def tpch_folder():
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "trunnion"
    folder = cache / "tpch-0.01"
    if not (folder / ".complete").exists():
        folder.mkdir(parents=True, exist_ok=True)
        call(pathlib.Path(sys.executable).with_name("tpchgen-cli"), "parquet", "-s", "0.01", "--output-dir", folder)
        (folder / ".complete").touch()
    return folder


class Embedder:
    def __init__(self, folder):
        self.folder = folder
        prefix = folder / "installed"
        call("cmake", "--install", BUILD, "--prefix", prefix)
        call("cmake", "-S", EXAMPLE, "-B", folder / "build", f"-DCMAKE_PREFIX_PATH={prefix}",
             "-DCMAKE_C_FLAGS=-Wall -Wextra -Werror -pedantic -D_GNU_SOURCE")
        call("cmake", "--build", folder / "build")
        call(sys.executable, EXAMPLE / "load.py", tpch_folder(), folder / "data.sqlite", folder / "users.sqlite",
             "ann:secret of ann:*", "bob:secret of bob:nation,region")
        self.trace = folder / "trace.jsonl"
        self.process = subprocess.Popen(
            [str(folder / "build/embed_sqlite"), "--data", str(folder / "data.sqlite"), "--users",
             str(folder / "users.sqlite"), "--trace", str(self.trace)], stdout=subprocess.PIPE, stderr=open(folder / "log", "w"), text=True)
        line = self.process.stdout.readline()
        self.port = int(re.search(r":(\d+)\s*$", line).group(1))

    def run(self, user, *statements):
        """What a stock PySpark gets: rows as lists, or {"error": text}, for each statement."""
        script = self.folder / "client.py"
        script.write_text(LEAVES + CLIENT)
        header = "Basic " + base64.b64encode(user.encode()).decode()
        url = f"sc://127.0.0.1:{self.port}/;authorization={urllib.parse.quote(header)}"
        done = subprocess.run([sys.executable, str(script), url], input=json.dumps(statements), capture_output=True, text=True,
                              timeout=280)
        assert done.returncode == 0, done.stderr[-2000:]
        return json.loads(done.stdout)

    def events(self):
        return [json.loads(line) for line in self.trace.read_text().splitlines()]


CLIENT = r"""
import datetime, decimal, json, sys
from pyspark.sql import SparkSession

def plain(value):
    if isinstance(value, decimal.Decimal):
        return {"decimal": str(value)}
    return value.isoformat() if isinstance(value, datetime.date) else value

spark, answers = None, []
for statement in json.load(sys.stdin):
    try:
        spark = spark or SparkSession.builder.remote(sys.argv[1]).create()
        answers.append([[plain(value) for value in row] for row in spark.sql(statement).collect()])
    except Exception as error:
        answers.append({"error": f"{type(error).__name__}: {error}"})
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def embedder(tmp_path_factory):
    embedder = Embedder(tmp_path_factory.mktemp("embed"))
    yield embedder
    embedder.process.send_signal(signal.SIGTERM)
    assert embedder.process.wait(30) == 0, "the server must end cleanly"


@pytest.fixture(scope="module")
def oracle():
    import duckdb, duckdb_extension_tpch
    connection = duckdb.connect()
    extension = next(pathlib.Path(duckdb_extension_tpch.__file__).parent.rglob("*.duckdb_extension"))
    connection.execute(f"load '{extension}'")
    for path in tpch_folder().glob("*.parquet"):
        connection.execute(f"create view {path.stem} as from '{path}'")
    texts = dict(connection.execute("select query_nr, query from tpch_queries()").fetchall())
    return lambda number: connection.execute(texts[number]).fetchall()


@pytest.fixture(scope="module")
def answers(embedder):
    return dict(zip(QUERIES, embedder.run("ann:secret of ann", *QUERIES.values())))


def is_close(ours, theirs):
    if isinstance(theirs, (int, float)) or type(theirs).__name__ == "Decimal":
        text = ours["decimal"] if isinstance(ours, dict) else str(ours)
        shown = len(text.partition(".")[2]) if isinstance(ours, dict) else 12
        return abs(float(text) - float(theirs)) <= max(1e-9 * abs(float(theirs)), 0.5 * 10.0 ** -shown * (1 + 1e-9))
    if hasattr(theirs, "isoformat"):
        return ours == theirs.isoformat()[:10]
    return ours == theirs


REFUSED = {21: "EXISTS with a condition that is no equality cannot be written in SQLite's SQL"}


@pytest.mark.parametrize("number", QUERIES)
def test_tpch(answers, oracle, number):
    ours, theirs = answers[number], oracle(number)
    if number in REFUSED:
        assert REFUSED[number] in ours["error"]
        return
    assert not isinstance(ours, dict), ours
    assert len(ours) == len(theirs) and len(ours) > 0
    for row, (a, b) in enumerate(zip(ours, theirs)):
        assert len(a) == len(b)
        assert all(is_close(x, y) for x, y in zip(a, b)), f"row {row}: {a} expected {b}"


def test_what_has_no_sql_is_named(embedder):
    error, rows, explode = embedder.run("ann:secret of ann", "select regexp_extract(n_name, 'A', 0) from nation",
                                        "select count(*) from nation", "select explode(split(n_name, 'A')) from nation")
    assert "function trn.regexp_extract cannot be written in SQLite's SQL" in error["error"]
    assert rows == [[25]]
    assert "cannot be written in SQLite's SQL" in explode["error"]


def test_errors_of_values(embedder):
    zero, large = embedder.run("ann:secret of ann", "select n_nationkey / 0.0bd from nation where n_nationkey = 1",
                               "select n_nationkey * 9223372036854775807 from nation where n_nationkey = 2")
    assert "DIVIDE_BY_ZERO" in zero["error"], zero
    assert "ARITHMETIC_OVERFLOW" in large["error"], large


def test_wrong_password(embedder):
    for user in ("ann:secret of bob", "nobody:x"):
        answer, = embedder.run(user, "select 1")
        assert "a user's name and password are needed" in answer["error"]


def test_forbidden_table(embedder):
    allowed, forbidden, joined = embedder.run(
        "bob:secret of bob", "select count(*) from region", "select count(*) from customer",
        "select count(*) from nation join customer on n_nationkey = c_nationkey")
    assert allowed == [[5]]
    assert "bob may not use" in forbidden["error"] and "customer" in forbidden["error"]
    assert "bob may not use" in joined["error"]


def test_second_run_is_a_hit_and_all_is_traced(embedder):
    text = "select r_name, count(*) n from nation join region on n_regionkey = r_regionkey group by r_name order by r_name"
    first, second = embedder.run("ann:secret of ann", text, text)
    assert first == second and len(first) == 5
    events = [e for e in embedder.events() if e["kind"] == "span" or e["layer"] == "cache"]
    executed = [e for e in events if e.get("statement") == text and e["action"] == "execute"]
    log = (embedder.folder / "log").read_text()
    assert log.count("cache hit") == 1, log
    assert len(executed) == 2 and all(e["user"] == "ann" and e["status"] == "OK" for e in executed)


def test_the_engine_is_not_loaded(embedder):
    maps = pathlib.Path(f"/proc/{embedder.process.pid}/maps").read_text()
    assert "libtrunnion.so" in maps and "libsqlite3" in maps
    assert "engine" not in maps and "libtrunnion_functions" not in maps
