"""The rotating tier: long suites, cut into parts; a seed chooses which run. usage: rotating.py [--all] [--seed N]

The yardstick programs that compare with recorded Spark are not part of the project; where TRUNNION_YARDSTICKS (or ../shared/tools)
does not have them, their parts skip aloud.
"""
import argparse, json, os, pathlib, random, re, subprocess, sys, threading

ROOT = pathlib.Path(__file__).resolve().parents[1]
TOOLS = pathlib.Path(os.environ.get("TRUNNION_YARDSTICKS", ROOT.parent / "shared/tools"))
sys.path.insert(0, str(ROOT / "tests/clients"))
from conftest import start_server  # noqa: E402

# Each suite: the program, its arguments, where its output says how many passed, and how many must: what was reached.
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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    names = sorted(FLOORS)
    chosen = names if options.all else [random.Random(options.seed).choice(names)]
    process, url = start_server()
    try:
        results = [yardstick(name, url) for name in chosen]
    finally:
        process.terminate()
        process.wait(30)
    sys.exit(not all(results))


if __name__ == "__main__":
    main()
