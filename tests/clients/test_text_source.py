"""Text files, as a real Spark 4.2 reads the same ones; what is not served says so."""
import os
import pytest


@pytest.fixture()
def folder(tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d/a.txt").write_bytes(b"a\n\nb\r\nc\rd\n")
    (tmp_path / "d/b.txt").write_bytes(b"last without end")
    (tmp_path / "d/empty.txt").write_bytes(b"")
    (tmp_path / "sep.txt").write_bytes(b"x|y|z")
    for k, text in ((1, b"one\n"), (2, b"two\nthree")):
        (tmp_path / f"p/k={k}").mkdir(parents=True)
        (tmp_path / f"p/k={k}/f.txt").write_bytes(text)
    return str(tmp_path)


def rows(frame):
    return sorted(tuple(row) for row in frame.collect())


def test_lines_end_in_three_ways(spark, folder):
    lines = [("",), ("a",), ("b",), ("c",), ("d",)]
    assert rows(spark.read.text(folder + "/d/a.txt")) == lines
    assert rows(spark.read.format("text").load(folder + "/d")) == lines + [("last without end",)]
    assert rows(spark.read.text([folder + "/d/a.txt", folder + "/d/b.txt"])) == lines + [("last without end",)]
    assert rows(spark.read.text(folder + "/d/*.txt")) == lines + [("last without end",)]
    assert rows(spark.sql(f"SELECT * FROM text.`{folder}/d/a.txt`")) == lines
    assert rows(spark.read.text(folder + "/d/empty.txt")) == []


def test_files_are_rows_and_other_ends(spark, folder):
    assert rows(spark.read.text(folder + "/d", wholetext=True)) == [("a\n\nb\r\nc\rd\n",), ("last without end",)]
    assert rows(spark.read.text(folder + "/sep.txt", lineSep="|")) == [("x",), ("y",), ("z",)]
    spark.sql(f"CREATE TEMPORARY VIEW v USING text OPTIONS (path '{folder}/sep.txt', lineSep '|')")
    assert rows(spark.table("v")) == [("x",), ("y",), ("z",)]


def test_directories_are_columns(spark, folder):
    frame = spark.read.text(folder + "/p")
    assert frame.schema.simpleString() == "struct<value:string,k:int>"
    assert rows(frame) == [("one", 1), ("three", 2), ("two", 2)]
    assert rows(frame.filter("k = 2").select("value")) == [("three",), ("two",)]
    assert rows(spark.read.schema("line STRING, k STRING").text(folder + "/p"))[0] == ("one", "1")


def test_a_schema_has_one_text_column(spark, folder):
    assert spark.read.schema("line STRING").text(folder + "/sep.txt").columns == ["line"]
    with pytest.raises(Exception, match="UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE.*Text datasource.*`b` of the type \"INT\""):
        spark.read.schema("a STRING, b INT").text(folder + "/sep.txt").collect()


def test_what_is_wrong_has_sparks_words(spark, folder):
    with pytest.raises(Exception, match="PATH_NOT_FOUND"):
        spark.read.text(folder + "/nope").collect()
    with pytest.raises(Exception, match="'lineSep' cannot be an empty string"):
        spark.read.text(folder + "/sep.txt", lineSep="").collect()


def test_many_lines(spark, tmp_path):
    (tmp_path / "many.txt").write_text("".join(f"word{i % 7} {i}\n" for i in range(200000)))
    frame = spark.read.text(str(tmp_path / "many.txt"))
    assert frame.count() == 200000
    assert frame.selectExpr("split(value, ' ')[0] AS w").groupBy("w").count().count() == 7


def test_a_pipe_keeps_nobody_waiting(spark, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for read in (spark.read.text, spark.read.json):
        with pytest.raises(Exception):
            read(str(tmp_path / "pipe")).collect()
