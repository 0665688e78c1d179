"""An embedder in Rust (examples/embed_rust): a tonic server of its own, Spark Connect mounted, queries run here or as jobs under its
own ids; jobs are followed, fetched and recovered from other processes. TPC-H's answers are DuckDB's on the same files."""
import json, os, pathlib, re, shutil, signal, subprocess, sys, threading
import pytest
from conftest import BUILD, LEAVES, ROOT
from test_embed_sqlite import QUERIES, duck, is_close, oracle, tpch_folder  # noqa: F401 (fixtures)

EXAMPLE = ROOT / "examples/embed_rust"
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "trunnion"
ENGINE = os.environ.get("TRUNNION_ENGINE", str(BUILD / "libtrunnion_engine.so"))
FUNCTIONS = os.environ.get("TRUNNION_FUNCTIONS", str(BUILD / "libtrunnion_functions.so"))
CHOSEN = [1, 3, 6, 13, 18]
UUID7 = r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"

CLIENT = LEAVES + r"""
import datetime, decimal, glob, json, pathlib, sys
from pyspark.sql import SparkSession

def plain(value):
    if isinstance(value, decimal.Decimal):
        return {"decimal": str(value)}
    return value.isoformat() if isinstance(value, datetime.date) else value

url, folder = sys.argv[1:3]
spark, answers = None, []
for statement in json.load(sys.stdin):
    try:
        if spark is None:
            spark = SparkSession.builder.remote(url).create()
            for path in glob.glob(folder + "/*.parquet"):
                spark.read.parquet(path).createOrReplaceTempView(pathlib.Path(path).stem)
        if statement.startswith("conf "):
            answers.append(spark.conf.set("platform.run", statement[5:]))
        else:
            answers.append([[plain(value) for value in row] for row in spark.sql(statement).collect()])
    except Exception as error:
        answers.append({"error": f"{type(error).__name__}: {error}"})
print(json.dumps(answers), flush=True)
"""


def build():
    target = CACHE / "tonic-target"
    subprocess.run(["cargo", "build", "--quiet", "--locked"], cwd=EXAMPLE, check=True, timeout=1500,
                   env=os.environ | {"CARGO_TARGET_DIR": str(target), "TRUNNION_LIB_DIR": str(BUILD)})
    return target / "debug/embed-rust"


class Platform:
    def __init__(self, program, folder, *more):
        self.program, self.folder = program, folder
        self.options = ["--store", folder / "jobs.sqlite", "--outputs", folder / "outputs", "--engine", ENGINE, "--functions",
                        FUNCTIONS, *more]
        self.start()

    def start(self):
        self.process = subprocess.Popen([str(c) for c in [self.program, "serve", *self.options]], stdout=subprocess.PIPE, text=True,
                                        stderr=open(self.folder / "log", "a"))
        self.url = re.search(r"sc://\S+", self.process.stdout.readline()).group(0)

    def begin(self, *statements, user="ann"):
        script = self.folder / "client.py"
        script.write_text(CLIENT)
        client = subprocess.Popen([sys.executable, str(script), f"{self.url}/;user_id={user}", str(tpch_folder())],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        client.stdin.write(json.dumps(statements))
        client.stdin.close()
        client.stdin = None  # communicate() would write to it
        return client

    def run(self, *statements, user="ann"):
        client = self.begin(*statements, user=user)
        text = client.stdout.read()
        assert client.wait(120) == 0
        return json.loads(text)

    def said(self):
        return self.process.stdout.readline().split()

    def call(self, *words):
        done = subprocess.run([str(c) for c in [self.program, *words, *self.options]], capture_output=True, text=True, timeout=120)
        return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def program():
    if not shutil.which("cargo"):
        pytest.skip("cargo is not installed: the embedder in Rust is NOT tested")
    return build()


@pytest.fixture(scope="module")
def platform(program, tmp_path_factory):
    platform = Platform(program, tmp_path_factory.mktemp("embed_rust"))
    yield platform
    platform.process.send_signal(signal.SIGTERM)
    assert platform.process.wait(60) == 0, "the platform must end cleanly"


def test_queries_run_here_or_as_jobs_and_are_right(platform, oracle):  # noqa: F811
    answers = platform.run("select 1 as one", *(QUERIES[n] for n in CHOSEN))
    assert answers[0] == [[1]]
    assert platform.said() == ["here"]
    for number, ours in zip(CHOSEN, answers[1:]):
        word, job = platform.said()
        assert word == "job" and re.fullmatch(UUID7, job)
        theirs = oracle(number)
        assert not isinstance(ours, dict), ours
        assert len(ours) == len(theirs) > 0
        assert all(is_close(x, y) for a, b in zip(ours, theirs) for x, y in zip(a, b))
        code, out, _ = platform.call("fetch", job)  # by another process
        assert code == 0 and out.startswith(f"{len(theirs)} rows of ")
    code, out, _ = platform.call("jobs")
    assert code == 0
    assert [line.split()[1] for line in out.splitlines()] == ["Succeeded"] * len(CHOSEN)
    assert all(line.endswith("user:ann") for line in out.splitlines())


def test_the_client_may_say_where_and_the_platform_who(platform):
    answers = platform.run("conf here", "select count(*) from nation", "conf job", "select 7 as seven", "conf nowhere", "select 1")
    assert answers[1] == [[25]] and answers[3] == [[7]]
    assert "platform.run is 'here' or 'job', not 'nowhere'" in answers[5]["error"]
    words = [platform.said()[0] for _ in range(2)]
    assert words == ["here", "job"]
    [refused] = platform.run("select 1", user="guest")
    assert "guests may look at schemas only" in refused["error"]


def test_a_failing_job_fails_the_query_with_its_condition(platform):
    [answer] = platform.run("select sum(1 div (n_nationkey - n_nationkey)) from nation")
    assert "DIVIDE_BY_ZERO" in answer["error"]
    assert platform.said()[0] == "job"


def test_a_job_outlives_the_platform(program, tmp_path):
    """Killed while the job runs; another process runs it again under its id."""
    platform = Platform(program, tmp_path)
    client = platform.begin("select sum(id % 7) as s from range(300000000)")
    word, job = platform.said()
    platform.process.kill()
    platform.process.wait()
    client.kill()
    assert word == "job"
    code, out, error = platform.call("recover", job)
    assert code == 0 and out == "1 rows of s\n", error
    code, out, _ = platform.call("jobs")
    assert re.match(rf"{job} Succeeded attempt [12] rows 1 ", out)


def test_what_nobody_waits_for_is_not_decoded_on(program):
    """hosts/tonic/examples/deadline.rs: a deadline ends decoding, in decoders of Rust too, and nothing holds the registry."""
    target = CACHE / "tonic-target"
    subprocess.run(["cargo", "build", "--quiet", "--locked", "--example", "deadline"], cwd=ROOT / "hosts/tonic", check=True, timeout=900,
                   env=os.environ | {"CARGO_TARGET_DIR": str(target), "TRUNNION_LIB_DIR": str(BUILD)})
    done = subprocess.run([str(target / "debug/examples/deadline"), ENGINE, FUNCTIONS], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["a deadline passed", "the decoder has ended", "the registry is free", "others are decoded"]
