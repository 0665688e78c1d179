"""Calls of builtin functions beyond the examples of Spark's reference: formats, percentiles, seeds, options, errors.
functions_more.jsonl holds what Spark 4.2 answered (zone UTC, TIME on): schema and rows, or the error's condition."""
import json
import pathlib

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
