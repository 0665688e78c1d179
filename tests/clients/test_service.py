"""The Spark Connect service with the unmodified Python client: results, errors, settings, views, reattach, interrupt, release."""
import threading, time, uuid
import grpc
import pytest
from pyspark.errors import (AnalysisException, ArithmeticException, IllegalArgumentException, NumberFormatException, ParseException,
                            PySparkException, SparkNoSuchElementException)
from pyspark.sql import Row, SparkSession, functions as F
import pyspark.sql.connect.proto as pb2


def test_a_range_is_collected_and_counted(spark):
    assert spark.range(3).collect() == [Row(id=0), Row(id=1), Row(id=2)]
    assert spark.range(0, 1_000_000, 7).count() == 142858
    assert spark.range(5, 5).collect() == []
    assert spark.range(5, 5).toPandas().shape == (0, 1)
    assert spark.range(3).toArrow().num_rows == 3


def test_rows_arrive_in_order_over_many_batches(spark):
    ids = spark.range(300_000).toArrow().column("id").to_pylist()
    assert ids == list(range(300_000))


def test_an_empty_select_keeps_its_row_count(spark):
    assert not spark.range(2).isEmpty()
    assert spark.range(0).isEmpty()


def test_sql_queries_are_analysed_at_once_and_run_later(spark):
    df = spark.sql("select id, id * 2 as twice from {r}", r=spark.range(3))
    assert df.columns == ["id", "twice"]
    assert [tuple(r) for r in df.collect()] == [(0, 0), (1, 2), (2, 4)]
    with pytest.raises(AnalysisException) as error:
        spark.sql("select nope from {r}", r=spark.range(3))
    assert error.value.getCondition() == "UNRESOLVED_COLUMN.WITH_SUGGESTION"


def test_show_prints_as_spark_does(spark, capsys):
    spark.range(3).show()
    assert capsys.readouterr().out == "+---+\n| id|\n+---+\n|  0|\n|  1|\n|  2|\n+---+\n\n"
    spark.range(30).show(1)
    assert capsys.readouterr().out == "+---+\n| id|\n+---+\n|  0|\n+---+\nonly showing top 1 row\n"
    spark.sql("select 'a long text that is cut off' as t, cast(null as int) as n").show()
    assert capsys.readouterr().out == ("+--------------------+----+\n|                   t|   n|\n+--------------------+----+\n"
                                       "|a long text that ...|NULL|\n+--------------------+----+\n\n")
    spark.range(1).show(vertical=True)
    assert capsys.readouterr().out == "-RECORD 0--\n id  | 0   \n\n"


def test_show_prints_nested_values_as_spark_does(spark, capsys):
    spark.sql("select array(1, null, 3) as a, map('k', 1.5) as m, named_struct('x', true, 'y', 'z') as s, X'4142' as b").show(truncate=False)
    lines = capsys.readouterr().out.split("\n")
    assert lines[3] == "|[1, NULL, 3]|{k -> 1.5}|{true, z}|[41 42]|"


# ---- errors

def test_errors_have_their_classes_conditions_and_states(spark):
    cases = [
        ("select 1/0", ArithmeticException, "DIVIDE_BY_ZERO", "22012"),
        ("select cast('a' as int)", NumberFormatException, "CAST_INVALID_INPUT", "22018"),
        ("selec 1", ParseException, "PARSE_SYNTAX_ERROR", "42601"),
        ("select nope", AnalysisException, "UNRESOLVED_COLUMN.WITHOUT_SUGGESTION", "42703"),
        ("select * from nope", AnalysisException, "TABLE_OR_VIEW_NOT_FOUND", "42P01"),
    ]
    for query, kind, condition, state in cases:
        with pytest.raises(kind) as error:
            spark.sql(query).collect()
        assert (error.value.getCondition(), error.value.getSqlState()) == (condition, state), query
        assert str(error.value).strip().startswith(f"[{condition}]"), query


def test_a_parse_error_shows_the_text_and_the_place(spark):
    with pytest.raises(ParseException) as error:
        spark.sql("selec 1")
    assert str(error.value) == ("\n[PARSE_SYNTAX_ERROR] Syntax error at or near 'selec'. SQLSTATE: 42601 (line 1, pos 0)\n\n"
                                "== SQL ==\nselec 1\n^^^\n")
    assert error.value.getMessageParameters() == {"error": "'selec'", "hint": ""}


