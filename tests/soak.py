"""A server under a mixed load for a long time, in every protocol that it speaks (Spark Connect, Flight SQL, Ballista's): small queries, big
results, cancels, clients that vanish, errors, sessions that come and go. Memory, file descriptors and threads must stay flat: the last
third of the time is compared with the second.
usage: soak.py [--seconds 3600] [--threads 6] [--url sc://HOST:PORT --pid PID]"""
import argparse, collections, os, pathlib, random, sys, threading, time, uuid

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests/clients"), str(ROOT / "tests/cluster")]
import grpc  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.flight as fl  # noqa: E402
from google.protobuf import any_pb2, wrappers_pb2  # noqa: E402
from pyspark.sql.connect.proto import base_pb2 as pb, base_pb2_grpc, relations_pb2 as rel  # noqa: E402

ROWS = 300000
LARGE = [("grpc.max_receive_message_length", 1 << 28), ("grpc.use_local_subchannel_pool", 1)]


class Load:
    """One thread's load. Everything that the server answers is counted; what it should not answer is kept."""

    protocol = ""
    actions = []  # of the class: (how often, method's name)

    def __init__(self, target, seed, until):
        self.target, self.until, self.random = target, until, random.Random(seed)
        self.counts, self.problems = collections.Counter(), []

    def wait_a_little(self):
        time.sleep(self.random.random() * 0.05)

    def expect_rows(self, rows):
        if rows != ROWS:
            self.problems.append(f"{self.protocol}: {rows} rows of {ROWS}")

    def answered(self):
        self.problems.append(f"{self.protocol}: a wrong query was answered")

    def run(self):
        try:
            self.connect()
            actions = [name for often, name in self.actions for _ in range(often)]
            while time.monotonic() < self.until and len(self.problems) < 10:
                action = self.random.choice(actions)
                try:
                    getattr(self, action)()
                    self.counts[f"{self.protocol} {action}"] += 1
                except (grpc.RpcError, pa.ArrowException, RuntimeError, StopIteration) as error:
                    self.problems.append(f"{self.protocol} {action}: {str(error)[:300]}")
            self.close()
        except Exception as error:  # a thread that dies silently would make the rest look good
            self.problems.append(f"{self.protocol}: {type(error).__name__} {str(error)[:300]}")


class Spark(Load):
    protocol = "spark"
    actions = [(12, "small"), (2, "big"), (3, "wrong"), (2, "cancel"), (1, "interrupt"), (1, "vanish"), (1, "release")]
    SMALL = ["select 1", "select id, id * 2 from range(100)", "select count(*), sum(id) from range(100000)",
             "select upper('abc'), current_date()", "select id % 7 as k, count(*) from range(10000) group by id % 7 order by k"]
    BIG = f"select id, cast(id as string) as s, id * 1.5 as d from range({ROWS})"
    SLOW = "select count(*) from range(100000) a join range(100000) b on a.id % 1000 = b.id % 999"
    WRONG = ["select nothing from nowhere", "select 1 / 0", "selec 1", "select cast('x' as int)"]

    def connect(self):
        self.channel = grpc.insecure_channel(self.target, options=LARGE)
        self.stub = base_pb2_grpc.SparkConnectServiceStub(self.channel)
        self.session = str(uuid.uuid4())
        self.user = pb.UserContext(user_id="soak")

    def close(self):
        self.release()
        self.channel.close()

    def request(self, sql):
        plan = pb.Plan(root=rel.Relation(sql=rel.SQL(query=sql)))
        return pb.ExecutePlanRequest(session_id=self.session, user_context=self.user, operation_id=str(uuid.uuid4()), plan=plan)

    def small(self):
        for response in self.stub.ExecutePlan(self.request(self.random.choice(self.SMALL)), timeout=60):
            pass

    def big(self):
        self.expect_rows(sum(r.arrow_batch.row_count for r in self.stub.ExecutePlan(self.request(self.BIG), timeout=60)))

    def wrong(self):
        try:
            list(self.stub.ExecutePlan(self.request(self.random.choice(self.WRONG)), timeout=60))
            self.answered()
        except grpc.RpcError as error:
            if error.code() not in (grpc.StatusCode.INTERNAL, grpc.StatusCode.INVALID_ARGUMENT):
                raise

    def cancel(self):
        call = self.stub.ExecutePlan(self.request(self.random.choice([self.SLOW, self.BIG])), timeout=60)
        self.wait_a_little()
        call.cancel()

    def interrupt(self):
        call = self.stub.ExecutePlan(self.request(self.SLOW), timeout=60)
        self.wait_a_little()
        kind = pb.InterruptRequest.InterruptType.INTERRUPT_TYPE_ALL
        self.stub.Interrupt(pb.InterruptRequest(session_id=self.session, user_context=self.user, interrupt_type=kind), timeout=60)
        try:
            list(call)
        except grpc.RpcError as error:
            if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                raise

    def vanish(self):
        iterator = iter(self.stub.ExecutePlan(self.request(self.BIG), timeout=60))
        next(iterator)
        self.channel.close()
        self.connect()

    def release(self):
        self.stub.ReleaseSession(pb.ReleaseSessionRequest(session_id=self.session, user_context=self.user), timeout=60)
        self.session = str(uuid.uuid4())


