"""The installed tree, and what is built against it: the sample plugin, loaded and used from PySpark."""
import json, os, pathlib, re, shutil, subprocess, sys
import pytest
from conftest import BUILD, LEAVES, ROOT, Server, run


def call(*command, **options):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{command}: {done.stdout[-2000:]} {done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="session")
def installed(tmp_path_factory):
    prefix = tmp_path_factory.mktemp("installed")
    call("cmake", "--install", BUILD, "--prefix", prefix)
    return prefix


@pytest.fixture(scope="session")
def plugin(installed, tmp_path_factory):
    folder = tmp_path_factory.mktemp("plugin")
    call("cmake", "-S", ROOT / "examples/plugin", "-B", folder, f"-DCMAKE_PREFIX_PATH={installed}",
         "-DCMAKE_C_FLAGS=-Wall -Wextra -Werror -pedantic -D_GNU_SOURCE")
    call("cmake", "--build", folder)
    return folder / "sample_plugin.so"


CLIENT = r"""
import json, sys
from google.protobuf import any_pb2
from google.protobuf.internal.encoder import _VarintBytes
from pyspark.sql import SparkSession, functions as F
from pyspark.sql.connect.dataframe import DataFrame
from pyspark.sql.connect.column import Column
from pyspark.sql.connect.expressions import Expression
from pyspark.sql.connect.plan import LogicalPlan
import pyspark.sql.connect.proto as pb
from pyspark.errors import PySparkException

spark = SparkSession.builder.remote(sys.argv[1]).create()

def field(number, data):
    data = data.encode() if isinstance(data, str) else data
    return _VarintBytes(number << 3 | 2) + _VarintBytes(len(data)) + data

def packed(type_name, *fields):
    value = b"".join(field(i + 1, data) for i, data in enumerate(fields))
    return any_pb2.Any(type_url="type.googleapis.com/" + type_name, value=value)

class Extension(LogicalPlan):
    def __init__(self, child, make):
        super().__init__(child)
        self.make = make
    def plan(self, session):
        relation = self._create_proto_relation()
        relation.extension.CopyFrom(self.make(session))
        return relation

def add_column(df, name, column):
    def make(session):
        return packed("sample.AddColumn", df._plan.plan(session).SerializeToString(), name,
                      column._expr.to_plan(session).SerializeToString())
    return DataFrame(Extension(df._plan, make), df._session)

def encoded(format, payload, *options):
    pairs = [field(3, field(1, k) + field(2, v)) for k, v in options]
    def make(session):
        value = field(1, format) + field(2, payload) + b"".join(pairs)
        return any_pb2.Any(type_url="type.googleapis.com/trunnion.EncodedQuery", value=value)
    return DataFrame(Extension(None, make), spark)

class Bracket(Expression):
    def __init__(self, column):
        super().__init__()
        self.column = column
    def to_plan(self, session):
        expression = self._create_proto_expression()
        expression.extension.CopyFrom(packed("sample.Bracket", self.column._expr.to_plan(session).SerializeToString()))
        return expression
    def __repr__(self):
        return "bracket"

class CountOver(Expression):
    def __init__(self, *columns):
        super().__init__()
        self.columns = columns
    def to_plan(self, session):
        expression = self._create_proto_expression()
        parts = [column._expr.to_plan(session).SerializeToString() for column in self.columns]
        expression.extension.CopyFrom(packed("sample.CountOver", *parts))
        return expression
    def __repr__(self):
        return "count_over"

def bracket(column):
    return Column(Bracket(column))

def rows(df):
    return [list(row) for row in df.collect()]

def error_of(make):
    try:
        make()
    except PySparkException as error:
        return str(error)
    return None
"""


