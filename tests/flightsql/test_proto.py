"""Our .proto files against the published ones: every message, field, number, type, label and method."""
import pathlib, shutil, subprocess, zipfile
import pytest
from conftest import ROOT, maven_jar

descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")

# Newer than the published jar, unknown to old clients.
NEWER = {".arrow.flight.protocol.sql.ActionCreatePreparedStatementResult.is_update"}


def definitions(tmp_path, include, *files):
    out = tmp_path / "set"
    subprocess.check_call(["protoc", *[f"-I{i}" for i in include], "--include_imports", f"--descriptor_set_out={out}", *map(str, files)],
                          stderr=subprocess.DEVNULL)
    found = {}

    def visit(prefix, message):
        name = f"{prefix}.{message.name}"
        found[name] = "message"
        for field in message.field:
            found[f"{name}.{field.name}"] = (field.number, field.type, field.label, field.type_name, field.proto3_optional)
        for nested in message.nested_type:
            visit(name, nested)
        for enum in message.enum_type:
            for value in enum.value:
                found[f"{name}.{enum.name}.{value.name}"] = value.number

    for file in descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file:
        if not file.package.startswith("arrow."):
            continue
        for message in file.message_type:
            visit("." + file.package, message)
        for service in file.service:
            for method in service.method:
                found["rpc " + method.name] = (method.input_type, method.output_type, method.client_streaming, method.server_streaming)
    return found


def test_our_definitions_are_the_published_ones(tmp_path):
    if not shutil.which("protoc"):
        pytest.skip("no protoc on this machine")
    jar = maven_jar("org.apache.arrow", "flight-core", "18.3.0")
    with zipfile.ZipFile(jar) as archive:
        archive.extract("Flight.proto", tmp_path)
        archive.extract("FlightSql.proto", tmp_path)
    theirs = definitions(tmp_path, [tmp_path, "/usr/include"], tmp_path / "Flight.proto", tmp_path / "FlightSql.proto")
    ours = definitions(tmp_path, [ROOT / "proto"], ROOT / "proto/flight.proto", ROOT / "proto/flight_sql.proto")
    different = {key: (ours.get(key), theirs.get(key)) for key in set(ours) | set(theirs) if ours.get(key) != theirs.get(key)}
    assert set(different) <= NEWER, different
    assert len(theirs) > 150
