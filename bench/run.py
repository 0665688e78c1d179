"""make bench: ratios from interleaved runs, medians. usage: run.py [--scale S] [--rounds N] [--only tpch,export,select1,idle]

tpch     TPC-H through PySpark on Trunnion, against the same SQL in PyPI datafusion in this process, and against PyPI pysail served
export   select * from lineitem, toArrow()
select1  select 1, collect(), with the same client
idle     memory of the server at rest and with 1,000 sessions; start-up time
Needs bench/requirements.txt; run.py makes a virtual environment of its own for it. Tests never assert on any of this.
"""
import argparse, os, pathlib, re, statistics, subprocess, sys, time, uuid

ROOT = pathlib.Path(__file__).resolve().parents[1]
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "trunnion"
TABLES = ["customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier"]


URLS = {}


def reexec():
    """Runs in a virtual environment that has the peers."""
    venv = CACHE / "bench-venv"
    wanted = (ROOT / "bench/requirements.txt").read_text()
    stamp = venv / ".requirements"
    if not stamp.exists() or stamp.read_text() != wanted:
        subprocess.check_call([sys.executable, "-m", "venv", str(venv)])
        subprocess.check_call([str(venv / "bin/pip"), "install", "-q", "-r", str(ROOT / "bench/requirements.txt")])
        stamp.write_text(wanted)
    if pathlib.Path(sys.prefix) != venv:
        os.execv(str(venv / "bin/python"), [str(venv / "bin/python"), *sys.argv])


def data(scale):
    folder = CACHE / f"tpch-{scale}"
    if not (folder / ".complete").exists():
        folder.mkdir(parents=True, exist_ok=True)
        cli = pathlib.Path(sys.executable).with_name("tpchgen-cli")
        subprocess.check_call([str(cli), "parquet", "-s", str(scale), "--output-dir", str(folder)], stdout=subprocess.DEVNULL)
        (folder / ".complete").touch()
    return folder


def start_trunnion():
    begin = time.perf_counter()
    process = subprocess.Popen([str(ROOT / "build/release/trunnion"), "serve", "--listen", "127.0.0.1:0"],
                               stdout=subprocess.PIPE, text=True)
    url = re.search(r"sc://\S+", process.stdout.readline()).group(0)
    return process, url, time.perf_counter() - begin


def start_sail():
    import socket
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    begin = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "pysail", "spark", "server", "--ip", "127.0.0.1", "--port", str(port)],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while True:
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", port)) == 0:
                return process, f"sc://127.0.0.1:{port}", time.perf_counter() - begin
        time.sleep(0.01)


def session(url, folder):
    from pyspark.sql import SparkSession
    spark = SparkSession.builder.remote(url).create()
    for table in TABLES:
        spark.read.parquet(f"{folder}/{table}.parquet").createOrReplaceTempView(table)
    return spark


def rss(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text()).group(1)) / 1024


def timed(f):
    begin = time.perf_counter()
    try:
        f()
    except Exception as error:  # a peer that cannot run a query is reported, not timed
        return error
    return time.perf_counter() - begin


def interleave(contestants, rounds):
    """{name: callable} -> {name: median seconds or an exception}."""
    times = {name: [] for name in contestants}
    for _ in range(rounds + 1):  # the first round warms up
        for name, f in contestants.items():
            times[name].append(timed(f))
    def middle(values):
        bad = [v for v in values if isinstance(v, Exception)]
        return bad[0] if bad else statistics.median(values[1:])
    return {name: middle(values) for name, values in times.items()}


def show(name, result, unit=1e3):
    base = result["trunnion"]
    cells = []
    for who, value in result.items():
        if isinstance(value, Exception):
            cells.append(f"{who} failed ({str(value).splitlines()[0][:40]})")
        else:
            ratio = "" if who == "trunnion" or isinstance(base, Exception) else f" ({base / value:.2f}x)"
            cells.append(f"{who} {value * unit:9.2f} ms{ratio}")
    print(f"{name:10}", "   ".join(cells), flush=True)


def bench_tpch(ours, sail, folder, rounds):
    import datafusion
    context = datafusion.SessionContext()
    for table in TABLES:
        context.register_parquet(table, f"{folder}/{table}.parquet")
    totals = {"trunnion": 0.0, "datafusion": 0.0, "sail": 0.0}
    logs = {"datafusion": [], "sail": []}
    for number in range(1, 23):
        text = (ROOT / f"tests/data/tpch/q{number:02d}.sql").read_text()
        result = interleave({"trunnion": lambda: ours.sql(text).toArrow(), "datafusion": lambda: context.sql(text).collect(),
                             "sail": lambda: sail.sql(text).toArrow()}, rounds)
        show(f"Q{number}", result)
        if not any(isinstance(v, Exception) for v in result.values()):
            for name in totals:
                totals[name] += result[name]
            for name in logs:
                logs[name].append(result["trunnion"] / result[name])
    print("sum of those that all ran:", ", ".join(f"{n} {t:.2f} s" for n, t in totals.items()))
    for name, ratios in logs.items():
        if ratios:
            print(f"geometric mean of trunnion / {name}: {statistics.geometric_mean(ratios):.3f}")


