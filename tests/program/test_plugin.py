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
    assert re.search(r"plugin +sample 1.0", out) and "sample.join.v1" in out
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
