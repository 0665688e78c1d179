"""Files that are not plain lines of UTF-8: records over several lines, compressed, in other encodings, chosen by pattern or
time, against answers recorded from real Spark 4.2.0 over the same bytes. Rows are compared as a multiset. Recorded by running
this file as a program: python test_sources.py sc://A_REAL_SPARK"""
import bz2, gzip, json, os, pathlib, sys, tempfile, zlib
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession, functions as F

RECORD = pathlib.Path(__file__).resolve().parents[1] / "data/spark/sources.json"
RECORDS = b'{"a":1,"b":"x"}\n{"a":2,"b":"y"}\n'
LINES = b"i,s\n1,one\n2,two\n"
TEXT = "i,s\n1,\u00e9t\u00e9\n2,\u00fcber\n"
WIDE = 'i,s\n1,\u4e2d\u6587\n2,"a\nb"\n'


def zstd(data):
    return pa.compress(data, codec="zstd", asbytes=True)


FILES = {
    # JSON over several lines
    "m/object.json": b'{\n "a": 1,\n "b": {"c": [1,\n 2]}\n}\n',
    "m/array.json": b'[{"a":1},\n {"a":2, "b":"x"},\n {"a":3}]\n',
    "m/several.json": b'{"a":1}\n{"a":2}\n',
    "m/bad.json": b'{"a":1,\n "b":',
    "m/badarray.json": b'[{"a":1},\n {"a":]\n',
    "m/mixed.json": b'[{"a":1}, 5, null, {"a":"x"}]',
    "m/scalar.json": b'17\n',
    "m/empty.json": b'',
    "m/blank.json": b' \n\n',
    "m/emptyarray.json": b'[]',
    "m/trailing.json": b'{"a":1} trailing',
    "m/comments.json": b'/* c */ {"a": 1 // x\n}\n',
    "m/bom.json": b'\xef\xbb\xbf{"a":1}',
    "dirm/1.json": b'[{"a":1},\n{"a":2}]', "dirm/2.json": b'{"a":\n3,"c":true}', "dirm/3.json": b'{"a":\n',
    "l/arrays.json": b'[{"a":1},{"a":2}]\n{"a":3}\n[]\n[{"a":4},5]\n',
    "l/late.json": b'{"a":3}\n[{"a":1},{"a":2}]\n',
    "l/onearray.json": b'[\n{"a":1},\n{"a":2}\n]\n',
    # CSV over several lines
    "c/lines.csv": b'i,s,d\n1,"a\nb",2.5\n2,"c ""q"" \\"z\\"\r\nd",3\n3,plain,4\n',
    "c/crlf.csv": b'i,s\r\n1,"a\r\nb"\r\n2,c\r\n',
    "c/open.csv": b'i,s\n1,"never\nends\n2,x\n',
    "c/short.csv": b'i,s\n1\n2,x,y\n3,z\n',
    "c/blank.csv": b'i,s\n\n1,x\n\n\n2,y\n',
    "c/comment.csv": b'#c\ni,s\n#d\n1,"#x\n#y"\n2,y\n',
    "c/nohead.csv": b'1,"a\nb"\n2,c\n',
    "c/sep.csv": b'i|s;1|one;2|two',
    "c/bom.csv": b'\xef\xbb\xbfi,s\n1,one\n',
    # compressed
    "z/j.json.gz": gzip.compress(RECORDS, mtime=0), "z/j.json.bz2": bz2.compress(RECORDS), "z/j.json.deflate": zlib.compress(RECORDS),
    "z/j.json.zst": zstd(RECORDS), "z/c.csv.gz": gzip.compress(LINES, mtime=0), "z/c.csv.bz2": bz2.compress(LINES),
    "z/c.csv.deflate": zlib.compress(LINES),
    "z/t.txt.gz": gzip.compress(b"a\nb\r\nc", mtime=0), "z/t.txt.bz2": bz2.compress(b"a\nb\r\nc"),
    "z/members.csv.gz": gzip.compress(LINES, mtime=0) + gzip.compress(b"3,three\n", mtime=0),
    "z/cut.csv.gz": gzip.compress(b"i,s\n" + b"".join(b"%d,x\n" % i for i in range(400)), mtime=0)[:60],
    "z/plain.csv.gz": LINES, "z/m.json.gz": gzip.compress(b'[{"a":1},\n{"a":2}]', mtime=0),
    "mix/1.csv": LINES, "mix/2.csv.gz": gzip.compress(b"i,s\n3,three\n", mtime=0), "mix/3.csv.bz2": bz2.compress(b"i,s\n4,four\n"),
    "k/x=1/c.csv.gz": gzip.compress(LINES, mtime=0), "k/x=2/c.csv.gz": gzip.compress(LINES, mtime=0),
    # encodings
    "e/latin.csv": TEXT.encode("latin-1"), "e/utf16.csv": WIDE.encode("utf-16"), "e/utf16le.csv": WIDE.encode("utf-16-le"),
    "e/utf16be.csv": WIDE.encode("utf-16-be"), "e/latin.txt": TEXT.encode("latin-1"), "e/utf16.txt": TEXT.encode("utf-16-le"),
    "e/latin.json": '{"a":"\u00e9"}\n{"a":"\u00fc"}\n'.encode("latin-1"), "e/utf16.json": '{"a":"\u4e2d"}\n'.encode("utf-16"),
    "e/utf16le.json": '{"a":"\u4e2d"}\n{"a":"x"}\n'.encode("utf-16-le"), "e/utf32.json": '{"a":"\u4e2d"}\n'.encode("utf-32"),
    "e/cp1252.csv": "i,s\n1,\u20ac\n".encode("cp1252"), "e/sjis.csv": "i,s\n1,\u65e5\u672c\n".encode("shift_jis"),
    "e/bad.csv": b"i,s\n1,\xe9t\xe9\n", "e/bad.json": b'{"a":"\xe9"}\n', "e/utf8.json": '{"a":"\u00e9"}\n'.encode(),
    # separators of lines
    "s/json.txt": b'{"a":1}|{"a":2}|', "s/csv.txt": b"i,s|1,one|2,two", "s/cr.csv": b"i,s\r1,one\r2,two", "s/two.txt": b"a||b||c",
    "s/crlf.json": b'{"a":1}\r\n{"a":2}\r\n', "s/cr.json": b'{"a":1}\r{"a":2}\r',
    # files of folders
    "f/a.csv": b"1\n", "f/b.txt": b"2\n", "f/sub/c.csv": b"3\n", "f/sub/deep/d.csv": b"4\n", "f/_hidden.csv": b"5\n", "f/.dot.csv": b"6\n",
    "p/k=1/a.csv": b"1\n", "p/k=2/b.csv": b"2\n", "p/k=2/c.txt": b"3\n",
    "old/a.csv": b"1\n", "old/b.csv": b"2\n",
    "bad/a.parquet": b"PAR1 this is none PAR1", "bad/c.csv": b"1\n",
    "orc/a.orc": b"ORC", "empty/_SUCCESS": b"",
}