@pytest.fixture(scope="session")
def pyspark(plugin, tmp_path_factory):
    """Runs Python behind CLIENT against a server with the plugin; gives what it printed last, from JSON."""
    folder = tmp_path_factory.mktemp("client")
    with Server("--listen", "127.0.0.1:0", "--plugin", plugin) as server:
        def go(code, target=server):
            script = folder / "client.py"
            script.write_text(LEAVES + CLIENT + code)
            done = subprocess.run([sys.executable, str(script), f"sc://{target.address}"], capture_output=True, text=True,
                                  timeout=300)
            assert done.returncode == 0, done.stderr[-3000:]
            return json.loads(done.stdout.strip().splitlines()[-1])
        yield go


def test_a_relation_of_ones_own_takes_a_child_and_adds_a_column(pyspark):
    got = pyspark("""
df = spark.range(3).withColumnRenamed("id", "n").alias("t")
more = add_column(df, "double", F.col("t.n") * 2)
print(json.dumps({
    "columns": more.columns, "types": [t for _, t in more.dtypes], "rows": rows(more),
    "by name": rows(more.filter("double > 0").select("double", "n")),
    "by qualifier": rows(more.select("t.n")),
    "by plan id": rows(more.select(more["double"], df["n"]).filter(more["double"] == 4)),
    "twice": rows(add_column(more, "again", more["double"] + F.col("n"))),
    "joined": rows(more.join(df, more["n"] == df["n"]).select(more["double"], df["n"]).orderBy("double")),
    "in a view": [more.createOrReplaceTempView("v"), rows(spark.sql("SELECT sum(double) FROM v"))][1],
}))""")
    assert got == {
        "columns": ["n", "double"], "types": ["bigint", "bigint"], "rows": [[0, 0], [1, 2], [2, 4]],
        "by name": [[2, 1], [4, 2]], "by qualifier": [[0], [1], [2]], "by plan id": [[4, 2]],
        "twice": [[0, 0, 0], [1, 2, 3], [2, 4, 6]], "joined": [[0, 0], [2, 1], [4, 2]], "in a view": [[6]],
    }


def test_an_expression_of_ones_own(pyspark):
    got = pyspark("""
df = spark.createDataFrame([("a", 1), ("b", 2), (None, 3)], "s string, i int")
print(json.dumps({
    "select": rows(df.select(bracket(df["s"]), "i")), "name": df.select(bracket(F.col("s"))).columns,
    "filter": rows(df.filter(bracket(F.upper("s")) == "<B>")),
    "aggregate": rows(df.select(bracket(F.max("s")))),
    "group": rows(df.groupBy("i").agg(bracket(F.min("s")).alias("x")).orderBy("i")),
    "inside": rows(df.select(bracket(bracket(F.col("s"))))),
}))""")
    assert got == {
        "select": [["<a>", 1], ["<b>", 2], [None, 3]], "name": ["bracket"],
        "filter": [["b", 2]], "aggregate": [["<b>"]], "group": [[1, "<a>"], [2, "<b>"], [3, None]],
        "inside": [["<<a>>"], ["<<b>>"], [None]],
    }


def test_an_expression_of_ones_own_has_a_lambda(pyspark):
    got = pyspark("""
df = spark.sql("SELECT * FROM VALUES (array(1L, 5L, NULL, 9L), 4L), (array(), 0L), (NULL, 1L), (array(7L), NULL) AS t(xs, k)")
over = lambda xs, k: Column(CountOver(xs, k))
print(json.dumps({
    "column": rows(df.select(over(F.col("xs"), F.col("k")))), "literal": rows(df.select(over(F.col("xs"), F.lit(1).cast("bigint")), "k")),
    "never null": rows(df.select(over(F.sequence(F.col("k"), F.col("k") + 3), F.col("k") + 1))),
    "filter": rows(df.filter(over(F.col("xs"), F.col("k")) > 1).select("k")),
    "aggregate": rows(df.select(over(F.collect_list("k"), F.min("k")))),
    "twice": rows(df.select(over(F.array(over(F.col("xs"), F.col("k"))), F.lit(0).cast("bigint")))),
    "wrong": error_of(lambda: df.select(over(F.col("k"), F.col("k"))).collect()),
}))""")
    assert "for a list and a value like its elements" in got.pop("wrong")
    assert got == {
        "column": [[2], [0], [None], [0]], "literal": [[2, 4], [0, 0], [None, 1], [1, None]], "never null": [[2], [2], [2], [None]],
        "filter": [[4]], "aggregate": [[2]], "twice": [[1], [0], [0], [0]],
    }


