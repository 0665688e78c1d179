"""df.write to files: layout, save modes, partition directories, formats, and that a write that fails leaves nothing behind.
What is expected was taken from Spark 4.2. Client and server share the file system."""
import datetime as dt, decimal, gzip, os, re, threading, time
import pytest
from pyspark.errors import (AnalysisException, IllegalArgumentException, PySparkException, SparkRuntimeException,
                            UnsupportedOperationException)
from pyspark.sql import Row

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
SNAPPY = "part-00000-UUID-c000.snappy.parquet"


def tree(path):
    """Files below a directory, as names without what is different each time."""
    found = [os.path.relpath(os.path.join(folder, file), path) for folder, _, files in os.walk(path) for file in files]
    return sorted(UUID.sub("UUID", name) for name in found)


def text(path):
    parts = sorted(os.path.join(folder, file) for folder, _, files in os.walk(path) for file in files if file.startswith("part-"))
    return "".join(open(part, encoding="utf-8").read() for part in parts)


@pytest.fixture()
def people(spark):
    return spark.createDataFrame([(1, "a", dt.date(2026, 1, 1)), (2, "b/c", dt.date(2026, 2, 1)), (3, None, None), (4, "", None),
                                  (5, "x y+%=:é.", dt.date(2026, 1, 1))], "id int, k string, d date").coalesce(1)


# ---- layout

def test_a_write_makes_a_file_and_a_mark(spark, people, tmp_path):
    target = tmp_path / "new" / "below"
    people.write.parquet(str(target))
    assert tree(target) == ["_SUCCESS", SNAPPY]
    assert sorted(os.listdir(target)) == sorted(["_SUCCESS", *[f for f in os.listdir(target) if f.startswith("part-")]])
    assert spark.read.parquet(str(target)).orderBy("id").collect() == people.orderBy("id").collect()


def test_a_result_without_rows_has_a_schema(spark, people, tmp_path):
    people.where("id < 0").write.parquet(str(tmp_path / "t"))
    assert tree(tmp_path / "t") == ["_SUCCESS", SNAPPY]
    assert spark.read.parquet(str(tmp_path / "t")).schema.simpleString() == "struct<id:int,k:string,d:date>"
    people.where("id < 0").write.partitionBy("k").parquet(str(tmp_path / "p"))
    assert tree(tmp_path / "p") == ["_SUCCESS"]


def test_the_codec_is_in_the_name(spark, tmp_path):
    for codec, ending in [("zstd", ".zstd"), ("none", ""), ("gzip", ".gz"), ("lz4_raw", ".lz4raw"), ("snappy", ".snappy")]:
        spark.range(3).write.option("compression", codec).parquet(str(tmp_path / codec))
        assert tree(tmp_path / codec) == ["_SUCCESS", f"part-00000-UUID-c000{ending}.parquet"]
        assert spark.read.parquet(str(tmp_path / codec)).count() == 3
    spark.conf.set("spark.sql.parquet.compression.codec", "zstd")
    spark.range(3).write.parquet(str(tmp_path / "set"))
    assert tree(tmp_path / "set")[1].endswith(".zstd.parquet")


def test_types_come_back(spark, tmp_path):
    rows = spark.sql("""select 1Y a, 2S b, 3 c, 4L d, 1.5F e, 2.5D f, cast(1.10 as decimal(30,2)) g, 'x' h, X'41' i, true j,
        date'2026-01-02' k, timestamp'2026-01-02 03:04:05.123456' l, timestamp_ntz'2026-01-02 03:04:05' m,
        array(1, null) n, map('k', 1.5D) o, named_struct('x', 1, 'y', array('z')) p""")
    rows.write.parquet(str(tmp_path / "t"))
    back = spark.read.parquet(str(tmp_path / "t"))
    assert back.schema.simpleString() == rows.schema.simpleString()
    assert back.collect() == rows.collect()


# ---- modes

def test_modes(spark, tmp_path):
    target = str(tmp_path / "t")
    counts = []
    for mode in ["error", "append", "ignore", "overwrite"]:
        spark.range(2).write.mode(mode).parquet(target)
        counts.append(spark.read.parquet(target).count())
    assert counts == [2, 4, 4, 2]
    assert tree(target) == ["_SUCCESS", SNAPPY], "what was overwritten is gone, and so is all that was in between"
    with pytest.raises(AnalysisException) as error:
        spark.range(2).write.parquet(target)
    assert (error.value.getCondition(), error.value.getSqlState()) == ("PATH_ALREADY_EXISTS", "42K04")
    assert error.value.getMessageParameters() == {"outputPath": f"file:{target}"}