def make(folder):
    for name, data in FILES.items():
        path = pathlib.Path(folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    os.utime(f"{folder}/old/a.csv", (1577836800, 1577836800))  # 2020-01-01
    os.utime(f"{folder}/old/b.csv", (1640995200, 1640995200))  # 2022-01-01
    os.makedirs(f"{folder}/none", exist_ok=True)
    for name, table in (("merge/1", {"a": [1, 2], "b": ["x", "y"]}), ("merge/2", {"a": [3], "c": [1.5]}),
                        ("clash/1", {"a": [1]}), ("clash/2", {"a": ["x"]}), ("wider/1", {"a": pa.array([1], pa.int32())}),
                        ("wider/2", {"a": pa.array([2**40], pa.int64())}), ("bad/b", {"a": [7]}),
                        ("pq/sub/x", {"a": [8]}), ("pq/y", {"a": [9]}), ("hive/k=1/x", {"a": [1]}), ("hive/k=2/x", {"a": [2]}),
                        ("case/1", {"a": [1]}), ("case/2", {"A": [2]})):
        path = pathlib.Path(folder) / (name + ".parquet")
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(table), path)


CASES = {}


def read(name, format, path, schema=None, **options):
    def run(spark, folder):
        reader = spark.read.format(format).options(**{k: v.replace("{folder}", folder) if isinstance(v, str) else v for k, v in options.items()})
        reader = reader.schema(schema) if schema else reader
        paths = [folder + "/" + p for p in path] if isinstance(path, list) else folder + "/" + path
        return reader.load(paths)
    assert name not in CASES
    CASES[name] = run


