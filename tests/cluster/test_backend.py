"""Our server in front of a Ballista cluster, seen by stock PySpark: the right rows, whatever runs where; failures that say what
failed; a server that lives on."""
import datetime, decimal, json, os, signal, socket, subprocess, sys, threading, time, urllib.request
import pytest
from conftest import PATIENCE, PROGRAM, ROOT, TABLES, Cluster, Server, tpch

pytest.importorskip("pyspark")
sys.path.insert(0, str(ROOT / "tests/clients"))
from test_tpch import oracle, same  # noqa: E402,F401
from tpch_dataframe import QUERIES  # noqa: E402


def session(server):
    from pyspark.sql import SparkSession
    return SparkSession.builder.remote(server.spark_url).create()


def open_tables(spark, folder):
    for name in TABLES:
        spark.read.parquet(f"{folder}/{name}.parquet").createOrReplaceTempView(name)
    return spark


@pytest.fixture(scope="module")
def refusing(cluster):
    """What the cluster does not run fails, so that what passes has run there."""
    with Server("--backend", cluster.url, "--fallback", "refuse") as running:
        yield running


@pytest.fixture(scope="module")
def spark(refusing, tpch_folder):
    spark = open_tables(session(refusing), tpch_folder)
    yield spark
    spark.stop()


@pytest.fixture(scope="module")
def falling_back(server, tpch_folder):
    spark = open_tables(session(server), tpch_folder)
    yield spark
    spark.stop()


# ---- the right rows, from the cluster ----

@pytest.mark.parametrize("number", range(1, 23))
def test_tpch_on_the_cluster(spark, oracle, number):  # noqa: F811
    same(spark.sql((ROOT / f"tests/data/tpch/q{number:02d}.sql").read_text()).collect(), oracle(number))


@pytest.mark.parametrize("number", [1, 5, 13, 16, 21])
def test_tpch_as_dataframes(spark, oracle, number):  # noqa: F811
    same(QUERIES[number - 1](spark.table).collect(), oracle(number))


def test_rows_of_many_partitions(spark, tpch_folder):
    """Large enough for several messages of each partition."""
    import duckdb
    rows = spark.sql("select l_orderkey, l_linenumber, l_comment, l_extendedprice from lineitem").toPandas()
    path = f"{tpch_folder}/lineitem.parquet"
    count, keys, prices, text = duckdb.sql(
        f"select count(*), sum(l_orderkey), sum(l_extendedprice), sum(length(l_comment)) from '{path}'").fetchone()
    assert len(rows) == count and rows.l_orderkey.sum() == keys
    assert sum(rows.l_extendedprice) == prices and rows.l_comment.str.len().sum() == text


def test_types_of_spark(spark):
    """Values as Spark has them, from literals and functions that run on executors."""
    row = spark.sql("""select cast(n_nationkey as tinyint) a, cast(n_nationkey as decimal(20,3)) b, array(n_nationkey, 7) c,
                       map('k', n_name) d, struct(n_name as x, n_regionkey as y) e, date '2020-02-29' f,
                       timestamp '2020-01-01 01:02:03.456' g, cast(null as string) h, binary(n_name) i
                       from nation where n_nationkey = 3""").collect()[0]
    assert (row.a, row.b, row.c, row.d) == (3, decimal.Decimal("3.000"), [3, 7], {"k": "CANADA"})
    assert (row.e.x, row.e.y, row.f, row.h, bytes(row.i)) == ("CANADA", 1, datetime.date(2020, 2, 29), None, b"CANADA")
    assert row.g == datetime.datetime(2020, 1, 1, 1, 2, 3, 456000)


def test_rows_that_travel_with_the_query(spark):
    local = spark.createDataFrame([(1, "one"), (2, "two"), (None, None)], "n int, name string")
    region = spark.table("region")
    joined = local.join(region, local.n == region.r_regionkey, "left")
    got = sorted((r.n is None, r.n, r.name, r.r_name) for r in joined.collect())
    assert got == [(False, 1, "one", "AMERICA"), (False, 2, "two", "ASIA"), (True, None, None, None)]


