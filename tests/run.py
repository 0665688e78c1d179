"""make test: the tiers, each with its time against a budget. usage: run.py [--all] [--tier NAME]... [--seed N]

core        no engine: unit tests, header and layout checks                     3 minutes
sanitizers  the core tests under ASan and UBSan                              4 minutes
engine      builds the engine, tests against it                                 4 minutes (cold: 45)
clients     a server and unmodified clients                                     4 minutes
cluster     Ballista clusters: as backend, their clients, their scheduler       4 minutes
rotating    long suites; one part in ROTATION of them, by the printed seed; --all runs everything; a cold machine drops it
"""
import argparse, os, pathlib, random, shutil, subprocess, sys, time

ROOT = pathlib.Path(__file__).resolve().parents[1]
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "trunnion"
JOBS = str(os.cpu_count())


def run(*command, **options):
    print("+", " ".join(str(c) for c in command), flush=True)
    subprocess.check_call([str(c) for c in command], cwd=options.pop("cwd", ROOT), **options)


def configure(preset):
    if not (ROOT / "build" / preset / "build.ninja").exists():
        run("cmake", "--preset", preset, f"-DTRUNNION_PYTHON={sys.executable}",
            f"-DTRUNNION_ENGINE_DIR={ROOT}/build/release", stdout=subprocess.DEVNULL)


def ctest(preset, label, *more, **environment):
    run("ctest", "--test-dir", f"build/{preset}", "-L", label, "--output-on-failure", "-j", JOBS, "--no-tests=error", *more,
        env=dict(os.environ, **environment))


def core():
    configure("release")
    run("ninja", "-C", "build/release", "-j", JOBS, "--quiet")
    ctest("release", "core")
    run(sys.executable, "tests/check_tree.py", "build/release")


def sanitizers():
    configure("asan")
    run("ninja", "-C", "build/asan", "-j", JOBS, "--quiet")
    ctest("asan", "core", ASAN_OPTIONS="detect_leaks=1", UBSAN_OPTIONS="print_stacktrace=1")


def engine():
    run("make", "--no-print-directory", "engine")
    ctest("release", "engine")


def pytest(*arguments):
    run(sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "-p", "leave_at_once", *arguments,
        env=dict(os.environ, PYTHONPATH=str(ROOT / "tests/support")))


def clients():
    pytest("tests/clients", "--ignore", "tests/clients/test_hosts.py")
    pytest("tests/flightsql")
    pytest("tests/program")
    pytest("tests/interop/test_grpcio.py")
    script = ROOT / "tests/interop/interop.sh"
    if not shutil.which("go"):
        print("SKIPPED: the Go interop client (no go on this machine)", flush=True)
    elif script.exists():
        run("bash", script, "build/release")


def cluster():
    pytest("tests/cluster")


def rotating(parts):
    run(sys.executable, "tests/rotating.py", *parts)


TIERS = [("core", core, 180), ("sanitizers", sanitizers, 240), ("engine", engine, 240), ("clients", clients, 300),
         ("cluster", cluster, 240)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--tier", action="append")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    options = parser.parse_args()
    cold = not (CACHE / "engine-target/engine/libtrunnion_engine.so").exists()
    tiers = list(TIERS)
    if (ROOT / "tests/rotating.py").exists():
        if cold and not options.all:
            print("DROPPED: the rotating tier (the engine is not compiled yet on this machine)", flush=True)
        else:
            parts = ["--all"] if options.all else ["--seed", str(options.seed)]
            tiers.append(("rotating", lambda: rotating(parts), 300))
    report, failed = [], None
    for name, tier, budget in tiers:
        if options.tier and name not in options.tier:
            continue
        budget = 2700 if name == "engine" and cold else budget
        print(f"\n== {name} (budget {budget} s)", flush=True)
        start = time.monotonic()
        try:
            tier()
        except subprocess.CalledProcessError as error:
            failed = f"{name}: {' '.join(error.cmd)[:200]} exited {error.returncode}"
        report.append(f"{name:<12}{time.monotonic() - start:7.0f} s of {budget} s")
        if failed:
            break
    print(f"\nseed {options.seed}\n" + "\n".join(report), flush=True)
    if failed:
        print("FAILED", failed, flush=True)
    print(f"{len(report) - bool(failed)} passed, {int(bool(failed))} failed", flush=True)
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
