"""A Ballista cluster through our server, against the stock Ballista client on the same cluster.
usage: cluster.py [tpch|small|stream|jobs ...] [--scale S] [--rounds N] [--executors N] [--gigabytes G]

tpch     TPC-H through PySpark on our server in front of the cluster, and the same texts by the stock client: interleaved, medians, the
         geometric mean of the ratios. A result goes to its client as Arrow in both.
small    one-row queries: median latency of both, with 1 and with 8 callers at once
stream   all of lineitem through the server into a client that drops it, until so many gigabytes went through (rounds, else): MB/s of
         Arrow, CPU seconds of the server per GB, its memory after each
jobs     200 queries at once through the server: all right, how long, how the latency of a single one changes

Everything runs on this machine: on one that is shared, ratios of interleaved runs are what to look at."""
import argparse, math, os, pathlib, re, signal, statistics, sys, tempfile, threading, time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "tests/cluster")]
import run as bench  # noqa: E402

SMALL = "select n_name from nation where n_nationkey = 3"


def cpu(process):
    """Seconds of CPU that a process has had."""
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss(process):
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{process.pid}/status").read_text()).group(1)) / 1024


def spark_session(server, folder):
    from pyspark.sql import SparkSession
    spark = SparkSession.builder.remote(server.spark_url).create()
    for table in bench.TABLES:
        spark.read.parquet(str(folder / f"{table}.parquet")).createOrReplaceTempView(table)
    return spark


def seconds(run):
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def tpch(server, client, folder, rounds):
    spark, ratios, sums = spark_session(server, folder), [], [0.0, 0.0]
    for number in range(1, 23):
        text = (ROOT / f"tests/data/tpch/q{number:02d}.sql").read_text()
        ours, theirs = [], []
        try:
            client.ask(sql=text)  # warm-up; not every text is in the stock client's dialect
            spark.sql(text).toArrow()
        except Exception as error:  # noqa: BLE001
            print(f"Q{number:<3} left out: {str(error)[:90]}", flush=True)
            continue
        for _ in range(rounds):
            ours.append(seconds(lambda: spark.sql(text).toArrow()))
            theirs.append(seconds(lambda: client.ask(sql=text)))
        a, b = statistics.median(ours), statistics.median(theirs)
        ratios.append(a / b)
        sums[0] += a
        sums[1] += b
        print(f"Q{number:<3} ours {a * 1e3:9.1f} ms   stock client {b * 1e3:9.1f} ms   {a / b:.2f}", flush=True)
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"tpch: {len(ratios)} queries, {sums[0]:.2f} s against {sums[1]:.2f} s, geometric mean of the ratios {mean:.3f}", flush=True)


def callers(run, count, each):
    """Latencies of `count` threads that call `each` times."""
    times, lock = [], threading.Lock()

    def call():
        for _ in range(each):
            took = seconds(run)
            with lock:
                times.append(took)
    threads = [threading.Thread(target=call) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return times


def small(server, client, folder, rounds):
    spark = spark_session(server, folder)
    run_ours, run_theirs = (lambda: spark.sql(SMALL).toArrow()), (lambda: client.ask(sql=SMALL))
    run_ours(), run_theirs()
    for count in (1, 8):
        ours, theirs = [], []
        for _ in range(rounds):
            ours += callers(run_ours, count, 5)
            theirs += callers(run_theirs, count, 5)
        print(f"small: {count} at once: ours p50 {statistics.median(ours) * 1e3:.1f} ms, stock client p50 "
              f"{statistics.median(theirs) * 1e3:.1f} ms", flush=True)


def stream(server, client, folder, rounds, gigabytes=0.0):
    """The stock client decodes what it gets and drops it; PySpark keeps them as one Arrow table."""
    spark = spark_session(server, folder)
    text, process, total, count = "select * from lineitem", server.process, 0.0, 0
    while total < gigabytes or count < (0 if gigabytes else rounds):
        before, start = cpu(process), time.perf_counter()
        size = spark.sql(text).toArrow().nbytes
        peak = rss(process)
        took, used = time.perf_counter() - start, cpu(process) - before
        total, count = total + size / 1e9, count + 1
        theirs = client.ask(sql=text)
        print(f"stream: ours {size / 1e6:.0f} MB, {size / 1e6 / took:.0f} MB/s, {used / (size / 1e9):.2f} s of the server's CPU per GB, "
              f"server {peak:.0f} MiB; stock client {theirs['bytes'] / 1e6 / theirs['seconds']:.0f} MB/s", flush=True)


def jobs(server, client, folder, rounds):
    spark = spark_session(server, folder)
    text = "select n_regionkey, count(*) n from nation group by 1 order by 1"
    right, wrong = [(k, 5) for k in range(5)], []

    def run():
        try:
            rows = [tuple(r) for r in spark.sql(text).collect()]
        except Exception as error:  # noqa: BLE001
            rows = str(error)
        if rows != right:
            wrong.append(rows)
    run()
    took = seconds(lambda: callers(run, 200, 1))
    after = callers(run, 1, 5)
    print(f"jobs: 200 at once in {took:.1f} s, {len(wrong)} wrong; then one takes {statistics.median(after) * 1e3:.0f} ms, server "
          f"{rss(server.process):.0f} MiB", flush=True)
    for rows in wrong[:3]:
        print(f"  {str(rows)[:300]}", flush=True)


BENCHES = {"tpch": tpch, "small": small, "stream": stream, "jobs": jobs}


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--scale", default="1")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--executors", default="2")
    parser.add_argument("--gigabytes", type=float, default=0.0)
    options = parser.parse_args()
    from conftest import Client, Cluster, Server
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what was started ends, too
    folder = bench.data(options.scale)
    with tempfile.TemporaryDirectory() as work, Cluster(work, "--executors", options.executors) as cluster:
        with Server("--backend", cluster.url, "--fallback", "refuse") as server, Client(cluster.df_url) as client:
            client.tables(folder)
            for name in options.names or BENCHES:
                more = [options.gigabytes] if name == "stream" else []
                BENCHES[name](server, client, folder, options.rounds, *more)


def reexec():
    """Into the tests' Python, which has all that the clusters' fixture needs."""
    python = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "trunnion/venv/bin/python"
    if pathlib.Path(sys.prefix) != python.parent.parent:
        os.execv(python, [str(python), *sys.argv])


if __name__ == "__main__":
    reexec()
    try:
        main()
    finally:
        sys.stdout.flush()
        os._exit(0)  # pyspark-client may not end by itself
