"""Users and passwords by ADBC and pyarrow: the handshake, the bearer token, what is refused."""
import subprocess, os
import pytest
from conftest import ROOT, start_server

dbapi = pytest.importorskip("adbc_driver_flightsql.dbapi")
adm = pytest.importorskip("adbc_driver_manager")
flight = pytest.importorskip("pyarrow.flight")


@pytest.fixture(scope="module")
def closed(tmp_path_factory):
    program = os.environ.get("TRUNNION_PROGRAM", str(ROOT / "build/release/trunnion"))
    users = tmp_path_factory.mktemp("auth") / "users"
    users.write_text(subprocess.run([program, "hash-password", "joe"], input="secret", capture_output=True, text=True, check=True).stdout)
    engine = [f"--{name}={os.environ[key]}" for name, key in (("engine", "TRUNNION_ENGINE"), ("functions", "TRUNNION_FUNCTIONS")) if key in os.environ]
    process, address = start_server("--users", str(users), *engine)
    yield address
    process.terminate()
    assert process.wait(30) == 0


def test_a_user_with_the_password_is_let_in(closed):
    with dbapi.connect(f"grpc://{closed}", autocommit=True, db_kwargs={"username": "joe", "password": "secret"}) as connection:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            assert cursor.fetchone()[0] == 1


@pytest.mark.parametrize("options", [{}, {"username": "joe", "password": "wrong"}, {"username": "jim", "password": "secret"}])
def test_others_are_not(closed, options):
    with pytest.raises(adm.Error):
        with dbapi.connect(f"grpc://{closed}", autocommit=True, db_kwargs=options) as connection:
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1")


def test_pyarrow_gets_a_bearer_token(closed):
    client = flight.connect(f"grpc://{closed}")
    key, value = client.authenticate_basic_token("joe", "secret")
    assert key == b"authorization" and value.startswith(b"Bearer ")
    assert list(client.list_actions(flight.FlightCallOptions(headers=[(key, value)])))
    with pytest.raises(flight.FlightUnauthenticatedError):
        list(client.list_actions(flight.FlightCallOptions(headers=[(key, value[:-1] + b"x")])))
