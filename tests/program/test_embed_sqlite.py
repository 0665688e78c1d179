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
        self.process, self.port = self.start(self.trace)

    def start(self, trace, *more):
        process = subprocess.Popen(
            [str(self.folder / "build/embed_sqlite"), "--data", str(self.folder / "data.sqlite"), "--users",
             str(self.folder / "users.sqlite"), "--trace", str(trace), *more],
            stdout=subprocess.PIPE, stderr=open(self.folder / "log", "a"), text=True)
        return process, int(re.search(r":(\d+)\s*$", process.stdout.readline()).group(1))

    def run(self, user, *statements, port=None):
        """What a stock PySpark gets: rows as lists, or {"error": text}, for each statement."""
        script = self.folder / "client.py"
        script.write_text(LEAVES + CLIENT)
        header = "Basic " + base64.b64encode(user.encode()).decode()
        url = f"sc://127.0.0.1:{port or self.port}/;authorization={urllib.parse.quote(header)}"
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
        if statement.startswith("explain "):
            answers.append(spark.sql(statement[8:])._explain_string())
        else:
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
def duck():
    import duckdb, duckdb_extension_tpch
    connection = duckdb.connect()
    extension = next(pathlib.Path(duckdb_extension_tpch.__file__).parent.rglob("*.duckdb_extension"))
    connection.execute(f"load '{extension}'")
    for path in tpch_folder().glob("*.parquet"):
        connection.execute(f"create view {path.stem} as from '{path}'")
    return connection


@pytest.fixture(scope="module")
def oracle(duck):
    connection = duck
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


# ---- other dialects: EXPLAIN shows the text, which the database itself runs ----

# Beside TPC-H: a query per construct. What each gives in SQLite was compared with Spark when the dialect was made.
MORE = [
    "select n_nationkey + 1, n_nationkey * 2L, n_nationkey % 7, n_nationkey div 3, -n_nationkey from nation order by n_nationkey",
    "select s_acctbal / 7, s_acctbal * s_acctbal, -s_acctbal, abs(s_acctbal), cast(s_acctbal as decimal(12,1)) from supplier order by s_suppkey",
    "select avg(s_acctbal), sum(s_acctbal), min(s_acctbal), max(s_name), count(distinct s_nationkey), avg(s_suppkey) from supplier",
    "select s_nationkey, count(*) filter (where s_acctbal > 0), sum(s_acctbal) filter (where s_acctbal < 0) from supplier group by s_nationkey order by 1",
    "select n_name, row_number() over (partition by n_regionkey order by n_name), rank() over (order by n_regionkey) from nation order by n_name",
    "select n_name, lag(n_name, 2, 'none') over (order by n_name), sum(n_nationkey) over (order by n_name rows between 2 preceding and current row) from nation order by n_name",
    "select n_name from nation where n_name like 'A%A' or n_name like '%\\\\_%' or n_name in ('PERU', 'CHINA') order by n_name",
    "select n_regionkey from nation except select r_regionkey from region where r_regionkey > 2 order by 1",
    "select n_regionkey from nation intersect select r_regionkey from region where r_regionkey > 2 order by 1",
    "select r_name from region union all select n_name from nation where n_nationkey < 3 order by 1",
    "select o_orderkey, year(o_orderdate), quarter(o_orderdate), month(o_orderdate), day(o_orderdate), dayofyear(o_orderdate) from orders where o_orderkey < 200 order by 1",
    "select case when n_nationkey > 20 then 'x' when n_nationkey > 10 then n_name end, coalesce(nullif(n_regionkey, 2), -1) from nation order by n_nationkey",
    "select n_name || ':' || r_name, concat(n_name, '-', cast(n_nationkey as string)), substring(n_name, 2, 3), length(n_name), replace(n_name, 'A', 'b'), instr(n_name, 'I') from nation full join region on n_regionkey = r_regionkey and n_nationkey > 5 order by n_nationkey, r_name",
    "select r_name, n_name from region left join nation on r_regionkey = n_regionkey and n_name < 'C' order by 1, 2",
    "select n_name from nation where n_regionkey not in (select r_regionkey from region where r_name like 'A%') order by 1",
    "select r_name, exists (select 1 from nation where n_regionkey = r_regionkey and n_name > 'U') from region order by 1",
    "select id, id * 2 from range(10, 0, -3) order by 1",
    "select n_regionkey, n_nationkey <=> null, n_name is null, datediff(date '1995-03-15', (select min(o_orderdate) from orders)) from nation order by n_nationkey limit 5 offset 3",
    "select * from values (1, 'a', 1.5bd, date '2024-02-29'), (2, null, -0.25bd, null) t(a, b, c, d) order by a",
    "select distinct o_orderpriority from orders order by 1 desc",
]


def sql_of(explained):
    return explained.partition("\n")[2].strip() if explained.startswith("==") else explained


def shown(embedder, dialect):
    """The SQL of each query of QUERIES and MORE, or the error."""
    process, port = embedder.start(embedder.folder / f"trace.{dialect}", "--explain", dialect)
    try:
        texts = embedder.run("ann:secret of ann", *[f"explain {q}" for q in [*QUERIES.values(), *MORE]], port=port)
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    return [t if isinstance(t, dict) else sql_of(t) for t in texts]


def agree(expected, rows):
    assert len(rows) == len(expected)
    for a, b in zip(expected, rows):
        assert len(a) == len(b)
        for x, y in zip(a, b):
            same = (y is None) if x is None else (x is y) if isinstance(x, bool) else is_close(x, y)
            assert same, f"{a} expected, not {b}"


@pytest.fixture(scope="module")
def in_duckdb(embedder):
    return shown(embedder, "duckdb")


