"""The rotating tier: long suites, cut into parts; a seed chooses which run. usage: rotating.py [--all] [--seed N]

The yardstick programs that compare with recorded Spark are not part of the project; where TRUNNION_YARDSTICKS (or ../shared/tools)
does not have them, their parts skip aloud.
"""
import argparse, json, os, pathlib, random, re, shutil, subprocess, sys, tempfile, threading, zipfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
TOOLS = pathlib.Path(os.environ.get("TRUNNION_YARDSTICKS", ROOT.parent / "shared/tools"))
sys.path.insert(0, str(ROOT / "tests/clients"))
sys.path.insert(0, str(ROOT / "tests"))
from conftest import start_server  # noqa: E402
import soak  # noqa: E402

# Each suite: the program, its arguments, where its output says how many passed, and how many must: what was reached.
ERRORS_FLOOR = 30  # of 30
FLOORS = json.loads((ROOT / "tests/floors.json").read_text())


def yardstick(name, url):
    spec = FLOORS[name]
    program = TOOLS / spec["program"]
    if not program.exists():
        print(f"SKIPPED: {name}: {program.name} is not on this machine", flush=True)
        return True
    command = [sys.executable, str(program), *[a.replace("{url}", url) for a in spec["arguments"]]]
    environment = {k: v.replace("{url}", url) for k, v in spec.get("environment", {}).items()}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd="/tmp",
                               env=dict(os.environ, **environment))
    alarm = threading.Timer(280, process.kill)
    alarm.start()
    output, found = "", None
    for line in process.stdout:  # grpcio may hang when a client exits without stopping its session: the count is enough
        output += line
        found = re.search(spec["pattern"], output, re.S)
        if found:
            break
    alarm.cancel()
    process.kill()
    process.wait()
    passed = int(found.group(1)) if found else -1
    print(f"{name}: {passed} passed, floor {spec['floor']}", flush=True)
    if passed < spec["floor"]:
        print(output[-3000:])
    return passed >= spec["floor"]


def probes(text):
    """What errprobe.py printed: for each question the status, the exception's class and the condition, or that it was answered."""
    found = []
    for line in text.splitlines():
        if not line.startswith("   "):
            found.append([line.strip()])
        elif line.startswith("   code"):
            found[-1].append(line.split()[1])
        elif line.startswith("   ErrorInfo"):
            found[-1].append(line.split()[1])
            found[-1] += sorted(re.findall(r"'(?:errorClass|sqlState)': '([^']*)'", line))
        elif line.startswith("   ok"):
            found[-1].append("ok")
    return found