AB = "a INT, b STRING, _corrupt_record STRING"
for name in [n for n in FILES if n.startswith("m/")]:
    read(name, "json", name, multiLine=True)
    read(name + " given", "json", name, AB, multiLine=True)
    read(name + " dropped", "json", name, "a INT", multiLine=True, mode="DROPMALFORMED")
    read(name + " failfast", "json", name, "a INT", multiLine=True, mode="FAILFAST")
    read(name + " lines", "json", name)
read("comments allowed", "json", "m/comments.json", multiLine=True, allowComments=True)
read("folder of records", "json", "dirm", multiLine=True)
read("folder of records, given", "json", "dirm", "a INT, c BOOLEAN", multiLine=True)
for name in [n for n in FILES if n.startswith("l/")]:
    read(name, "json", name)
    read(name + " given", "json", name, AB)
    read(name + " dropped", "json", name, "a INT", mode="DROPMALFORMED")
for name in [n for n in FILES if n.startswith("c/")]:
    read(name, "csv", name, header=True, multiLine=True)
    read(name + " inferred", "csv", name, header=True, multiLine=True, inferSchema=True)
    read(name + " given", "csv", name, "i INT, s STRING, _corrupt_record STRING", header=True, multiLine=True)
    read(name + " dropped", "csv", name, "i INT, s STRING", header=True, multiLine=True, mode="DROPMALFORMED")
    read(name + " failfast", "csv", name, "i INT, s STRING", header=True, multiLine=True, mode="FAILFAST")
    read(name + " lines", "csv", name, header=True)
read("comment over lines", "csv", "c/comment.csv", header=True, multiLine=True, comment="#")
read("without a header", "csv", "c/nohead.csv", multiLine=True, inferSchema=True)
read("quotes as escapes", "csv", "c/lines.csv", header=True, multiLine=True, escape='"')
for name in [n for n in FILES if n.startswith("z/")]:
    kind = {"j": "json", "c": "csv", "t": "text", "m": "json"}[name[2]] if name[2:4] != "me" and name[2:4] != "cu" and name[2] != "p" else "csv"
    if kind == "csv":
        read(name, "csv", name, header=True)
        read(name + " inferred", "csv", name, header=True, inferSchema=True)
        read(name + " multi", "csv", name, header=True, multiLine=True)
    elif kind == "json":
        read(name, "json", name, multiLine=name.startswith("z/m"))
        read(name + " given", "json", name, "a LONG, b STRING", multiLine=name.startswith("z/m"))
    else:
        read(name, "text", name)
        read(name + " whole", "text", name, wholetext=True)
read("mixed", "csv", "mix", header=True, inferSchema=True)
read("mixed given", "csv", "mix", "i INT, s STRING", header=True)
read("mixed text", "text", "mix")
read("compressed partitions", "csv", "k", header=True, inferSchema=True)
read("corrupt ignored", "csv", "z/cut.csv.gz", "i INT, s STRING", header=True, ignoreCorruptFiles=True)
for encoding, name in (("ISO-8859-1", "e/latin.csv"), ("latin1", "e/latin.csv"), ("UTF-16", "e/utf16.csv"), ("UTF-16LE", "e/utf16le.csv"),
                       ("UTF-16BE", "e/utf16be.csv"), ("windows-1252", "e/cp1252.csv"), ("Shift_JIS", "e/sjis.csv"), ("UTF-8", "e/bad.csv"),
                       ("US-ASCII", "e/bad.csv"), ("nope", "e/bad.csv"), ("", "e/bad.csv")):
    if "UTF-16" not in encoding:  # Spark cuts those at bytes, and reads halves of characters
        read(f"csv {encoding} {name}", "csv", name, encoding=encoding, header=True)
    read(f"csv {encoding} {name} multi", "csv", name, encoding=encoding, header=True, multiLine=True, inferSchema=True)
