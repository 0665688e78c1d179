"""A server under the address sanitizer ends (SIGTERM) in the middle of a load: what it leaves behind is reported by the leak sanitizer.
usage: leaks.py BUILD [--seconds 5]   BUILD: a folder with `trunnion`, built with -DTRUNNION_SANITIZE=address,..."""
import argparse, os, pathlib, re, subprocess, sys, threading, time

ROOT = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))
import soak  # noqa: E402


def leaks(build, engine, seconds, threads=4):
    environment = dict(os.environ, ASAN_OPTIONS="detect_leaks=1:exitcode=23:detect_odr_violation=0")
    server = subprocess.Popen([str(build / "trunnion"), "serve", "--listen", "127.0.0.1:0", "--engine", str(engine),
                               "--functions", str(build / "libtrunnion_functions.so"), "--set", "grace=200ms"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    target = re.search(r"sc://(\S+)", server.stdout.readline()).group(1)
    loads = soak.kinds()
    clients = [loads[seed % len(loads)](target, seed, time.monotonic() + 10 * seconds) for seed in range(threads)]
    # The server goes away while they ask: their problems are no news.
    running = [threading.Thread(target=lambda c=c: quietly(c.run), daemon=True) for c in clients]
    for thread in running:
        thread.start()
    time.sleep(seconds)
    server.terminate()
    said = server.communicate(timeout=120)[1]
    counts = sum((client.counts for client in clients), soak.collections.Counter())
    ok = server.returncode == 0 and "Sanitizer" not in said and all(counts[f"{load.protocol} small"] for load in loads)
    print(said[-4000:] if not ok else "", end="")
    print(f"leaks: {sum(counts.values())} requests, exit status {server.returncode}: {'none' if ok else 'FAILED'}", flush=True)
    return ok


def quietly(run):
    try:
        run()
    except Exception:  # noqa: BLE001
        pass


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--engine", type=pathlib.Path, default=os.environ.get("TRUNNION_ENGINE"))
    parser.add_argument("--seconds", type=float, default=5)
    options = parser.parse_args()
    result = leaks(options.build, options.engine or options.build.parent / "release/libtrunnion_engine.so", options.seconds)
    sys.stdout.flush()
    os._exit(not result)
