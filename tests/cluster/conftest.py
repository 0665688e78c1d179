"""A cluster for the tests: two executors on free loopback ports of this machine, started once per session by `trunnion cluster
up`, with our functions (`cluster`) and without (`stock_cluster`). TRUNNION_BUILD names the build folder; the programs of the
engine's workspace are beside `trunnion` there (make engine), or named by TRUNNION_CLUSTER_PROGRAM and TRUNNION_BALLISTA_CLIENT."""
import json, os, pathlib, queue, re, subprocess, sys, threading
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "trunnion"
BUILD = pathlib.Path(os.environ.get("TRUNNION_BUILD", ROOT / "build/release"))
PROGRAM = BUILD / "trunnion"
TABLES = ["customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier"]
PATIENCE = 120  # seconds, for whatever must not hang


def found(variable, name):
    """A program of the engine's workspace."""
    for path in [os.environ.get(variable), BUILD / name, CACHE / "engine-target/engine" / name]:
        if path and pathlib.Path(path).exists():
            return str(path)
    return None


BALLISTA = found("TRUNNION_CLUSTER_PROGRAM", "trunnion-ballista")
CLIENT = found("TRUNNION_BALLISTA_CLIENT", "ballista-client")


class Cluster:
    """`trunnion cluster up`; a context manager that ends it."""

    def __init__(self, work_dir, *arguments):
        self.work_dir = pathlib.Path(work_dir)
        self.is_stock = "--stock" in arguments
        done = self.command("up", "--program", BALLISTA, *arguments)
        assert done.returncode == 0, f"the cluster did not start: {done.stderr}"
        self.said = done.stdout
        self.address = re.search(r"ready: ballista://(\S+)", done.stdout).group(1)
        self.url, self.df_url = f"ballista://{self.address}", f"df://{self.address}"

    def command(self, name, *arguments):
        command = [str(PROGRAM), "cluster", name, "--work-dir", str(self.work_dir), *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)

    def pids(self):
        """By name: scheduler, executor-1, ..."""
        lines = (self.work_dir / "cluster.state").read_text().splitlines()[1:]
        return {line.split()[0]: int(line.split()[1]) for line in lines}

    def down(self):
        done = self.command("down")
        assert done.returncode == 0, done.stderr
        return done.stdout

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.down()


class Failed(Exception):
    """What the stock client was told."""


class Client:
    """The stock Ballista client, kept alive (engine/client/src/lines.rs says what it can be asked)."""

    def __init__(self, url, *arguments):
        self.process = subprocess.Popen([CLIENT, "--lines", *arguments, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        self.count, self.answers, self.lock, self.registered = 0, {}, threading.Lock(), set()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            answer = json.loads(line)
            self.answers[answer.pop("id")].put(answer)
        for waiting in list(self.answers.values()):
            waiting.put({"error": "the client ended"})

    def send(self, **request):
        """Gives a queue of one answer: others can be sent meanwhile."""
        with self.lock:
            self.count += 1
            self.answers[self.count] = queue.Queue()
            self.process.stdin.write(json.dumps(dict(request, id=self.count)) + "\n")
            self.process.stdin.flush()
            return self.answers[self.count]

    def ask(self, **request):
        answer = self.send(**request).get(timeout=PATIENCE)
        if "error" in answer and "state" not in answer:
            raise Failed(answer["error"])
        return answer

    def rows(self, sql):
        """Rows as dicts."""
        return [json.loads(line) for line in self.ask(sql=sql, output="json")["data"].splitlines()]

    def tables(self, folder, *names):
        """Registers those that it does not have yet."""
        for name in set(names or TABLES) - self.registered:
            self.ask(table=name, path=f"{folder}/{name}.parquet")
            self.registered.add(name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()


class Server:
    """`trunnion serve` with these arguments, on a free port; a context manager."""

    def __init__(self, *arguments, **environment):
        self.process = subprocess.Popen([str(PROGRAM), "serve", "--listen", "127.0.0.1:0", *map(str, arguments)],
                                        stdout=subprocess.PIPE, text=True, env=dict(os.environ, **environment))
        line = self.process.stdout.readline()
        match = re.search(r"sc://(\S+:\d+)", line)
        if not match:
            self.process.kill()
            raise RuntimeError(f"the server did not start: {line!r}, exit {self.process.wait()}")
        self.address = match.group(1)
        self.spark_url, self.grpc_url, self.df_url = (f"{scheme}://{self.address}" for scheme in ["sc", "grpc", "df"])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            assert self.process.wait(30) == 0, "the server must end cleanly"
        finally:
            self.process.kill()


@pytest.fixture(scope="session")
def programs():
    if not BALLISTA or not CLIENT:
        pytest.skip("the programs of the engine's workspace are not built: make engine")


@pytest.fixture(scope="session")
def cluster(programs, tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("cluster"), "--executors", "2") as running:
        yield running


@pytest.fixture(scope="session")
def stock_cluster(programs, tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("stock"), "--executors", "2", "--stock") as running:
        yield running


@pytest.fixture(scope="session")
def client(cluster):
    with Client(cluster.df_url) as running:
        yield running


@pytest.fixture(scope="session")
def server(cluster):
    """Ours in front of the cluster."""
    with Server("--backend", cluster.url) as running:
        yield running


def tpch(scale):
    """The folder with TPC-H's tables as Parquet, made once."""
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