def test_a_runtime_error_shows_the_fragment(spark):
    spark.range(3).createOrReplaceTempView("r")
    with pytest.raises(ArithmeticException) as error:
        spark.sql("select id,\n  1 / (id - 1) as x from r").collect()
    text = str(error.value)
    assert "== SQL (line 2, position 3) ==\n  1 / (id - 1) as x from r\n  ^^^^^^^^^^^^\n" in text
    assert "JVM stacktrace" not in text
    (context,) = error.value.getQueryContext()
    assert context.fragment() == "1 / (id - 1)"


def test_long_errors_arrive_whole(spark):
    with pytest.raises(PySparkException) as error:
        spark.sql("select raise_error(repeat('é', 5000))").collect()
    assert "é" * 5000 in str(error.value)


# ---- settings

def test_settings(spark):
    assert spark.conf.get("spark.sql.shuffle.partitions") == "200"
    spark.conf.set("spark.sql.shuffle.partitions", 3)
    assert spark.conf.get("spark.sql.shuffle.partitions") == "3"
    spark.conf.unset("spark.sql.shuffle.partitions")
    assert spark.conf.get("spark.sql.shuffle.partitions") == "200"
    assert spark.conf.get("no.such", "mine") == "mine"
    assert spark.conf.get("no.such", None) is None
    with pytest.raises(SparkNoSuchElementException):
        spark.conf.get("no.such")
    with pytest.raises(AnalysisException) as error:
        spark.conf.set("spark.sql.warehouse.dir", "x")
    assert error.value.getCondition() == "CANNOT_MODIFY_STATIC_CONFIG"
    with pytest.raises(IllegalArgumentException):
        spark.conf.set("spark.sql.ansi.enabled", "maybe")
    assert spark.conf.isModifiable("spark.sql.ansi.enabled")
    assert not spark.conf.isModifiable("spark.sql.warehouse.dir")


def test_set_statements(spark):
    assert spark.sql("set spark.sql.ansi.enabled = false").collect() == [Row(key="spark.sql.ansi.enabled", value="false")]
    assert spark.conf.get("spark.sql.ansi.enabled") == "false"
    assert spark.sql("select 1/0 as x").collect() == [Row(x=None)]
    assert spark.sql("set spark.sql.ansi.enabled").collect() == [Row(key="spark.sql.ansi.enabled", value="false")]
    assert spark.sql("reset").collect() == []
    assert spark.sql("set no.such").collect() == [Row(key="no.such", value="<undefined>")]
    assert spark.conf.get("spark.sql.ansi.enabled") == "true"


def test_settings_are_those_of_their_session(server, spark):
    other = SparkSession.builder.remote(server).config("spark.sql.shuffle.partitions", "9").create()
    try:
        assert other.conf.get("spark.sql.shuffle.partitions") == "9"
        assert spark.conf.get("spark.sql.shuffle.partitions") == "200"
    finally:
        other.stop()


# ---- views and the catalog

def test_views(spark):
    spark.range(3).createOrReplaceTempView("V")
    assert spark.table("v").count() == 3
    assert spark.sql("select max(id) as m from v").collect() == [Row(m=2)]
    assert [(t.name, t.tableType, t.isTemporary) for t in spark.catalog.listTables()] == [("v", "TEMPORARY", True)]
    assert spark.catalog.tableExists("v") and not spark.catalog.tableExists("w")
    assert [(c.name, c.dataType, c.nullable) for c in spark.catalog.listColumns("v")] == [("id", "bigint", False)]
    with pytest.raises(AnalysisException) as error:
        spark.range(1).createTempView("v")
    assert error.value.getCondition() == "TEMP_TABLE_OR_VIEW_ALREADY_EXISTS"
    with pytest.raises(AnalysisException):
        spark.range(1).select("nope").createOrReplaceTempView("bad")
    assert spark.catalog.dropTempView("v") and not spark.catalog.dropTempView("v")
    assert spark.catalog.listTables() == []
    spark.sql("create temporary view w as select 1 as one")
    assert spark.table("w").collect() == [Row(one=1)]
    spark.sql("drop view w")
    assert not spark.catalog.tableExists("w")


def test_catalog_answers(spark):
    assert spark.catalog.currentDatabase() == "default"
    assert spark.catalog.currentCatalog() == "spark_catalog"
    assert [d.name for d in spark.catalog.listDatabases()] == ["default"]
    assert spark.catalog.databaseExists("default") and not spark.catalog.databaseExists("nope")
    assert spark.catalog.functionExists("sum") and not spark.catalog.functionExists("no_such_function")
    names = [f.name for f in spark.catalog.listFunctions()]
    assert {"abs", "sum", "upper", "+"} <= set(names) and names == sorted(names)
    assert [f.name for f in spark.catalog.listFunctions(pattern="ab*")] == ["abs"]
    assert spark.catalog.getFunction("ABS").name == "abs"
    assert spark.sql("show functions like 'ab*'").collect() == [Row(function="abs")]
    spark.catalog.setCurrentDatabase("default")
    with pytest.raises(AnalysisException) as error:
        spark.catalog.setCurrentDatabase("nope")
    assert error.value.getCondition() == "SCHEMA_NOT_FOUND"


