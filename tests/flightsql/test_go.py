"""arrow-go's Flight SQL client, unmodified: every method of it, and what came (go_client/main.go)."""
import os, pathlib, re, shutil, subprocess, uuid
import pytest

CLIENT = pathlib.Path(__file__).with_name("go_client")


@pytest.fixture(scope="module")
def probe(address, tmp_path_factory):
    if not shutil.which("go"):
        pytest.skip("no go on this machine")
    binary = tmp_path_factory.mktemp("go") / "client"
    try:
        built = subprocess.run(["go", "build", "-o", str(binary), "."], cwd=CLIENT, capture_output=True, text=True, timeout=400)
    except subprocess.TimeoutExpired:
        pytest.skip("arrow-go cannot be had: its modules did not come in time")
    if built.returncode:
        assert "dial tcp" in built.stderr or "module lookup disabled" in built.stderr or "no such host" in built.stderr, built.stderr
        pytest.skip(f"arrow-go cannot be had: {built.stderr[-200:]}")
    table = "g" + uuid.uuid4().hex[:8]
    done = subprocess.run([str(binary), address, table], capture_output=True, text=True, timeout=150)
    found = {}
    for line in done.stdout.splitlines():
        state, name, value = re.match(r"(OK|ERR) (\S+) ?(.*)", line).groups()
        found[name] = (state, value.replace(table, "T"))
    assert "drop" in found, done.stdout[-2000:] + done.stderr[-2000:]
    return found


EXPECTED = {
    "create": "0", "insert": "2", "query": "1,x;2,y", "execute_schema": "a: type=int64, nullable", "parameters": "int64",
    "dataset": "b", "prepared": "y", "prepared_update": "3", "close_prepared": "",
    "catalogs": "spark_catalog", "tables": "spark_catalog,default,T,TABLE", "table_types": "LOCAL TEMPORARY;TABLE;VIEW",
    "primary_keys": "spark_catalog,default,T,a,1,(null)", "exported_keys": "", "imported_keys": "", "cross_reference": "",
    "xdbc": "true", "sql_info": '0,[0,"Trunnion"]',
    "insert_in_transaction": "5 6", "delete_in_transaction": "0", "after_rollback": "7", "after_first": "6",
    "prepared_in_transaction": "7", "outside": "5", "after_commit": "7", "after_all": "7", "commit": "", "rollback": "",
    "poll": "2000000 true", "ingest": "3", "ingested": "6", "set_options": "1", "spark": "2;1", "get_options": "spark",
    "renew": "true", "cancel": "CANCEL_STATUS_CANCELLED", "close_session": "CLOSED"}


# Arrow's integration scenarios (arrow-go's published client asks for them by the names of its own servers' made-up commands:
# "SELECT STATEMENT" that is no SQL, a fixed transaction's id; what each of them checks is checked here of real queries). Not
# here: app_metadata_flight_info_endpoint, which an info has only when a server puts something there (this one does not);
# middleware, an echo of a header that its server adds; auth:basic_proto is test_auth.py's.
SCENARIOS = {
    "ordered": "true 4 2000000 true", "expiration_time:do_get": "true true",
    "expiration_time:list_actions": "CancelFlightInfo,CloseSession,GetSessionOptions,RenewFlightEndpoint,SetSessionOptions",
    "expiration_time:cancel_flight_info": "CANCEL_STATUS_CANCELLED true", "expiration_time:renew_flight_endpoint": "true true",
    "location:reuse_connection": "true 100000", "poll_flight_info": "true true 100000 true",
    "session_options": "INVALID_NAME INVALID_VALUE 2 7 3 - - CLOSED 1", "flight_sql:ingestion": "10 true 10"}


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario(probe, name):
    assert probe[name] == ("OK", SCENARIOS[name])


@pytest.mark.parametrize("name", EXPECTED)
def test_a_method(probe, name):
    assert probe[name] == ("OK", EXPECTED[name])


def test_schemas_of_metadata_are_those_of_arrow_go(probe):
    names = [name for name in probe if name.endswith("_schema") and name != "execute_schema" and name != "tables_with_schema"]
    assert len(names) == 10
    assert not [name for name in names if probe[name] != ("OK", "true")]


@pytest.mark.parametrize("name", ["second_is_gone", "released_is_gone", "cancelled_is_gone"])
def test_what_is_gone_is_not_found(probe, name):
    assert probe[name][0] == "ERR" and "NotFound" in probe[name][1]