@pytest.mark.parametrize("number", QUERIES)
def test_tpch_in_duckdbs_sql(in_duckdb, duck, oracle, number):
    sql = in_duckdb[number - 1]
    assert not isinstance(sql, dict), sql
    rows, theirs = duck.execute(sql).fetchall(), oracle(number)
    assert len(rows) == len(theirs) > 0
    for a, b in zip(rows, theirs):
        assert all(is_close({"decimal": str(x)} if type(x).__name__ == "Decimal" else x.isoformat() if hasattr(x, "isoformat") else x, y)
                   for x, y in zip(a, b)), f"{a} expected {b}"


def test_each_construct_in_duckdbs_sql(embedder, in_duckdb, duck):
    expected = embedder.run("ann:secret of ann", *MORE)
    for query, sql, rows in zip(MORE, in_duckdb[22:], expected):
        assert not isinstance(rows, dict), (query, rows)
        assert not isinstance(sql, dict), (query, sql)
        agree(rows, duck.execute(sql).fetchall())


def test_errors_of_values_in_duckdbs_sql(embedder, duck):
    import duckdb
    process, port = embedder.start(embedder.folder / "trace.errors", "--explain", "duckdb")
    try:
        texts = embedder.run("ann:secret of ann", "explain select 1bd / (n_nationkey - 3) from nation",
                             "explain select n_nationkey * 9223372036854775807 from nation",
                             "explain select n_nationkey % n_regionkey from nation", port=port)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
    for text, message in zip(texts, ("division by zero", "Overflow", "division by zero")):
        with pytest.raises(duckdb.Error, match=message):
            duck.execute(sql_of(text)).fetchall()


class Postgres:
    """A server of Debian's in a folder of its own, reached by a socket there; it does not run as root."""

    def __init__(self, folder):
        import shutil
        self.programs = next(iter(sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)), None)
        found = self.programs and (self.programs / "initdb").exists() and shutil.which("psql")
        if not found:
            pytest.skip("there is no PostgreSQL server (Debian: postgresql)")
        self.options = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.getuid() == 0 else {}
        self.folder = folder
        folder.chmod(0o755)
        data = folder / "data"
        data.mkdir()
        if self.options:
            for path in (folder, data):
                shutil.chown(path, "postgres")
            for path in folder.parents:
                if path.stat().st_uid == 0 and not path.stat().st_mode & 0o001:
                    path.chmod(path.stat().st_mode | 0o001)
        self.call(self.programs / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")
        self.process = subprocess.Popen([str(self.programs / "postgres"), "-D", str(data), "-k", str(folder), "-h", "",
                                         "-c", "fsync=off"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **self.options)
        for _ in range(200):
            if subprocess.run([self.programs / "pg_isready", "-q", "-h", folder]).returncode == 0:
                break
            import time
            time.sleep(0.05)

    def call(self, *command):
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True, cwd=self.folder, **self.options)
        assert done.returncode == 0, done.stderr[-2000:]

    def sql(self, text):
        done = subprocess.run(["psql", "-h", str(self.folder), "-U", "postgres", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1",
                               "-P", "null=<null>", "-F", "\x1f", "-R", "\x1e"], input=text, capture_output=True, text=True)
        return done


@pytest.fixture(scope="module")
def postgres(tmp_path_factory):
    server = Postgres(tmp_path_factory.mktemp("pg"))
    yield server
    server.process.send_signal(signal.SIGINT)
    server.process.wait(30)


def load_postgres(server, duck):
    names = {"VARCHAR": "text", "DOUBLE": "double precision"}
    for path in tpch_folder().glob("*.parquet"):
        columns = duck.execute(f"describe {path.stem}").fetchall()
        rows = duck.execute(f"select * from {path.stem}").fetchall()
        lines = "\n".join("\t".join(str(v) for v in row) for row in rows)
        heads = ", ".join(f'"{c[0]}" {names.get(c[1], c[1])}' for c in columns)
        done = server.sql(f"create table {path.stem} ({heads});\ncopy {path.stem} from stdin;\n{lines}\n\\.\nanalyze {path.stem};\n")
        assert done.returncode == 0, done.stderr
    server.sql("create index on lineitem (l_orderkey); create index on orders (o_custkey)")  # as such tables have


def typed(text, like):
    """psql's text as a value of the kind that is expected."""
    if text == "<null>":
        return None
    if isinstance(like, bool):
        return text == "t"
    if isinstance(like, dict):
        import decimal
        return decimal.Decimal(text)
    if isinstance(like, str):
        import datetime
        return datetime.date.fromisoformat(text) if re.fullmatch(r"\d{4}-\d\d-\d\d", text) else text
    return float(text) if isinstance(like, (int, float)) else text


def test_tpch_and_each_construct_in_postgresqls_sql(embedder, answers, oracle, postgres, duck):
    load_postgres(postgres, duck)
    expected = [*answers.values(), *embedder.run("ann:secret of ann", *MORE)]
    for number, (sql, rows) in enumerate(zip(shown(embedder, "postgresql"), expected), 1):
        assert not isinstance(sql, dict), (number, sql)
        done = postgres.sql("set statement_timeout = 60000; set jit = off;" + sql)
        assert done.returncode == 0, (number, done.stderr[-1500:], sql)
        got = [line.split("\x1f") for line in done.stdout.rstrip("\n").split("\x1e") if line]
        if number in REFUSED:  # SQLite cannot
            assert len(got) == len(oracle(number))
            continue
        assert len(got) == len(rows), number
        agree(rows, [[typed(x, like) for x, like in zip(line, row)] for line, row in zip(got, rows)])
