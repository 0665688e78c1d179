"""Session variables, EXECUTE IMMEDIATE and SQL functions; the expected answers are those of Spark 4.2's golden files
(sql-session-variables, execute-immediate, sql-udf)."""
import pytest
from pyspark.errors import PySparkException


def rows(spark, text, **arguments):
    return [tuple(row) for row in spark.sql(text, **arguments).collect()]


def refused(spark, text):
    with pytest.raises(PySparkException) as error:
        spark.sql(text).collect()
    return error.value.getCondition()


def test_variables_are_declared_set_and_dropped(spark):
    spark.sql("DECLARE OR REPLACE VARIABLE var1 INT DEFAULT 5")
    spark.sql("DECLARE OR REPLACE VARIABLE var2 STRING DEFAULT 'hello'")
    spark.sql("DECLARE OR REPLACE VARIABLE var3 DOUBLE DEFAULT 2")
    spark.sql("SET VARIABLE var1 = var3, var2 = ascii(var1), var3 = var1")  # all at once
    assert rows(spark, "SELECT var1, session.var2, system.session.VAR3") == [(2, "53", 5.0)]
    spark.sql("SET VARIABLE (var1, var2, var3) = (SELECT c1, c2, c3 FROM VALUES(100, 110, 120) AS T(c1, c2, c3))")
    assert rows(spark, "SELECT var1, var2, var3") == [(100, "110", 120.0)]
    spark.sql("SET VARIABLE var1 = DEFAULT")
    assert rows(spark, "SELECT var1") == [(5,)]
    assert spark.sql("SELECT var1").columns == ["var1"]
    spark.sql("SET VARIABLE var1 = 1")
    assert spark.sql("SELECT sum(var1) FROM VALUES(1)").columns == ["sum(variablereference(system.session.var1=1))"]
    assert rows(spark, "SELECT var1 FROM VALUES(2) AS T(var1)") == [(2,)]
    assert refused(spark, "SET var1 = 5") == "UNSUPPORTED_FEATURE.SET_VARIABLE_USING_SET"
    assert refused(spark, "SET VARIABLE var1 = 1, var2 = 0, vAr1 = 1") == "DUPLICATE_ASSIGNMENTS"
    assert refused(spark, "SET VARIABLE var1 = 'hello'") == "CAST_INVALID_INPUT"
    assert rows(spark, "SELECT var1") == [(1,)]
    for name in "var1", "var2", "var3":
        spark.sql(f"DROP TEMPORARY VARIABLE {name}")
    assert refused(spark, "SELECT var1") == "UNRESOLVED_COLUMN.WITHOUT_SUGGESTION"
    assert refused(spark, "DROP TEMPORARY VARIABLE var1") == "VARIABLE_NOT_FOUND"
    spark.sql("DROP TEMPORARY VARIABLE IF EXISTS var1")


def test_a_text_is_executed_with_arguments(spark):
    spark.sql("DECLARE OR REPLACE res_id INT")
    spark.sql("DECLARE OR REPLACE p = 10")
    assert rows(spark, "EXECUTE IMMEDIATE 'SELECT id FROM range(20) WHERE id = :p' USING p") == [(10,)]
    assert rows(spark, "EXECUTE IMMEDIATE 'SELECT typeof(:p), :p' USING ARRAY(ARRAY(1, 2), ARRAY(3, 4)) AS p") == [
        ("array<array<int>>", [[1, 2], [3, 4]])]
    spark.sql("EXECUTE IMMEDIATE 'SELECT ? + 32' INTO res_id USING p")
    assert rows(spark, "SELECT res_id") == [(42,)]
    spark.sql("EXECUTE IMMEDIATE 'SELECT 42 WHERE 2 = 1' INTO res_id")
    assert rows(spark, "SELECT res_id") == [(None,)]
    spark.sql("EXECUTE IMMEDIATE 'SET VAR res_id = ?' USING 7")
    assert rows(spark, "EXECUTE IMMEDIATE 'EXECUTE IMMEDIATE \\'SELECT res_id + ?\\' USING 10'") == [(17,)]
    assert refused(spark, "EXECUTE IMMEDIATE 'SELECT :first' USING 2, 3") == "ALL_PARAMETERS_MUST_BE_NAMED"
    assert refused(spark, "EXECUTE IMMEDIATE 'SELECT 42 where ? = :first' USING 1, 2 as first") == (
        "INVALID_QUERY_MIXED_QUERY_PARAMETERS")
    assert refused(spark, "EXECUTE IMMEDIATE p") == "INVALID_EXPR_TYPE_FOR_QUERY_EXECUTE_IMMEDIATE"
    assert refused(spark, "EXECUTE IMMEDIATE 'SET VAR res_id = 1' INTO res_id") == "INVALID_STATEMENT_FOR_EXECUTE_INTO"
    assert refused(spark, "EXECUTE IMMEDIATE 'SELCT Fa'") == "PARSE_SYNTAX_ERROR"


