"""Databases, tables, views as Spark has them. tests/data/spark/tables.json is what a real Spark 4.2 answered:
TRUNNION_RECORD=sc://host:port python test_tables.py  asks one again (its warehouse directory empty)."""
import datetime, decimal, json, os, pathlib, re, shutil, sys, tempfile
import pytest

sys.path.insert(0, os.path.dirname(__file__))
from table_steps import SCENARIOS

RECORDED = pathlib.Path(__file__).resolve().parents[1] / "data/spark/tables.json"


class Runner:
    """Runs the steps of a scenario in a session of its own."""

    def __init__(self, url):
        from pyspark.sql import SparkSession, functions
        self.spark = SparkSession.builder.remote(url).create()
        self.files = tempfile.mkdtemp(prefix="trunnion_tables_")
        self.scope = {"spark": self.spark, "F": functions, "df": self.frame, "write_parquet": self.write_parquet,
                      "write_csv": self.write_csv, "schema": lambda ddl: self.spark.createDataFrame([], ddl).schema}

    def frame(self, *rows):
        return self.spark.createDataFrame(list(rows), "id INT, name STRING")

    def write_parquet(self, name):
        import pyarrow, pyarrow.parquet
        path = pathlib.Path(self.files, name)
        path.mkdir(parents=True, exist_ok=True)
        pyarrow.parquet.write_table(pyarrow.table({"a": pyarrow.array([1, 2], pyarrow.int32())}), path / "part-0.parquet")

    def write_csv(self, name):
        pathlib.Path(self.files, name).write_text("a,b\n1,x\n2,\n")

    def clean(self, text):
        """What differs from run to run."""
        text = text.replace("file:///", "file:/").replace("file:" + self.files, "<files>").replace(self.files, "<files>")
        if self.warehouse:
            text = text.replace("file:" + self.warehouse, "<wh>").replace(self.warehouse, "<wh>")
        text = re.sub(r"[A-Z][a-z]{2} [A-Z][a-z]{2} \d\d \d\d:\d\d:\d\d [A-Z]+ \d{4}", "<time>", text)
        text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "<time>", text)
        text = re.sub(r"Spark 4\.2\.0|Trunnion [\d.]+", "<program>", text)
        text = re.sub(r'\d+ bytes(, \d+ rows)?', "<size>", text)
        return re.sub(r"root|nobody|\bOwner\b.*", "<owner>", text) if "root" in text else text

    def value(self, v):
        if isinstance(v, (list, tuple)):
            if len(v) >= 2 and v[0] == "Owner":
                return ["Owner", "<owner>", *v[2:]]
            return [self.value(x) for x in v]
        if isinstance(v, str):
            return self.clean(v)
        if v is None or isinstance(v, (bool, int, float)):
            return v
        return str(v)

    def step(self, text):
        text = text.replace("{files}", self.files)
        try:
            if text.startswith(">"):
                body = text[1:]
                try:
                    return {"value": self.value(eval(body, self.scope))}
                except SyntaxError:
                    exec(body, self.scope)
                    return {"value": None}
            frame = self.spark.sql(text)
            columns = [f"{f.name}: {f.dataType.simpleString()}" for f in frame.schema.fields]
            return {"columns": columns, "rows": [self.value(tuple(row)) for row in frame.collect()]}
        except Exception as error:
            condition = getattr(error, "getCondition", lambda: None)()
            if condition is None and not hasattr(error, "getCondition"):
                return {"error": type(error).__name__, "message": self.clean(str(error).split("\n")[0])}
            if condition and condition.startswith("_LEGACY_ERROR"):
                condition = None
            message = str(error).split("\n\nJVM stacktrace")[0].split("\n\n== SQL")[0].split(" SQLSTATE")[0]
            return {"error": condition or type(error).__name__, "sqlstate": error.getSqlState(),
                    "message": self.clean(message.split("\n")[0])}

    def run(self, steps):
        self.warehouse = None
        self.warehouse = self.where()
        out = [self.step(text) for text in steps]
        self.spark.stop()
        shutil.rmtree(self.files, ignore_errors=True)
        return out

    def where(self):
        rows = {r[0]: r[1] for r in self.spark.sql("DESCRIBE DATABASE default").collect()}
        return rows.get("Location", "").replace("file:", "").rstrip("/")


def record(url):
    out = {name: [dict(step=s, **r) for s, r in zip(steps, Runner(url).run(steps))] for name, steps in SCENARIOS.items()}
    RECORDED.write_text("{\n" + ",\n".join(
        f"{json.dumps(name)}: [\n" + ",\n".join("  " + json.dumps(s, ensure_ascii=False) for s in steps) + "\n]"
        for name, steps in out.items()) + "\n}\n")


def recorded():
    return json.loads(RECORDED.read_text()) if RECORDED.exists() else {}


def compare(url, name):
    """What differs, step by step."""
    wanted = recorded()[name]
    assert [s["step"] for s in wanted] == SCENARIOS[name], "record again"
    got = Runner(url).run(SCENARIOS[name])
    out = []
    for want, have in zip(wanted, got):
        want = dict(want)
        step = want.pop("step")
        if want != have:
            out.append((step, want, have))
    return out


# What is known to differ, and why: may only shrink.
KNOWN = {
    "DESCRIBE FUNCTION upper": "Spark's texts about functions are not here",
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_statements_do_what_spark_does(name):
    """With a server of its own: the scenarios begin with an empty warehouse."""
    from conftest import start_server
    with tempfile.TemporaryDirectory() as folder:
        process, url = start_server("--warehouse", folder)
        try:
            different = [d for d in compare(url, name) if d[0] not in KNOWN]
        finally:
            process.terminate()
            process.wait(30)
    assert different == []


if __name__ == "__main__":
    if os.environ.get("TRUNNION_RECORD"):
        record(os.environ["TRUNNION_RECORD"])
    else:
        bad = total = 0
        for name in sys.argv[2:] or SCENARIOS:
            for step, want, have in compare(sys.argv[1], name):
                bad += 1
                print(f"[{name}] {step}\n    want {json.dumps(want, ensure_ascii=False)[:1500]}\n    have {json.dumps(have, ensure_ascii=False)[:1500]}")
            total += len(SCENARIOS[name])
        print(f"{total - bad} of {total} steps equal")