def test_a_command_of_ones_own_answers_with_rows(pyspark):
    got = pyspark("""
command = pb.Command()
command.extension.CopyFrom(packed("sample.Echo", "hello"))
frame = spark._client.execute_command(command)[0]
print(json.dumps([list(frame.columns), frame.values.tolist()]))""")
    assert got == [["echo"], [["hello"]]]


def test_a_decoder_of_ones_own_builds_a_join(pyspark, tmp_path):
    got = pyspark(f"""
spark.createDataFrame([(1, "a"), (2, "b")], "k int, l string").write.saveAsTable("lefts")
spark.createDataFrame([(2, 2.5), (3, 3.5)], "k int, r double").write.saveAsTable("rights")
joined = encoded("sample.join.v1", field(1, "lefts") + field(2, "default.rights") + field(3, "k"))
print(json.dumps({{"columns": joined.columns, "rows": rows(joined),
                  "more": rows(joined.select("l", F.col("r") * 2)),
                  "missing": error_of(lambda: encoded("sample.join.v1", field(1, "lefts") + field(2, "nope") + field(3, "k")).collect()),
                  "no column": error_of(lambda: encoded("sample.join.v1", field(1, "lefts") + field(2, "rights") + field(3, "x")).collect())}}))""")
    assert got["columns"] == ["k", "l", "k", "r"] and got["rows"] == [[2, "b", 2, 2.5]] and got["more"] == [["b", 5.0]]
    assert "nope" in got["missing"] and "has no column x" in got["no column"]


def test_built_in_formats_and_unknown_ones(pyspark):
    got = pyspark("""
print(json.dumps({"sql": rows(encoded("sql", "SELECT 1 + 1 AS two").select("two")),
                  "unknown": error_of(lambda: encoded("substrait.plan.v2", b"x").collect()),
                  "garbage": error_of(lambda: encoded("sample.join.v1", b"\\xff\\xff").collect()),
                  "type": error_of(lambda: DataFrame(Extension(None, lambda s: packed("sample.AdColumn")), spark).collect()),
                  "not a relation": error_of(lambda: DataFrame(Extension(None, lambda s: packed("sample.Echo", "x")), spark).collect()),
                  "bad child": error_of(lambda: DataFrame(Extension(None, lambda s: packed("sample.AddColumn", b"\\xff", "x")), spark).collect())}))""")
    assert got["sql"] == [[2]]
    assert "did you mean 'substrait.plan.v1'?" in got["unknown"] and "sample.join.v1" in got["unknown"]
    assert "sample.Join cannot be read" in got["garbage"]
    assert "did you mean 'sample.AddColumn'?" in got["type"]
    assert "is no relation" in got["not a relation"]
    assert got["bad child"]


def test_extensions_inside_extensions_are_bounded(pyspark):
    got = pyspark("""
df = spark.range(1)
for i in range(60):
    df = add_column(df, f"c{i}", F.lit(i))
deep = add_column(df, "x", F.lit(1))
for i in range(20):
    deep = add_column(deep, f"d{i}", F.lit(i))
print(json.dumps({"columns": len(df.collect()[0]), "deep": error_of(lambda: deep.collect())}))""")
    assert got["columns"] == 61
    assert "TRN_EXTENSION_DEPTH_MAX" in got["deep"]


FUNCTIONS = r"""
df = spark.createDataFrame([(1, 12), (1, 305), (2, 7), (2, None), (3, None)], "k int, n long")
df.createOrReplaceTempView("numbers")
"""