def test_ranges(spark):
    assert [r.id for r in spark.range(3, 20, 4).collect()] == [3, 7, 11, 15, 19]
    assert spark.range(100000).selectExpr("sum(id) s").collect()[0].s == 4999950000


def test_no_rows(spark):
    empty = spark.sql("select n_name, n_nationkey from nation where false")
    assert empty.collect() == [] and empty.columns == ["n_name", "n_nationkey"]


def test_explain_shows_the_stages_of_the_cluster(spark):
    text = spark.sql("explain select n_regionkey, count(*) from nation group by 1").collect()[0].plan
    assert "distributed_plan" in text and "ShuffleWriterExec" in text


def test_other_protocols_run_there_too(server, falling_back):
    flight = pytest.importorskip("adbc_driver_flightsql.dbapi")
    falling_back.sql("create table nations using parquet as select n_nationkey k, n_name v from nation")
    with flight.connect(server.grpc_url) as connection, connection.cursor() as cursor:
        cursor.execute("select k % 3 as m, count(*) as n, max(v) from nations group by 1 order by 1")
        assert cursor.fetchall() == [(0, 9, "VIETNAM"), (1, 8, "RUSSIA"), (2, 8, "UNITED KINGDOM")]
        cursor.execute("explain select count(*) from nations")  # Ballista plans that at the root only
        assert "physical_plan" in [row[0] for row in cursor.fetchall()]
    falling_back.sql("drop table nations")


def test_errors_of_functions_keep_their_condition(spark):
    from pyspark.errors import PySparkException
    with pytest.raises(PySparkException) as failed:
        spark.sql("select n_nationkey / (n_regionkey - n_regionkey) from nation").collect()
    assert failed.value.getCondition() == "DIVIDE_BY_ZERO"
    with pytest.raises(PySparkException) as failed:
        spark.sql("select cast(n_name as int) from nation").collect()
    assert failed.value.getCondition() == "CAST_INVALID_INPUT"


# ---- what the cluster does not run ----

def test_what_it_cannot_run_is_refused_by_name(spark):
    from pyspark.errors import PySparkException
    with pytest.raises(PySparkException, match="(?i)sample"):
        spark.table("lineitem").sample(0.1, seed=7).collect()
    assert spark.sql("select count(*) n from nation").collect()[0].n == 25


def test_what_it_cannot_run_runs_here(falling_back):
    assert 0 < falling_back.table("lineitem").sample(0.1, seed=7).count() < 60175
    assert falling_back.sql("select 1 as one").collect()[0].one == 1


def test_writing(falling_back, tmp_path):
    falling_back.sql("select n_regionkey, count(*) n from nation group by 1").write.parquet(f"{tmp_path}/out")
    back = falling_back.read.parquet(f"{tmp_path}/out")
    assert sorted((r.n_regionkey, r.n) for r in back.collect()) == [(k, 5) for k in range(5)]


def names(folder):
    """What is in it, without what a write keeps for itself."""
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_executors_write(spark, tpch_folder, tmp_path):
    """A server that refuses what the cluster does not run: so they wrote."""
    import duckdb
    lines, ended = spark.table("lineitem"), spark.sql("select n_regionkey r, count(*) n from nation group by 1")
    for name, frame in [("plain", lines), ("ended", ended)]:
        frame.write.parquet(f"{tmp_path}/{name}")
    lines.write.partitionBy("l_returnflag", "l_linestatus").parquet(f"{tmp_path}/parted")
    ended.write.mode("append").parquet(f"{tmp_path}/ended")
    assert names(tmp_path / "parted") == ["_SUCCESS", "l_returnflag=A", "l_returnflag=N", "l_returnflag=R"]
    assert all(name == "_SUCCESS" or name.startswith("part-") for name in names(tmp_path / "plain"))
    told = "select count(*), sum(l_orderkey), count(distinct l_comment) from"
    right = duckdb.sql(f"{told} '{tpch_folder}/lineitem.parquet'").fetchone()
    assert duckdb.sql(f"{told} '{tmp_path}/plain/*.parquet'").fetchone() == right
    assert duckdb.sql(f"{told} read_parquet('{tmp_path}/parted/*/*/*.parquet', hive_partitioning=true)").fetchone() == right
    rows = duckdb.sql(f"select r, n from '{tmp_path}/ended/*.parquet' order by 1").fetchall()
    assert rows == [(k, 5) for k in range(5) for _ in range(2)]