def bench_export(ours, sail, folder, rounds):
    query = "select * from lineitem"
    show("export", interleave({"trunnion": lambda: ours.sql(query).toArrow(), "sail": lambda: sail.sql(query).toArrow()}, rounds))


def start_canned(ours_url, folder):
    """A server that answers with what ours answered: what is left is the client's own cost."""
    import grpc, struct
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.proto import base_pb2 as pb
    id = str(uuid.uuid4())
    spark = SparkSession.builder.remote(f"{ours_url}/;session_id={id};user_id=b").create()
    frame = spark.sql("select 1")
    def execute(command):
        request = spark.client._execute_plan_request_with_metadata()
        request.plan.CopyFrom(command)
        request.request_options.add().reattach_options.reattachable = True
        return request
    command = pb.Plan()
    command.command.sql_command.input.sql.query = "select 1"
    root = frame._plan.to_proto(spark.client)
    config = pb.ConfigRequest(session_id=id, user_context=pb.UserContext(user_id="b"))
    pair = config.operation.get_with_default.pairs.add()
    pair.key, pair.value = "spark.sql.execution.pyspark.binaryAsBytes", "true"
    release = pb.ReleaseExecuteRequest(session_id=id, user_context=pb.UserContext(user_id="b"), operation_id=str(uuid.uuid4()), release_all=pb.ReleaseExecuteRequest.ReleaseAll())
    requests = {"ExecutePlan.first": execute(command), "ExecutePlan": execute(root), "Config": config, "ReleaseExecute": release,
                "ReleaseSession": pb.ReleaseSessionRequest(session_id=id, user_context=pb.UserContext(user_id="b"))}
    replies = folder / "canned"
    replies.mkdir(exist_ok=True)
    with grpc.insecure_channel(ours_url.replace("sc://", "")) as channel:
        for name, request in requests.items():
            method = "/spark.connect.SparkConnectService/" + name.split(".")[0]
            if name.startswith("Execute"):
                answers = list(channel.unary_stream(method)(request.SerializeToString()))
            else:
                answers = [channel.unary_unary(method)(request.SerializeToString())]
            (replies / name).write_bytes(b"".join(struct.pack("<I", len(a)) + a for a in answers))
    process = subprocess.Popen([str(ROOT / "build/release/canned_server"), str(replies)], stdout=subprocess.PIPE, text=True)
    return process, SparkSession.builder.remote(f"{process.stdout.readline().strip()}/;session_id={id};user_id=b").create()


def bench_select1(ours, sail, folder, rounds):
    canned_process, canned = start_canned(URLS["trunnion"], folder)
    def many(spark):
        frame = spark.sql("select 1")
        def run():
            for _ in range(100):
                frame.collect()
        return run
    result = interleave({"trunnion": many(ours), "sail": many(sail), "canned": many(canned)}, rounds)
    show("select 1", {k: v if isinstance(v, Exception) else v / 100 for k, v in result.items()})
    canned.stop()
    canned_process.terminate()


def bench_idle(process, url, startup, sail_process, sail_startup):
    from pyspark.sql import SparkSession
    print(f"start-up   trunnion {startup * 1e3:.0f} ms   sail {sail_startup * 1e3:.0f} ms")
    fresh, fresh_url, _ = start_trunnion()
    print(f"memory     trunnion at rest {rss(fresh.pid):.1f} MiB", end="", flush=True)
    import grpc
    from pyspark.sql.connect.proto import base_pb2 as pb, base_pb2_grpc
    with grpc.insecure_channel(fresh_url.replace("sc://", "")) as channel:
        stub = base_pb2_grpc.SparkConnectServiceStub(channel)
        before = rss(fresh.pid)
        for _ in range(1000):
            operation = pb.ConfigRequest.Operation(get_all=pb.ConfigRequest.GetAll())
            stub.Config(pb.ConfigRequest(session_id=str(uuid.uuid4()), user_context=pb.UserContext(user_id="b"), operation=operation))
        print(f", per idle session {(rss(fresh.pid) - before) / 1000 * 1024:.1f} KiB   sail after the runs "
              f"{rss(sail_process.pid):.0f} MiB, trunnion after the runs {rss(process.pid):.0f} MiB")
    fresh.terminate()
    fresh.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--scale", default="1")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="tpch,export,select1,idle")
    options = parser.parse_args()
    reexec()
    folder = data(options.scale)
    cpu = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    print(f"TPC-H scale {options.scale}, {options.rounds} rounds after a warm-up, {os.cpu_count()} cores, {cpu and cpu.group(1)}")
    process, url, startup = start_trunnion()
    sail_process, sail_url, sail_startup = start_sail()
    try:
        URLS["trunnion"] = url
        ours, sail = session(url, folder), session(sail_url, folder)
        wanted = options.only.split(",")
        for name, f in [("tpch", bench_tpch), ("export", bench_export), ("select1", bench_select1)]:
            if name in wanted:
                f(ours, sail, folder, options.rounds)
        if "idle" in wanted:
            bench_idle(process, url, startup, sail_process, sail_startup)
        ours.stop()
        sail.stop()
    finally:
        process.terminate()
        sail_process.terminate()


if __name__ == "__main__":
    main()
