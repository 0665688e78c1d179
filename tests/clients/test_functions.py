"""Calls of builtin functions beyond the examples of Spark's reference: formats, percentiles, seeds, options, errors.
functions_more.jsonl holds what Spark 4.2 answered (zone UTC, TIME on): schema and rows, or the error's condition."""
import json
import math
import pathlib

from pyspark.sql import functions as F

DATA = pathlib.Path(__file__).resolve().parents[1] / "data/spark/functions_more.jsonl"


def answer(spark, query):
    try:
        frame = spark.sql(query)
        return {"schema": frame.schema.simpleString(), "rows": sorted(str(row) for row in frame.collect())}
    except Exception as error:
        return {"condition": error.getCondition() if hasattr(error, "getCondition") else type(error).__name__}


def test_functions_answer_as_spark_does(spark):
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    spark.conf.set("spark.sql.timeType.enabled", "true")
    wrong = []
    for line in DATA.read_text().splitlines():
        case = json.loads(line)
        query = case.pop("query")
        if "rows" in case:
            case["rows"] = sorted(case["rows"])
        given = answer(spark, query)
        if given != case:
            wrong.append(f"{query}\n  gave {given}\n  not  {case}")
    assert not wrong, "\n".join(wrong)


def test_aggregates_of_lists_work_over_windows_groups_and_filters(spark):
    rows = spark.sql("""SELECT y, median(x) FILTER (WHERE x > 1) m, percentile_approx(x, 0.5) p, mode(x) o,
        max_by(x, x, 2) b, listagg(DISTINCT s, ',') WITHIN GROUP (ORDER BY s DESC) l
        FROM VALUES (1, 1, 'a'), (2, 1, 'b'), (2, 1, 'a'), (9, 2, NULL) t(x, y, s) GROUP BY y ORDER BY y""").collect()
    assert [tuple(row) for row in rows] == [(1, 2.0, 2, 2, [2, 2], "b,a"), (2, 9.0, 9, 9, [9], None)]
    rows = spark.sql("""SELECT x, percentile_approx(x, 0.5) OVER (ORDER BY x ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) m
        FROM VALUES (1), (2), (4) t(x) ORDER BY x""").collect()
    assert [tuple(row) for row in rows] == [(1, 1), (2, 1), (4, 2)]


def test_folds_and_comparators_of_many_rows_are_those_of_python(spark):
    lists = [None if n % 11 == 10 else [(i * 7919 + n * 31) % 101 for i in range(n * n % 83)] for n in range(500)]
    frame = spark.createDataFrame([(n, n % 3 - 1, row) for n, row in enumerate(lists)], "n int, d int, xs array<int>")
    folded = F.aggregate("xs", F.col("d"), lambda state, x: (state * 31 + x * F.col("d")) % 1000003, lambda s: s - F.col("n"))
    ordered = F.array_sort("xs", lambda x, y: F.when(F.col("d") == 0, x % 10 - y % 10).otherwise((x - y) * F.col("d")))
    rows = frame.select("n", folded.alias("folded"), ordered.alias("ordered")).orderBy("n").collect()
    for n, row in enumerate(lists):
        sign, state = n % 3 - 1, n % 3 - 1
        if row is None:
            assert rows[n] == (n, None, None)
            continue
        for x in row:
            state = math.fmod(state * 31 + x * sign, 1000003)
        wanted = sorted(row, key=lambda x: x % 10) if sign == 0 else sorted(row, key=lambda x: x * sign)
        assert rows[n] == (n, int(state) - n, wanted)


def test_reduce_over_no_rows_and_over_null_lists_only(spark):
    frame = spark.sql("SELECT cast(null AS array<int>) xs FROM range(3)")
    total = F.reduce("xs", F.lit(0), lambda state, x: state + x)
    assert [row.r for row in frame.select(total.alias("r")).collect()] == [None] * 3
    assert frame.where("false").select(total.alias("r")).collect() == []
    backwards = F.array_sort("xs", lambda x, y: y - x)
    assert [row.r for row in frame.select(backwards.alias("r")).collect()] == [None] * 3
