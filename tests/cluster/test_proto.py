"""proto/ballista.proto against the generated code of the published crate: every message, field, number, type and method."""
import pathlib, re, shutil, subprocess
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
VERSION = "55.0.0"

OURS = {"EncodedQuery", "Unserved"}                            # messages that Ballista does not have
OURS_FIELDS = {("ExecuteQueryParams", "encoded_query"): 8}     # and fields
OLDER_FIELDS = {("FetchPartition", "is_sort_shuffle"): 8}      # of 54.x
TYPES = {3: "int64", 4: "uint64", 8: "bool", 9: "string", 11: "message", 12: "bytes", 13: "uint32", 14: "enumeration"}


def snake(name):
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def crate():
    found = sorted(pathlib.Path.home().glob(f".cargo/registry/src/*/ballista-core-{VERSION}/src/serde/generated/ballista.rs"))
    if not found:
        pytest.skip(f"the sources of the crate ballista-core {VERSION} are not on this machine")
    return found[0].read_text()


def published(text):
    """{message: {field: (number, type, is repeated)}} of prost's code."""
    messages, enums = {}, {}
    text = re.sub(r"///.*", "", text)
    text = re.sub(r"#\[prost\(\s+", "#[prost(", text)
    field = r'#\[prost\(([^\]]*?)\)\]\s*'
    for name in re.findall(r"^pub struct (\w+) \{\}", text, re.M):
        messages[name] = {}
    for name, body in re.findall(r"^pub struct (\w+) \{\n(.*?)^\}", text, re.M | re.S):
        fields = messages.setdefault(name, {})
        for spec, what in re.findall(field + r"pub (\w+):", body):
            if spec.startswith("oneof"):
                continue
            number = int(re.search(r'tag = "(\d+)"', spec).group(1))
            fields[what] = (number, re.match(r"\w+", spec).group(0), "repeated" in spec)
    for module, body in re.findall(r"^pub mod (\w+) \{\n(.*?)^\}", text, re.M | re.S):
        owner = next((m for m in messages if snake(m) == module), None)
        for spec, variant in re.findall(field + r"(\w+)\(", body) if owner else ():
            number = int(re.search(r'tag = "(\d+)"', spec).group(1))
            messages[owner][snake(variant)] = (number, re.match(r"\w+", spec).group(0), False)
    for name, body in re.findall(r"^pub enum (\w+) \{\n(.*?)^\}", text, re.M | re.S):
        enums[name] = {snake(v): int(n) for v, n in re.findall(r"(\w+) = (\d+),", body)}
    methods = set(re.findall(r'"/ballista.protobuf.SchedulerGrpc/(\w+)"', text))
    return messages, enums, methods


def ours(tmp_path):
    descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")
    if not shutil.which("protoc"):
        pytest.skip("no protoc on this machine")
    out = tmp_path / "set"
    subprocess.check_call(["protoc", f"-I{ROOT}/proto", f"--descriptor_set_out={out}", str(ROOT / "proto/ballista.proto")])
    return descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file[0]


def test_our_definitions_are_the_crate_s(tmp_path):
    messages, enums, methods = published(crate())
    assert len(messages) > 120 and len(methods) == 13
    file = ours(tmp_path)
    compared = 0
    for message in file.message_type:
        if message.name in OURS:
            assert message.name not in messages
            continue
        theirs = messages[message.name]
        for field in message.field:
            key = (message.name, field.name)
            if key in OURS_FIELDS or key in OLDER_FIELDS:
                assert field.number == (OURS_FIELDS | OLDER_FIELDS)[key]
                assert field.number not in {number for number, _, _ in theirs.values()}, key
                continue
            assert (field.number, TYPES[field.type], field.label == 3) == theirs[field.name], key
            compared += 1
    for enum in file.enum_type:
        mine = {value.name.lower().removeprefix(snake(enum.name) + "_"): value.number for value in enum.value}
        assert mine == enums[enum.name]
    assert {method.name for method in file.service[0].method} == methods
    assert [method.name for method in file.service[0].method if method.server_streaming] == ["ExecuteQueryPush"]
    assert compared > 90


def test_messages_that_travel_both_ways_are_complete(tmp_path):
    """What is left out is left out on purpose: nothing else is missing from the messages that we have."""
    messages, _, _ = published(crate())
    missing = {f"{m.name}.{name}" for m in ours(tmp_path).message_type if m.name not in OURS
               for name in set(messages[m.name]) - {f.name for f in m.field}}
    assert missing == {"PartitionStats.column_stats", "ExecutorMetadata.specification", "ExecutorMetadata.os_info"}


def test_the_client_reads_and_writes_these_numbers(tmp_path):
    """src/backend/ballista has protobuf by hand, and says above each message what its fields are."""
    fields = {m.name: {f.name: f.number for f in m.field} for m in ours(tmp_path).message_type}
    said = 0
    for path in sorted((ROOT / "src/backend/ballista").glob("*.c")):
        text = re.sub(r"\s+(\* )?", " ", path.read_text())
        for name, body in re.findall(r"\b([A-Z]\w+) \{ (.*?) \} ?(?:\*/|\}|,|:|;)", text):
            for field, number in re.findall(r"(\w+) = (\d+)", re.sub(r"\{[^{}]*\}", "", body.replace("oneof {", ""))) if name in fields else ():
                if field in fields[name]:
                    assert fields[name][field] == int(number), (path.name, name, field)
                    said += 1
    assert said > 25
