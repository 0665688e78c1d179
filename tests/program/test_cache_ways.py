"""The same query by DataFrame, Spark's SQL and Flight SQL shares one entry of the cache."""
import json, subprocess
import pytest
from conftest import PROGRAM, Server
from ways import User, df_column, df_project, df_table, sub_column, sub_plan, sub_project, sub_read

SCHEMA = {"id": "bigint", "region": "string", "ssn": "string"}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """(ann, what the cache did since it was asked last)."""
    folder = tmp_path_factory.mktemp("cache")
    done = subprocess.run([str(PROGRAM), "new-token", "ann"], capture_output=True, text=True, check=True)
    (folder / "tokens").write_text(done.stdout)
    (folder / "warehouse").mkdir()
    (folder / "trunnion.yaml").write_text(json.dumps({
        "listen": "127.0.0.1:0", "warehouse": f"{folder}/warehouse", "auth": {"tokens": f"{folder}/tokens"},
        "layers": [{"trace": {"file": f"{folder}/trace.jsonl"}}, {"cache": {"memory": "64M"}}]}))
    seen = 0

    def did():
        nonlocal seen
        lines = (folder / "trace.jsonl").read_text().splitlines()
        new, seen = [json.loads(line) for line in lines[seen:]], len(lines)
        return [event["action"] for event in new if "cache" in (event.get("kind"), event.get("event"))]

    with Server("--config", folder / "trunnion.yaml") as server:
        ann = User(server.address, done.stderr.split("token:")[1].split()[0])
        ann.spark.createDataFrame([(1, "EU", "a"), (2, "US", "b"), (3, None, "c")], "id bigint, region string, ssn string") \
            .write.saveAsTable("free")
        yield ann, did
        ann.close()


QUERIES = [
    ("SELECT id, ssn FROM free", lambda t: t.select("id", "ssn")),
    ("SELECT * FROM free", lambda t: t),
    ("SELECT id FROM free WHERE region = 'EU'", lambda t: t.where("region = 'EU'").select("id")),
    ("SELECT id FROM free WHERE id > 2", lambda t: t.where("id > 2").select("id")),
    ("SELECT DISTINCT region FROM free", lambda t: t.select("region").distinct()),
]
SPARK_DIALECT = QUERIES + [
    ("SELECT id FROM free ORDER BY id LIMIT 2", lambda t: t.orderBy("id").limit(2).select("id")),
    ("SELECT region, count(1) FROM free GROUP BY region", lambda t: t.groupBy("region").agg({"*": "count"})),
]


def shares(world, text, frame):
    ann, did = world
    ann.sql("INSERT INTO free VALUES (4, 'EU', 'd')")  # a new version: nothing is known of it
    did()
    expected = ann.frame(frame(ann.spark.table("free")))
    assert did() == ["miss", "store"], text
    for way in (ann.sql, ann.flight_sql, lambda t: ann.frame(frame(ann.spark.table("free")))):
        assert way(text) == expected
        assert did() == ["hit"], text


@pytest.mark.parametrize("text, frame", QUERIES)
def test_plain_queries_share_an_entry_in_the_engines_dialect(world, text, frame):
    shares(world, text, frame)


@pytest.mark.parametrize("text, frame", SPARK_DIALECT)
def test_all_queries_share_an_entry_in_sparks_dialect(world, text, frame):
    world[0].flight_dialect("spark")
    try:
        shares(world, text, frame)
    finally:
        world[0].flight_dialect("datafusion")


def test_encoded_plans_share_it_too(world):
    ann, did = world
    ann.sql("INSERT INTO free VALUES (5, 'EU', 'e')")
    did()
    expected = ann.sql("SELECT id, ssn FROM free")
    assert did() == ["miss", "store"]
    df = df_project(df_table(SCHEMA, "free"), [df_column("id"), df_column("ssn")])
    substrait = sub_plan(sub_project(sub_read(SCHEMA, names=["free"]), 3, [sub_column(0), sub_column(2)]), ["id", "ssn"])
    for call in (lambda: ann.encoded("datafusion.logical.v1", df), lambda: ann.encoded("substrait.plan.v1", substrait),
                 lambda: ann.flight_substrait(substrait)):
        assert call() == expected
        assert did() == ["hit"]