def test_a_directory_without_files_exists_too(spark, tmp_path):
    with pytest.raises(AnalysisException, match="PATH_ALREADY_EXISTS"):
        spark.range(2).write.parquet(str(tmp_path))
    spark.range(2).write.mode("append").parquet(str(tmp_path))
    assert tree(tmp_path) == ["_SUCCESS", SNAPPY]


def test_a_file_may_be_overwritten_but_not_appended_to(spark, tmp_path):
    (tmp_path / "t").write_text("old")
    with pytest.raises(PySparkException, match="not a directory"):
        spark.range(2).write.mode("append").parquet(str(tmp_path / "t"))
    assert (tmp_path / "t").read_text() == "old"
    spark.range(2).write.mode("overwrite").parquet(str(tmp_path / "t"))
    assert tree(tmp_path) == ["t/_SUCCESS", "t/" + SNAPPY]


def test_a_directory_may_be_read_while_it_is_overwritten(spark, tmp_path):
    target = str(tmp_path / "t")
    spark.range(10).write.parquet(target)
    spark.read.parquet(target).where("id > 5").write.mode("overwrite").parquet(target)
    assert [r.id for r in spark.read.parquet(target).orderBy("id").collect()] == [6, 7, 8, 9]


def test_dynamic_overwrite_keeps_other_partitions(spark, people, tmp_path):
    target = str(tmp_path / "t")
    people.write.partitionBy("k").parquet(target)
    changed = people.where("k = 'a'").selectExpr("id + 10 as id", "k", "d")
    changed.write.mode("overwrite").option("partitionOverwriteMode", "dynamic").partitionBy("k").parquet(target)
    assert sorted(r.id for r in spark.read.parquet(target).collect()) == [2, 3, 4, 5, 11]
    changed.write.mode("overwrite").partitionBy("k").parquet(target)
    assert sorted(r.id for r in spark.read.parquet(target).collect()) == [11]
    assert tree(target) == ["_SUCCESS", "k=a/part-00000-UUID.c000.snappy.parquet"]


# ---- partitions

def test_partition_directories_are_named_as_spark_names_them(spark, people, tmp_path):
    people.write.partitionBy("k").parquet(str(tmp_path / "t"))
    file = "part-00000-UUID.c000.snappy.parquet"
    assert tree(tmp_path / "t") == ["_SUCCESS", f"k=__HIVE_DEFAULT_PARTITION__/{file}", f"k=a/{file}", f"k=b%2Fc/{file}",
                                    f"k=x y+%25%3D%3Aé./{file}"]


def test_partition_columns_come_back_behind_the_others(spark, people, tmp_path):
    people.write.partitionBy("k", "d").parquet(str(tmp_path / "t"))
    back = spark.read.parquet(str(tmp_path / "t"))
    assert back.schema.simpleString() == "struct<id:int,k:string,d:date>"
    assert back.orderBy("id").collect() == [
        Row(id=1, k="a", d=dt.date(2026, 1, 1)), Row(id=2, k="b/c", d=dt.date(2026, 2, 1)), Row(id=3, k=None, d=None),
        Row(id=4, k=None, d=None), Row(id=5, k="x y+%=:é.", d=dt.date(2026, 1, 1))]
    assert back.where("k is null").count() == 2
    assert back.where("k = 'b/c'").count() == 1
    assert back.where("d = date'2026-01-01'").select("id").orderBy("id").collect() == [Row(id=1), Row(id=5)]


def test_odd_column_names(spark, tmp_path):
    rows = spark.range(3).selectExpr("id", "id = 1 as `a=b/c %41`")
    rows.write.partitionBy("a=b/c %41").parquet(str(tmp_path / "t"))
    assert sorted(os.listdir(tmp_path / "t")) == ["_SUCCESS", "a%3Db%2Fc %2541=false", "a%3Db%2Fc %2541=true"]
    back = spark.read.parquet(str(tmp_path / "t"))
    assert back.columns == ["id", "a=b/c %41"]
    assert back.count() == 3