def errors(url):
    """Wrong requests of every kind: the share whose status, exception and condition are those recorded from Spark."""
    program, recorded = TOOLS / "errprobe.py", TOOLS.parent / "data/spark/errprobe_spark420.txt"
    if not program.exists() or not recorded.exists():
        print("SKIPPED: errors: errprobe.py or what Spark answered is not on this machine", flush=True)
        return True
    done = subprocess.run([sys.executable, str(program)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=280,
                          env=dict(os.environ, SPARK_REMOTE=url))
    wanted, got = probes(recorded.read_text()), {found[0]: found for found in probes(done.stdout)}
    # a condition whose parameters are too long for the trailers: Spark leaves its name out, too
    equal = [probe for probe in wanted if probe == got.get(probe[0]) or probe == (got.get(probe[0]) or [])[:-1]]
    print(f"errors: {len(equal)} of {len(wanted)} as Spark's, floor {ERRORS_FLOOR}", flush=True)
    for probe in wanted:
        if probe not in equal:
            print(f"  {probe} but {got.get(probe[0])}")
    return len(equal) >= ERRORS_FLOOR


GOLDEN_JAR = pathlib.Path.home() / ".m2/repository/org/apache/spark/spark-sql_2.13/4.2.0/spark-sql_2.13-4.2.0-tests.jar"
CACHE = pathlib.Path(os.environ.get("TRUNNION_CACHE", pathlib.Path.home() / ".cache/trunnion"))
FAILURES = ROOT / "tests/data/spark/golden_failures.json"
INTEROP = ["netty", "tonic"]
HOSTS = ["grpc_core", "grpcpp", "python", "python_aio", "go", "tonic"]
# Client generations: the packages of one environment each.
GENERATIONS = {
    "3.5": ["pyspark[connect]==3.5.7", "pandas<2.3", "numpy<2", "pyarrow<17", "setuptools"],
    "4.0": ["pyspark-client==4.0.1", "pandas<3", "pyarrow", "grpcio-status"],
    "4.1": ["pyspark-client==4.1.1", "pandas<3", "pyarrow", "grpcio-status"],
}


def reason(failure):
    """What a failing golden query lacks, without what varies: how the lists are grouped."""
    text = re.sub(r"\s+", " ", failure["got"] or "")
    if failure["status"] in ("wrong_output", "wrong_schema", "missing_error", "timeout"):
        return f"{failure['status']} {failure['kind'] or ''}".strip()
    missing = re.search(r"(The function '\w+'|[A-Z][A-Za-z ]+? is not supported|a correlated subquery with [a-z ]+|The type \w+)", text)
    condition = re.search(r"\[([A-Z][A-Z0-9_.]+)\]", text)
    if "UnsupportedOperationException" in text and missing:
        return missing.group(1)
    return f"{failure['status']} {condition.group(1) if condition else text[:60]}"


def golden(url, record=False):
    """Spark's golden SQL files: what fails must be in tests/data/spark/golden_failures.json, which may only shrink."""
    program = TOOLS / "run_golden.py"
    if not program.exists() or not GOLDEN_JAR.exists():
        print("SKIPPED: golden: run_golden.py or Spark's test jar is not on this machine", flush=True)
        return True
    place = CACHE / "golden-4.2.0"
    if not (place / "sql-tests").exists():
        with zipfile.ZipFile(GOLDEN_JAR) as jar:
            jar.extractall(place, [n for n in jar.namelist() if n.startswith(("sql-tests/", "test-data/"))])
    with tempfile.TemporaryDirectory() as scratch:
        out = pathlib.Path(scratch) / "golden.json"
        subprocess.run([sys.executable, str(program), "--remote", url, "--golden", str(place), "--timeout", "10",
                        "--out", str(out)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=1500, check=True)
        result = json.loads(out.read_text())
    failing = {}
    for failure in result["failures"]:
        failing.setdefault(reason(failure), {}).setdefault(failure["file"], []).append(failure["index"])
    passed, total = result["total"]["pass"], result["in_scope"]
    if record:
        listed = dict(sorted(failing.items(), key=lambda item: -sum(map(len, item[1].values()))))
        FAILURES.write_text(json.dumps(listed, separators=(",", ":")).replace("},", "},\n") + "\n")
        print(f"golden: {passed} of {total} passed; recorded", flush=True)
        return True
    known = {(name, index) for files in json.loads(FAILURES.read_text()).values() for name, list_ in files.items() for index in list_}
    now = {(name, index): why for why, files in failing.items() for name, list_ in files.items() for index in list_}
    fresh = {place_: why for place_, why in now.items() if place_ not in known and not why.startswith(("timeout", "wrong_output order"))}
    print(f"golden: {passed} of {total} passed; {len(fresh)} fail that passed, {len(known - set(now))} pass that failed", flush=True)
    for (name, index), why in sorted(fresh.items())[:40]:
        print(f"  {name}:{index} {why}")
    # a handful depend on the order in which partitions arrive
    return len(fresh) <= 10


def generation(name, url):
    """Another PySpark's client, in an environment of its own."""
    place = CACHE / "clients" / f"generation-{name}"
    if not (place / "ready").exists():
        made = subprocess.run([sys.executable, "-m", "venv", str(place)], stdout=subprocess.DEVNULL).returncode == 0 and subprocess.run(
            [str(place / "bin/pip"), "install", "-q", "--disable-pip-version-check", *GENERATIONS[name]],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=900).returncode == 0
        if not made:
            print(f"SKIPPED: generation {name}: its packages cannot be installed here", flush=True)
            return True
        (place / "ready").touch()
    done = subprocess.run([str(place / "bin/python"), str(ROOT / "tests/clients/generations.py"), url], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, timeout=280)
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "pyspark "))]
    print("\n".join(lines) or f"generation {name}: no answer", flush=True)
    return done.returncode == 0 and bool(lines)


