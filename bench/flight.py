"""What Flight SQL costs: interleaved, medians, CPU seconds of the servers beside wall. usage: flight.py [--scale S] [--rounds N] [--only A,B]

table    DoGet of TPC-H's lineitem: trunnion reads the Parquet file for each query; pyarrow's own Flight server (C++, the limit) scans
         the same file; pysail's and roapi's Flight servers
memory   the same rows kept by the server: an Arrow spool of trunnion's session; a table in pyarrow's memory
streams  memory, by four clients at once
ten      memory, over and over until 10 GB went through; then the same by four clients at once
select1  a small statement: GetFlightInfo and DoGet
busy     with a cross join of 10^9 rows running: a new connection and a small statement; then the join's client goes, and how
         long the server still computes
prepared the same, prepared, from 1, 16 and 256 connections at once (flight_load, a client in Go)
ingest   DoPut of lineitem's columns of numbers into a new table; pyarrow's server keeps it in memory
tables   GetTables over 10,000 tables, without and with their schemas
Rows of all are compared before anything is timed. TRUNNION_PROGRAM names another server than the release build's.
"""
import argparse, os, pathlib, shutil, subprocess, sys, tempfile, threading, time

import run
from flight_servers import serve_pyarrow, start_ours, start_pyarrow, start_roapi, start_sail


def varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def statement(text):
    """CommandStatementQuery in an Any."""
    def field(number, value):
        return bytes([number << 3 | 2]) + varint(len(value)) + value
    return field(1, b"type.googleapis.com/arrow.flight.protocol.sql.CommandStatementQuery") + field(2, field(1, text.encode()))


def fetch(client, command):
    """(rows, bytes) of a result that is read batch by batch."""
    import pyarrow.flight as flight
    rows = size = 0
    for endpoint in client.get_flight_info(flight.FlightDescriptor.for_command(command)).endpoints:
        for chunk in client.do_get(endpoint.ticket):
            rows += chunk.data.num_rows
            size += chunk.data.get_total_buffer_size()
    return rows, size


def cpu(process):
    """Seconds that a process has used."""
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Contest:
    """Servers of one question: what each runs, and its process."""

    def __init__(self, name, rounds, work=None, unit="MB"):
        self.name, self.rounds, self.work, self.unit, self.who = name, rounds, work, unit, {}

    def add(self, who, process, run_it):
        self.who[who] = (process, run_it)

    def show(self):
        used = {who: [] for who in self.who}

        def measured(who):
            process, run_it = self.who[who]
            def once():
                before = cpu(process)
                run_it()
                used[who].append(cpu(process) - before)
            return once

        result = run.interleave({who: measured(who) for who in self.who}, self.rounds)
        run.show(self.name, result)
        for who, seconds in result.items():
            if isinstance(seconds, Exception):
                continue
            rate = f"{self.work / seconds:.0f} {self.unit}/s, " if self.work else ""
            print(f"{'':10} {who}: {rate}server CPU {sorted(used[who])[len(used[who]) // 2]:.3f} s", flush=True)