def test_functions_of_sql_are_inlined(spark):
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW udf_t AS SELECT * FROM VALUES (0, 1), (0, 2), (1, 2) AS t(c1, c2)")
    spark.sql("CREATE OR REPLACE FUNCTION foo1d2(a INT, b INT DEFAULT 7, c INT DEFAULT 8, d INT DEFAULT 9 COMMENT 'test') "
              "RETURNS STRING RETURN a || ' ' || b || ' ' || c || ' ' || d")
    frame = spark.sql("SELECT foo1d2(1, 2, 3), foo1d2(1)")
    assert frame.columns == ["spark_catalog.default.foo1d2(1, 2, 3)", "spark_catalog.default.foo1d2(1)"]
    assert [tuple(row) for row in frame.collect()] == [("1 2 3 9", "1 7 8 9")]
    assert refused(spark, "SELECT foo1d2()") == "WRONG_NUM_ARGS.WITHOUT_SUGGESTION"
    spark.sql("CREATE OR REPLACE TEMPORARY FUNCTION tb(x INT) RETURNS INT RETURN x")
    spark.sql("CREATE OR REPLACE TEMPORARY FUNCTION ta(x DOUBLE, y DOUBLE) RETURNS DOUBLE RETURN x * y")
    assert rows(spark, "SELECT ta(MAX(c1), MAX(c2)) FROM udf_t") == [(2.0,)]
    assert sorted(rows(spark, "SELECT tb(c1), SUM(c2) FROM udf_t GROUP BY 1")) == [(0, 3), (1, 2)]
    assert rows(spark, "SELECT c1, SUM(c2) FROM udf_t GROUP BY c1 HAVING tb(SUM(c2)) > 2") == [(0, 3)]
    spark.sql("CREATE OR REPLACE TEMPORARY FUNCTION tin(x INT) RETURNS BOOLEAN RETURN x IN (SELECT 1)")
    assert rows(spark, "SELECT * FROM udf_t WHERE tin(c1)") == [(1, 2)]
    spark.sql("CREATE OR REPLACE TEMPORARY FUNCTION tt(a INT, b INT DEFAULT 7) RETURNS TABLE(a INT, b INT) RETURN SELECT a, b")
    assert rows(spark, "SELECT * FROM tt(5)") == [(5, 7)]
    assert refused(spark, "CREATE OR REPLACE TEMP FUNCTION tb(x INT) RETURNS INT RETURN tb(x)") == "CYCLIC_FUNCTION_REFERENCE"
    assert refused(spark, "CREATE TEMPORARY FUNCTION tz(x INT) RETURNS INT RETURN nope") == "UNRESOLVED_COLUMN.WITH_SUGGESTION"
    assert refused(spark, "CREATE TEMPORARY FUNCTION tz(x INT, X INT) RETURNS INT RETURN 1") == (
        "DUPLICATE_ROUTINE_PARAMETER_NAMES")
    spark.sql("DROP TEMPORARY FUNCTION tb")
    assert refused(spark, "SELECT tb(1)") == "UNRESOLVED_ROUTINE"
    assert refused(spark, "DROP TEMPORARY FUNCTION tb") == "ROUTINE_NOT_FOUND"


def test_identifiers_are_made_of_parameters_and_variables(spark):
    """As in Spark: the text is a name where it stands, of a column, a table or a function."""
    rows = lambda frame: [tuple(row) for row in frame.collect()]  # noqa: E731
    assert rows(spark.sql("SELECT IDENTIFIER(:c) FROM range(2)", args={"c": "id"})) == [(0,), (1,)]
    assert rows(spark.sql("SELECT IDENTIFIER(?) FROM range(1)", args=["id"])) == [(0,)]
    spark.range(3).createOrReplaceTempView("some_rows")
    spark.sql("DECLARE name_of_column STRING = 'id'")
    spark.sql("DECLARE name_of_table STRING = 'some'")
    frame = spark.sql("SELECT IDENTIFIER(name_of_column) FROM IDENTIFIER(name_of_table || '_rows')")
    assert frame.columns == ["id"] and rows(frame) == [(0,), (1,), (2,)]
    assert rows(spark.sql("SELECT IDENTIFIER('ab' || 's')(-1) AS x")) == [(1,)]