def host(name):
    """One of other people's servers, with our frontends mounted."""
    return subprocess.run([sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "-p", "leave_at_once",
                           str(ROOT / "tests/clients/test_hosts.py"), "-k", f"[{name}" + (" and not [python_aio" if name == "python" else "")], cwd=ROOT,
                          env=dict(os.environ, PYTHONPATH=str(ROOT / "tests/support"))).returncode == 0


def interop(name):
    """Another implementation's client against the bundled server."""
    return subprocess.run([sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "-p", "leave_at_once",
                           str(ROOT / "tests/interop/test_clients.py"), "-k", f"[{name}]"], cwd=ROOT,
                          env=dict(os.environ, PYTHONPATH=str(ROOT / "tests/support"))).returncode == 0


def producers():
    """Plans that other projects make, through the Ballista frontend."""
    return subprocess.run([sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "-p", "leave_at_once",
                           str(ROOT / "tests/cluster/test_producers.py")], cwd=ROOT,
                          env=dict(os.environ, PYTHONPATH=str(ROOT / "tests/support"), TRUNNION_PRODUCERS="1")).returncode == 0


# What runs under the thread sanitizer: 16 threads of everything over inproc and the scripted backend, and what has threads of its own.
THREADED = ["test_api_storm", "test_spark_storm", "test_cancel", "test_cancel_slots", "test_inproc", "test_query_api", "test_scripted_backend", "test_flight", "test_ballista",
            "test_spark_service", "test_layer_cache", "test_layer_limit", "test_layer_trace", "test_client_storm", "test_h2_server",
            "test_ballista_kept", "test_scheduler", "test_scheduler_ballista", "test_scheduler_stores"]


def threads():
    build = ROOT / "build/tsan"
    quiet = dict(stdout=subprocess.DEVNULL, cwd=ROOT)
    if not (build / "build.ninja").exists():
        subprocess.run(["cmake", "--preset", "tsan", f"-DTRUNNION_PYTHON={sys.executable}"], check=True, **quiet)
    subprocess.run(["ninja", "-C", str(build), "-j", str(os.cpu_count()), "--quiet", *THREADED], check=True, cwd=ROOT)
    return subprocess.run(["ctest", "--test-dir", str(build), "-R", "^(" + "|".join(THREADED) + ")$", "--output-on-failure", "--no-tests=error"],
                          cwd=ROOT, env=dict(os.environ, TSAN_OPTIONS="halt_on_error=1 second_deadlock_stack=1")).returncode == 0