for encoding, name in (("ISO-8859-1", "e/latin.json"), ("UTF-16", "e/utf16.json"), ("UTF-16LE", "e/utf16le.json"), ("UTF-8", "e/bad.json"),
                       ("utf-8", "e/utf8.json"), ("UTF-32", "e/utf32.json"), ("nope", "e/utf8.json")):
    if name != "e/bad.json":  # malformed for Spark; the engine refuses the file
        read(f"json {encoding} {name}", "json", name, encoding=encoding)
        read(f"json {encoding} {name} sep", "json", name, encoding=encoding, lineSep="\n")
    read(f"json {encoding} {name} multi", "json", name, encoding=encoding, multiLine=True)
read("json utf16 found", "json", "e/utf16.json", multiLine=True)
read("json utf32 found", "json", "e/utf32.json", multiLine=True)
read("text latin", "text", "e/latin.txt", encoding="ISO-8859-1")
read("text utf16", "text", "e/utf16.txt", encoding="UTF-16LE", lineSep="\n")
read("charset", "csv", "e/latin.csv", charset="ISO-8859-1", header=True)
read("json lineSep", "json", "s/json.txt", lineSep="|")
read("json lineSep given", "json", "s/json.txt", AB, lineSep="|")
read("csv lineSep", "csv", "s/csv.txt", lineSep="|", header=True, inferSchema=True)
read("csv lineSep semicolon", "csv", "c/sep.csv", lineSep=";", sep="|", header=True)
read("csv lineSep two", "csv", "s/two.txt", lineSep="||")
read("text lineSep two", "text", "s/two.txt", lineSep="||")
read("json lineSep two", "json", "s/two.txt", lineSep="||")
read("csv lineSep empty", "csv", "s/two.txt", lineSep="")
read("json lineSep empty", "json", "s/two.txt", lineSep="")
read("csv cr", "csv", "s/cr.csv", header=True)
read("csv cr multi", "csv", "s/cr.csv", header=True, multiLine=True)
read("json crlf", "json", "s/crlf.json")
read("json cr", "json", "s/cr.json")
read("text whole folder", "text", "dirm", wholetext=True)
for format in ("csv", "text"):
    read(f"{format} folder", format, "f")
    read(f"{format} recursive", format, "f", recursiveFileLookup=True)
    read(f"{format} recursive glob", format, "f", recursiveFileLookup=True, pathGlobFilter="*.csv")
    read(f"{format} glob filter", format, "f", pathGlobFilter="*.csv")
    read(f"{format} glob filter braces", format, "f", pathGlobFilter="{a,b}.*")
    read(f"{format} glob filter class", format, "f", pathGlobFilter="[a]*.csv")
    read(f"{format} glob filter none", format, "f", pathGlobFilter="*.nope")
    read(f"{format} partitions", format, "p")
    read(f"{format} partitions glob", format, "p", pathGlobFilter="*.csv")
    read(f"{format} partitions recursive", format, "p", recursiveFileLookup=True)
    read(f"{format} before", format, "old", modifiedBefore="2021-01-01T00:00:00")
    read(f"{format} after", format, "old", modifiedAfter="2021-01-01T00:00:00")
    read(f"{format} between", format, "old", modifiedAfter="2019-01-01T00:00:00", modifiedBefore="2023-01-01T00:00:00")
    read(f"{format} at", format, "old", modifiedAfter="2020-01-01T00:00:00")
    read(f"{format} before wrong", format, "old", modifiedBefore="yesterday")
    read(f"{format} before date", format, "old", modifiedBefore="2021-01-01")
    read(f"{format} before all", format, "old", modifiedBefore="2001-01-01T00:00:00")
    read(f"{format} missing", format, "nope", ignoreMissingFiles=True)
    read(f"{format} nothing", format, "none")
    read(f"{format} marker only", format, "empty")
    read(f"{format} two", format, ["f/a.csv", "f/sub/c.csv"])
    read(f"{format} star", format, "f/*.csv")
    read(f"{format} stars", format, "f/*/*.csv")
    read(f"{format} base path", format, "p/k=2", basePath="{folder}/p")