def test_functions_of_each_kind(pyspark):
    got = pyspark(FUNCTIONS + """
print(json.dumps({
    "scalar": rows(spark.sql("SELECT sample.digit_sum(n) FROM numbers ORDER BY k, n NULLS LAST")),
    "by column": rows(df.filter("n is not null").orderBy("n").select(F.call_function("sample.digit_sum", F.col("n")))),
    "in a condition": rows(spark.sql("SELECT n FROM numbers WHERE Sample.Digit_Sum(n) = 8")),
    "of a constant": rows(spark.sql("SELECT sample.digit_sum(-99L)")),
    "aggregate": rows(spark.sql("SELECT k, sample.product(n) FROM numbers GROUP BY k ORDER BY k")),
    "filter": rows(spark.sql("SELECT sample.product(n) FILTER (WHERE n < 100), sample.product(DISTINCT k + 0L) FROM numbers")),
    "no rows": rows(spark.sql("SELECT sample.product(n) FROM numbers WHERE k > 9")),
    "many": rows(spark.range(1, 1001, 1, 4).selectExpr("id % 250 as g", "id % 7 as x").groupBy("g")
                 .agg(F.call_function("sample.product", F.col("x")).alias("p")).agg(F.count("*"), F.sum("p"))),
    "over": rows(spark.sql("SELECT id, sample.product(id) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM range(1, 5)")),
    "window": rows(spark.sql("SELECT k, n, sample.gap(n) OVER (PARTITION BY k ORDER BY n NULLS LAST) FROM numbers ORDER BY k, n NULLS LAST")),
    "table": rows(spark.sql("SELECT * FROM sample.squares(4L) WHERE n > 1")),
    "table joined": rows(spark.sql("SELECT s.square FROM sample.squares(10L) s JOIN numbers ON s.n = numbers.n")),
    "name": spark.sql("SELECT sample.digit_sum(n) FROM numbers").columns,
    "the engine's sql": rows(encoded("sql", "SELECT sum(square) FROM LATERAL \\"sample.squares\\"(5) WHERE n > 2")),
}))""")
    product = lambda xs: __import__("math").prod(xs)
    groups = [product(i % 7 for i in range(1, 1001) if i % 250 == g) for g in range(250)]
    assert got == {
        "scalar": [[3], [8], [7], [None], [None]], "by column": [[7], [3], [8]], "in a condition": [[305]],
        "of a constant": [[18]], "aggregate": [[1, 3660], [2, 7], [3, None]], "filter": [[84, 6]], "no rows": [[None]],
        "many": [[250, sum(groups)]], "over": [[1, 1], [2, 2], [3, 6], [4, 12]],
        "window": [[1, 12, None], [1, 305, 293], [2, 7, None], [2, None, None], [3, None, None]],
        "table": [[2, 4], [3, 9]], "table joined": [[49]], "name": ["sample.digit_sum(n)"],
        "the engine's sql": [[25]],
    }


