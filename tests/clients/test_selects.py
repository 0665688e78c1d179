"""Select lists: generators beside aggregates and names of what they give, EXCEPT of fields, keywords as names; views whose tables
change; all in one session, against answers recorded from real Spark 4.2.0. Recorded by running this file as a program:
python test_selects.py sc://A_REAL_SPARK"""
import json, pathlib, sys
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

RECORD = pathlib.Path(__file__).resolve().parents[1] / "data/spark/selects.json"
S = "from (select named_struct('a', 1, 'b', 2) s, 3 c) q"
T = "from (select named_struct('t', named_struct('x', 1, 'y', 2), 'b', 2) s, 3 c)"
QUERIES = f"""
select 1 as
select 1 as, 2 as
select 1 as from range(1)
select 1 as from
select 1 as where
select id from range(1) as
select * except (s.a) {S}
select * except (s.a, c) {S}
select * except (s, s.a) {S}
select * except (s.zz) {S}
select * except (s.a, s.a) {S}
select q.* except (q.s.a) {S}
select * except (s.a, s.A) {S}
select * except (s, S) {S}
select * except (s.A) {S}
select * except (c.a) {S}
select * except (s.t.x) {T}
select * except (s.t.x, s.b) {T}
select * except (s.t, s.t.x) {T}
select s.* except (t.x) {T}
select * except (s.a) from (select array(named_struct('a', 1, 'b', 2)) s, 3 c)
select * except (s.a) from (select if(id = 0, null, named_struct('a', 1, 'b', 2)) s, 3 c from range(2))
select explode(array(1, 2)) as x, x + 1 as y
select explode(array(1, 2)) as x, explode(array(x)) as z
select explode(array(1, 2)), col
select posexplode(array(5, 6)) as (p, v), p + v as s
select stack(2, 1, 2, 3, 4) as (a, b), a + b
select explode(array(1, 2)) as x, count(*) from range(3)
select explode(collect_list(id)) as x, count(*) c from range(3)
select explode(array(min(id), max(id))) from range(3)
select id, explode(array(id, 2)) as e from range(2) group by id
select id % 2 k, explode(array(id)) as e from range(4) group by id % 2
select explode(array(id)), count(*) from range(3) group by all
select id, explode(array(1, 2)) e from range(2) group by id, e
select explode(array(1, 2)) from range(2) group by explode(array(1, 2))
select id, explode(array(1, 2)) e from range(2) group by id having e > 1
select id, explode(array(1, 2)) e from range(2) group by id having count(*) > 0
select id, explode(array(1, 2)) e from range(2) group by id order by e, id
select inline(collect_list(struct(id, id + 1))) from range(2)
select posexplode(collect_list(id)) as (p, v) from range(2)
select explode(map(1, count(*))) from range(3)
select count(*) as c, explode(array(c)) as e from range(3)
select explode(array(1, 2)) + count(*) from range(3)
select sum(explode(array(1, 2))) from range(2)
select id from range(2) where explode(array(1, 2)) = 1
select id from range(2) order by explode(array(1, 2))
create table sel_t (a int, b string) using parquet
insert into sel_t values (1, 'x')
create view sel_b with schema binding as select * from sel_t
create view sel_c with schema compensation as select * from sel_t
create temporary view sel_x with schema binding as select * from sel_t
select * from sel_b
drop table sel_t
create table sel_t (a bigint, b string, c int) using parquet
insert into sel_t values (5, 'x', 3)
select *, 'bigint' from sel_b
select *, 'bigint' from sel_c
drop table sel_t
create table sel_t (a smallint, b string, c int) using parquet
insert into sel_t values (5, 'x', 3)
select *, 'smallint' from sel_b
select *, 'smallint' from sel_c
drop table sel_t
create table sel_t (a string, c int) using parquet
select *, 'no b' from sel_b
select *, 'no b' from sel_c
alter view sel_b with schema evolution
select *, 'evolved' from sel_b
drop view sel_b
drop view sel_c
drop table sel_t
""".strip().splitlines()


def answer(spark, query):
    try:
        frame = spark.sql(query)
        rows = [[str(v) for v in row] for row in frame.collect()]
        if " order by " not in query:
            rows.sort()
        return {"columns": frame.columns, "types": [t for _, t in frame.dtypes], "rows": rows}
    except PySparkException as error:
        return {"condition": error.getCondition()}


def answers(url):
    """In the order of the list: later ones see what earlier ones made."""
    spark = SparkSession.builder.remote(url).create()
    try:
        return [{"query": query, **answer(spark, query)} for query in QUERIES]
    finally:
        spark.stop()


@pytest.fixture(scope="module")
def found(server):
    return answers(server)


def test_legacy_identifier_clauses_are_whole_names(server):
    """Parts of names may not be one then: Spark says PARSE_SYNTAX_ERROR."""
    spark = SparkSession.builder.remote(server).create()
    assert spark.sql("select 1 as identifier('a')").columns == ["a"]
    spark.conf.set("spark.sql.legacy.identifierClause", "true")
    assert spark.sql("select identifier('t.a') from values (1) t(a)").collect()[0][0] == 1
    with pytest.raises(PySparkException) as error:
        spark.sql("select 1 as identifier('a')").collect()
    assert error.value.getCondition() == "PARSE_SYNTAX_ERROR"
    spark.stop()


@pytest.mark.parametrize("index", range(len(QUERIES)), ids=QUERIES)
def test_query(found, index):
    assert found[index] == json.loads(RECORD.read_text())[index]


def test_a_view_that_lost_a_column_says_how_to_make_it_again(server):
    spark = SparkSession.builder.remote(server).create()
    spark.sql("create table sel_l (a int, b int) using parquet")
    spark.sql("create view sel_lv as select * from sel_l")
    spark.sql("drop table sel_l")
    spark.sql("create table sel_l (a int) using parquet")
    with pytest.raises(PySparkException) as error:
        spark.sql("select * from sel_lv").collect()
    assert ("The SQL query of view `spark_catalog`.`default`.`sel_lv` has an incompatible schema change and column b cannot be "
            "resolved. Expected 1 columns named b but got [].\nPlease try to re-create the view by running: CREATE OR REPLACE VIEW "
            "spark_catalog.default.sel_lv AS select * from sel_l.") in str(error.value)
    spark.sql("drop view sel_lv")
    spark.sql("drop table sel_l")
    spark.stop()


if __name__ == "__main__":
    RECORD.write_text(json.dumps(answers(sys.argv[1]), indent=0) + "\n")