read("csv given nothing", "csv", "none", "a INT")
read("parquet one schema", "parquet", "merge")
read("parquet merged", "parquet", "merge", mergeSchema=True)
read("parquet clash", "parquet", "clash", mergeSchema=True)
read("parquet wider", "parquet", "wider", mergeSchema=True)
read("parquet given", "parquet", "merge", "c DOUBLE, a LONG, zz STRING")
read("parquet recursive", "parquet", "pq", recursiveFileLookup=True)
read("parquet folder", "parquet", "pq")
read("parquet glob", "parquet", "merge", pathGlobFilter="2*")
read("parquet hive", "parquet", "hive")
read("parquet hive given", "parquet", "hive", "a LONG, k STRING")
read("parquet hive recursive", "parquet", "hive", recursiveFileLookup=True)
read("parquet hive one", "parquet", "hive/k=2")
read("parquet hive base", "parquet", "hive/k=2", basePath="{folder}/hive")
read("parquet hive glob", "parquet", "hive/k=*")
read("parquet hive glob base", "parquet", "hive/k=*", basePath="{folder}/hive")
read("parquet hive file", "parquet", "hive/k=1/x.parquet")
read("parquet corrupt", "parquet", "bad", pathGlobFilter="*.parquet")
read("parquet corrupt given", "parquet", "bad", "a LONG", pathGlobFilter="*.parquet", ignoreCorruptFiles=True)
read("parquet is csv", "parquet", "bad/c.csv")
read("parquet nothing", "parquet", "none")
for name in ("kafka", "nope", "com.example.Nope"):
    read(f"format {name}", name, "f")
read("avro", "avro", "f")


def answer(spark, folder, function):
    try:
        frame = function(spark, folder)
        fields = [[field.name, field.dataType.simpleString(), field.nullable] for field in frame.schema]
        rows = sorted(([str(v).replace(folder, "FOLDER") for v in row] for row in frame.collect()), key=repr)
        return {"fields": fields, "rows": rows}
    except PySparkException as error:
        return {"condition": error.getCondition() or str(error).split("\n")[0].replace(folder, "FOLDER")[:150]}
    except UnicodeDecodeError:
        return None  # bytes that are no text: Spark sends them as they are


ANSWERS = json.loads(RECORD.read_text()) if RECORD.exists() else {}


@pytest.fixture(scope="module")
def session(server):
    spark = SparkSession.builder.remote(server).create()
    yield spark
    spark.stop()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("sources")
    make(place)
    return str(place)


@pytest.mark.parametrize("name", ANSWERS)
def test_source(session, folder, name):
    assert answer(session, folder, CASES[name]) == ANSWERS[name]


# What Spark does without mergeSchema: the columns are those of the first file; with it: those of all.
@pytest.mark.parametrize("first, second, merge, names, rows", [
    ({"a": [1], "b": [2]}, {"b": [4], "a": [3]}, False, "abp", [(1, 2, 1), (3, 4, 2)]),
    ({"a": [1], "b": [2]}, {"a": [3]}, False, "abp", [(1, 2, 1), (3, None, 2)]),
    ({"a": [1]}, {"a": [3], "b": [4]}, False, "ap", [(1, 1), (3, 2)]),
    ({"a": [1]}, {"a": [3], "b": [4]}, True, "abp", [(1, None, 1), (3, 4, 2)]),
    ({"a": [1], "b": [2]}, {"b": [4], "a": [3]}, True, "abp", [(1, 2, 1), (3, 4, 2)]),
    ({"a": [1]}, {f"c{i}": [i] for i in range(300)}, False, "ap", [(1, 1), (None, 2)])])