def test_functions_have_a_name_of_the_sessions_own_and_change_none_of_sparks(pyspark):
    got = pyspark(FUNCTIONS + """
spark.sql("CREATE TEMPORARY FUNCTION digits AS 'sample.digit_sum'")
spark.sql("CREATE TEMPORARY FUNCTION prod AS 'sample.product'")
spark.sql("CREATE TEMPORARY FUNCTION squares AS 'sample.squares'")
other = SparkSession.builder.remote(sys.argv[1]).create()
print(json.dumps({
    "here": rows(spark.sql("SELECT digits(n) FROM numbers WHERE n = 305")),
    "aggregate": rows(spark.sql("SELECT prod(n) FROM numbers WHERE k = 1")),
    "table": rows(spark.sql("SELECT square FROM squares(3L)")),
    "there": error_of(lambda: other.sql("SELECT digits(1L)").collect()),
    "unqualified": error_of(lambda: spark.sql("SELECT digit_sum(1L)").collect()),
    "spark's own": rows(spark.sql("SELECT concat('a', 'b'), product(n) FROM numbers WHERE k = 1")),
    "dropped": [spark.sql("DROP TEMPORARY FUNCTION digits"), error_of(lambda: spark.sql("SELECT digits(1L)").collect())][1],
    "no such": error_of(lambda: spark.sql("CREATE TEMPORARY FUNCTION f AS 'sample.nope'")),
    "types": error_of(lambda: spark.sql("SELECT sample.digit_sum('x')").collect()),
    "overflow": error_of(lambda: spark.sql("SELECT sample.product(id) FROM range(1, 100)").collect()),
    "no constant": error_of(lambda: spark.sql("SELECT * FROM sample.squares(rand())").collect()),
    "a million": error_of(lambda: spark.sql("SELECT * FROM sample.squares(2000000L)").collect()),
}))""")
    assert got["here"] == [[8]] and got["aggregate"] == [[3660]] and got["table"] == [[0], [1], [4]]
    assert got["spark's own"] == [["ab", 3660.0]]
    for name in ("there", "unqualified", "dropped"):
        assert "UNRESOLVED_ROUTINE" in got[name], (name, got[name])
    assert "CANNOT_LOAD_FUNCTION_CLASS" in got["no such"] and "sample.nope" in got["no such"]
    assert "sample.digit_sum takes one bigint" in got["types"] and "sample.product leaves 64 bits" in got["overflow"]
    assert "no constant" in got["no constant"] and "a million rows" in got["a million"]


LISTS = r"""
from pyspark.sql.connect.functions.builtin import _create_lambda
df = spark.createDataFrame([(1, [1, 2, 3]), (10, None), (100, []), (1000, [4, None])], "k long, xs array<long>")
df.createOrReplaceTempView("lists")

def of(lambda_):
    return Column(_create_lambda(lambda_))
"""


def test_functions_with_lambdas(pyspark):
    got = pyspark(LISTS + """
far = spark.range(0, 20000, 1, 3).selectExpr("id", "transform(sequence(0, id % 5), i -> i + id) AS xs")
print(json.dumps({
    "column": rows(df.select(F.call_function("sample.count_where", "xs", of(lambda x: x > 1)))),
    "captured": rows(df.select(F.call_function("sample.count_where", "xs", of(lambda x: x * 400 > F.col("k"))))),
    "expr": rows(df.select(F.expr("sample.running(xs, k, (s, x) -> s + x)"))),
    "sql": rows(spark.sql("SELECT sample.running(xs, 0L, (s, x, i) -> x * 10 + i) FROM lists WHERE k < 1000")),
    "constant list": rows(spark.sql("SELECT sample.count_where(array(1, 50, 500), x -> x > k) FROM lists")),
    "nested": rows(spark.sql("SELECT sample.running(xs, 0L, (s, x) -> s + sample.count_where(xs, y -> y >= x AND k > 0)) FROM lists")),
    "in spark's": rows(spark.sql("SELECT transform(xs, x -> sample.count_where(array(x, 2, k), y -> y = x)) FROM lists")),
    "spark's inside": rows(spark.sql("SELECT sample.count_where(transform(xs, x -> array(x, k)), y -> exists(y, z -> z > 3)) FROM lists")),
    "structs": rows(spark.sql("SELECT sample.count_where(array(struct('a' AS n, k AS v), struct('b' AS n, 5L AS v)), s -> s.v > 4 AND s.n < 'b') FROM lists")),
    "texts": rows(spark.sql("SELECT sample.count_where(split('a,bb,100', ','), s -> length(s) > 1 AND s <> string(k)) FROM lists")),
    "where": rows(spark.sql("SELECT k FROM lists WHERE sample.count_where(xs, x -> x > 2) > 0")),
    "grouped": rows(spark.sql("SELECT sample.count_where(collect_list(k), x -> x > 5) FROM lists")),
    "many": rows(far.selectExpr("sample.count_where(xs, x -> x % 2 = id % 2) AS n").agg(F.sum("n"))),
    "no rows": rows(df.filter("k > 5000").selectExpr("sample.count_where(xs, x -> x > 1)")),
    "no lambda": rows(spark.sql("SELECT sample.count_where(xs, true) FROM lists")),
    "types": [t for _, t in df.selectExpr("sample.count_where(xs, x -> true)", "sample.running(xs, k, (s, x) -> s)").dtypes],
    "name": df.selectExpr("sample.count_where(xs, x -> x > k)").columns,
    "own name": [spark.sql("CREATE TEMPORARY FUNCTION matches AS 'sample.count_where'"),
                 rows(spark.sql("SELECT matches(xs, x -> x > 1) FROM lists"))][1],
}))""")
    numbers = [sum((i + n) % 2 == n % 2 for i in range(n % 5 + 1)) for n in range(20000)]
    assert got == {
        "column": [[2], [None], [0], [1]], "captured": [[3], [None], [0], [1]],
        "expr": [[[2, 4, 7]], [None], [[]], [[1004, None]]], "sql": [[[10, 21, 32]], [None], [[]]],
        "constant list": [[2], [2], [1], [0]], "nested": [[[3, 5, 6]], [None], [[]], [[1, 1]]],
        "in spark's": [[[2, 2, 1]], [None], [[]], [[1, 0]]], "spark's inside": [[0], [None], [0], [2]],
        "structs": [[0], [1], [1], [1]], "texts": [[2], [2], [1], [2]], "where": [[1], [1000]], "grouped": [[3]], "many": [[sum(numbers)]],
        "no rows": [], "no lambda": [[3], [None], [0], [2]], "types": ["bigint", "array<bigint>"],
        "name": ["sample.count_where(xs, lambdafunction((namedlambdavariable() > k), namedlambdavariable()))"],
        "own name": [[2], [None], [0], [1]],
    }


