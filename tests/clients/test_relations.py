"""Relations whose shape or rows come from a query of their own (pivot without values, transpose, crosstab, quantiles, tail,
recursive CTEs), and what the analyzer does around aggregations, set operations, windows and names, against answers recorded
from real Spark 4.2.0. Rows are compared as a multiset, unless the case says that they are in order. Recorded by running this
file as a program: python test_relations.py sc://A_REAL_SPARK"""
import json, pathlib, sys
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession, functions as F

RECORD = pathlib.Path(__file__).resolve().parents[1] / "data/spark/relations.json"
CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def cases(**functions):
    CASES.update(functions)


def data(spark):
    return spark.createDataFrame([(1, "a", 2.0), (1, "b", 3.5), (2, None, 1.0), (2, "a", 4.0), (3, "c", None)],
                                 "k int, p string, v double")


def typed(spark):
    return spark.sql("select * from values (1, date'2020-01-02', timestamp'2020-01-01 01:02:03', 1.50, true, x'41'), "
                     "(2, date'2019-01-02', null, 2.25, false, x'42') t(k, d, ts, dec, b, bi)")


def structs(spark):
    return (spark.sql("select named_struct('x', 1, 'y', 'a') s, 1 i"),
            spark.sql("select named_struct('y', 'b', 'z', 2.0) s"))


# pivot
cases(
    pivot=lambda s: data(s).groupBy("k").pivot("p").sum("v"),
    pivot_two=lambda s: data(s).groupBy("k").pivot("p").agg(F.sum("v").alias("s"), F.max("k")),
    pivot_double=lambda s: data(s).groupBy("k").pivot("v").count(),
    pivot_date=lambda s: typed(s).groupBy("k").pivot("d").count(),
    pivot_timestamp=lambda s: typed(s).groupBy("k").pivot("ts").count(),
    pivot_decimal=lambda s: typed(s).groupBy("k").pivot("dec").count(),
    pivot_boolean=lambda s: typed(s).groupBy("k").pivot("b").count(),
    pivot_binary=lambda s: typed(s).groupBy("k").pivot("bi").count(),
    pivot_nothing=lambda s: data(s).where("false").groupBy("k").pivot("p").count(),
    pivot_no_keys=lambda s: data(s).groupBy().pivot("p").count(),
    crosstab=lambda s: data(s).crosstab("k", "p"),
    crosstab_nulls=lambda s: data(s).crosstab("p", "v"),
    crosstab_nothing=lambda s: data(s).where("false").crosstab("p", "v"),
)
# transpose, tail
cases(
    transpose=lambda s: data(s).select("p", "k", "v").transpose(),
    transpose_equal=lambda s: data(s).select("k", "v").transpose(),
    transpose_index=lambda s: data(s).select("k", "v").transpose("v"),
    transpose_only_index=lambda s: data(s).select("k").transpose(),
    transpose_nothing=lambda s: data(s).where("false").select("k", "v").transpose(),
    transpose_arrays=lambda s: data(s).select("k", F.array("v")).transpose(),
    transpose_types=lambda s: data(s).transpose("v"),
    transpose_bad_index=lambda s: data(s).transpose(F.col("k") + 1),
    transpose_no_column=lambda s: data(s).transpose(F.col("zz")),
    tail=lambda s: data(s).tail(2),
    tail_all=lambda s: data(s).tail(20),
    tail_none=lambda s: data(s).tail(0),
    tail_negative=lambda s: data(s).tail(-1),
)
# statistics
cases(
    quantile=lambda s: data(s).approxQuantile("v", [0.0, 0.25, 0.5, 0.75, 1.0], 0.0),
    quantiles=lambda s: data(s).approxQuantile(["v", "k"], [0.1, 0.5], 0.2),
    quantile_nothing=lambda s: data(s).where("false").approxQuantile(["v", "k"], [0.1, 0.5], 0.2),
    quantile_many=lambda s: s.range(1000).approxQuantile("id", [0.1, 0.5, 0.99], 0.0),
    summary_percentiles=lambda s: data(s).select("k", "v").summary("count", "min", "25%", "50%", "75%", "99%", "max"),
    frequent=lambda s: data(s).freqItems(["k"]).select(F.sort_array("k_freqItems").alias("k")),
)
cases(
    covariance=lambda s: data(s).stat.cov("k", "v"),
    correlation=lambda s: round(data(s).stat.corr("k", "v"), 12),
    melted=lambda s: data(s).unpivot("p", ["k", "v"], "name", "value"),
    struct_of_alias=lambda s: data(s).select(F.struct(F.lit(1).alias("q"), "k")),
)
# aggregations
cases(
    order_over_aggregation=lambda s: data(s).groupBy("k").agg(F.max("v")).sort(F.count("v"), F.desc("k")),
    filter_over_aggregation=lambda s: data(s).groupBy("k").agg(F.max("v").alias("m")).where(F.sum("v") > 5.2),
    order_filter_aggregation=lambda s: data(s).groupBy("k").count().where(F.col("count") > 1).sort(F.sum("v")),
    order_without_aggregation=lambda s: data(s).select("k").sort(F.sum("k")),
    drop_duplicates=lambda s: data(s).dropDuplicates(["k"]).drop("p", "v"),
    drop_duplicates_names=lambda s: data(s).dropDuplicates(["p"]).where("p = 'b'"),
)
# names of casts
cases(
    cast_name=lambda s: data(s).select(F.col("k").cast("string"), F.col("v").try_cast("int"), (F.col("k") + 1).cast("long")),
    cast_of_cast=lambda s: data(s).select(F.col("k").cast("long").cast("string")),
)
# unionByName
cases(
    union_structs=lambda s: structs(s)[0].unionByName(structs(s)[1], allowMissingColumns=True),
    union_structs_turned=lambda s: structs(s)[1].unionByName(structs(s)[0], allowMissingColumns=True),
    union_structs_order=lambda s: structs(s)[0].select("s").unionByName(s.sql("select named_struct('y', 'b', 'X', 2) s")),
)


