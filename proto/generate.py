#!/usr/bin/env python3
"""Writes the Spark Connect descriptors as one protobuf file with our own oneof members, and C code for it.

usage: generate.py OUT_DIR        (needs PyPI pyspark-client, protobuf; protoc and protoc-gen-c)

The definitions come from the descriptors inside pyspark-client. All spark/connect/*.proto files are merged into one file
`spark_connect.proto`, since our members make Expression and Relation refer to each other. Members of ours have numbers
>= 2000; the wire check (src/frontend/spark/wire.c) refuses them from outside. extensions.json is the list.
"""
import json, os, subprocess, sys
from google.protobuf import descriptor_pb2 as d

HERE = os.path.dirname(os.path.abspath(__file__))
TYPES = {n[5:].lower(): v for n, v in d.FieldDescriptorProto.Type.items()}


def load():
    import importlib
    names = ["base", "catalog", "commands", "common", "expressions", "ml", "ml_common", "pipelines", "relations", "types",
             "example_plugins"]
    files = {}

    def visit(fd):
        if fd.name in files:
            return
        for dep in fd.dependencies:
            visit(dep)
        p = d.FileDescriptorProto()
        fd.CopyToProto(p)
        files[fd.name] = p

    for n in names:
        try:
            m = importlib.import_module(f"pyspark.sql.connect.proto.{n}_pb2")
        except ImportError:
            continue
        visit(m.DESCRIPTOR)
    return files


def add_field(msg, name, number, spec, oneof=None):
    f = msg.field.add(name=name, number=number, json_name=name, label=1)
    if spec.startswith("repeated "):
        f.label, spec = 3, spec[9:]
    if spec in TYPES:
        f.type = TYPES[spec]
    elif spec.startswith("enum "):
        f.type, f.type_name = TYPES["enum"], ".spark.connect." + spec[5:]
    else:
        f.type, f.type_name = TYPES["message"], ".spark.connect." + spec
    if oneof is not None:
        f.oneof_index = oneof


def undeprecate(msg):
    """Fields that only older clients send are as good as others to a server."""
    for f in msg.field:
        f.options.ClearField("deprecated")
    for nested in msg.nested_type:
        undeprecate(nested)


# What server reflection tells of: the published names of our own files.
OWN = {"flight.proto": "Flight.proto", "flight_sql.proto": "FlightSql.proto", "ballista.proto": "ballista.proto",
       "health.proto": "grpc/health/v1/health.proto", "reflection.proto": "grpc/reflection/v1/reflection.proto"}


def symbols_of(file):
    """Full names of what a file declares: services, their methods, messages, enumerations."""
    def inside(prefix, message):
        yield f"{prefix}{message.name}"
        for nested in message.nested_type:
            yield from inside(f"{prefix}{message.name}.", nested)
        for enum in message.enum_type:
            yield f"{prefix}{message.name}.{enum.name}"
    prefix = file.package + "." if file.package else ""
    for message in file.message_type:
        yield from inside(prefix, message)
    for enum in file.enum_type:
        yield prefix + enum.name
    for service in file.service:
        yield prefix + service.name
        for method in service.method:
            yield f"{prefix}{service.name}.{method.name}"


def write_descriptors(out, files):
    """descriptors.inc: the files, each with the set of those that it needs, and an index of names."""
    path = os.path.join(out, "own.fds")
    subprocess.check_call(["protoc", f"--proto_path={HERE}", "--include_imports", f"--descriptor_set_out={path}", *OWN])
    own = d.FileDescriptorSet.FromString(open(path, "rb").read())
    os.remove(path)
    everything = dict(files)
    for file in own.file:
        file.name = OWN.get(file.name, file.name)
        everything.setdefault(file.name, file)
    alpha = d.FileDescriptorProto()
    alpha.CopyFrom(everything[OWN["reflection.proto"]])
    rename(alpha, "grpc.reflection.v1", "grpc.reflection.v1alpha")
    alpha.name = "grpc/reflection/v1alpha/reflection.proto"
    everything[alpha.name] = alpha
    names = sorted(everything)
    assert len(names) <= 64, "sets of files are 64 bits"

    def closure(name):
        mask = 1 << names.index(name)
        for dependency in everything[name].dependency:
            mask |= closure(dependency)
        return mask

    lines = ["/* Made by proto/generate.py. */"]
    for i, name in enumerate(names):
        data = everything[name].SerializeToString()
        rows = [",".join(str(b) for b in data[at:at + 40]) for at in range(0, len(data), 40)]
        lines.append(f"static const unsigned char bytes_{i}[] = {{\n" + ",\n".join(rows) + "};")
    lines.append("static const descriptor_file descriptor_files[] = {")
    lines += [f'    {{"{name}", bytes_{i}, sizeof bytes_{i}, {closure(name):#x}ull, '
              f'{"true" if everything[name].service else "false"}}},' for i, name in enumerate(names)]
    lines.append("};\nstatic const descriptor_symbol descriptor_symbols[] = {")
    index = sorted((symbol, i) for i, name in enumerate(names) for symbol in symbols_of(everything[name]))
    lines += [f'    {{"{symbol}", {i}}},' for symbol, i in index]
    lines.append("};")
    with open(os.path.join(out, "descriptors.inc"), "w") as fh:
        fh.write("\n".join(lines) + "\n")