def test_lambdas_that_do_not_fit_are_refused(pyspark):
    got = pyspark(LISTS + """
print(json.dumps([error_of(lambda: spark.sql(f"SELECT {q} FROM lists").collect()) for q in (
    "sample.count_where(xs)", "sample.count_where(xs, (x, y) -> true)", "sample.running(xs, 0L, x -> x)",
    "sample.count_where(x -> true, xs)", "sample.digit_sum(x -> x)", "sample.count_where(k, x -> true)",
    "sample.count_where(xs, x -> x)", "sample.running(xs, 0L, (s, x) -> 'a')", "sample.running(xs, 0L, (s, x) -> s div (x - 2))",
    "sample.count_where(xs, x -> nowhere > x)")]))""")
    for error, part in zip(got, (
            "WRONG_NUM_ARGS", "INVALID_LAMBDA_FUNCTION_CALL.NUM_ARGS_MISMATCH", "INVALID_LAMBDA_FUNCTION_CALL.NUM_ARGS_MISMATCH",
            "INVALID_LAMBDA_FUNCTION_CALL.PARAMETER_DOES_NOT_ACCEPT_LAMBDA_FUNCTION",
            "INVALID_LAMBDA_FUNCTION_CALL.NON_HIGHER_ORDER_FUNCTION", "takes an array and a condition",
            "takes an array and a condition", "a function of both that gives a bigint", "DIVIDE_BY_ZERO", "UNRESOLVED_COLUMN")):
        assert error and part in error, (part, error)