def sanitized(*targets):
    """The build under the address and the undefined behaviour sanitizer, with the release build's engine."""
    build = ROOT / "build/asan"
    if not (build / "build.ninja").exists():
        subprocess.run(["cmake", "--preset", "asan", f"-DTRUNNION_PYTHON={sys.executable}", f"-DTRUNNION_ENGINE_DIR={ROOT}/build/release"],
                       check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    subprocess.run(["ninja", "-C", str(build), "-j", str(os.cpu_count()), "--quiet", *targets], check=True)
    return build


def leftovers():
    """SIGTERM under load, under the address sanitizer."""
    build = sanitized("trunnion_program", "trunnion_functions")
    return subprocess.run([sys.executable, str(ROOT / "tests/leaks.py"), str(build), "--engine", str(ROOT / "build/release/libtrunnion_engine.so")],
                          env=os.environ).returncode == 0


# Leaks are looked for in the part of that name: what the engine keeps for the process's life would be all that is reported here.
ASAN = dict(ASAN_OPTIONS="detect_leaks=0:detect_odr_violation=0", UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1")
# The client tier in pieces that fit the budget under sanitizers.
SANITIZED_CLIENTS = ["tests/flightsql", "tests/program",
                     *(str(path.relative_to(ROOT)) for path in sorted(ROOT.glob("tests/clients/test_*.py")) if path.name != "test_hosts.py")]


def engine_under_sanitizers():
    build = sanitized("all")
    return subprocess.run(["ctest", "--test-dir", str(build), "-L", "engine", "--output-on-failure", "--no-tests=error", "-j", str(os.cpu_count())],
                          cwd=ROOT, env=dict(os.environ, **ASAN)).returncode == 0


def clients_under_sanitizers(what):
    build = sanitized("all")
    environment = dict(os.environ, **ASAN, PYTHONPATH=str(ROOT / "tests/support"), TRUNNION_PROGRAM=str(build / "trunnion"),
                       TRUNNION_BUILD=str(build), TRUNNION_ENGINE=str(ROOT / "build/release/libtrunnion_engine.so"))
    return subprocess.run([sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "-p", "leave_at_once", str(ROOT / what)],
                          cwd=ROOT, env=environment).returncode == 0


# The core tests under valgrind, in pieces. Left out: what measures memory, what makes system calls fail, what forks to be killed, and what
# compares times; they run under sanitizers.
VALGRIND_PIECES = 6
NOT_UNDER_VALGRIND = re.compile(r"_(memory|abuse|hostile|time|kills|storm|stores|faults)$|^test_spark_fuzz$|^fuzz_")


def under_valgrind(piece):
    if not shutil.which("valgrind"):
        print("SKIPPED: valgrind is not on this machine", flush=True)
        return True
    build = ROOT / "build/release"
    listed = json.loads(subprocess.run(["ctest", "--test-dir", str(build), "-L", "core", "--show-only=json-v1"], stdout=subprocess.PIPE,
                                       check=True).stdout)["tests"]
    programs = sorted([str(build / test["name"]), *test["command"][1:]] for test in listed
                      if (build / test["name"]).exists() and not NOT_UNDER_VALGRIND.search(test["name"]))[piece::VALGRIND_PIECES]
    options = ["-q", "--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=definite", "--main-stacksize=67108864"]
    bad = []
    for command in programs:
        done = subprocess.run(["valgrind", *options, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=build)
        if done.returncode:
            bad.append(pathlib.Path(command[0]).name)
            print(done.stdout[-6000:], flush=True)
    print(f"valgrind: {len(programs) - len(bad)} of {len(programs)} programs are clean", *bad, flush=True)
    return not bad and bool(programs)


def run(name, url):
    if name.startswith("valgrind-"):
        return under_valgrind(int(name.removeprefix("valgrind-")))
    if name == "asan-engine":
        return engine_under_sanitizers()
    if name.startswith("asan-"):
        return clients_under_sanitizers(name.removeprefix("asan-"))
    if name == "tsan":
        return threads()
    if name == "leaks":
        return leftovers()
    if name == "producers":
        return producers()
    if name.startswith("interop-"):
        return interop(name.removeprefix("interop-"))
    if name.startswith("host-"):
        return host(name.removeprefix("host-"))
    if name == "golden":
        return golden(url)
    if name == "errors":
        return errors(url)
    if name.startswith("generation-"):
        return generation(name.removeprefix("generation-"), url)
    return yardstick(name, url)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="these parts, with commas between")
    parser.add_argument("--record-golden", action="store_true", help="write the lists of golden queries that fail")
    options = parser.parse_args()
    names = sorted([*FLOORS, "errors", "golden", "leaks", "soak", "tsan", "producers", *(f"generation-{name}" for name in GENERATIONS),
                    *(f"host-{name}" for name in HOSTS),
                    *(f"interop-{name}" for name in INTEROP), "asan-engine", *(f"asan-{name}" for name in SANITIZED_CLIENTS),
                    *(f"valgrind-{piece}" for piece in range(VALGRIND_PIECES))])
    chosen = names if options.all else [random.Random(options.seed).choice(names)]
    if options.only:
        chosen = options.only.split(",")
    scratch = tempfile.TemporaryDirectory()
    os.chdir(scratch.name)  # the warehouse is made where the server runs: a fresh one
    process, url = start_server()
    try:
        results = [golden(url, record=True)] if options.record_golden else [
            soak.soak(url.replace("sc://", ""), process.pid, 60, 4) if name == "soak" else run(name, url) for name in chosen]
    finally:
        process.terminate()
        process.wait(30)
        os.chdir(ROOT)
        scratch.cleanup()
    sys.exit(not all(results))


if __name__ == "__main__":
    main()