def as_of(spark, **options):
    left = spark.createDataFrame([(1, "a"), (5, "b"), (10, "c")], ["a", "lv"])
    right = spark.createDataFrame([(1, 1), (2, 2), (3, 3), (6, 6), (7, 7)], ["a", "rv"])
    return left._joinAsOf(right, leftAsOfColumn="a", rightAsOfColumn="a", **options)


def nearest(spark, count, direction, how):
    users = spark.createDataFrame([(1, 10.0), (2, 20.0), (3, None)], ["u", "s"])
    goods = spark.createDataFrame([("A", 11.0), ("B", 22.0), ("C", 5.0)], ["p", "ps"])
    return users.nearestByJoin(goods, F.abs(users.s - goods.ps), count, "exact", direction, joinType=how)


# joins by rank
cases(
    as_of_inner=lambda s: as_of(s),
    as_of_left=lambda s: as_of(s, how="left"),
    as_of_forward=lambda s: as_of(s, how="left", direction="forward"),
    as_of_nearest=lambda s: as_of(s, direction="nearest"),
    as_of_nearest_within=lambda s: as_of(s, how="left", direction="nearest", tolerance=F.lit(2), allowExactMatches=False),
    as_of_not_equal=lambda s: as_of(s, allowExactMatches=False),
    as_of_within=lambda s: as_of(s, how="left", tolerance=F.lit(1)),
    as_of_using=lambda s: as_of(s, how="left", on="a"),
    as_of_direction=lambda s: as_of(s, direction="sideways"),
    as_of_negative=lambda s: as_of(s, tolerance=F.lit(-1)),
    nearest_one=lambda s: nearest(s, 1, "distance", "inner"),
    nearest_two=lambda s: nearest(s, 2, "distance", "leftouter"),
    nearest_similar=lambda s: nearest(s, 1, "similarity", "leftouter"),
)


@case
def observed(spark):
    observation = Observation("m")
    rows = data(spark).observe(observation, F.count(F.lit(1)).alias("rows"), F.max("v").alias("most"), F.min("p").alias("first"))
    return [rows.where("k > 1").count(), observation.get]


@case
def observed_attribute(spark):
    return data(spark).observe("m", F.col("k"))


@case
def checkpoint(spark):
    data(spark).createOrReplaceTempView("checked")
    rows = spark.table("checked").where("k > 1").localCheckpoint()
    rows.createOrReplaceTempView("checked")
    return spark.table("checked").where("v is not null")


@case
def view_over_itself(spark):
    spark.range(5).createOrReplaceTempView("again")
    spark.table("again").where("id > 1").createOrReplaceTempView("again")
    spark.sql("select id + 1 as id from again").createOrReplaceTempView("again")
    return spark.table("again")


@case
def view_keeps_what_it_read(spark):
    spark.range(5).createOrReplaceTempView("below")
    spark.table("below").where("id > 2").createOrReplaceTempView("above")
    spark.range(1).createOrReplaceTempView("below")
    spark.catalog.dropTempView("below")
    return spark.table("above")


@case
def text_view_reads_anew(spark):
    spark.range(5).createOrReplaceTempView("below")
    spark.sql("create or replace temp view above as select id from below")
    spark.range(1).createOrReplaceTempView("below")
    return spark.table("above")


@case
def catalog_answers(spark):
    names = ["count", "nope", "default.count", "system.builtin.count", "builtin.count"]
    databases = ["default", "nope", "spark_catalog.default", "global_temp"]
    return [[spark.catalog.functionExists(name) for name in names], [spark.catalog.databaseExists(name) for name in databases]]


@case
def global_view(spark):
    spark.range(3).createOrReplaceGlobalTempView("everywhere")
    return [spark.table("global_temp.everywhere").count(), spark.catalog.tableExists("everywhere"),
            spark.catalog.tableExists("global_temp.everywhere"), spark.catalog.dropGlobalTempView("everywhere"),
            spark.catalog.dropGlobalTempView("everywhere")]