@pytest.mark.parametrize("values, type, expected", [
    (["1", "2"], "int", [1, 2]), (["1", "3000000000"], "bigint", [1, 3000000000]), (["01", "2"], "int", [1, 2]),
    (["1", "30000000000000000000000"], "decimal(23,0)", [decimal.Decimal(1), decimal.Decimal("30000000000000000000000")]),
    (["1", "2.5"], "double", [1.0, 2.5]), (["2026-01-01"], "date", [dt.date(2026, 1, 1)]),
    (["2026-01-01", "2026-02-01 10%3A00%3A00"], "timestamp", [dt.datetime(2026, 1, 1), dt.datetime(2026, 2, 1, 10)]),
    (["1", "2026-02-01"], "string", ["1", "2026-02-01"]), (["true", "x"], "string", ["true", "x"]),
    (["__HIVE_DEFAULT_PARTITION__", "1"], "int", [1, None])])
def test_types_of_partition_columns(spark, tmp_path, values, type, expected):
    for value in values:
        spark.range(1).write.parquet(str(tmp_path / f"v={value}"))
    back = spark.read.parquet(str(tmp_path))
    assert back.schema.simpleString() == f"struct<id:bigint,v:{type}>"
    assert [row.v for row in back.orderBy(back.v.asc_nulls_last()).collect()] == expected


def test_a_given_schema_decides(spark, tmp_path):
    spark.range(1).write.parquet(str(tmp_path / "v=1"))
    assert spark.read.schema("v string, id long").parquet(str(tmp_path)).collect() == [Row(id=0, v="1")]


def test_directories_that_disagree(spark, tmp_path):
    spark.range(1).write.parquet(str(tmp_path / "a=1"))
    spark.range(1).write.parquet(str(tmp_path / "b=1"))
    with pytest.raises(PySparkException) as error:
        spark.read.parquet(str(tmp_path)).count()
    assert error.value.getCondition() == "CONFLICTING_PARTITION_COLUMN_NAMES"


def test_partitioned_text(spark, people, tmp_path):
    people.write.partitionBy("d").option("header", True).csv(str(tmp_path / "c"))
    assert spark.read.option("header", True).csv(str(tmp_path / "c")).columns == ["id", "k", "d"]
    assert spark.read.csv(str(tmp_path / "c")).columns == ["_c0", "_c1", "d"]
    people.write.partitionBy("d").json(str(tmp_path / "j"))
    back = spark.read.json(str(tmp_path / "j"))
    assert back.schema.simpleString() == "struct<id:bigint,k:string,d:date>"
    assert back.where("d = date'2026-02-01'").collect() == [Row(id=2, k="b/c", d=dt.date(2026, 2, 1))]


# ---- text

def test_csv_is_quoted_as_spark_quotes(spark, tmp_path):
    rows = spark.sql("""select * from values (1, 'a"b'), (2, ''), (3, null), (4, ' x,y\\nz\\\\ ') t(i, s)""").coalesce(1)
    rows.write.option("header", True).csv(str(tmp_path / "a"))
    assert text(tmp_path / "a") == 'i,s\n1,"a\\"b"\n2,""\n3,\n4,"x,y\nz\\\\"\n'
    rows.write.options(sep=";", quoteAll=True, header=True, nullValue="NA").csv(str(tmp_path / "b"))
    assert text(tmp_path / "b") == '"i";"s"\n"1";"a\\"b"\n"2";""\n"3";"NA"\n"4";"x,y\nz\\\\"\n'
    back = spark.read.options(header=True, multiLine=True).csv(str(tmp_path / "a"))
    assert [row.s for row in back.orderBy("i").collect() if row.s] == ['a"b', "x,y\nz\\"]


def test_csv_values_have_sparks_form(spark, tmp_path):
    rows = spark.sql("""select 1.5D a, 1e10D b, double('nan') c, timestamp'2026-01-02 03:04:05.123456' t, date'2026-01-02' d,
        cast(1.1 as decimal(5,2)) e, true f""")
    rows.write.csv(str(tmp_path / "a"))
    assert text(tmp_path / "a") == "1.5,1.0E10,NaN,2026-01-02T03:04:05.123Z,2026-01-02,1.10,true\n"
    rows.select("t", "d").write.options(dateFormat="yyyy/MM/dd", timestampFormat="yyyy").csv(str(tmp_path / "b"))
    assert text(tmp_path / "b") == "2026,2026/01/02\n"