def test_show_describe_explain_statements(spark):
    spark.range(2).createOrReplaceTempView("v")
    assert spark.sql("show tables").collect() == [Row(namespace="", tableName="v", isTemporary=True)]
    assert spark.sql("show views like 'x*'").collect() == []
    assert spark.sql("show databases").collect() == [Row(namespace="default")]
    assert spark.sql("show columns in v").collect() == [Row(col_name="id")]
    assert spark.sql("describe v").collect() == [Row(col_name="id", data_type="bigint", comment=None)]
    assert spark.sql("describe query select 1 as a").collect() == [Row(col_name="a", data_type="int", comment=None)]
    (row,) = spark.sql("explain select * from v").collect()
    assert row.plan.startswith("== Physical Plan ==\n")
    with pytest.raises(AnalysisException, match="'INSERT' expects a table but `v` is a view"):
        spark.sql("insert into v values (1)")


def test_a_cloned_session_has_settings_and_views(spark):
    if not hasattr(spark, "cloneSession"):
        pytest.skip("clients before 4.1 cannot clone")
    spark.range(2).createOrReplaceTempView("v")
    spark.conf.set("my.key", "x")
    clone = spark.cloneSession()
    try:
        assert clone.table("v").count() == 2
        assert clone.conf.get("my.key") == "x"
        clone.catalog.dropTempView("v")
        assert spark.table("v").count() == 2
    finally:
        clone.client.release_session()  # clone.stop() fails in pyspark-client 4.2.0 itself


# ---- analysis

def test_analysis(spark):
    df = spark.range(3).withColumn("t", F.lit("x"))
    assert df.dtypes == [("id", "bigint"), ("t", "string")]
    assert not df.isStreaming
    assert spark.range(1).sameSemantics(spark.range(1)) and not spark.range(1).sameSemantics(spark.range(2))
    assert spark.range(1).semanticHash() == spark.range(1).semanticHash()
    assert spark.range(1).inputFiles() == []
    plan = df._explain_string()
    assert plan.startswith("== Physical Plan ==\n")
    assert df._explain_string("extended").startswith("== Parsed Logical Plan ==\n'WithColumns\n+- 'Range\n")
    assert spark.createDataFrame([(1,)], ["i"]).isLocal() and not df.isLocal()


def test_persist_is_remembered(spark):
    df = spark.range(3)
    assert not df.is_cached
    df.cache()
    assert df.is_cached and df.storageLevel.useMemory and df.storageLevel.useDisk
    df.unpersist()
    assert not df.is_cached


# ---- what is not served is refused by name, at once

def test_unsupported_things_say_so(spark, tmp_path):
    started = time.monotonic()
    script = tmp_path / "a.py"
    script.write_text("x = 1\n")
    with pytest.raises(PySparkException, match="AddArtifacts is not supported"):
        spark.addArtifacts(str(script), pyfile=True)
    assert time.monotonic() - started < 20  # neither is retried


# ---- reattach

class Cutting:
    """A stub whose streams break after `after` responses, as a proxy that drops connections would make them."""

    def __init__(self, stub, after):
        self.stub, self.after, self.cuts, self.reattached = stub, after, 0, 0

    def __getattr__(self, name):
        return getattr(self.stub, name)

    def cut(self, stream):
        for index, response in enumerate(stream):
            if index == self.after:
                stream.cancel()
                self.cuts += 1
                raise Unavailable()
            yield response

    def ExecutePlan(self, *args, **kwargs):
        return self.cut(self.stub.ExecutePlan(*args, **kwargs))

    def ReattachExecute(self, *args, **kwargs):
        self.reattached += 1
        return self.cut(self.stub.ReattachExecute(*args, **kwargs))


class Unavailable(grpc.RpcError):
    def code(self):
        return grpc.StatusCode.UNAVAILABLE

    def details(self):
        return "cut by the test"

    def trailing_metadata(self):
        return ()