def test_a_write_that_fails_leaves_nothing(spark, tmp_path):
    text = failure(lambda: spark.sql("select l_orderkey / (l_orderkey - l_orderkey) q from lineitem").write.parquet(f"{tmp_path}/x"))
    assert "DIVIDE_BY_ZERO" in text and names(tmp_path) == []


def test_writes_can_stay_here(cluster, tmp_path):
    (tmp_path / "trunnion.yaml").write_text(
        f'backend: {{ballista: {{scheduler: "{cluster.url}", fallback: refuse, writes: local}}}}\n')
    with Server("--config", tmp_path / "trunnion.yaml") as server:
        spark = session(server)
        before = jobs(cluster)
        spark.range(100000).write.parquet(f"{tmp_path}/here")
        assert jobs(cluster).keys() == before.keys()
        spark.read.parquet(f"{tmp_path}/here").write.parquet(f"{tmp_path}/too")
        assert spark.read.parquet(f"{tmp_path}/too").count() == 100000
        spark.stop()


def test_a_job_has_the_id_that_its_query_has(cluster, spark):
    """So it can be cancelled before the scheduler has said anything, and is told of without being asked for."""
    assert spark.sql("select count(*) n from region").collect()[0].n == 5
    with urllib.request.urlopen(f"http://{cluster.address}/api/jobs", timeout=PATIENCE) as answer:
        known = [(job["job_id"], job["job_name"]) for job in json.load(answer)]
    assert known and all(id == name for id, name in known if len(name) == 36)
    assert any(len(name) == 36 for _, name in known)


def test_large_rows_of_a_client_wait_in_files(cluster, tmp_path):
    """Beyond what travels in a plan; the files go with what needs them."""
    import pandas
    with Server("--backend", cluster.url, "--fallback", "refuse", "--cluster-spool-dir", tmp_path) as server:
        spark = session(server)
        frame = spark.createDataFrame(pandas.DataFrame({"n": range(50000), "t": [f"text {i}" for i in range(50000)]}))
        row = frame.selectExpr("sum(n) s", "count(distinct t) c").collect()[0]
        assert (row.s, row.c) == (1249975000, 50000)
        spark.stop()
        deadline = time.monotonic() + 20
        while list(tmp_path.iterdir()) and time.monotonic() < deadline:
            time.sleep(0.1)
    assert list(tmp_path.iterdir()) == []


# ---- a cluster of Ballista's own programs ----

def test_a_stock_cluster_runs_what_it_can_and_the_rest_runs_here(stock_cluster, tpch_folder, oracle):  # noqa: F811
    with Server("--backend", stock_cluster.url) as server:
        spark = open_tables(session(server), tpch_folder)
        for number in (1, 6, 13):
            same(spark.sql((ROOT / f"tests/data/tpch/q{number:02d}.sql").read_text()).collect(), oracle(number))
        assert spark.sql("select n_name from nation where n_nationkey = 3").collect()[0].n_name == "CANADA"
        spark.stop()


