"""Compares h2spec's failures with the list of explained ones: a new failure is an error, and so is one in the list that does not fail
any more, unless it is marked "sometimes". Some cases race with the answer to their own request, which may end the stream before the
frame in question is read: a failure is new only when every run has it. usage: h2spec_check.py LIST OUTPUT..."""
import re, sys

explained = {}
for line in open(sys.argv[1], encoding="utf-8"):
    words = line.split("#")[0].split()
    if words:
        explained[words[0]] = "sometimes" in words
SUITES = {"Generic": "generic", "Hypertext": "http2", "HPACK": "hpack"}


def failures(output):
    summary = re.search(r"(\d+) tests, (\d+) passed, (\d+) skipped, (\d+) failed", output)
    if not summary:
        sys.exit("h2spec did not come to its end:\n" + output[-2000:])
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
    return failed, summary.group(0)


outputs = [open(name, encoding="utf-8").read() for name in sys.argv[2:]]
runs = [failures(output) for output in outputs]
always, ever = set.intersection(*(run[0] for run in runs)), set.union(*(run[0] for run in runs))
print("h2spec:", "; ".join(run[1] for run in runs), "- each explained" if always <= set(explained) else "")
new = sorted(always - set(explained))
gone = sorted(name for name, sometimes in explained.items() if name not in ever and not sometimes)
for name in new:
    print("FAILED  h2spec", name)
for name in gone:
    print("FAILED  h2spec", name, "passes now: take it from the list")
if new:
    print(outputs[-1][outputs[-1].rfind("Failures:"):][:6000])
sys.exit(bool(new or gone))
