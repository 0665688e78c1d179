"""The rotating tier: long suites, cut into parts; a seed chooses which run. usage: rotating.py [--all] [--seed N]

The yardstick programs that compare with recorded Spark are not part of the project; where TRUNNION_YARDSTICKS (or ../shared/tools)
does not have them, their parts skip aloud.
"""
import argparse, json, os, pathlib, random, re, subprocess, sys

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
    done = subprocess.run(command, capture_output=True, text=True, timeout=spec.get("timeout", 280), cwd="/tmp")
    found = re.findall(spec["pattern"], done.stdout)
    passed = int(found[0]) if found else -1
    print(f"{name}: {passed} passed, floor {spec['floor']}", flush=True)
    if passed < spec["floor"]:
        print(done.stdout[-3000:], done.stderr[-2000:])
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
