"""CSV and JSON files as Spark reads them: tests/data/spark/text_files.json is what a real Spark 4.2 inferred and read.
TRUNNION_RECORD=sc://host:port python test_tables_text.py  asks one again."""
import json, os, pathlib, tempfile
import pytest

RECORDED = pathlib.Path(__file__).resolve().parents[1] / "data/spark/text_files.json"

# Columns of one CSV file each: the types that are inferred.
INFERRED = {
    "int": ["1", "-5", "+3"], "long": ["1", "3000000000"], "decimal": ["1", "12345678901234567890"],
    "decimal and double": ["12345678901234567890", "1.5"], "40 digits": ["1" + "0" * 39], "double": ["1.5", "2"], "exponent": ["1e5"],
    "java double": ["1.5f"], "java double d": ["1.5d"], "nan": ["NaN", "1"], "inf": ["Inf"], "infinity": ["Infinity"],
    "date": ["2020-01-01", "2021-12-31"], "short date": ["2020-1-1"], "month": ["2020-01"], "timestamp": ["2020-01-01 10:00:00"],
    "timestamp T": ["2020-01-01T10:00:00"], "timestamp Z": ["2020-01-01T10:00:00Z"], "fraction": ["2020-01-01 10:00:00.123456"],
    "offset": ["2020-01-01 10:00:00+02:00"], "date, timestamp": ["2020-01-01", "2020-01-01 10:00:00"],
    "timestamp, date": ["2020-01-01 10:00:00", "2020-01-01"], "time": ["12:30"], "time with seconds": ["12:30:15"], "T time": ["T12:30"],
    "boolean": ["true", "FALSE"], "boolean, int": ["true", "1"], "int, text": ["1", "x"], "date, text": ["2020-01-01", "x"],
    "date, int": ["2020-01-01", "5"], "int, date": ["5", "2020-01-01"], "empty quotes": ['""'], "int and nothing": ["1", "", "2"],
    "blanks": [" 1", "2 "], "blank double": [" 1.5"], "minus zero": ["-0"], "leading zeros": ["007"], "hexadecimal": ["0x1F"],
    "underscore": ["1_000"], "thousands": ['"1,000"'], "percent": ["1%"], "points": [".5", "5."], "month 13": ["2020-13-01"],
    "30 February": ["2020-02-30"], "year 12020": ["12020-01-01"], "slashes": ["01/02/2020"], "zone": ["2020-01-01 10:00:00 UTC"],
    "minutes": ["2020-01-01 10:00"], "hour": ["2020-01-01 10"], "largest long": ["9223372036854775807"],
    "beyond long": ["9223372036854775808"], "long, double": ["3000000000", "1.5"], "negative decimal": ["-12345678901234567890"],
    "epoch": ["epoch"], "now": ["now"], "date with a blank": ["2020-01-01 ", "2020-01-02"],
}
# JSON files: schema and rows.
RECORDS = {
    "long": ['{"a":1}'], "decimal": ['{"a":12345678901234567890}'], "decimal, double": ['{"a":12345678901234567890}', '{"a":1.5}'],
    "long, double": ['{"a":1}', '{"a":1.5}'], "huge": ['{"a":1' + "0" * 40 + "}"], "null": ['{"a":null}'], "null, long": ['{"a":null}', '{"a":1}'],
    "array": ['{"a":[1,2.5]}'], "empty array": ['{"a":[]}'], "array of structs": ['{"a":[{"x":1},{"y":"z"}]}'],
    "structs": ['{"a":{"b":1}}', '{"a":{"c":true}}'], "empty struct": ['{"a":{}}', '{"b":1}'], "long, text": ['{"a":1}', '{"a":"x"}'],
    "long, struct": ['{"a":1}', '{"a":{"b":1}}'], "boolean": ['{"a":true}'], "boolean, long": ['{"a":true}', '{"a":1}'],
    "malformed": ['{"a":1}', "{bad"], "dates are texts": ['{"a":"2020-01-01"}'], "empty lines": ["", '{"a":1}'], "single quotes": ["{'a':1}"],
    "exponent": ['{"a":1e5}'], "trailing text": ['{"a":1} x'], "two records": ['{"a":1}{"a":2}'], "nested": ['{"a":{"b":{"c":[[1],[2,null]]}}}'],
    "escapes": ['{"a":"\\u00e9\\n\\"\\/"}'], "order": ['{"b":1,"a":2,"c":{"z":1,"y":2}}'],
}
# Reads of one file with options: format, options, schema, text.
READS = {
    "header": ("csv", {"header": "true"}, None, "a,b,a,,b\n1,2,3,4,5\n"),
    "ragged": ("csv", {"sep": ";"}, None, "1;2\n3;4;5\n6\n"),
    "quotes": ("csv", {}, None, '"",x\n"a""b",y\n"a\\"b",z\na"b,w\n "q",v\nonly\n1,2,3\n'),
    "drop malformed": ("csv", {"mode": "DROPMALFORMED"}, "a string, b string", '"",x\nonly\n1,2,3\n'),
    "corrupt record": ("csv", {}, "a int, b string, _corrupt_record string", "1,x\ny,z\nonly\n1,2,3\n"),
    "corrupt record by name": ("csv", {"columnNameOfCorruptRecord": "bad"}, "a int, bad string", "1\nx\n"),
    "types": ("csv", {}, "a int, b double, c boolean, d date, e timestamp",
              " 1,1.5d,yes,2020-1-1,2020-01-01 10:00\n1,NaN,TRUE,2020-01-01,2020-01-01T10:00:00Z\n1_0,Inf,0,2020-01-01 x,\n"),
    "null value": ("csv", {"nullValue": "NA", "inferSchema": "true"}, None, "1,NA\nNA,x\n"),
    "comment": ("csv", {"comment": "#", "inferSchema": "true"}, None, "#x\n1,2\n#y\n3,4\n"),
    "date format": ("csv", {"dateFormat": "dd.MM.yyyy"}, "d date", "01.02.2020\nx\n"),
    "tab": ("csv", {"sep": "\\t", "inferSchema": "true"}, None, "1\tx\n2\ty\n"),
    "fail fast": ("csv", {"mode": "FAILFAST"}, "a int", "1\nx\n"),
    "multi line": ("csv", {"multiLine": "true", "inferSchema": "true", "header": "true"}, None, 'a,b\n1,"x\ny"\n2,z\n'),
    "json schema": ("json", {}, "a int, b string", '{"a":1,"b":"x"}\n{"a":"y"}\n{bad\n'),
    "json drop malformed": ("json", {"mode": "DROPMALFORMED"}, "a int", '{"a":1}\n{bad\n'),
    "json fail fast": ("json", {"mode": "FAILFAST"}, "a int", '{"a":1}\n{bad\n'),
    "json corrupt record": ("json", {"columnNameOfCorruptRecord": "bad"}, "a int, bad string", '{"a":1}\n{bad\n'),
    "json primitives as string": ("json", {"primitivesAsString": "true"}, None, '{"a":1,"b":true,"c":"x","d":[1]}\n'),
    "json prefers decimal": ("json", {"prefersDecimal": "true"}, None, '{"a":1.25}\n{"a":123.5}\n'),
    "json timestamp format": ("json", {"timestampFormat": "dd/MM/yyyy HH:mm"}, "t timestamp", '{"t":"01/02/2020 10:30"}\n'),
}


