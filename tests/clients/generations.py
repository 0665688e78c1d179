"""What every generation of the PySpark client must be able to do. Run as a program by the client's own Python, in an
environment of its own (tests/rotating.py makes them): generations.py sc://HOST:PORT. Prints one line per check, then
"N passed"; a client that lacks a method says so and the check counts as passed by its absence.
"""
import datetime, decimal, sys, warnings

warnings.simplefilter("ignore")
import pyspark  # noqa: E402
from pyspark.sql import Row, SparkSession, Window  # noqa: E402
from pyspark.sql import functions as F  # noqa: E402

VERSION = tuple(int(x) for x in pyspark.__version__.split(".")[:2])
CHECKS = []


def check(since=(3, 5)):
    def add(function):
        CHECKS.append((function.__name__, since, function))
        return function
    return add


@check()
def version(spark):
    assert spark.version.split(".")[0] == "4", spark.version


@check()
def rows_of_every_type(spark):
    row = (1, 2.5, "s", True, None, b"b", datetime.date(2024, 2, 29), datetime.datetime(2024, 1, 2, 3, 4, 5),
           decimal.Decimal("1.50"), [1, 2], {"k": 1})
    schema = ("i int, d double, s string, b boolean, n string, x binary, t date, ts timestamp, dec decimal(4,2), "
              "a array<int>, m map<string,int>")
    got = spark.createDataFrame([row], schema).collect()[0]
    assert tuple(bytes(v) if isinstance(v, bytearray) else v for v in got) == row, got


@check()
def from_and_to_pandas(spark):
    import pandas
    frame = pandas.DataFrame({"a": [1, 2, 3], "b": ["x", "y", None]})
    back = spark.createDataFrame(frame).orderBy("a").toPandas()
    assert list(back["a"]) == [1, 2, 3] and back["b"][0] == "x" and back["b"][2] is None, back


@check()
def sql_with_parameters(spark):
    assert spark.sql("SELECT :a + 1 AS x", args={"a": 41}).collect() == [Row(x=42)]
    assert spark.sql("SELECT ? || ? AS x", args=["a", "b"]).collect() == [Row(x="ab")]


@check()
def select_filter_group_sort(spark):
    frame = spark.range(100).withColumn("g", F.col("id") % 3)
    got = frame.filter("id >= 10").groupBy("g").agg(F.sum("id").alias("s"), F.count("*").alias("n")).orderBy("g").collect()
    assert [tuple(r) for r in got] == [(0, 1665, 30), (1, 1605, 30), (2, 1635, 30)], got


@check()
def joins_by_name_and_by_column(spark):
    left, right = spark.range(5).withColumn("l", F.col("id") * 2), spark.range(3, 8).withColumn("r", F.col("id") * 3)
    assert sorted(r.id for r in left.join(right, "id").collect()) == [3, 4]
    assert left.join(right, left.id == right.id, "left_anti").count() == 3


@check()
def windows(spark):
    over = Window.partitionBy(F.col("id") % 2).orderBy(F.desc("id"))
    got = spark.range(4).select("id", F.row_number().over(over).alias("n")).orderBy("id").collect()
    assert [r.n for r in got] == [2, 2, 1, 1], got


@check()
def renames_and_drops(spark):
    frame = spark.createDataFrame([(1, 2, 3)], ["a", "b", "c"])
    assert frame.withColumnRenamed("a", "x").drop("b").columns == ["x", "c"]
    assert frame.withColumnsRenamed({"a": "x", "c": "z"}).columns == ["x", "b", "z"]


@check()
def show_and_explain(spark):
    spark.range(2).show()
    spark.range(2).explain()


@check()
def views_and_catalog(spark):
    spark.range(3).createOrReplaceTempView("generation_view")
    assert spark.table("generation_view").count() == 3
    assert any(t.name == "generation_view" for t in spark.catalog.listTables())
    assert spark.catalog.dropTempView("generation_view")


