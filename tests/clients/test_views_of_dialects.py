"""A view keeps the dialect it was made in, and is readable in both: Spark Connect and Flight SQL over one catalog."""
import uuid
import pytest

adm = pytest.importorskip("adbc_driver_manager")
dbapi = pytest.importorskip("adbc_driver_flightsql.dbapi")


@pytest.fixture()
def flight(server):
    with dbapi.connect(server.replace("sc://", "grpc://"), autocommit=True) as connection:
        def ask(text):
            with connection.cursor() as cursor:
                cursor.execute(text)
                return cursor.fetchall()
        yield ask


@pytest.fixture()
def name(flight):
    name = "d" + uuid.uuid4().hex[:8]
    flight(f"CREATE TABLE {name} AS SELECT 1 AS a, 'x' AS b UNION ALL SELECT 2, NULL")
    yield name


def rows(frame):
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def test_engines_views_in_spark(spark, flight, name):
    flight(f"CREATE VIEW {name}_e (k, t, n) AS SELECT a, upper(b), CAST(a + 0 AS SMALLINT) FROM {name}")
    assert rows(spark.table(f"{name}_e")) == [(1, "X", 1), (2, None, 2)]
    assert rows(spark.sql(f"SELECT e.k + 1 AS x FROM {name}_e e JOIN {name}_e f ON e.k = f.k WHERE e.t IS NOT NULL")) == [(2,)]
    assert spark.table(f"{name}_e").select("T").columns == ["T"]  # names are looked up as Spark does


def test_views_over_views_of_the_other_dialect(spark, flight, name):
    flight(f"CREATE VIEW {name}_1 AS SELECT a, a * 2 AS b2 FROM {name}")
    spark.sql(f"CREATE VIEW {name}_2 AS SELECT a, b2, concat_ws('-', 'p', a) AS c FROM {name}_1")
    flight(f"CREATE VIEW {name}_3 AS SELECT c, b2 FROM {name}_2 WHERE a = 2")
    spark.sql(f"CREATE VIEW {name}_4 AS SELECT `c`, b2 + 1 AS d FROM {name}_3")
    assert flight(f"SELECT * FROM {name}_4") == [("p-2", 5)]
    assert rows(spark.table(f"{name}_4")) == [("p-2", 5)]


def test_views_that_come_to_read_each_other_end(spark, flight, name):
    flight(f"CREATE VIEW {name}_1 AS SELECT a FROM {name}")
    spark.sql(f"CREATE VIEW {name}_2 AS SELECT a FROM {name}_1")
    flight(f"CREATE OR REPLACE VIEW {name}_1 AS SELECT a FROM {name}_2")
    with pytest.raises(adm.Error, match="(?i)nested deeper"):
        flight(f"SELECT * FROM {name}_2")
    with pytest.raises(Exception, match="(?i)nested deeper"):
        spark.table(f"{name}_1").collect()
    assert flight("SELECT 1") == [(1,)]