def test_json_leaves_nulls_out(spark, tmp_path):
    spark.sql("""select * from values (1, 'a"b', date'2026-01-02', timestamp'2026-01-02 03:04:05.1', 1.10bd, array(1, null)),
        (2, null, null, null, null, null) t(i, s, d, t, e, a)""").coalesce(1).write.json(str(tmp_path / "j"))
    assert text(tmp_path / "j") == ('{"i":1,"s":"a\\"b","d":"2026-01-02","t":"2026-01-02T03:04:05.100Z","e":1.10,"a":[1,null]}\n'
                                    '{"i":2}\n')


def test_compressed_text_comes_back(spark, tmp_path):
    spark.range(10).coalesce(1).write.option("compression", "gzip").csv(str(tmp_path / "c"), header=True)
    name, = [f for f in os.listdir(tmp_path / "c") if f.startswith("part-")]
    assert name.endswith("-c000.csv.gz")
    assert gzip.open(tmp_path / "c" / name, "rt").read().split() == ["id", *map(str, range(10))]
    assert spark.read.csv(str(tmp_path / "c"), header=True).count() == 10
    spark.range(10).write.option("compression", "bzip2").json(str(tmp_path / "j"))
    assert spark.read.json(str(tmp_path / "j")).count() == 10


# ---- refusals

@pytest.mark.parametrize("query, parts, format, condition", [
    ("select id a, id A from range(3)", [], "parquet", "COLUMN_ALREADY_EXISTS"),
    ("select 1 a, 2 b", ["a", "a"], "parquet", "COLUMN_ALREADY_EXISTS"),
    ("select 1 a", ["a"], "parquet", "ALL_PARTITION_COLUMNS_NOT_ALLOWED"),
    ("select 1 b, array(1) a", ["a"], "parquet", "INVALID_PARTITION_COLUMN_DATA_TYPE"),
    ("select array(1) a", [], "csv", "UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE"),
    ("select null a", [], "csv", "UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE"),
    ("select 1 a", [], "bogus", "DATA_SOURCE_NOT_FOUND")])
def test_what_cannot_be_written(spark, tmp_path, query, parts, format, condition):
    with pytest.raises(PySparkException) as error:
        spark.sql(query).write.format(format).partitionBy(*parts).save(str(tmp_path / "t"))
    assert error.value.getCondition() == condition
    assert os.listdir(tmp_path) == []


def test_refusals_name_what_is_wrong(spark, people, tmp_path):
    target = str(tmp_path / "t")
    with pytest.raises(AnalysisException, match=r"Partition column `zz` not found in schema struct<id:int,k:string,d:date>\."):
        people.write.partitionBy("zz").parquet(target)
    with pytest.raises(AnalysisException, match="EMPTY_SCHEMA_NOT_SUPPORTED_FOR_DATASOURCE"):
        people.select().write.parquet(target)
    with pytest.raises(IllegalArgumentException, match="CODEC_NOT_AVAILABLE.WITH_AVAILABLE_CODECS_SUGGESTION"):
        people.write.option("compression", "bogus").parquet(target)
    with pytest.raises(AnalysisException, match="'save' does not support bucketBy right now"):
        people.write.bucketBy(2, "id").parquet(target)
    with pytest.raises(PySparkException, match="'path' is not specified"):
        people.write.format("parquet").save()
    with pytest.raises(UnsupportedOperationException, match="s3://bucket/t"):
        people.write.parquet("s3://bucket/t")
    with pytest.raises(PySparkException, match="TABLE_OR_VIEW_NOT_FOUND"):
        people.write.insertInto("no_such_table")
    assert os.listdir(tmp_path) == []


# ---- failures leave nothing behind

def failing(spark, rows=100_000):
    return spark.range(rows).selectExpr("id", f"if(id = {rows - 1}, raise_error('boom'), 1) as x", "id % 3 as k")


@pytest.mark.parametrize("parts", [[], ["k"]])
@pytest.mark.parametrize("format", ["parquet", "csv", "json"])
def test_a_failure_in_the_middle_leaves_nothing(spark, tmp_path, format, parts):
    with pytest.raises(SparkRuntimeException, match="boom") as error:
        failing(spark).write.format(format).partitionBy(*parts).save(str(tmp_path / "new" / "t"))
    assert error.value.getCondition() == "USER_RAISED_EXCEPTION"
    assert os.listdir(tmp_path) == [], "nor the directories above"


