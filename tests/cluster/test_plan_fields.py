"""The fields along which src/plan/ballista_plan.c walks a plan, against the published definition: all that lead to a plan, no others."""
import pathlib, re
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
VERSION = "55.2.0"
# MERGE and CREATE EXTERNAL TABLE are never sent to a scheduler.
LEFT_OUT = {("DmlNode", 6), ("CreateExternalTableNode", 10), ("CreateExternalTableNode", 13), ("LogicalPlanNode", 11)}


def definition():
    found = sorted(pathlib.Path.home().glob(f".cargo/registry/src/*/datafusion-proto-models-{VERSION}/proto/datafusion.proto"))
    if not found:
        pytest.skip(f"the sources of the crate datafusion-proto-models {VERSION} are not on this machine")
    text = re.sub(r"//.*", "", found[0].read_text())
    messages, stack = {}, []
    for line in text.splitlines():
        opened = re.match(r"\s*(message|oneof|enum)\s+(\w+)\s*\{", line)
        if opened:
            stack.append((opened.group(1), opened.group(2)))
            if opened.group(1) == "message":
                messages.setdefault(opened.group(2), {})
        owner = next((name for kind, name in reversed(stack) if kind == "message"), None)
        field = re.match(r"\s*(?:repeated |optional )?(map<\w+, *\w+>|[\w.]+)\s+\w+\s*=\s*(\d+)\s*;", line)
        if field and owner and stack[-1][0] != "enum":
            messages[owner][int(field.group(2))] = re.sub(r"map<\w+, *(\w+)>", r"\1", field.group(1))
        for _ in range(line.count("}")):
            if stack:
                stack.pop()
    return messages


def walked():
    source = (ROOT / "src/plan/ballista_plan.c").read_text()
    table = source[source.index("static const step steps[]"):]
    steps = {}
    for kind, field, to in re.findall(r"\{(\w+), (\d+), (\w+)\}", table[: table.index("};")]):
        steps.setdefault(kind, {})[int(field)] = to
    return steps


def test_every_field_that_leads_to_a_plan_is_walked():
    messages, steps = definition(), walked()
    assert len(messages) > 100 and len(steps["PLAN"]) > 20
    leads = {"LogicalPlanNode", "LogicalExprNode"}  # an expression may hold a subquery
    while True:
        more = {name for name, fields in messages.items() if leads & set(fields.values())}
        if more <= leads:
            break
        leads |= more
    seen, todo = set(), [("PLAN", "LogicalPlanNode")]
    while todo:
        kind, message = todo.pop()
        if (kind, message) in seen:
            continue
        seen.add((kind, message))
        wanted = {number for number, type_ in messages[message].items() if type_ in leads and (message, number) not in LEFT_OUT}
        assert wanted == set(steps.get(kind, {})), (message, kind)
        todo += [(steps[kind][number], messages[message][number]) for number in wanted]
    assert {message for _, message in seen} >= {"SubqueryNode", "CopyToNode", "UnnestNode", "WhenThen", "SortExprNode"}