def test_functions_are_called_from_the_engines_sql(plugin):
    dbapi = pytest.importorskip("adbc_driver_flightsql.dbapi")
    with Server("--listen", "127.0.0.1:0", "--plugin", plugin) as server:
        with dbapi.connect(f"grpc://{server.address}", autocommit=True) as connection:
            connection.adbc_connection.set_options(
                **{"adbc.flight.sql.session.option.datafusion.sql_parser.dialect": "duckdb"})

            def rows(query):
                with connection.cursor() as cursor:
                    cursor.execute(query)
                    return cursor.fetchall()
            rows("CREATE TABLE numbers AS SELECT * FROM (VALUES (1, 12), (1, 305), (2, 7), (2, NULL)) AS t(k, n)")
            assert rows("SELECT sample.digit_sum(n) FROM numbers ORDER BY k, n") == [(3,), (8,), (7,), (None,)]
            assert rows('SELECT "sample.digit_sum"(99)') == [(18,)]
            assert rows("SELECT k, sample.product(n) FILTER (WHERE n > 7) FROM numbers GROUP BY k ORDER BY k") == [
                (1, 3660), (2, None)]
            assert rows("SELECT sample.gap(n) OVER (ORDER BY n) FROM numbers WHERE n > 0") == [(None,), (5,), (293,)]
            assert rows("SELECT sum(square) FROM LATERAL \"sample.squares\"(5) WHERE n > 2") == [(25,)]
            assert rows("SELECT sample.count_where(make_array(1, 5, 100), x -> x > n) FROM numbers ORDER BY n") == [
                (1,), (1,), (0,), (0,)]
            assert rows("SELECT sample.running(make_array(1, 2), n, (s, x) -> s + x) FROM numbers WHERE n = 7") == [([8, 10],)]
            for query, part in (("SELECT trn.array_indices(make_array(5))", "trn.array_indices"), ("SELECT sample.nothing(1)", "sample.nothing"),
                                ("SELECT sample.digit_sum('x')", "sample.digit_sum takes one bigint"),
                                ("SELECT sample.count_where(1, x -> true)", "takes an array and a condition")):
                with pytest.raises(Exception, match=re.escape(part)):
                    rows(query)


def test_policies_know_functions_of_plugins(pyspark, plugin, tmp_path):
    file = tmp_path / "trunnion.yaml"
    rules = [{"deny": ["use"], "functions": ["sample.digit_sum", "sample.squares", "sample.count_where"]}]
    file.write_text(json.dumps({"listen": "127.0.0.1:0", "plugins": [{"file": str(plugin)}],
                                "layers": [{"authorize": {"default": "allow", "rules": rules}}]}))
    with Server("--config", file) as server:
        got = pyspark("""
spark.sql("CREATE TEMPORARY FUNCTION digits AS 'sample.digit_sum'")
print(json.dumps([rows(spark.sql("SELECT sample.product(id) FROM range(1, 4)"))] + [error_of(lambda: spark.sql(q).collect())
    for q in ("SELECT sample.digit_sum(id) FROM range(3)", "SELECT digits(id) FROM range(3)", "SELECT * FROM sample.squares(2L)",
              "SELECT sample.count_where(array(1), x -> x > 0)", "SELECT transform(array(1L), x -> sample.digit_sum(x))")] + [
        error_of(lambda: encoded("sql", "SELECT sample.digit_sum(305)").collect())]))""", server)
    assert got[0] == [[6]]
    for error, name in zip(got[1:], ("digit_sum", "digit_sum", "squares", "count_where", "digit_sum", "digit_sum")):
        assert error and f"sample.{name}" in error, error


def test_a_layer_of_ones_own_rewrites_scans(pyspark, plugin, tmp_path):
    file = tmp_path / "trunnion.yaml"
    file.write_text(json.dumps({"listen": "127.0.0.1:0", "plugins": [{"file": str(plugin)}],
                                "layers": [{"sample.head": {"rows": 3}}]}))
    with Server("--config", file) as server:
        got = pyspark(f"""
spark.range(100).write.parquet("{tmp_path}/numbers")
print(json.dumps([spark.read.parquet("{tmp_path}/numbers").count(), spark.range(50).count()]))""", server)
    assert got == [3, 50]


def test_check_names_the_plugin_and_its_decoder(plugin):
    status, out, err = run("serve", "--check", "--plugin", plugin)
    assert status == 0, err
    assert re.search(r"plugin +sample 1.0", out) and "sample.join.v1" in out and re.search(r"functions +sample", out)
    status, _, err = run("serve", "--check", "--plugin", plugin, "--plugin", plugin)
    assert status == 2 and "There is already a translator 'sample.AddColumn'" in err


