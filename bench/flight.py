"""What a Flight SQL result costs: DoGet of TPC-H's lineitem, interleaved, medians. usage: flight.py [--scale S] [--rounds N]

table    trunnion reads the Parquet file for each query; pyarrow's own Flight server (C++, the limit) scans the same file
memory   the same rows kept by the server: an Arrow spool of trunnion's session; a table in pyarrow's memory
select1  a small statement: GetFlightInfo and DoGet
Rows and bytes of both are compared before anything is timed. TRUNNION_PROGRAM names another server than the release build's.
"""
import argparse, os, re, subprocess, sys

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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--scale", default="1")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--serve")
    options = parser.parse_args()
    run.reexec()
    if options.serve:
        return serve_pyarrow(options.serve)
    import pyarrow.flight as flight
    folder = run.data(options.scale)
    print(f"lineitem at scale {options.scale}, {options.rounds} rounds after a warm-up, {os.cpu_count()} cores", flush=True)
    (ours_process, ours_url), (peer_process, peer_url) = start_ours(), start_pyarrow(folder)
    try:
        ours, peer = flight.connect(ours_url), flight.connect(peer_url)
        for text in [f"CREATE EXTERNAL TABLE bench_lineitem STORED AS PARQUET LOCATION '{folder}/lineitem.parquet'",
                     "CREATE TEMPORARY TABLE bench_memory AS SELECT * FROM bench_lineitem"]:
            fetch(ours, statement(text))
        queries = {"table": "SELECT * FROM bench_lineitem", "memory": "SELECT * FROM bench_memory", "select1": "SELECT 1 AS x"}
        for name, text in queries.items():
            ticket = b"one" if name == "select1" else name.encode()
            mine, theirs = fetch(ours, statement(text)), fetch(peer, ticket)
            assert mine[0] == theirs[0], (name, mine, theirs)
            result = run.interleave({"trunnion": lambda: fetch(ours, statement(text)), "pyarrow": lambda: fetch(peer, ticket)}, options.rounds)
            run.show(name, {who: result[who] for who in ("trunnion", "pyarrow")})
            if name != "select1" and not any(isinstance(value, Exception) for value in result.values()):
                print(f"{'':10} {mine[1] / result['trunnion'] / 1e6:.0f} MB/s, {theirs[1] / result['pyarrow'] / 1e6:.0f} MB/s")
        fetch(ours, statement("DROP TABLE bench_lineitem"))
    finally:
        ours_process.terminate()
        peer_process.terminate()


if __name__ == "__main__":
    main()