def one(spark, folder, kind, name):
    path = str(pathlib.Path(folder, f"{kind}.txt"))
    try:
        if kind == "inferred":
            pathlib.Path(path).write_text("\n".join(INFERRED[name]) + "\n")
            return spark.read.csv(path, inferSchema=True).schema.simpleString()
        if kind == "records":
            pathlib.Path(path).write_text("\n".join(RECORDS[name]) + "\n")
            frame = spark.read.json(path)
        else:
            form, options, schema, text = READS[name]
            pathlib.Path(path).write_text(text)
            reader = spark.read.format(form).options(**options)
            frame = (reader.schema(schema) if schema else reader).load(path)
        return [frame.schema.simpleString(), str(frame.collect())]
    except Exception as error:
        return [type(error).__name__, getattr(error, "getCondition", lambda: None)()]


def everything():
    return [(kind, name) for kind, names in (("inferred", INFERRED), ("records", RECORDS), ("reads", READS)) for name in names]


@pytest.mark.parametrize("kind,name", everything())
def test_text_files_are_read_as_spark_reads_them(spark, tmp_path, kind, name):
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert one(spark, tmp_path, kind, name) == json.loads(RECORDED.read_text())[kind][name]


if __name__ == "__main__":
    from pyspark.sql import SparkSession
    session = SparkSession.builder.remote(os.environ["TRUNNION_RECORD"]).create()
    out = {}
    with tempfile.TemporaryDirectory() as scratch:
        for kind, name in everything():
            out.setdefault(kind, {})[name] = one(session, scratch, kind, name)
    RECORDED.write_text(json.dumps(out, indent=1, ensure_ascii=False) + "\n")