@pytest.mark.parametrize("abi, size, message", [
    (99, 0, "is a plugin for version 99 of the plugin interface, this library (0.1.0) has version 1"),
    (1, 1, "is a plugin for version 1 of"),
    (0, 0, "is a plugin for version 0 of"),
])
def test_a_plugin_of_another_version_is_refused(installed, tmp_path, abi, size, message):
    (tmp_path / "other.c").write_text(f"""
#include <trunnion/plugin.h>
#include <stdlib.h>
TRN_API const trn_plugin_about trn_plugin = {{{abi}, sizeof(trn_slice) + {size}, "9.9", "other", "1"}};
trn_status trn_plugin_init(trn_registry *r, const trn_config *c, trn_error **e) {{ (void)r, (void)c, (void)e; abort(); }}
""")
    call("cc", "-shared", "-fPIC", "-o", tmp_path / "other.so", tmp_path / "other.c", f"-I{installed}/include")
    status, _, err = run("serve", "--check", "--plugin", tmp_path / "other.so")
    assert status == 2 and message in err, err


def test_a_plugin_that_fails_says_why(installed, tmp_path):
    (tmp_path / "failing.c").write_text("""
#include <trunnion/plugin.h>
TRN_PLUGIN("failing", "1")
trn_status trn_plugin_init(trn_registry *r, const trn_config *c, trn_error **e) {
  (void)r, (void)c;
  return trn_error_set(e, TRN_UNAVAILABLE, NULL, "the licence has expired");
}
""")
    call("cc", "-shared", "-fPIC", "-o", tmp_path / "failing.so", tmp_path / "failing.c", f"-I{installed}/include")
    status, _, err = run("serve", "--check", "--plugin", tmp_path / "failing.so")
    assert status == 2 and "the licence has expired" in err


# ---- the installed tree ----

def test_a_program_is_built_with_pkg_config(installed, tmp_path):
    (tmp_path / "program.c").write_text("""
#include <stdio.h>
#include <trunnion/server.h>
#include <trunnion/trunnion.h>
int main(void) {
  trn_routes *routes = NULL;
  trn_server *server = NULL;
  trn_server_options options = {.struct_size = sizeof options, .listen = "127.0.0.1:0"};
  if (trn_routes_create(&routes) || trn_server_start(routes, &options, &server, NULL)) return 1;
  printf("%s %d\\n", trn_version(), trn_server_port(server) > 0);
  trn_server_stop(server, 0);
  trn_routes_destroy(routes);
  return 0;
}
""")
    environment = dict(os.environ, PKG_CONFIG_PATH=f"{installed}/lib/pkgconfig:{installed}/lib64/pkgconfig")
    flags = call("pkg-config", "--cflags", "--libs", "trunnion-server", env=environment).split()
    libraries = [f[2:] for f in flags if f.startswith("-L")]
    call("cc", "-std=c11", "-o", tmp_path / "program", tmp_path / "program.c", *flags)
    out = call(tmp_path / "program", env=dict(os.environ, LD_LIBRARY_PATH=":".join(libraries)))
    version = call("pkg-config", "--modversion", "trunnion", env=environment).strip()
    assert out == f"{version} 1\n"


def test_the_installed_program_runs_by_itself(installed):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TRUNNION_")}
    done = subprocess.run([installed / "bin/trunnion", "serve", "--check"], capture_output=True, text=True, env=environment)
    if not list(installed.glob("lib*/libtrunnion_engine.so")):
        assert "cannot load the engine" in done.stderr
        pytest.skip("the engine is not where the build was told")
    assert done.returncode == 0, done.stderr
    assert (installed / "share/man/man1/trunnion.1").exists() and (installed / "share/man/man5/trunnion.yaml.5").exists()