def test_a_stock_cluster_refuses_by_the_function_s_name(stock_cluster, tpch_folder):
    from pyspark.errors import PySparkException
    with Server("--backend", stock_cluster.url, "--fallback", "refuse") as server:
        spark = open_tables(session(server), tpch_folder)
        assert spark.sql("select n_name from nation where n_nationkey = 3").collect()[0].n_name == "CANADA"
        for _ in range(2):  # found out, then known
            with pytest.raises(PySparkException, match="trn\\."):
                spark.sql("select n_nationkey + 1 from nation").collect()
        spark.stop()


# ---- settings ----

@pytest.mark.parametrize("backend, said", [
    ('"ballista://127.0.0.1:1"', None),
    ('{ballista: {scheduler: "127.0.0.1:1", settings: {ballista.planner.adaptive.enabled: "false"}}, embedded: {threads: 1}}', None),
    ("{ballista: {fallback: local}}", "'scheduler' is missing"),
    ('{ballista: {scheduler: "a:1", writes: nowhere}}', "writes is 'cluster' or 'local', not 'nowhere'"),
    ('{ballista: {scheduler: "a:1", tls: true, ca: /no/such.pem}}', "cannot read /no/such.pem"),
    ('{ballista: {scheduler: "a:1", ca: /dev/null}}', "'ca' without 'tls'"),
    ('{ballista: {scheduler: "a:1", tls: true, cert: /dev/null}}', "'cert' and 'key' go together"),
    ('{ballista: {scheduler: "a:1", fallback: maybe}}', "fallback is 'local' or 'refuse', not 'maybe'"),
    ('{ballista: {scheduler: "a:1", spool_dir: /no/such/folder}}', "spool directory '/no/such/folder'"),
    ('{ballista: {scheduler: "a:1", fetch_memroy: 1M}}', "fetch_memory"),
])
def test_settings(backend, said, tmp_path):
    (tmp_path / "trunnion.yaml").write_text(f"backend: {backend}\n")
    done = subprocess.run([str(PROGRAM), "serve", "--config", str(tmp_path / "trunnion.yaml"), "--check"], capture_output=True, text=True,
                          timeout=PATIENCE)
    assert (done.returncode == 0) == (said is None), done.stderr
    assert said is None or said in done.stderr


# ---- failures ----

def wait_for(holds):
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, "it does not come"
        time.sleep(0.05)


def failure(run):
    from pyspark.errors import PySparkException
    with pytest.raises(PySparkException) as failed:
        run()
    return str(failed.value)


def test_nobody_there(tpch_folder):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{closed.getsockname()[1]}"
    with Server("--backend", f"ballista://{address}") as server:
        spark = session(server)
        text = failure(lambda: spark.read.parquet(f"{tpch_folder}/nation.parquet").collect())
        assert address in text and "cannot be reached" in text
        assert spark.sql("select 1 as one").collect()[0].one == 1
        spark.stop()


SLOW = """select count(*) n from lineitem a join lineitem b on a.l_suppkey = b.l_suppkey
          join lineitem c on b.l_suppkey = c.l_suppkey"""


def jobs(cluster):
    with urllib.request.urlopen(f"http://{cluster.address}/api/jobs", timeout=PATIENCE) as answer:
        return {job["job_name"]: job["job_status"] for job in json.load(answer)}


def test_cancelled_queries_end_on_the_cluster(programs, tpch_folder, tmp_path):
    """A cluster of its own: Ballista's executors go on with what does not yield, a join for one, until they end."""
    with Cluster(tmp_path / "c", "--executors", "1") as cluster, Server("--backend", cluster.url) as server:
        spark = open_tables(session(server), tpch_folder)
        texts = []
        thread = threading.Thread(target=lambda: texts.append(failure(lambda: spark.sql(SLOW).collect())), daemon=True)
        thread.start()
        wait_for(lambda: any("Running" in status for status in jobs(cluster).values()))
        assert spark.interruptAll()
        thread.join(PATIENCE)
        assert texts and "OPERATION_CANCELED" in texts[0]
        wait_for(lambda: all("Cancelled" in status for status in jobs(cluster).values()))
        assert spark.sql("select 1 as one").collect()[0].one == 1
        spark.stop()


