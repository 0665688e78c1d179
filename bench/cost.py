"""What calls, streams, connections and sessions cost, beside the goals; and what a long join leaves to others. Builds nothing: takes build/release (or --build).
usage: cost.py [--build FOLDER] [--sessions 10000] [--url sc://HOST:PORT --pid PID]"""
import argparse, concurrent.futures, os, pathlib, subprocess, sys, time, uuid

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/clients"))
import grpc  # noqa: E402
from pyspark.sql.connect.proto import base_pb2 as pb, base_pb2_grpc, relations_pb2 as rel  # noqa: E402

GOALS = {"start_to_first_answer": 100, "bytes_per_idle_stream": 4000, "bytes_per_idle_session": 20000}


def show(name, value, unit):
    goal = GOALS.get(name)
    print(f"{name:<28}{value:12.2f} {unit:<6}" + (f"{value / goal:6.2f} of the goal {goal}" if goal else ""), flush=True)


def transport(build):
    output = subprocess.run([str(build / "transport_cost")], capture_output=True, text=True, check=True, timeout=300).stdout
    for line in output.splitlines():
        name, value, unit = line.split()
        show(name, float(value), unit)


def rss(pid):
    return next(int(line.split()[1]) for line in open(f"/proc/{pid}/status") if line.startswith("VmRSS")) * 1024


def user():
    return pb.UserContext(user_id="cost")


def idle_sessions(target, pid, count):
    operation = pb.ConfigRequest.Operation(get_all=pb.ConfigRequest.GetAll())
    with grpc.insecure_channel(target) as channel:
        stub = base_pb2_grpc.SparkConnectServiceStub(channel)

        def one(_):
            stub.Config(pb.ConfigRequest(session_id=(session := str(uuid.uuid4())), user_context=user(), operation=operation), timeout=60)
            return session

        one(0)
        before = rss(pid)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            sessions = list(pool.map(one, range(count - 1)))
        show("bytes_per_idle_session", (rss(pid) - before) / len(sessions), "B")
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda s: stub.ReleaseSession(pb.ReleaseSessionRequest(session_id=s, user_context=user()), timeout=60), sessions))


def busy_sessions(target, count):
    """Each session runs one small query; 64 at a time."""
    plan = pb.Plan(root=rel.Relation(sql=rel.SQL(query="select 1")))
    times = []
    with grpc.insecure_channel(target) as channel:
        stub = base_pb2_grpc.SparkConnectServiceStub(channel)

        def one(_):
            begun = time.monotonic()
            request = pb.ExecutePlanRequest(session_id=str(uuid.uuid4()), user_context=user(), operation_id=str(uuid.uuid4()), plan=plan)
            rows = sum(r.arrow_batch.row_count for r in stub.ExecutePlan(request, timeout=120))
            times.append(time.monotonic() - begun)
            stub.ReleaseSession(pb.ReleaseSessionRequest(session_id=request.session_id, user_context=user()), timeout=60)
            return rows

        begun = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(64) as pool:
            rows = sum(pool.map(one, range(count)))
        assert rows == count, f"{rows} rows of {count}"
        times.sort()
        show("sessions_with_a_query", count / (time.monotonic() - begun), "/s")
        show("their_median", times[len(times) // 2] * 1e3, "ms")


def cpu_seconds(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def request(sql):
    plan = pb.Plan(root=rel.Relation(sql=rel.SQL(query=sql)))
    return pb.ExecutePlanRequest(session_id=str(uuid.uuid4()), user_context=user(), operation_id=str(uuid.uuid4()), plan=plan)


def ask_anew(target):
    """`select 1` over a connection and in a session of its own; milliseconds."""
    begun = time.monotonic()
    with grpc.insecure_channel(target, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        list(base_pb2_grpc.SparkConnectServiceStub(channel).ExecutePlan(request("select 1"), timeout=120))
    return (time.monotonic() - begun) * 1e3


# A thousand million rows by a hash table; and as many pairs by a condition that is never true.
JOINS = {"hash_join": "select count(*) from range(100000) a join range(100000) b on a.id % 10 = b.id % 10",
         "nested_loops": "select count(*) from range(100000) a join range(10000) b on a.id * b.id % 7 < -1"}


def beside_a_join(target, pid, name):
    """How others fare while a join runs, and how long it computes when nobody wants it any more."""
    alone = sorted(ask_anew(target) for _ in range(40))
    with grpc.insecure_channel(target, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        stub = base_pb2_grpc.SparkConnectServiceStub(channel)
        call = stub.ExecutePlan(request(JOINS[name]), timeout=600)
        time.sleep(0.1)
        beside = sorted(ask_anew(target) for _ in range(40))
        if not call.is_active():
            print("the join does not run any more: the figures beside it say nothing", flush=True)
        call.cancel()
        begun, spent = time.monotonic(), cpu_seconds(pid)
        ended = begun  # when it was last seen to compute
        while time.monotonic() - ended < 1 and time.monotonic() - begun < 60:
            time.sleep(0.02)
            now = cpu_seconds(pid)
            if now > spent:
                ended, spent = time.monotonic(), now
        print(name)
        show("select_1_alone", alone[len(alone) // 2], "ms")
        show("select_1_beside_it", beside[len(beside) // 2], "ms")
        show("slowest_of_40_beside_it", beside[-1], "ms")
        show("cpu_idle_after_cancel", (ended - begun) * 1e3, "ms")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--sessions", type=int, default=9000)
    parser.add_argument("--url")
    parser.add_argument("--pid", type=int)
    options = parser.parse_args()
    transport(options.build)
    process = None
    if not options.url:
        from conftest import start_server
        process, options.url = start_server()
        options.pid = process.pid
    try:
        target = options.url.replace("sc://", "")
        idle_sessions(target, options.pid, options.sessions)
        busy_sessions(target, 1000)
        for name in JOINS:
            beside_a_join(target, options.pid, name)
    finally:
        if process:
            process.terminate()
            process.wait(60)


if __name__ == "__main__":
    main()
