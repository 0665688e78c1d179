"""Compares h2spec's failures with the list of explained ones: a new failure is an error, and so is one in the list that does not fail
any more, unless it is marked "sometimes". usage: h2spec_check.py OUTPUT LIST"""
import re, sys

output = open(sys.argv[1], encoding="utf-8").read()
explained = {}
for line in open(sys.argv[2], encoding="utf-8"):
    words = line.split("#")[0].split()
    if words:
        explained[words[0]] = "sometimes" in words
summary = re.search(r"(\d+) tests, (\d+) passed, (\d+) skipped, (\d+) failed", output)
if not summary:
    sys.exit("h2spec did not come to its end:\n" + output[-2000:])

SUITES = {"Generic": "generic", "Hypertext": "http2", "HPACK": "hpack"}
failed, suite, section = set(), "", ""
for line in output[output.rfind("Failures:"):].splitlines() if "Failures:" in output else []:
    heading = re.match(r"\s+(\d+(?:\.\d+)*)\.? \S", line)
    case = re.match(r"\s+\u00d7 (\d+): ", line)
    word = line.split(" ")[0].rstrip(":")
    if word in SUITES:
        suite = SUITES[word]
    elif case:
        failed.add(f"{suite}/{section}/{case.group(1)}")
    elif heading:
        section = heading.group(1)
if len(failed) != int(summary.group(4)):
    sys.exit(f"the output names {len(failed)} failures, its summary {summary.group(4)}:\n{output[-2000:]}")
print("h2spec:", summary.group(0), "- each explained" if failed <= set(explained) else "")
new = sorted(failed - set(explained))
gone = sorted(name for name, sometimes in explained.items() if name not in failed and not sometimes)
for name in new:
    print("FAILED  h2spec", name)
for name in gone:
    print("FAILED  h2spec", name, "passes now: take it from the list")
if new:
    print(output[output.rfind("Failures:"):][:6000])
sys.exit(bool(new or gone))