# In the engine's own dialect.
SMALL = ["select 1", "select value, value * 2 from generate_series(1, 100)", "select count(*), sum(value) from generate_series(1, 100000)",
         "select upper('abc'), current_date()", "select value % 7 as k, count(*) from generate_series(1, 10000) group by 1 order by k"]
BIG = f"select value, cast(value as varchar) as s, value * 1.5 as d from generate_series(1, {ROWS})"
SLOW = ("select count(*) from generate_series(1, 100000) a(x) join generate_series(1, 100000) b(y) on a.x % 1000 = b.y % 999")
WRONG = ["select nothing from nowhere", "selec 1", "select no_such_function(1)"]


class FlightSql(Load):
    protocol = "flightsql"
    actions = [(12, "small"), (2, "big"), (3, "wrong"), (2, "cancel"), (1, "prepare"), (1, "put"), (1, "vanish"), (1, "release")]

    def connect(self):
        self.client = fl.FlightClient(f"grpc://{self.target}", generic_options=LARGE)
        self.options = fl.FlightCallOptions(timeout=60)

    def close(self):
        self.client.close()

    @staticmethod
    def command(name, sql):
        """Both messages have the text as their first field, as google.protobuf.StringValue has."""
        body = wrappers_pb2.StringValue(value=sql).SerializeToString()
        return any_pb2.Any(type_url="type.googleapis.com/arrow.flight.protocol.sql." + name, value=body).SerializeToString()

    def start(self, sql):
        info = self.client.get_flight_info(fl.FlightDescriptor.for_command(self.command("CommandStatementQuery", sql)), self.options)
        return self.client.do_get(info.endpoints[0].ticket, self.options)

    def small(self):
        self.start(self.random.choice(SMALL)).read_all()

    def big(self):
        self.expect_rows(self.start(BIG).read_all().num_rows)

    def wrong(self):
        try:
            self.start(self.random.choice(WRONG)).read_all()
            self.answered()
        except (fl.FlightError, pa.ArrowException):
            pass

    def cancel(self):
        reader = self.start(self.random.choice([SLOW, BIG]))
        self.wait_a_little()
        reader.cancel()

    def prepare(self):
        request = self.command("ActionCreatePreparedStatementRequest", self.random.choice(SMALL))
        result = list(self.client.do_action(fl.Action("CreatePreparedStatement", request), self.options))[-1].body.to_pybytes()
        # The result's first field is the handle, as that of the request that closes it.
        handle = wrappers_pb2.BytesValue.FromString(any_pb2.Any.FromString(result).value).value
        close = any_pb2.Any(type_url="type.googleapis.com/arrow.flight.protocol.sql.ActionClosePreparedStatementRequest",
                            value=wrappers_pb2.BytesValue(value=handle).SerializeToString())
        list(self.client.do_action(fl.Action("ClosePreparedStatement", close.SerializeToString()), self.options))

    def put(self):
        """An update of rows that never comes to its end."""
        schema = pa.schema([("x", pa.int64())])
        descriptor = fl.FlightDescriptor.for_command(self.command("CommandStatementUpdate", "insert into no_such_table values (1)"))
        try:
            writer, _ = self.client.do_put(descriptor, schema, self.options)
            writer.write_batch(pa.record_batch([pa.array([1, 2, 3])], schema=schema))
            writer.close()
            self.answered()
        except (fl.FlightError, pa.ArrowException):
            pass

    def vanish(self):
        reader = self.start(BIG)
        reader.read_chunk()
        self.client.close()
        self.connect()

    def release(self):
        self.client.close()
        self.connect()


