"""A server for the tests: TRUNNION_URL (sc://host:port) names a running one; else build/release/trunnion is started."""
import os, pathlib, re, subprocess, sys
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "trunnion"
TABLES = ["customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier"]


def start_server(*arguments):
    """Gives (process, url)."""
    program = os.environ.get("TRUNNION_PROGRAM", str(ROOT / "build/release/trunnion"))
    process = subprocess.Popen([program, "serve", "--listen", "127.0.0.1:0", *arguments], stdout=subprocess.PIPE, text=True)
    line = process.stdout.readline()
    match = re.search(r"sc://\S+", line)
    if not match:
        process.kill()
        raise RuntimeError(f"the server did not start: {line!r}, exit {process.wait()}")
    return process, match.group(0)


@pytest.fixture(scope="session")
def server():
    url = os.environ.get("TRUNNION_URL")
    if url:
        yield url
        return
    process, url = start_server()
    yield url
    process.terminate()
    assert process.wait(30) == 0, "the server must end cleanly"


@pytest.fixture()
def spark(server):
    from pyspark.sql import SparkSession
    session = SparkSession.builder.remote(server).create()
    yield session
    session.stop()


def tpch(scale):
    """The folder with TPC-H's tables as parquet, made once."""
    folder = CACHE / f"tpch-{scale}"
    if not (folder / ".complete").exists():
        folder.mkdir(parents=True, exist_ok=True)
        cli = pathlib.Path(sys.executable).with_name("tpchgen-cli")
        subprocess.check_call([str(cli), "parquet", "-s", str(scale), "--output-dir", str(folder)])
        (folder / ".complete").touch()
    return folder


@pytest.fixture(scope="session")
def tpch_folder():
    return tpch(os.environ.get("TRUNNION_TPCH_SCALE", "0.01"))