def test_a_failed_overwrite_or_append_changes_nothing(spark, tmp_path):
    target = tmp_path / "t"
    spark.range(5).write.parquet(str(target))
    before = {name: (target / name).read_bytes() for name in os.listdir(target)}
    for mode in ["overwrite", "append"]:
        with pytest.raises(SparkRuntimeException, match="boom"):
            failing(spark).write.mode(mode).parquet(str(target))
        assert {name: (target / name).read_bytes() for name in os.listdir(target)} == before


def test_an_interrupted_write_leaves_nothing(spark, tmp_path):
    target = tmp_path / "t"
    outcome = []

    def write():
        try:
            spark.range(4_000_000_000).selectExpr("id", "sha2(cast(id as string), 256) as h").write.parquet(str(target))
        except PySparkException as error:
            outcome.append(error.getCondition())

    thread = threading.Thread(target=write)
    thread.start()
    until = time.time() + 20
    while not target.exists() and time.time() < until:
        time.sleep(0.02)
    assert target.exists(), "it has begun"
    time.sleep(0.3)
    spark.interruptAll()
    thread.join(30)
    assert outcome == ["OPERATION_CANCELED"]
    assert os.listdir(tmp_path) == []


def test_a_place_that_cannot_be_written_is_named(spark, tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(PySparkException, match=str(tmp_path / "file")):
        spark.range(3).write.parquet(str(tmp_path / "file" / "below"))
    assert os.listdir(tmp_path) == ["file"]


def test_a_write_does_not_disturb_readers(spark, tmp_path):
    """While an overwrite runs, the old rows are there; afterwards the new ones: never none, never both."""
    target = str(tmp_path / "t")
    spark.range(100).coalesce(1).write.parquet(target)
    done = threading.Event()

    def write():
        spark.range(3_000_000).selectExpr("id + 1000 as id").coalesce(1).write.mode("overwrite").parquet(target)
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    counts = set()
    while not done.is_set():
        try:
            counts.add(spark.read.parquet(target).count())
        except PySparkException:
            pass  # the files that it had listed were replaced
    thread.join()
    assert counts <= {100, 3_000_000}
    assert spark.read.parquet(target).count() == 3_000_000


def test_an_overwrite_keeps_the_directory_as_it_was_made(spark, tmp_path):
    """Its rights, a link that leads to it; and nothing of the old or of the write itself is left, there or beside it."""
    real, link = tmp_path / "real", tmp_path / "link"
    link.symlink_to(real)
    spark.range(5).selectExpr("id", "id % 2 as p").write.partitionBy("p").parquet(str(real))
    for target in (real, link):
        real.chmod(0o751)
        (real / "other").write_text("goes")
        spark.range(7).coalesce(1).write.mode("overwrite").parquet(str(target))
        assert link.is_symlink() and real.stat().st_mode & 0o777 == 0o751
        assert tree(real) == ["_SUCCESS", SNAPPY]
        assert spark.read.parquet(str(target)).count() == 7
    assert sorted(os.listdir(tmp_path)) == ["link", "real"]


def test_many_writers_append_to_one_place(spark, tmp_path):
    target = str(tmp_path / "t")
    spark.range(1).write.parquet(target)
    threads = [threading.Thread(target=lambda: spark.range(100).write.mode("append").parquet(target)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert spark.read.parquet(target).count() == 601
    assert set(tree(target)) == {"_SUCCESS", SNAPPY}


def test_noop_runs_everything_and_keeps_nothing(spark):
    spark.range(1000).write.format("noop").mode("overwrite").save()
    with pytest.raises(SparkRuntimeException, match="boom"):
        failing(spark).write.format("noop").mode("overwrite").save()


def test_patterns_match_directories(spark, tmp_path):
    for value in "12":
        spark.range(2).write.parquet(str(tmp_path / f"a={value}" / "b=x"))
    assert spark.read.parquet(str(tmp_path / "a=*" / "b=*")).count() == 4
    assert spark.read.parquet(str(tmp_path / "a={1,2}" / "b=*" / "*.parquet")).count() == 4
    assert spark.read.parquet(str(tmp_path / "a=*" / "b=*")).columns == ["id"]
    with pytest.raises(AnalysisException, match="PATH_NOT_FOUND"):
        spark.read.parquet(str(tmp_path / "zz*")).count()