@pytest.mark.parametrize("after", [1, 2, 3])
def test_broken_streams_are_resumed_without_loss(spark, after):
    client = spark.client
    stub = Cutting(client._stub, after)
    client._stub = stub
    try:
        ids = spark.range(100_000).toArrow().column("id").to_pylist()
    finally:
        client._stub = stub.stub
    assert ids == list(range(100_000))
    assert stub.cuts >= 1 and stub.reattached >= 1


def request_of(spark, df, operation_id):
    request = spark.client._execute_plan_request_with_metadata()
    request.plan.CopyFrom(df._plan.to_proto(spark.client))
    request.operation_id = operation_id
    request.request_options.append(pb2.ExecutePlanRequest.RequestOption(reattach_options=pb2.ReattachOptions(reattachable=True)))
    return request


def reattach(spark, operation_id, last=None):
    request = pb2.ReattachExecuteRequest(session_id=spark.client._session_id, operation_id=operation_id, last_response_id=last)
    request.user_context.user_id = spark.client._user_id or ""
    return [r for r in spark.client._stub.ReattachExecute(request, metadata=spark.client._builder.metadata())
            if r.WhichOneof("response_type") != "execution_progress"]


def test_a_finished_operation_can_be_read_again_until_it_is_released(spark):
    operation = str(uuid.uuid4())
    stub, metadata = spark.client._stub, spark.client._builder.metadata()
    first = [r for r in stub.ExecutePlan(request_of(spark, spark.range(3), operation), metadata=metadata)
             if r.WhichOneof("response_type") != "execution_progress"]
    assert [r.WhichOneof("response_type") for r in first] == [None, "arrow_batch", "result_complete"]
    assert [r.response_id for r in reattach(spark, operation)] == [r.response_id for r in first]
    assert [r.response_id for r in reattach(spark, operation, first[1].response_id)] == [first[2].response_id]
    release = pb2.ReleaseExecuteRequest(session_id=spark.client._session_id, operation_id=operation,
                                        release_all=pb2.ReleaseExecuteRequest.ReleaseAll())
    release.user_context.user_id = spark.client._user_id or ""
    assert stub.ReleaseExecute(release, metadata=metadata).operation_id == operation
    with pytest.raises(grpc.RpcError) as error:
        reattach(spark, operation)
    assert error.value.code() == grpc.StatusCode.INTERNAL
    assert "INVALID_HANDLE.OPERATION_NOT_FOUND" in error.value.details()


# ---- interrupt

def slow(spark):
    a, b = spark.range(1_000_000_000), spark.range(1000).withColumnRenamed("id", "other")
    return a.crossJoin(b).where("id % 7919 = other + 8000").agg(F.count("*"))


def interrupted(spark, interrupt):
    """Runs a slow query, interrupts it; gives (the error, what interrupt gave)."""
    outcome = []

    def run():
        try:
            slow(spark).collect()
            outcome.append(None)
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    ids = []
    for _ in range(200):  # until it runs
        time.sleep(0.05)
        ids = interrupt()
        if ids:
            break
    thread.join(60)
    assert not thread.is_alive()
    return outcome[0], ids


def test_interrupt_all(spark):
    error, ids = interrupted(spark, spark.interruptAll)
    assert len(ids) == 1
    assert isinstance(error, PySparkException)
    assert "OPERATION_CANCELED" in str(error)
    assert spark.interruptAll() == []
    assert spark.range(2).count() == 2  # the session lives on


def test_interrupt_by_tag(spark):
    assert spark.interruptTag("nobody") == []
    spark.addTag("slow")
    try:
        # Tags are those of a thread: the query's thread gets them by being started with the client's.
        tags = spark.client.get_tags()
        assert tags == {"slow"}
    finally:
        spark.clearTags()


# ---- sessions

def test_a_stopped_session_is_closed_for_good(server):
    session = SparkSession.builder.remote(server).create()
    assert session.range(1).count() == 1
    client = session.client
    request = client._analyze_plan_request_with_metadata()
    request.spark_version.SetInParent()
    stub, metadata = client._stub, client._builder.metadata()
    release = pb2.ReleaseSessionRequest(session_id=client._session_id, user_context=request.user_context)
    stub.ReleaseSession(release, metadata=metadata)
    stub.ReleaseSession(release, metadata=metadata)  # twice is fine
    with pytest.raises(grpc.RpcError) as error:
        stub.AnalyzePlan(request, metadata=metadata)
    assert "INVALID_HANDLE.SESSION_CLOSED" in error.value.details()
    session.client.close()


def test_many_sessions_work_side_by_side(server):
    failures = []

    def work(number):
        try:
            session = SparkSession.builder.remote(server).create()
            for i in range(5):
                assert session.range(number + i).count() == number + i
            session.stop()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not failures
