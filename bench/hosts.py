"""What the hosts cost beside the bundled server, from interleaved runs, medians. Builds the examples of hosts/ as the tests do
(hosts/tonic without optimization); libraries and the program `trunnion` are taken from TRUNNION_LIB_DIR (default build/release).
usage: hosts.py [--scale S] [--rounds N] [--calls N] [--only grpc_core,grpcpp,python,python_aio,go,tonic]

call     one unary call of Spark Connect (Config), by a bare grpcio client: median time, and the server's CPU time per call
own      the same client on a service of the host's own: what a call costs there anyway
select1  select 1, collect(), by PySpark
tpch     TPC-H's 22 queries by PySpark: the sum of their medians, and the server's CPU time (which other load does not
         change as much), each as a ratio to the bundled server's
"""
import argparse, os, pathlib, statistics, subprocess, sys, time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/clients"))
import grpc  # noqa: E402
import test_hosts  # noqa: E402
from conftest import TABLES, tpch  # noqa: E402


class Bundled(test_hosts.Host):
    def __init__(self):
        program = test_hosts.LIBRARIES / "trunnion"
        arguments = ["serve", "--listen", "127.0.0.1:0", "--engine", test_hosts.LIBRARIES / test_hosts.ENGINE[0],
                     "--functions", test_hosts.LIBRARIES / test_hosts.ENGINE[1]]
        super().__init__("bundled", program.parent, program.name, (), arguments)


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def timed(work):
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def call_cost(host, method, message, count):
    """(median microseconds, CPU microseconds of the server per call)"""
    with grpc.insecure_channel(host.address) as channel:
        call = channel.unary_unary(method)
        for _ in range(50):
            call(message)
        before = cpu_seconds(host.process.pid)
        times = [timed(lambda: call(message)) for _ in range(count)]
        return statistics.median(times) * 1e6, (cpu_seconds(host.process.pid) - before) / count * 1e6


def prepared(host, folder):
    session = host.session()
    for name in TABLES:
        session.read.parquet(f"{folder}/{name}.parquet").createOrReplaceTempView(name)
    return session


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--scale", default="0.1")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--only", default=",".join(test_hosts.HOSTS))
    options = parser.parse_args()
    hosts = [Bundled()]
    for name in options.only.split(","):
        kind = test_hosts.HOSTS[name]
        if kind.missing():
            print(f"SKIPPED: {name} ({kind.missing()} is not installed)")
        else:
            hosts.append(test_hosts.Host(name, kind.build()))
    folder, sessions = tpch(options.scale), {}
    texts = [(ROOT / f"tests/data/tpch/q{number:02d}.sql").read_text() for number in range(1, 23)]
    try:
        sessions = {host: prepared(host, folder) for host in hosts}
        select, queries = {host: [] for host in hosts}, {host: [[] for _ in texts] for host in hosts}
        busy = {host: 0.0 for host in hosts}
        for turn in range(options.rounds):
            for host in hosts:
                select[host] += [timed(lambda: sessions[host].sql("select 1").collect()) for _ in range(30)]
            for i, text in enumerate(texts):
                for host in hosts[turn % len(hosts):] + hosts[:turn % len(hosts)]:
                    before = cpu_seconds(host.process.pid)
                    queries[host][i].append(timed(lambda: sessions[host].sql(text).collect()))
                    busy[host] += cpu_seconds(host.process.pid) - before
        total = {host: sum(statistics.median(times) for times in queries[host]) for host in hosts}
        for host in hosts:
            message = test_hosts.config_request().SerializeToString()
            call = call_cost(host, test_hosts.SERVICE + "Config", message, options.calls)
            line = f"{host.name:<10} call {call[0]:7.0f} us, {call[1]:6.0f} us CPU"
            if host.name in test_hosts.HOSTS and test_hosts.HOSTS[host.name].has_owner:
                own = call_cost(host, "/example.Owner/Hello", b"\x0a\x0asome bytes", options.calls)
                line += f"   own {own[0]:7.0f} us, {own[1]:6.0f} us CPU"
            else:
                line += " " * 31
            line += f"   select1 {statistics.median(select[host]) * 1e3:6.2f} ms   tpch {total[host]:6.2f} s"
            line += f" ({total[host] / total[hosts[0]]:.3f}x), CPU {busy[host]:6.2f} s ({busy[host] / busy[hosts[0]]:.3f}x)"
            print(line, flush=True)
    finally:
        for session in sessions.values():
            session.stop()
        for host in hosts:
            host.stop()


if __name__ == "__main__":
    main()