def at_once(*runs):
    threads = [threading.Thread(target=one) for one in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def one_session():
    """Middleware that makes all its connections one session, by its cookie."""
    import pyarrow.flight as flight
    kept = {}

    class Call(flight.ClientMiddleware):
        def sending_headers(self):
            return kept

        def received_headers(self, headers):
            for value in headers.get("set-cookie", []):
                kept["cookie"] = value.split(";")[0]

    class Factory(flight.ClientMiddlewareFactory):
        def start_call(self, info):
            return Call()

    return [Factory()]


def repeated(client, command, times):
    for _ in range(times):
        fetch(client, command)


SMALL = 50  # statements in a round: one takes milliseconds


def bench_results(servers, options, folder):
    import pyarrow.flight as flight
    middleware = one_session()
    connected = {who: flight.connect(url, middleware=middleware) if who == "trunnion" else flight.connect(url)
                 for who, (_, url) in servers.items()}
    mine = connected["trunnion"]
    for text in [f"CREATE EXTERNAL TABLE bench_lineitem STORED AS PARQUET LOCATION '{folder}/lineitem.parquet'",
                 "CREATE TEMPORARY TABLE bench_memory AS SELECT * FROM bench_lineitem"]:
        fetch(mine, statement(text))
    commands = {"table": {"trunnion": statement("SELECT * FROM bench_lineitem"), "pyarrow": b"table",
                          "sail": statement(f"SELECT * FROM parquet.`{folder}/lineitem.parquet`"),
                          "roapi": statement("SELECT * FROM lineitem")},
                "memory": {"trunnion": statement("SELECT * FROM bench_memory"), "pyarrow": b"memory"},
                "select1": {who: b"one" if who == "pyarrow" else statement("SELECT 1 AS x") for who in servers}}
    for name, of in commands.items():
        if name not in options.only:
            continue
        rows, size = fetch(mine, of["trunnion"])
        times = SMALL if name == "select1" else 1
        contest = Contest(name, options.rounds, *((SMALL, "statements") if name == "select1" else (size / 1e6, "MB")))
        for who, command in of.items():
            if who in servers:
                assert fetch(connected[who], command)[0] == rows, (name, who)
                contest.add(who, servers[who][0], lambda client=connected[who], command=command: repeated(client, command, times))
        contest.show()
    if {"streams", "ten"} & set(options.only):
        clients = {"trunnion": [flight.connect(servers["trunnion"][1], middleware=middleware) for _ in range(4)],
                   "pyarrow": [flight.connect(servers["pyarrow"][1]) for _ in range(4)]}
        bench_streams(servers, clients, commands["memory"], options)
    fetch(mine, statement("DROP TABLE bench_lineitem"))


def bench_streams(servers, clients, commands, options):
    size = fetch(clients["trunnion"][0], commands["trunnion"])[1]
    often = max(1, round(10e9 / size))

    def contest(name, streams, times, rounds):
        out = Contest(name, rounds, streams * times * size / 1e6)
        for who, command in commands.items():
            jobs = [lambda client=client, command=command: repeated(client, command, times) for client in clients[who][:streams]]
            out.add(who, servers[who][0], lambda jobs=jobs: at_once(*jobs))
        out.show()

    if "streams" in options.only:
        contest("4 streams", 4, 1, options.rounds)
    if "ten" in options.only:
        contest("10 GB", 1, often, min(options.rounds, 2))
        contest("10 GB by 4", 4, -(-often // 4), min(options.rounds, 2))


JOIN = "SELECT count(*) AS n FROM ({0}) a, ({0}) b, ({0}) c WHERE a.x * 7 + b.x * 3 <> c.x - 5"
NUMBERS = {"trunnion": "SELECT * FROM bench_numbers", "sail": "SELECT id AS x FROM range(1000)",
           "roapi": "SELECT value AS x FROM generate_series(1, 1000)"}


def still_busy(process, seconds):
    """Seconds until the server has used less than a tenth of a core for a whole one, and the CPU time until then."""
    begin, before = time.perf_counter(), cpu(process)
    last, still = before, 0.0
    while time.perf_counter() - begin < seconds and time.perf_counter() - begin - still < 1:
        time.sleep(0.05)
        now = cpu(process)
        if now > last:
            still = time.perf_counter() - begin
        last = now
    return still, last - before


def bench_busy(servers, options):
    """The join is a client's in a process of its own, which is killed in the middle."""
    import pyarrow.flight as flight
    first = flight.connect(servers["trunnion"][1])
    fetch(first, statement("CREATE TABLE bench_numbers AS SELECT value AS x FROM generate_series(1, 1000) AS t(value)"))
    for who, numbers in NUMBERS.items():
        if who not in servers:
            continue
        process, url = servers[who]
        client = subprocess.Popen([sys.executable, __file__, "--fetch", url, JOIN.format(numbers)], stderr=subprocess.DEVNULL)
        time.sleep(2)
        times = []
        for _ in range(options.rounds):
            begin = time.perf_counter()
            with flight.connect(url) as other:
                fetch(other, statement("SELECT 1 AS x"))
            times.append(time.perf_counter() - begin)
        was_running = client.poll() is None
        client.kill()
        client.wait()
        still, used = still_busy(process, 30)
        times.sort()
        print(f"busy       {who}: join {'running' if was_running else 'over before'}, connection and select 1 "
              f"{times[len(times) // 2] * 1e3:.1f} ms (at most {times[-1] * 1e3:.1f}); after its client went it computes for {still:.2f} s, "
              f"{used:.2f} s of CPU", flush=True)
    fetch(first, statement("DROP TABLE bench_numbers"))


def bench_prepared(servers, options):
    if not shutil.which("go"):
        print("prepared   skipped: no go on this machine")
        return
    binary = pathlib.Path(tempfile.mkdtemp()) / "flight_load"
    subprocess.check_call(["go", "build", "-o", str(binary), "."], cwd=pathlib.Path(__file__).with_name("flight_load"))
    for connections in (1, 16, 256):
        for who, (process, url) in servers.items():
            what = ["command", "one"] if who == "pyarrow" else ["prepared", "SELECT 1 AS x"]
            before = cpu(process)
            done = subprocess.run([str(binary), url.split("//")[1], str(connections), "4", *what], capture_output=True, text=True, timeout=120)
            if done.returncode:
                print(f"prepared   {who}, {connections} connections: {done.stderr.strip()[:200]}")
                continue
            rate, p50, p99 = map(float, done.stdout.split())
            print(f"prepared   {who}, {connections} connections: {rate:.0f} /s, p50 {p50:.2f} ms, p99 {p99:.2f} ms, server CPU "
                  f"{(cpu(process) - before) / (rate * 4) * 1e6:.0f} us each", flush=True)


def bench_ingest(servers, options, folder):
    import pyarrow.flight as flight, pyarrow.parquet as parquet
    rows = parquet.read_table(f"{folder}/lineitem.parquet", columns=["l_orderkey", "l_partkey", "l_suppkey", "l_extendedprice"])
    (ours_process, ours_url), (peer_process, peer_url) = servers["trunnion"], servers["pyarrow"]

    def put(client, descriptor):
        writer, reader = client.do_put(descriptor, rows.schema)
        for batch in rows.to_batches(max_chunksize=65536):
            writer.write_batch(batch)
        writer.done_writing()
        reader.read()
        writer.close()

    name = b"type.googleapis.com/arrow.flight.protocol.sql.CommandStatementIngest"
    body = b"\x0a\x04\x08\x01\x10\x03" + b"\x12\x0cbench_ingest"
    command = b"\x0a" + varint(len(name)) + name + b"\x12" + varint(len(body)) + body
    mine, theirs = flight.connect(ours_url), flight.connect(peer_url)
    contest = Contest("ingest", options.rounds, rows.nbytes / 1e6)
    contest.add("trunnion", ours_process, lambda: put(mine, flight.FlightDescriptor.for_command(command)))
    contest.add("pyarrow", peer_process, lambda: put(theirs, flight.FlightDescriptor.for_command(b"x")))
    contest.show()
    assert fetch(mine, statement("SELECT * FROM bench_ingest"))[0] == rows.num_rows
    fetch(mine, statement("DROP TABLE bench_ingest"))


def bench_tables(servers, options):
    import pyarrow.flight as flight
    process, url = servers["trunnion"]
    client = flight.connect(url)
    columns = ", ".join(f"c{i} BIGINT" for i in range(20))
    begin = time.perf_counter()
    for i in range(10000):
        fetch(client, statement(f"CREATE TABLE bench_t{i} ({columns})"))
    print(f"tables     10,000 tables of 20 columns made in {time.perf_counter() - begin:.1f} s, server {run.rss(process.pid):.0f} MiB", flush=True)
    name = b"type.googleapis.com/arrow.flight.protocol.sql.CommandGetTables"
    for what, body in [("names", b""), ("with schemas", b"\x28\x01"), ("one of them, with schema", b"\x1a\x0abench_t777" + b"\x28\x01")]:
        command = b"\x0a" + varint(len(name)) + name + (b"\x12" + varint(len(body)) + body if body else b"")
        times = []
        for _ in range(options.rounds):
            before, begin = cpu(process), time.perf_counter()
            rows, size = fetch(client, command)
            times.append((time.perf_counter() - begin, cpu(process) - before))
        print(f"tables     GetTables, {what}: {rows} rows, {size / 1e6:.1f} MB, {sorted(times)[len(times) // 2][0] * 1e3:.0f} ms, server CPU "
              f"{sorted(times)[len(times) // 2][1]:.3f} s, server {run.rss(process.pid):.0f} MiB", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--scale", default="1")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="table,memory,streams,ten,select1,busy,prepared,ingest,tables")
    parser.add_argument("--serve")
    parser.add_argument("--fetch", nargs=2)
    options = parser.parse_args()
    options.only = options.only.split(",")
    run.reexec()
    if options.serve:
        return serve_pyarrow(options.serve)
    if options.fetch:
        import pyarrow.flight as flight
        return fetch(flight.connect(options.fetch[0]), statement(options.fetch[1]))
    folder = run.data(options.scale)
    print(f"lineitem at scale {options.scale}, {options.rounds} rounds after a warm-up, {os.cpu_count()} cores", flush=True)
    servers = {"trunnion": start_ours(), "pyarrow": start_pyarrow(folder), "sail": start_sail(), "roapi": start_roapi(folder)}
    servers = {who: server for who, server in servers.items() if server[0]}
    try:
        if {"table", "memory", "streams", "ten", "select1"} & set(options.only):
            bench_results(servers, options, folder)
        if "busy" in options.only:
            bench_busy(servers, options)
        if "prepared" in options.only:
            bench_prepared(servers, options)
        if "ingest" in options.only:
            bench_ingest(servers, options, folder)
        if "tables" in options.only:
            bench_tables(servers, options)
    finally:
        for process, _ in servers.values():
            process.terminate()


if __name__ == "__main__":
    main()
