"""A server for the tests: TRUNNION_FLIGHT_URL (grpc://host:port) names a running one; else TRUNNION_PROGRAM, or the release
build's program, is started. Drivers that are not there are skipped aloud."""
import os, pathlib, re, subprocess
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "trunnion"
TOOLS = pathlib.Path(os.environ.get("TRUNNION_YARDSTICKS", ROOT.parent / "shared/tools"))


def start_server(*arguments):
    """Gives (process, "host:port")."""
    program = os.environ.get("TRUNNION_PROGRAM", str(ROOT / "build/release/trunnion"))
    process = subprocess.Popen([program, "serve", "--listen", "127.0.0.1:0", *arguments], stdout=subprocess.PIPE, text=True)
    line = process.stdout.readline()
    match = re.search(r"sc://(\S+)", line)
    if not match:
        process.kill()
        raise RuntimeError(f"the server did not start: {line!r}, exit {process.wait()}")
    return process, match.group(1)


@pytest.fixture(scope="session")
def address(tmp_path_factory):
    url = os.environ.get("TRUNNION_FLIGHT_URL")
    if url:
        yield url.split("//")[1]
        return
    process, where = start_server()
    yield where
    process.terminate()
    assert process.wait(30) == 0, "the server must end cleanly"


@pytest.fixture()
def connect(address):
    """Opens ADBC connections that are closed at the end."""
    dbapi = pytest.importorskip("adbc_driver_flightsql.dbapi")
    opened = []

    def open_one(**options):
        connection = dbapi.connect(f"grpc://{address}", autocommit=True, db_kwargs=options or None)
        opened.append(connection)
        return connection

    yield open_one
    for connection in opened:
        connection.close()


@pytest.fixture()
def run(connect):
    """Runs statements on one connection, gives the last one's rows as tuples."""
    connection = connect()

    def run_all(*statements, parameters=None):
        rows = None
        for statement in statements:
            with connection.cursor() as cursor:
                cursor.execute(statement, parameters=parameters)
                rows = cursor.fetchall()
        return rows

    return run_all


@pytest.fixture()
def table(run):
    """A name for a table that is dropped at the end."""
    import uuid
    name = "t" + uuid.uuid4().hex[:8]
    yield name
    run(f"DROP TABLE IF EXISTS {name}")


def maven_jar(group, artifact, version):
    """The jar from Maven's own cache, fetched once by its ordinary client; skips aloud without one."""
    import shutil
    jar = pathlib.Path.home() / ".m2/repository" / group.replace(".", "/") / artifact / version / f"{artifact}-{version}.jar"
    if not jar.exists():
        if not shutil.which("mvn"):
            pytest.skip(f"{artifact} {version}: no mvn on this machine")
        done = subprocess.run(["mvn", "-q", "dependency:get", f"-Dartifact={group}:{artifact}:{version}", "-Dtransitive=false"],
                              capture_output=True, text=True, timeout=600)
        if not jar.exists():
            pytest.skip(f"{artifact} {version} cannot be had: {done.stdout[-200:]}")
    return jar