def rename(file, before, after):
    """Another package, also in the references."""
    file.package = after
    for message in file.message_type:
        for f in message.field:
            f.type_name = f.type_name.replace(f".{before}.", f".{after}.")
    for service in file.service:
        for method in service.method:
            method.input_type = method.input_type.replace(f".{before}.", f".{after}.")
            method.output_type = method.output_type.replace(f".{before}.", f".{after}.")


def main(out):
    os.makedirs(out, exist_ok=True)
    files = load()
    write_descriptors(out, files)
    merged = d.FileDescriptorProto(name="spark_connect.proto", package="spark.connect", syntax="proto3")
    deps = set()
    for name, f in files.items():
        if not name.startswith("spark/connect/"):
            continue
        for m in f.message_type:
            undeprecate(m)
        merged.message_type.extend(f.message_type)
        merged.enum_type.extend(f.enum_type)
        merged.service.extend(f.service)
        deps.update(x for x in f.dependency if not x.startswith("spark/connect/"))
    merged.dependency.extend(sorted(deps))
    ext = json.load(open(os.path.join(HERE, "extensions.json")))
    by_name = {m.name: m for m in merged.message_type}
    for enum, values in ext["enums"].items():
        e = merged.enum_type.add(name=enum)
        for i, v in enumerate(values):
            e.value.add(name=v, number=i)
    for msg, fields in ext["messages"].items():
        m = merged.message_type.add(name=msg)
        for i, (n, spec) in enumerate(fields.items(), 1):
            add_field(m, n, i, spec)
    for target, members in ext["members"].items():
        path, _, oneof = target.partition("/")
        m = by_name[path]
        index = [o.name for o in m.oneof_decl].index(oneof) if oneof else None
        for n, (number, spec) in members.items():
            assert number >= 2000
            add_field(m, n, number, spec, index)
    fds = d.FileDescriptorSet()
    fds.file.extend(f for n, f in files.items() if not n.startswith("spark/connect/"))
    fds.file.append(merged)
    path = os.path.join(out, "spark_connect.fds")
    with open(path, "wb") as fh:
        fh.write(fds.SerializeToString())
    # protoc-gen-c 1.4 is exact on proto3 optional but does not announce it; the shim appends supported_features = 1.
    shim = os.path.join(out, "protoc-gen-c3")
    with open(shim, "w") as fh:
        fh.write("#!/bin/sh\nprotoc-gen-c && printf '\\020\\001'\n")
    os.chmod(shim, 0o755)
    roots = [n for n in files if not n.startswith("spark/connect/")] + ["spark_connect.proto"]
    status = os.path.join(HERE, "grpc_status.proto")
    subprocess.check_call(["protoc", f"--plugin=protoc-gen-c3={shim}", f"--descriptor_set_in={path}", f"--c3_out={out}",
                           *[r for r in roots if r != "google/protobuf/descriptor.proto"]])
    ours = [status, os.path.join(HERE, "flight.proto"), os.path.join(HERE, "flight_sql.proto"),
            os.path.join(HERE, "ballista.proto")]
    subprocess.check_call(["protoc", f"--plugin=protoc-gen-c3={shim}", f"--proto_path={HERE}", f"--c3_out={out}", *ours])


if __name__ == "__main__":
    main(sys.argv[1])