class Ballista(Load):
    protocol = "ballista"
    actions = [(12, "small"), (2, "big"), (3, "wrong"), (2, "cancel"), (1, "unfetched"), (1, "vanish"), (1, "release")]

    def connect(self):
        import raw_client
        self.raw = raw_client
        self.client = raw_client.Client(self.target)
        self.fresh_session()

    def close(self):
        self.client.close()

    def fresh_session(self):
        self.session = str(uuid.uuid4())

    def query(self, sql):
        return dict(encoded_query=self.raw.m.EncodedQuery(format="sql", payload=sql.encode()), session_id=self.session,
                    operation_id=str(uuid.uuid4()))

    def small(self):
        self.client.run(**self.query(self.random.choice(SMALL)))

    def big(self):
        self.expect_rows(self.client.run(**self.query(BIG)).num_rows)

    def wrong(self):
        try:
            self.client.run(**self.query(self.random.choice(WRONG)))
            self.answered()
        except grpc.RpcError as error:
            if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                raise
        except RuntimeError:
            pass  # the job's failure

    def cancel(self):
        statuses = self.client.push(**self.query(SLOW))
        job = next(iter(statuses)).status.job_id
        self.wait_a_little()
        self.client.call("CancelJob", timeout=60, job_id=job)
        try:
            list(statuses)
        except grpc.RpcError as error:
            if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                raise

    def unfetched(self):
        """A job whose rows nobody fetches."""
        list(self.client.push(**self.query(self.random.choice(SMALL))))

    def vanish(self):
        statuses = self.client.push(**self.query(self.random.choice([SLOW, BIG])))
        next(iter(statuses))
        self.client.close()
        self.client = self.raw.Client(self.target)

    def release(self):
        self.client.call("RemoveSession", timeout=60, session_id=self.session)
        self.fresh_session()


def kinds():
    """The protocols that this machine has clients for."""
    try:
        import raw_client  # noqa: F401
        return [Spark, FlightSql, Ballista]
    except (ImportError, OSError) as error:
        print(f"SKIPPED: soak: Ballista's protocol: {error}", flush=True)
        return [Spark, FlightSql]


def figures(pid):
    status = dict(line.split(":", 1) for line in open(f"/proc/{pid}/status") if ":" in line)
    return int(status["VmRSS"].split()[0]) / 1024, len(os.listdir(f"/proc/{pid}/fd")), int(status["Threads"])


def middle(values):
    return sorted(values)[len(values) // 2]


def soak(target, pid, seconds, threads):
    begun = time.monotonic()
    loads = kinds()
    clients = [loads[seed % len(loads)](target, seed, begun + seconds) for seed in range(max(threads, len(loads)))]
    running = [threading.Thread(target=client.run) for client in clients]
    for thread in running:
        thread.start()
    samples = []
    while any(thread.is_alive() for thread in running):
        time.sleep(max(0.5, seconds / 200))
        samples.append((time.monotonic() - begun, *figures(pid)))
    counts = sum((client.counts for client in clients), collections.Counter())
    problems = [problem for client in clients for problem in client.problems]
    second = [s for s in samples if seconds / 3 < s[0] <= 2 * seconds / 3]
    third = [s for s in samples if 2 * seconds / 3 < s[0] <= seconds]
    flat = True
    for index, (name, slack) in enumerate([("memory MiB", 0.15), ("descriptors", 0.1), ("threads", 0.1)], 1):
        before, after = middle([s[index] for s in second]), middle([s[index] for s in third])
        allowed = before * (1 + slack) + (16 if index == 1 else 8)
        flat = flat and after <= allowed
        print(f"{name:<12} second third {before:.1f}, last third {after:.1f}, allowed {allowed:.1f}", flush=True)
    print(dict(sorted(counts.items())), flush=True)
    for problem in problems[:10]:
        print("PROBLEM", problem)
    idle = [load.protocol for load in loads if counts[f"{load.protocol} small"] <= 5]
    if idle:
        print("too little was answered in", *idle)
    ok = flat and not problems and not idle
    print(f"soak: {sum(counts.values())} passed" if ok else "soak: FAILED", flush=True)
    return ok


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=3600)
    parser.add_argument("--threads", type=int, default=6)
    parser.add_argument("--url")
    parser.add_argument("--pid", type=int)
    options = parser.parse_args()
    process = None
    if not options.url:
        from conftest import start_server
        # What vanished clients leave is kept for an hour, unless something else is said: nothing would be flat before.
        kept = ["spark.session_idle", "flightsql.session_idle", "flightsql.result", "ballista.session_idle", "ballista.result", "ballista.job"]
        process, options.url = start_server(*(word for name in kept for word in ("--set", f"frontends.{name}=30s")))
        options.pid = process.pid
    try:
        ok = soak(options.url.replace("sc://", ""), options.pid, options.seconds, options.threads)
    finally:
        if process:
            process.terminate()
            process.wait(60)
    sys.exit(not ok)


if __name__ == "__main__":
    main()