def test_a_cancelled_join_gives_its_executor_back(programs, tpch_folder, tmp_path):
    """3.6 thousand million pairs: without a place to stop at, the one core of this cluster would be gone for long."""
    with Cluster(tmp_path / "c", "--executors", "1") as cluster, Server("--backend", cluster.url, "--fallback", "refuse") as server:
        spark = open_tables(session(server), tpch_folder)
        pairs = "select count(*) n from lineitem a join lineitem b on a.l_comment < b.l_comment"
        for _ in range(2):
            texts = []
            thread = threading.Thread(target=lambda: texts.append(failure(lambda: spark.sql(pairs).collect())), daemon=True)
            thread.start()
            wait_for(lambda: any("Running" in status for status in jobs(cluster).values()))
            time.sleep(1)  # into the join
            assert spark.interruptAll()
            thread.join(PATIENCE)
            assert texts and "OPERATION_CANCELED" in texts[0]
            assert spark.sql("select count(*) n from nation").collect()[0].n == 25
        spark.stop()


def test_a_write_that_is_cancelled_leaves_nothing(programs, tpch_folder, tmp_path):
    with Cluster(tmp_path / "c", "--executors", "1") as cluster, Server("--backend", cluster.url, "--fallback", "refuse") as server:
        spark = open_tables(session(server), tpch_folder)
        pairs = spark.sql("select a.l_comment from lineitem a join lineitem b on a.l_comment < b.l_comment")
        texts = []
        thread = threading.Thread(target=lambda: texts.append(failure(lambda: pairs.write.csv(f"{tmp_path}/out"))), daemon=True)
        thread.start()
        wait_for(lambda: any("Running" in status for status in jobs(cluster).values()))
        time.sleep(1)  # into the files
        assert spark.interruptAll()
        thread.join(PATIENCE)
        assert texts and "OPERATION_CANCELED" in texts[0]
        wait_for(lambda: names(tmp_path / "out") == [] and not (tmp_path / "out").exists())
        assert spark.sql("select count(*) n from nation").collect()[0].n == 25
        spark.stop()


def test_a_scheduler_that_is_started_again_forgets_jobs(programs, tpch_folder, tmp_path):
    with Cluster(tmp_path / "c", "--executors", "1") as cluster, Server("--backend", cluster.url) as server:
        spark = open_tables(session(server), tpch_folder)
        texts = []
        thread = threading.Thread(target=lambda: texts.append(failure(lambda: spark.sql(SLOW).collect())), daemon=True)
        thread.start()
        wait_for(lambda: any("Running" in status for status in jobs(cluster).values()))
        os.kill(cluster.pids()["scheduler"], signal.SIGKILL)
        thread.join(PATIENCE)
        assert texts and "lost" in texts[0] and cluster.address in texts[0]
        assert spark.sql("select 1 as one").collect()[0].one == 1
        spark.stop()


def test_an_executor_that_dies_is_named(programs, tmp_path):
    """Its results are only there: reading stops in the middle."""
    folder, config = tpch("0.1"), tmp_path / "trunnion.yaml"
    with Cluster(tmp_path / "c", "--executors", "1") as cluster:
        config.write_text(f"""backend: {{ballista: {{scheduler: "{cluster.url}", fetch_memory: 64K}}}}
frontends: {{spark: {{response_log: 1M}}}}
""")
        with Server("--config", config) as server:
            spark = open_tables(session(server), folder)
            rows = spark.sql("select * from lineitem").toLocalIterator()
            next(rows)
            os.kill(cluster.pids()["executor-1"], signal.SIGKILL)
            text = failure(lambda: [None for _ in rows])
            assert "at executor" in text and "job" in text
            assert spark.sql("select 1 as one").collect()[0].one == 1
            spark.stop()
