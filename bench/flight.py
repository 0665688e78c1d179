"""What Flight SQL costs: interleaved, medians, CPU seconds of the servers beside wall. usage: flight.py [--scale S] [--rounds N] [--only A,B]

table    DoGet of TPC-H's lineitem: trunnion reads the Parquet file for each query; pyarrow's own Flight server (C++, the limit) scans
         the same file; pysail's Flight server
memory   the same rows kept by the server: an Arrow spool of trunnion's session; a table in pyarrow's memory
streams  memory, by four clients at once
select1  a small statement: GetFlightInfo and DoGet
prepared the same, prepared, from 1, 16 and 256 connections at once (flight_load, a client in Go)
ingest   DoPut of lineitem's columns of numbers into a new table; pyarrow's server keeps it in memory
tables   GetTables over 10,000 tables, without and with their schemas
Rows of all are compared before anything is timed. TRUNNION_PROGRAM names another server than the release build's.
"""
import argparse, os, pathlib, re, shutil, subprocess, sys, tempfile, threading, time

import run


def start_ours():
    program = os.environ.get("TRUNNION_PROGRAM", str(run.ROOT / "build/release/trunnion"))
    process = subprocess.Popen([program, "serve", "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
    return process, "grpc://" + re.search(r"sc://(\S+)", process.stdout.readline()).group(1)


def serve_pyarrow(folder):
    """In a process of its own: tickets are "table", "memory", "one"."""
    import pyarrow as pa, pyarrow.dataset as dataset, pyarrow.flight as flight, pyarrow.parquet as parquet

    file = f"{folder}/lineitem.parquet"
    memory, one = parquet.read_table(file), pa.table({"x": pa.array([1], pa.int64())})

    class Server(flight.FlightServerBase):
        def get_flight_info(self, context, descriptor):
            schema = one.schema if descriptor.command == b"one" else memory.schema
            return flight.FlightInfo(schema, descriptor, [flight.FlightEndpoint(descriptor.command, [])], -1, -1)

        def do_get(self, context, ticket):
            if ticket.ticket == b"table":
                return flight.RecordBatchStream(dataset.dataset(file).scanner().to_reader())
            return flight.RecordBatchStream(memory if ticket.ticket == b"memory" else one)

        def do_put(self, context, descriptor, reader, writer):
            self.kept = reader.read_all()

    server = Server("grpc://127.0.0.1:0")
    print(server.port, flush=True)
    server.serve()


def start_pyarrow(folder):
    process = subprocess.Popen([sys.executable, __file__, "--serve", str(folder)], stdout=subprocess.PIPE, text=True)
    return process, f"grpc://127.0.0.1:{int(process.stdout.readline())}"


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


def start_sail():
    import socket
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    process = subprocess.Popen([str(pathlib.Path(sys.executable).with_name("sail")), "flight", "server", "--ip", "127.0.0.1", "--port", str(port)],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(100):
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", port)) == 0:
                return process, f"grpc://127.0.0.1:{port}"
        time.sleep(0.1)
    process.kill()
    return None, None


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


def bench_results(ours, peer, sail, options, folder):
    import pyarrow.flight as flight
    (ours_process, ours_url), (peer_process, peer_url), (sail_process, sail_url) = ours, peer, sail
    mine, theirs = flight.connect(ours_url), flight.connect(peer_url)
    for text in [f"CREATE EXTERNAL TABLE bench_lineitem STORED AS PARQUET LOCATION '{folder}/lineitem.parquet'",
                 "CREATE TEMPORARY TABLE bench_memory AS SELECT * FROM bench_lineitem"]:
        fetch(mine, statement(text))
    queries = {"table": "SELECT * FROM bench_lineitem", "memory": "SELECT * FROM bench_memory", "select1": "SELECT 1 AS x"}
    for name, text in queries.items():
        if name not in options.only:
            continue
        ticket = b"one" if name == "select1" else name.encode()
        (rows, size), other = fetch(mine, statement(text)), fetch(theirs, ticket)
        assert rows == other[0], (name, rows, other)
        contest = Contest(name, options.rounds, None if name == "select1" else size / 1e6)
        contest.add("trunnion", ours_process, lambda: fetch(mine, statement(text)))
        contest.add("pyarrow", peer_process, lambda: fetch(theirs, ticket))
        if sail_url and name != "memory":
            from_sail = flight.connect(sail_url)
            sail_text = f"SELECT * FROM parquet.`{folder}/lineitem.parquet`" if name == "table" else text
            assert fetch(from_sail, statement(sail_text))[0] == rows
            contest.add("sail", sail_process, lambda: fetch(from_sail, statement(sail_text)))
        contest.show()
    if "streams" in options.only:
        clients = {url: [flight.connect(url) for _ in range(4)] for url in (ours_url, peer_url)}
        # Temporary tables are a session's: its connection has it, by four calls at once.
        contest = Contest("4 streams", options.rounds, 4 * fetch(theirs, b"memory")[1] / 1e6)
        contest.add("trunnion", ours_process, lambda: at_once(*[lambda: fetch(mine, statement(queries["memory"]))] * 4))
        contest.add("pyarrow", peer_process, lambda: at_once(*[lambda c=c: fetch(c, b"memory") for c in clients[peer_url]]))
        contest.show()
    fetch(mine, statement("DROP TABLE bench_lineitem"))


def bench_prepared(ours, peer, sail, options):
    if not shutil.which("go"):
        print("prepared   skipped: no go on this machine")
        return
    binary = pathlib.Path(tempfile.mkdtemp()) / "flight_load"
    subprocess.check_call(["go", "build", "-o", str(binary), "."], cwd=pathlib.Path(__file__).with_name("flight_load"))
    for connections in (1, 16, 256):
        for who, (process, url), what in [("trunnion", ours, ["prepared", "SELECT 1 AS x"]), ("pyarrow", peer, ["command", "one"])]:
            before = cpu(process)
            done = subprocess.run([str(binary), url.split("//")[1], str(connections), "4", *what], capture_output=True, text=True, timeout=120)
            if done.returncode:
                print(f"prepared   {who}, {connections} connections: {done.stderr.strip()[:200]}")
                continue
            rate, p50, p99 = map(float, done.stdout.split())
            print(f"prepared   {who}, {connections} connections: {rate:.0f} /s, p50 {p50:.2f} ms, p99 {p99:.2f} ms, server CPU "
                  f"{(cpu(process) - before) / (rate * 4) * 1e6:.0f} us each", flush=True)


def bench_ingest(ours, peer, options, folder):
    import pyarrow.flight as flight, pyarrow.parquet as parquet
    rows = parquet.read_table(f"{folder}/lineitem.parquet", columns=["l_orderkey", "l_partkey", "l_suppkey", "l_extendedprice"])
    (ours_process, ours_url), (peer_process, peer_url) = ours, peer

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


def bench_tables(ours, options):
    import pyarrow.flight as flight
    process, url = ours
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
    parser.add_argument("--only", default="table,memory,streams,select1,prepared,ingest,tables")
    parser.add_argument("--serve")
    options = parser.parse_args()
    options.only = options.only.split(",")
    run.reexec()
    if options.serve:
        return serve_pyarrow(options.serve)
    folder = run.data(options.scale)
    print(f"lineitem at scale {options.scale}, {options.rounds} rounds after a warm-up, {os.cpu_count()} cores", flush=True)
    ours, peer, sail = start_ours(), start_pyarrow(folder), start_sail()
    try:
        if {"table", "memory", "streams", "select1"} & set(options.only):
            bench_results(ours, peer, sail, options, folder)
        if "prepared" in options.only:
            bench_prepared(ours, peer, sail, options)
        if "ingest" in options.only:
            bench_ingest(ours, peer, options, folder)
        if "tables" in options.only:
            bench_tables(ours, options)
    finally:
        for process, _ in (ours, peer, sail):
            if process:
                process.terminate()


if __name__ == "__main__":
    main()