def test_directories_of_other_columns(session, tmp_path, first, second, merge, names, rows):
    for value, table in ((1, first), (2, second)):
        (tmp_path / f"p={value}").mkdir()
        pq.write_table(pa.table(table), tmp_path / f"p={value}/x.parquet")
    frame = session.read.options(pathGlobFilter="*.parquet", mergeSchema=merge).parquet(str(tmp_path))
    assert frame.columns == list(names)
    assert sorted(map(tuple, frame.collect()), key=lambda row: row[-1]) == rows
    assert frame.select("p").distinct().count() == 2


# The directory above the table has the same key as the one below it.
def test_values_of_the_nearest_directory(session, tmp_path):
    table = tmp_path / "k=1/table"
    (table / "k=2").mkdir(parents=True)
    pq.write_table(pa.table({"a": [7]}), table / "k=2/k=3.parquet")
    assert session.read.parquet(str(table)).collect() == [(7, 2)]
    assert session.read.option("pathGlobFilter", "*.parquet").parquet(str(table)).collect() == [(7, 2)]
    (table / "k=2/k=3.parquet").unlink()
    (table / "k=2/x.csv.gz").write_bytes(gzip.compress(b"a\n7\n"))
    assert session.read.csv(str(table), header=True, inferSchema=True, multiLine=True).collect() == [(7, 2)]


@pytest.mark.parametrize("damage, schema, condition", [
    ("cut", None, "CANNOT_READ_FILE_FOOTER"), ("cut", "a bigint", "NO_HINT"),
    ("footer", None, "CANNOT_READ_FILE_FOOTER"), ("footer", "a bigint", "NO_HINT"),
    ("rows", None, "NO_HINT"), ("rows", "a bigint", "NO_HINT"),
])
def test_damaged_parquet(session, tmp_path, damage, schema, condition):
    """Spark 4.2 answers so: the footer is read where the schema is looked for, else everything is a task's."""
    path = str(tmp_path / "damaged.parquet")
    pq.write_table(pa.table({"a": list(range(100000))}), path)
    data = bytearray(open(path, "rb").read())
    if damage == "cut":
        data = data[:len(data) // 2]
    else:
        first, last = (len(data) - 300, len(data) - 8) if damage == "footer" else (200, len(data) // 2)
        data[first:last] = bytes(0xFF if damage == "footer" else (b * 31 + 7) & 255 for b in data[first:last])
    open(path, "wb").write(data)
    reader = session.read.schema(schema) if schema else session.read
    with pytest.raises(PySparkException) as error:
        reader.parquet(path).collect()
    assert error.value.getCondition() == f"FAILED_READ_FILE.{condition}"
    assert error.value.getSqlState() == "KD001"


def test_text_files_whose_names_look_like_patterns_are_read(session, tmp_path):
    (tmp_path / "a[1].txt").write_text("one\n")
    (tmp_path / "b[1]/k=1").mkdir(parents=True)
    (tmp_path / "b[1]/k=1/x.txt").write_text("two\n")
    assert session.read.text(f"{tmp_path}/a[1].txt").collect() == [("one",)]
    assert session.read.text(f"{tmp_path}/b[1]").collect() == [("two", 1)]


def test_text_files_that_are_too_many_are_refused(session, tmp_path):
    for i in range(10001):
        (tmp_path / f"{i}.txt").touch()
    with pytest.raises(PySparkException, match="TRN_SOURCE_FILES_MAX"):
        session.read.text(str(tmp_path)).collect()


if __name__ == "__main__":
    real = SparkSession.builder.remote(sys.argv[1]).create()
    with tempfile.TemporaryDirectory() as place:
        make(place)
        answers = {name: answer(real, place, function) for name, function in CASES.items()}
    pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else RECORD).write_text(
        "{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in answers.items() if v) + "\n}\n")
    os._exit(0)
