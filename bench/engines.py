"""Compares builds of the engine: the same server, the same client, libtrunnion_engine.so of different profiles or allocators.
usage: engines.py NAME=FILE NAME=FILE ... [--scale S] [--rounds N]

Prints TPC-H through PySpark, interleaved: per build the sum of medians of wall time and of the server's CPU time, and the geometric
means of their ratios to the first. CPU time is the one to trust on a machine that does other work."""
import argparse, math, os, pathlib, re, statistics, subprocess, sys, time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bench"))
import run as bench  # noqa: E402


def start(engine):
    process = subprocess.Popen([os.environ.get("TRUNNION_PROGRAM", str(ROOT / "build/release/trunnion")), "serve", "--listen", "127.0.0.1:0", "--engine", engine],
                               stdout=subprocess.PIPE, text=True)
    return process, re.search(r"sc://\S+", process.stdout.readline()).group(0)


def cpu(process):
    """Seconds of CPU that a process has had."""
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("builds", nargs="+")
    parser.add_argument("--scale", default="1")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    from pyspark.sql import SparkSession
    folder = bench.data(options.scale)
    builds = dict(b.split("=", 1) for b in options.builds)
    servers, sessions = {}, {}
    for name, engine in builds.items():
        servers[name], url = start(engine)
        sessions[name] = SparkSession.builder.remote(url).create()
        for table in bench.TABLES:
            sessions[name].read.parquet(str(folder / f"{table}.parquet")).createOrReplaceTempView(table)
    queries = [(ROOT / f"tests/data/tpch/q{n:02d}.sql").read_text() for n in range(1, 23)]
    walls, cpus = ({name: [[] for _ in queries] for name in builds} for _ in range(2))
    for _ in range(options.rounds):
        for i, text in enumerate(queries):
            for name, session in sessions.items():
                begin, before = time.perf_counter(), cpu(servers[name])
                session.sql(text).collect()
                walls[name][i].append(time.perf_counter() - begin)
                cpus[name][i].append(cpu(servers[name]) - before)
    for what, times in (("wall", walls), ("CPU", cpus)):
        medians = {name: [max(statistics.median(t), 1e-3) for t in lists] for name, lists in times.items()}
        first = medians[next(iter(builds))]
        for name, values in medians.items():
            ratio = math.exp(sum(math.log(v / f) for v, f in zip(values, first)) / len(values))
            size = os.path.getsize(builds[name]) / 2**20
            print(f"{name}: {sum(values):.2f} s {what} for {len(values)} queries, geometric mean {ratio:.3f} of the first, {size:.0f} MiB", flush=True)
    for name, process in servers.items():
        memory = dict(re.findall(r"(VmHWM|VmRSS):\s+(\d+)", pathlib.Path(f"/proc/{process.pid}/status").read_text()))
        print(f"{name}: {int(memory['VmHWM']) // 1024} MiB resident at most, {int(memory['VmRSS']) // 1024} MiB at the end")
        process.terminate()
    os._exit(0)  # pyspark-client may not end by itself


if __name__ == "__main__":
    bench.reexec()
    main()
