"""The servers of bench/flight.py: each gives (process, url), or (None, None) when it does not start."""
import os, pathlib, re, socket, subprocess, sys, tempfile, time

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
    script = pathlib.Path(__file__).with_name("flight.py")
    process = subprocess.Popen([sys.executable, str(script), "--serve", str(folder)], stdout=subprocess.PIPE, text=True)
    return process, f"grpc://127.0.0.1:{int(process.stdout.readline())}"


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def started(command, port):
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(300):
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", port)) == 0:
                return process, f"grpc://127.0.0.1:{port}"
        if process.poll() is not None:
            break
        time.sleep(0.1)
    process.kill()
    return None, None


def tool(name):
    return str(pathlib.Path(sys.executable).with_name(name))


def start_sail():
    port, = free_ports(1)
    return started([tool("sail"), "flight", "server", "--ip", "127.0.0.1", "--port", str(port)], port)


def start_roapi(folder):
    """Its tables are those of its configuration: lineitem, read from the file for each query."""
    http, postgres, flight = free_ports(3)
    config = pathlib.Path(tempfile.mkdtemp()) / "roapi.yml"
    config.write_text(f"addr: {{http: '127.0.0.1:{http}', postgres: '127.0.0.1:{postgres}'}}\n"
                      f"tables:\n  - {{name: lineitem, uri: '{folder}/lineitem.parquet', option: {{format: parquet, use_memory_table: false}}}}\n")
    return started([tool("roapi"), "-c", str(config), "--addr-flight-sql", f"127.0.0.1:{flight}"], flight)
