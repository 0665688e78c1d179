"""The JDBC driver, unmodified, and every method of its DatabaseMetaData."""
import re, shutil, subprocess, uuid
import pytest
from conftest import maven_jar

# What the driver itself says of methods that it has not, whatever the server says.
DRIVERS_OWN = "java.lang.RuntimeException: todo: implement this method"


@pytest.fixture(scope="module")
def walk(address, tmp_path_factory):
    if not shutil.which("javac"):
        pytest.skip("no JDK on this machine")
    jar = maven_jar("org.apache.arrow", "flight-sql-jdbc-driver", "18.3.0")
    classes = tmp_path_factory.mktemp("classes")
    subprocess.check_call(["javac", "-d", str(classes), str(__file__).replace("test_jdbc.py", "Walk.java")])
    host, port = address.rsplit(":", 1)
    name = "j" + uuid.uuid4().hex[:8]
    done = subprocess.run(["java", "--add-opens=java.base/java.nio=ALL-UNNAMED", "-cp", f"{jar}:{classes}", "Walk", host, port, name],
                          capture_output=True, text=True, timeout=300)
    found = {}
    for line in done.stdout.splitlines():
        match = re.match(r"(OK|ERR) (\S+) ?(.*)", line)
        if match:
            found[match.group(2)] = (match.group(1), match.group(3).replace(name, "T"))
    assert "drop" in found, done.stdout[-2000:] + done.stderr[-2000:]
    return found


@pytest.mark.parametrize("name, expected", [
    ("create", "0"), ("insert", "2"), ("query", "1,x,1.25;2,null,null"), ("prepared_insert", "1 [2]"), ("error", "true"),
    ("types", "1,2,1.5,2.5,text,true,2024-02-29,2024-02-29 12:34:56.0,1.25,null"), ("many_rows", "1000000"),
    ("labels", "first INTEGER b VARCHAR"), ("valid", "true"), ("drop", "0")])
def test_statements(walk, name, expected):
    assert walk[name] == ("OK", expected)


def test_prepared_query_has_the_type_of_the_column(walk):
    assert walk["prepared_query"] == ("OK", "Int(32, true) z batch ")


def test_every_method_of_the_metadata_answers(walk):
    wrong = {name: what for name, (state, what) in walk.items() if state == "ERR" and what != DRIVERS_OWN}
    assert not wrong
    assert len([name for name in walk if name.startswith("meta.") and walk[name][0] == "OK"]) > 140


def test_what_the_metadata_says(walk):
    value = lambda name: walk["meta." + name][1]
    assert value("getDatabaseProductName/0") == "Trunnion"
    assert value("getIdentifierQuoteString/0") == '"'
    assert value("supportsTransactions/0") == "true"
    assert value("supportsSavepoints/0") == "true"
    assert value("isReadOnly/0") == "false"
    assert "default" in value("getSchemas/0")
    assert re.search(r"default,T,TABLE", value("getTables/4"))
    columns = [row.split(",") for row in value("getColumns/4").split(";") if ",T," in row]
    assert [(row[3], row[5]) for row in columns] == [("a", "INTEGER"), ("b", "VARCHAR"), ("d", "DECIMAL(10")]
    assert ",T,a," in value("getPrimaryKeys/3")
