"""Subqueries of every kind with NULLs, duplicates and empty groups, against answers recorded from real Spark 4.2.0 (rows as a
multiset; in a select list Spark's IN gives false where standard SQL has NULL). Recorded by running this file as a program:
python test_subqueries.py sc://A_REAL_SPARK"""
import json, pathlib, sys
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

RECORD = pathlib.Path(__file__).resolve().parents[1] / "data/spark/subqueries.json"

DATA = {
    "t(a, b, c)": [(1, 10, "x"), (2, 20, "y"), (2, None, "y"), (3, 30, None), (None, 40, "x"), (5, 50, "z")],
    "s(k, v)": [(1, 100), (1, 101), (2, None), (4, 400), (None, 500)],
    "n(k)": [(1,), (2,), (5,)],
    "e(k, v)": [],
}
TYPES = {"t(a, b, c)": "int,int,string", "s(k, v)": "int,int", "n(k)": "int", "e(k, v)": "int,int"}
QUERIES = """
select a from t where exists (select 1 from s where s.k = t.a)
select a from t where not exists (select 1 from s where s.k = t.a)
select a from t where exists (select 1 from e where e.k = t.a)
select a from t where not exists (select v from e)
select a from t where exists (select count(*) from e where e.k = t.a)
select a from t where not exists (select count(*) from e where e.k = t.a)
select a from t where a in (select k from s)
select a from t where a not in (select k from s)
select a from t where a not in (select k from n)
select a from t where a not in (select k from e)
select a from t where a in (select k from s where s.v > t.b)
select a, b from t where b not in (select v from s where s.k = t.a)
select a from t where (a, b) in (select k, 10 from n)
select a from t where a in (select k from s) or b > 35
select a from t where not (a in (select k from s)) or c = 'z'
select a, a in (select k from s) from t
select a, a not in (select k from n) from t
select a, exists (select 1 from s where k = a) from t
select a, (select max(v) from s where s.k = t.a) from t
select a, (select count(*) from s where s.k = t.a) from t
select a, (select count(v) + 1 from s where s.k = t.a) from t
select a, (select sum(v) from s) from t
select a, (select max(v) from e where e.k = t.a) from t
select a from t where b > (select min(v) / 5 from s where s.k = t.a)
select a from t where b > (select avg(k) from n)
select a from t where (select count(*) from s where s.k = t.a) = 0
select a, (select count(*) from s where s.k = t.a and s.v > 100) from t
select a from t where exists (select 1 from s where s.k = t.a and s.v > t.b)
select a from t where exists (select 1 from s where s.k <> t.a)
select a from t where exists (select 1 from s join n on s.k = n.k where n.k = t.a)
select a from t where a in (select k from s where exists (select 1 from n where n.k = s.k and n.k = t.a))
select c, sum(b) from t group by c having sum(b) > (select avg(v) / 10 from s)
select a from t order by (select max(v) from s where s.k = t.a), a, b
select x.a from (select a, b from t where a in (select k from n)) x where x.b = (select min(b) from t where t.a = x.a)
select a, case when exists (select 1 from s where k = a) then 'in' else 'out' end from t
select t.a, n.k from t join n on t.a = n.k and n.k in (select k from s)
select (select 7)
select (select k from n)
select a from t where a = (select k from n where n.k = t.a)
select a from t where b = (select max(b) from t t2 where t2.c = t.c)
select distinct c from t where exists (select distinct k from s where k = t.a order by k limit 1)
with w as (select k, count(*) n from s group by k) select a from t where (select n from w where w.k = t.a) > 1
select a, (select k from n where n.k < t.a order by k desc limit 1) from t
select a from t where exists (select k from s where s.k = t.a order by v limit 1 offset 1)
select a, (select sum(x) from (select v x from s where s.k = t.a union all select k from n where n.k > t.a)) from t
select a, (select count(*) from (select k from s where s.k >= t.a intersect select k from n)) from t
select a, (select count(*) from s where s.k < t.a) from t
select a, (select max(v) from s where s.k <= t.a and s.v > t.b) from t
select a, b from t where b > (select sum(v) / 20 from s where s.k <> t.a)
select a, (select t.a + 1) from t
select a from t where a in (select n.k + t.a - t.a from n)
select a from t where exists (select sum(v) from s where s.k = t.a having sum(v) > 150)
select a from t where b in (select max(b) over (partition by c) from t t2 where t2.a = t.a)
select a, (select count(distinct v) from s where s.k = t.a or s.v > 300) from t
select t.a, s.v from t left join s on t.a = s.k and s.v in (select max(v) from s)
select t.a, s.v from t left join s on t.a = s.k and exists (select 1 from n where n.k = t.a)
select t.a from t left anti join s on t.a = s.k and s.v in (select max(v) from s)
select t.a from t left semi join s on t.a = s.k and t.a in (select k from n)
select a, b from t where (select max(v) from s where s.k = t.a) between 50 and 150
select t.a, l.k from t, lateral (select k from n where n.k <= t.a order by k desc limit 1) l
select t.a, l.x from t, lateral (select k x from n where n.k = t.a union all select v from s where s.k = t.a) l
select t.a, l.m from t left join lateral (select max(v) m from s where s.k = t.a group by s.k) l on l.m > 100
select t.a, l.k from t left join lateral (select k from n where n.k > t.a) l on l.k > 2
select t.a, l.r from t, lateral (select k, row_number() over (order by k) r from n where n.k <= t.a) l where l.r = 2
select t.a, u.z from t, lateral (select t.a + 1 y) l, lateral (select l.y * 2 z from n where n.k = l.y) u
select t.a, t.b, s.k, s.v from t full join s on t.a = s.k and t.a in (select k from n where k > 1)
select t.a, s.k from t full join s on t.a = s.k and s.v > (select min(b) from t)
select t.a, s.k from t full join s on t.a = s.k and exists (select 1 from n where n.k = s.k)
select t.a, s.k from t full outer join s on t.a = s.k and not exists (select 1 from n where n.k = t.a)
select count(*) from t full join s on t.a < s.k and s.k in (select k + 2 from n)
select t.a, s.k from t full join s on exists (select 1 from e)
select exists (select 1) as a, exists (select 1 from e) as b
""".strip().splitlines()


def connect(url):
    spark = SparkSession.builder.remote(url).create()
    for name, rows in DATA.items():
        table, columns = name.split("(")
        columns = columns.rstrip(")").split(", ")
        schema = ", ".join(f"{c} {t}" for c, t in zip(columns, TYPES[name].split(",")))
        spark.createDataFrame(rows, schema).createOrReplaceTempView(table)
    return spark


def answer(spark, query):
    try:
        frame = spark.sql(query)
        rows = sorted(([str(v) for v in row] for row in frame.collect()), key=repr)
        return {"columns": frame.columns, "types": [t for _, t in frame.dtypes], "rows": rows}
    except PySparkException as error:
        return {"condition": error.getCondition()}


@pytest.fixture(scope="module")
def tables(server):
    spark = connect(server)
    yield spark
    spark.stop()


@pytest.mark.parametrize("query", QUERIES)
def test_query(tables, query):
    assert answer(tables, query) == json.loads(RECORD.read_text())[query]


if __name__ == "__main__":
    session = connect(sys.argv[1])
    RECORD.write_text(json.dumps({query: answer(session, query) for query in QUERIES}, indent=0) + "\n")
    session.stop()
