"""SQL scripts (BEGIN ... END): what a real Spark 4.2 answered, in tests/data/spark/scripts.json; and what bounds them here."""
import json, pathlib, re, threading, time
import pytest

DATA = pathlib.Path(__file__).resolve().parents[1] / "data/spark/scripts.json"
CASES = json.loads(DATA.read_text())


def without_ids(text):
    """A block without a label has one that is random."""
    return re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "ID", text)


def answer(spark, sql):
    try:
        table = spark.sql(sql).toArrow()
    except Exception as error:  # noqa: BLE001 - its condition is the answer
        return {"sql": sql, "error": error.getCondition(), "sqlstate": error.getSqlState()}
    rows = [[str(value) for value in row.values()] for row in table.to_pylist()] if table.num_columns else table.num_rows
    return {"sql": sql, "schema": [f"{field.name}: {field.type}" for field in table.schema], "rows": rows}


def test_scripts_answer_as_spark_does(server):
    from pyspark.sql import SparkSession
    wrong = []
    for case in CASES:  # each in a session of its own: views and variables stay
        session = SparkSession.builder.remote(server).create()
        found = answer(session, case["sql"])
        session.stop()
        if without_ids(json.dumps(found)) != without_ids(json.dumps(case)):
            wrong.append((case, found))
    assert not wrong, wrong[:5]


def test_parameters_are_seen_inside(spark):
    rows = spark.sql("BEGIN DECLARE x INT = :a; SET x = x + :b; SELECT x, :c AS c; END", args={"a": 1, "b": 2, "c": "t"}).collect()
    assert [tuple(row) for row in rows] == [(3, "t")]


def test_session_variables_are_seen_and_set(spark):
    spark.sql("DECLARE v INT = 1")
    spark.sql("BEGIN DECLARE w INT = 5; SET v = v + w; END")
    assert spark.sql("SELECT v").collect()[0][0] == 6


def test_rows_that_are_written_have_local_variables(spark):
    spark.sql("CREATE TABLE written_by_script (a INT, b STRING) USING parquet")
    try:
        spark.sql("BEGIN DECLARE n INT = 4; FOR r AS SELECT id, 's' AS t FROM range(2) DO"
                  " INSERT INTO written_by_script VALUES (n + r.id, r.t); END FOR; END")
        assert sorted(map(tuple, spark.table("written_by_script").collect())) == [(4, "s"), (5, "s")]
    finally:
        spark.sql("DROP TABLE written_by_script")


def test_lines_are_told(spark):
    with pytest.raises(Exception, match=r"\{LINE:3\} \[INVALID_LABEL_USAGE.DOES_NOT_EXIST\]"):
        spark.sql("BEGIN\n  SELECT 1;\n  LEAVE q;\nEND")
    with pytest.raises(Exception, match="line 3 pos 9"):
        spark.sql("BEGIN\n  DECLARE x INT = 1;\n  SELECT nope + x;\nEND")


def test_rows_are_a_frame(spark):
    frame = spark.sql("BEGIN DECLARE n BIGINT = 3; SELECT id, id * n AS t FROM range(1000); END")
    assert frame.filter("t > 2990").count() == 3


def test_an_endless_loop_can_be_interrupted(spark):
    failed = []

    def run():
        try:
            spark.sql("BEGIN WHILE TRUE DO SELECT 1; END WHILE; END")
        except Exception as error:  # noqa: BLE001
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    while thread.is_alive() and not spark.interruptAll():
        time.sleep(0.05)
    thread.join(30)
    assert failed and "OPERATION_CANCELED" in str(failed[0]), failed


def test_a_long_statement_can_be_interrupted(spark):
    failed = []

    def run():
        try:
            spark.sql("BEGIN SELECT sum(a.id * b.id % 7) FROM range(3000000) a CROSS JOIN range(3000000) b; END")
        except Exception as error:  # noqa: BLE001
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(1)
    while thread.is_alive() and not spark.interruptAll():
        time.sleep(0.05)
    thread.join(30)
    assert failed and "OPERATION_CANCELED" in str(failed[0]), failed