QUERIES = """
select * from range(10) limit 1+1
select * from range(10) limit 2*3 offset cast(1.5 as int)
select * from range(10) limit cast(length('abc') as int)
select * from range(10) limit null
select * from range(10) limit 1-2
select * from range(10) limit 2L
select * from range(10) limit all
select cast(id as string) from range(2) group by id
select try_cast(id as string), id::int, cast(id + 1 as string) from range(1)
with recursive t(n) as (select 1 union all select n + 1 from t where n < 5) select * from t
with recursive t as (select 1 as n, 'a' s union all select n + 1, s || 'b' from t where n < 4) select * from t
with recursive t(n) as (select 1 union all select a.n + b.n from t a join t b on a.n = b.n where a.n < 5) select * from t
with recursive t(n) as (values (1) union all select n + 1 from t where n < 3), u as (select n from t union all select n * 10 from u where n < 100) select * from u
with recursive t(n) as (select 1 union all select n + 1 from t) select * from t limit 7
with recursive t(n) as (select 1 union all select n + 1 from t where n < 200) select max(n) from t
with recursive t(n) max recursion level 3 as (select 1 union all select n + 1 from t where n < 200) select max(n) from t
with recursive t(n) as (select 1 union all select n + 1L from t where n < 5) select * from t
with recursive t(n) as (select 1 union select n + 1 from t where n < 5) select * from t
with recursive t(n) as (select n + 1 from t) select * from t
with recursive t(n) as (select 1) select * from t
select d, count(*) over (order by d range between interval 1 day preceding and current row) c from values (date'2020-01-01'), (date'2020-01-02'), (date'2020-01-04') t(d)
select d, count(*) over (order by d desc range between 1 preceding and 2 following) c from values (date'2020-01-01'), (date'2020-01-02'), (date'2020-01-04') t(d)
select d, count(*) over (order by d range between interval 1 month preceding and current row) c from values (date'2020-01-31'), (date'2020-02-29'), (date'2020-03-30') t(d)
select d, count(*) over (order by d range between interval 1 hour preceding and current row) c from values (timestamp'2020-01-01 01:00:00'), (timestamp'2020-01-01 02:00:00'), (timestamp'2020-01-04 00:00:00') t(d)
select explode(array(1, 2)) a, explode(array(3, 4)) b
select posexplode(array(1, 2)), explode(map('a', 1)), 7 z
select count(*) filter (where id > 1) from range(3)
select first_value(id) ignore nulls over (order by id), nth_value(id, 2) over (order by id) from range(3)
select 'a' like any ('b', 'a'), 'a' not like all ('b'), 'a' not like any ('b'), 'a' ilike any ('A'), 'a' like all (null, 'a')
select timestampdiff(MONTH, date'2020-01-01', date'2020-03-01'), dateadd(Week, 1, date'2020-01-01')
select struct(1 as q, k) from (select 2 k)
select make_date(2020, 13, 1)
select iff(true, 1, 2)
select sum(id) over () s from range(3) where sum(id) over () > 1
select * from (select 1 a, 2 b, null c) unpivot include nulls (x for n in (a, b, c))
select k from (select 1 k) a where exists (select 1 from (select 2 j) b where exists (select 1 from (select 3 z) c where c.z = a.k))
""".strip().splitlines()
for number, query in enumerate(QUERIES):
    CASES[query] = lambda spark, query=query: spark.sql(query)


def plain(value):
    return value if value is None or isinstance(value, (bool, int, str)) else [plain(v) for v in value] if isinstance(
        value, list) else {k: plain(v) for k, v in value.items()} if isinstance(value, dict) else str(value)


def answer(spark, function):
    try:
        result = function(spark)
        if not isinstance(result, DataFrame):
            return {"value": plain(result)}
        fields = [[field.name, field.dataType.simpleString(), field.nullable] for field in result.schema]
        return {"fields": fields, "rows": sorted(([str(v) for v in row] for row in result.collect()), key=repr)}
    except PySparkException as error:
        return {"condition": error.getCondition()}


@pytest.fixture(scope="module")
def session(server):
    spark = SparkSession.builder.remote(server).create()
    yield spark
    spark.stop()


@pytest.mark.parametrize("name", CASES)
def test_relation(session, name):
    assert answer(session, CASES[name]) == json.loads(RECORD.read_text())[name]


@pytest.mark.parametrize("name", ["transpose", "transpose_equal", "order_over_aggregation", "order_filter_aggregation"])
def test_order_is_stable(session, name):
    first = CASES[name](session).collect()
    assert all(CASES[name](session).collect() == first for _ in range(3))


def test_order_over_aggregation(session):
    assert [row.k for row in CASES["order_over_aggregation"](session).collect()] == [3, 2, 1]


if __name__ == "__main__":
    real = SparkSession.builder.remote(sys.argv[1]).create()
    RECORD.write_text(json.dumps({name: answer(real, function) for name, function in CASES.items()}, indent=0) + "\n")
    real.stop()