@check()
def settings(spark):
    spark.conf.set("spark.sql.session.timeZone", "Europe/Paris")
    assert spark.conf.get("spark.sql.session.timeZone") == "Europe/Paris"
    got = spark.sql("SELECT cast(timestamp_seconds(0) AS string) AS x").collect()[0].x
    assert got == "1970-01-01 01:00:00", got
    spark.conf.unset("spark.sql.session.timeZone")


@check()
def errors_have_conditions(spark):
    try:
        spark.sql("SELECT missing FROM range(1)").collect()
    except Exception as error:  # noqa: BLE001 - its type differs between generations
        condition = error.getCondition() if hasattr(error, "getCondition") else error.getErrorClass()
        assert (condition or "").startswith("UNRESOLVED_COLUMN") or "UNRESOLVED_COLUMN" in str(error), str(error)
    else:
        raise AssertionError("no error")


@check()
def errors_at_run_time(spark):
    try:
        spark.sql("SELECT 1 / id FROM range(1)").collect()
    except Exception as error:  # noqa: BLE001
        assert "DIVIDE_BY_ZERO" in str(error), str(error)
    else:
        raise AssertionError("no error")


@check()
def large_results(spark):
    assert len(spark.range(300000).withColumn("s", F.col("id").cast("string")).toPandas()) == 300000


@check()
def sets_and_samples(spark):
    one, two = spark.range(5), spark.range(3, 8)
    assert one.union(two).count() == 10 and one.intersect(two).count() == 2 and one.subtract(two).count() == 3
    assert 0 <= one.sample(0.5, seed=1).count() <= 5


@check()
def statistics(spark):
    frame = spark.range(10).withColumn("v", F.col("id") * 2.0)
    assert [r.summary for r in frame.describe("v").collect()] == ["count", "mean", "stddev", "min", "max"]
    assert abs(frame.corr("id", "v") - 1) < 1e-9
    assert frame.approxQuantile("v", [0.5], 0.0) in ([8.0], [10.0])


@check()
def schemas(spark):
    from pyspark.sql.types import StructType
    assert spark.range(1).schema.simpleString() == "struct<id:bigint>"
    assert spark.createDataFrame([], StructType.fromJson(spark.range(1).schema.jsonValue())).count() == 0


@check()
def missing_values(spark):
    frame = spark.createDataFrame([(1, None), (None, "x")], "a int, b string")
    assert frame.na.fill(0).na.fill("-").orderBy("a").collect() == [Row(a=0, b="x"), Row(a=1, b="-")]
    assert frame.dropna().count() == 0


@check()
def pivots(spark):
    got = spark.range(4).withColumn("k", F.col("id") % 2).groupBy("k").pivot("k", [0, 1]).agg(F.sum("id")).orderBy("k").collect()
    assert [tuple(r) for r in got] == [(0, 2, None), (1, None, 4)], got


@check()
def tags_and_interrupts(spark):
    spark.addTag("generation")
    assert spark.getTags() == {"generation"} and spark.range(1).count() == 1
    spark.clearTags()
    assert spark.interruptAll() == []


@check((4, 0))
def scalar_subqueries(spark):
    frame = spark.range(3)
    assert frame.where(F.col("id") == spark.range(3).select(F.max("id")).scalar()).collect() == [Row(id=2)]


@check((4, 0))
def to_arrow(spark):
    assert spark.range(3).toArrow().column("id").to_pylist() == [0, 1, 2]


def main():
    spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
    passed = failed = 0
    for name, since, function in CHECKS:
        if VERSION < since:
            continue
        try:
            function(spark)
            passed += 1
        except BaseException as error:  # noqa: BLE001 - the others still run
            failed += 1
            print(f"FAILED {name}: {type(error).__name__}: {str(error)[:300]}")
    spark.stop()
    print(f"pyspark {pyspark.__version__}: {passed} passed, {failed} failed", flush=True)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
