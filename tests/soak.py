"""A server under a mixed load for a long time: small queries, big results, cancels, clients that vanish, errors, sessions that come and go.
Memory, file descriptors and threads must stay flat: the last third of the time is compared with the second.
usage: soak.py [--seconds 3600] [--threads 6] [--url sc://HOST:PORT --pid PID]"""
import argparse, collections, os, pathlib, random, sys, threading, time, uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "clients"))
import grpc  # noqa: E402
from pyspark.sql.connect.proto import base_pb2 as pb, base_pb2_grpc, relations_pb2 as rel  # noqa: E402

SMALL = ["select 1", "select id, id * 2 from range(100)", "select count(*), sum(id) from range(100000)", "select upper('abc'), current_date()",
         "select id % 7 as k, count(*) from range(10000) group by id % 7 order by k"]
BIG = "select id, cast(id as string) as s, id * 1.5 as d from range(300000)"
SLOW = "select count(*) from range(100000) a join range(100000) b on a.id % 1000 = b.id % 999"
WRONG = ["select nothing from nowhere", "select 1 / 0", "selec 1", "select cast('x' as int)"]


class Client:
    """One thread's load. Everything that the server answers is counted; what it should not answer is kept."""

    def __init__(self, target, seed, until):
        self.target, self.until, self.random = target, until, random.Random(seed)
        self.counts, self.problems = collections.Counter(), []

    def connect(self):
        self.channel = grpc.insecure_channel(self.target, options=[("grpc.max_receive_message_length", 1 << 28), ("grpc.use_local_subchannel_pool", 1)])
        self.stub = base_pb2_grpc.SparkConnectServiceStub(self.channel)
        self.session = str(uuid.uuid4())
        self.user = pb.UserContext(user_id="soak")

    def request(self, sql):
        plan = pb.Plan(root=rel.Relation(sql=rel.SQL(query=sql)))
        return pb.ExecutePlanRequest(session_id=self.session, user_context=self.user, operation_id=str(uuid.uuid4()), plan=plan)

    def small(self):
        for response in self.stub.ExecutePlan(self.request(self.random.choice(SMALL)), timeout=60):
            self.counts["responses"] += 1

    def big(self):
        rows = sum(r.arrow_batch.row_count for r in self.stub.ExecutePlan(self.request(BIG), timeout=60))
        if rows != 300000:
            self.problems.append(f"{rows} rows of 300000")

    def wrong(self):
        try:
            list(self.stub.ExecutePlan(self.request(self.random.choice(WRONG)), timeout=60))
            self.problems.append("a wrong query was answered")
        except grpc.RpcError as error:
            if error.code() not in (grpc.StatusCode.INTERNAL, grpc.StatusCode.INVALID_ARGUMENT):
                raise

    def cancel(self):
        call = self.stub.ExecutePlan(self.request(self.random.choice([SLOW, BIG])), timeout=60)
        time.sleep(self.random.random() * 0.05)
        call.cancel()

    def interrupt(self):
        call = self.stub.ExecutePlan(self.request(SLOW), timeout=60)
        time.sleep(self.random.random() * 0.05)
        kind = pb.InterruptRequest.InterruptType.INTERRUPT_TYPE_ALL
        self.stub.Interrupt(pb.InterruptRequest(session_id=self.session, user_context=self.user, interrupt_type=kind), timeout=60)
        try:
            list(call)
        except grpc.RpcError as error:
            if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                raise

    def vanish(self):
        iterator = iter(self.stub.ExecutePlan(self.request(BIG), timeout=60))
        next(iterator)
        self.channel.close()
        self.connect()

    def release(self):
        self.stub.ReleaseSession(pb.ReleaseSessionRequest(session_id=self.session, user_context=self.user), timeout=60)
        self.session = str(uuid.uuid4())

    def run(self):
        self.connect()
        actions = [self.small] * 12 + [self.big] * 2 + [self.wrong] * 3 + [self.cancel] * 2 + [self.interrupt, self.vanish, self.release]
        while time.monotonic() < self.until and len(self.problems) < 10:
            action = self.random.choice(actions)
            try:
                action()
                self.counts[action.__name__] += 1
            except (grpc.RpcError, StopIteration) as error:
                self.problems.append(f"{action.__name__}: {str(error)[:300]}")
        self.release()
        self.channel.close()


def figures(pid):
    status = dict(line.split(":", 1) for line in open(f"/proc/{pid}/status") if ":" in line)
    return int(status["VmRSS"].split()[0]) / 1024, len(os.listdir(f"/proc/{pid}/fd")), int(status["Threads"])


def middle(values):
    return sorted(values)[len(values) // 2]


def soak(target, pid, seconds, threads):
    begun = time.monotonic()
    clients = [Client(target, seed, begun + seconds) for seed in range(threads)]
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
    ok = flat and not problems and counts["small"] > 10
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
        # Sessions of clients that vanished are kept for an hour, unless something else is said: nothing would be flat before.
        process, options.url = start_server("--set", "frontends.spark.session_idle=30s")
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
