"""Reads what write_ipc wrote with pyarrow and compares every value. usage: check_ipc.py <program write_ipc>"""
import decimal
import io
import subprocess
import sys

import pyarrow as pa


def leaf(kind, i, nullable=True):
    if kind == "null" or (nullable and i % 5 == 4):
        return None
    signed = -i if i % 2 else i
    if kind == "bool":
        return i % 3 == 0
    if kind in ("float32", "float64"):
        return i / 4
    if kind == "string":
        return f"v{i}"
    if kind == "binary":
        return f"v{i}".encode()
    if kind == "calendar":
        return pa.MonthDayNano([i, -i, i * 1000])
    if kind == "array":
        return [leaf("int32", i + k) for k in range(i % 4)]
    if kind == "map":
        return [(f"v{i + k}", leaf("float64", i + k)) for k in range(i % 3)]
    if kind == "struct":
        return {"x": leaf("int32", i, False), "y": None if i % 5 == 4 else [leaf("string", i + k) for k in range(i % 4)]}
    if kind == "time":
        return i
    if kind == "decimal":
        return decimal.Decimal(signed).scaleb(-10)
    return signed


def value(column, kind, row):
    if kind in ("date", "timestamp", "timestamp_ntz", "time", "day_time"):
        return getattr(column[row], "value", None)
    return column[row].as_py()


def main():
    data = subprocess.run([sys.argv[1]], check=True, stdout=subprocess.PIPE).stdout
    reader = pa.ipc.open_stream(io.BytesIO(data))
    schema = reader.schema
    assert schema.field("timestamp").type == pa.timestamp("us", "Europe/Berlin"), schema
    assert schema.field("timestamp_ntz").type == pa.timestamp("us"), schema
    assert schema.field("decimal").type == pa.decimal128(38, 10)
    assert schema.field("time").type == pa.time64("ns") and schema.field("day_time").type == pa.duration("us")
    assert schema.field("date").type == pa.date32() and schema.field("calendar").type == pa.month_day_nano_interval()
    assert schema.field("map").type.key_type == pa.string() and schema.field("map").type.item_type == pa.float64()
    assert schema.field("array").type.value_field.name == "element"
    assert not schema.field("struct").type.field("x").nullable and schema.field("struct").nullable
    assert schema.field("struct").metadata == {b"trn:metadata": b'{"comment":"nested"}'}, schema.field("struct").metadata
    expected = [(0, 0), (0, 100), (0, 7), (3, 21), (8, 1), (99, 1), (50, 0), (13, 64), (11, 30)]
    seen = 0
    for batch, (offset, rows) in zip(reader, expected):
        batch.validate(full=True)
        assert batch.num_rows == rows, (batch.num_rows, rows)
        for field in schema:
            column = batch.column(schema.get_field_index(field.name))
            for row in range(rows):
                got, want = value(column, field.name, row), leaf(field.name, offset + row)
                assert got == want, (field.name, offset + row, got, want)
        seen += 1
    assert seen == len(expected), seen
    print("ok:", seen, "batches,", len(schema), "columns,", len(data), "bytes")


main()
