"""Writes the corpora of the Spark fuzzers: of each member of a Relation, an Expression, a literal and an analysis one message
with all of its fields, and SQL texts; and schemas. Needs pyspark-client. usage: make_corpus_spark.py"""
import json, pathlib

from google.protobuf.descriptor import FieldDescriptor as F
from pyspark.sql.connect.proto import base_pb2 as base, commands_pb2 as commands, expressions_pb2 as expr, relations_pb2 as rel

HERE = pathlib.Path(__file__).resolve().parent / "corpus"
NUMBERS = {F.TYPE_BOOL: True, F.TYPE_DOUBLE: 1.5, F.TYPE_FLOAT: 2.5, F.TYPE_BYTES: b"ab"}
TEXTS = {"query": "select a from t", "unparsed_identifier": "a", "unparsed_target": "t.*", "function_name": "upper", "timezone": "UTC",
         "schema": "a INT", "format": "parquet", "view_name": "v", "data_type_string": "INT", "value": "1.5", "name": "a", "alias": "x"}


def repeated(field):
    return field.is_repeated if hasattr(field, "is_repeated") else field.label == F.LABEL_REPEATED


def leaf(message):
    if isinstance(message, rel.Relation):
        message.sql.query = "select * from t"
    elif isinstance(message, expr.Expression):
        message.unresolved_attribute.unparsed_identifier = "a"
    elif isinstance(message, expr.Expression.Literal):
        message.integer = 7
    else:
        return False
    return True


def fill(message, depth, choose=None):
    """All fields; of a oneof the member `choose`, else the first."""
    seen = set()
    for field in message.DESCRIPTOR.fields:
        oneof = field.containing_oneof
        if oneof is not None and len(oneof.fields) > 1:
            wanted = choose if choose in [f.name for f in oneof.fields] else oneof.fields[0].name
            if field.name != wanted or oneof.name in seen:
                continue
            seen.add(oneof.name)
        if field.type == F.TYPE_MESSAGE:
            if field.message_type.GetOptions().map_entry or field.message_type.full_name.startswith("google.protobuf"):
                continue
            inner = getattr(message, field.name)
            inner = inner.add() if repeated(field) else inner
            inner.SetInParent()
            if not (depth <= 0 and leaf(inner)) and depth > -3 and not (depth <= 1 and leaf(inner)):
                fill(inner, depth - 1)
            continue
        value = NUMBERS.get(field.type, TEXTS.get(field.name, "b") if field.type == F.TYPE_STRING else 1)
        if repeated(field):
            getattr(message, field.name).append(value)
        else:
            setattr(message, field.name, value)


def members(kind, oneof):
    return [f.name for f in kind.DESCRIPTOR.oneofs_by_name[oneof].fields]


def write(folder, name, data):
    (HERE / folder).mkdir(parents=True, exist_ok=True)
    (HERE / folder / name).write_bytes(data)


def select(expression):
    relation = rel.Relation()
    relation.project.input.sql.query = "select * from t"
    relation.project.expressions.append(expression)
    return relation


for name in members(rel.Relation, "rel_type"):
    relation = rel.Relation()
    getattr(relation, name).SetInParent()
    fill(getattr(relation, name), 2)
    write("spark", f"relation_{name}", b"r" + relation.SerializeToString())
for name in members(expr.Expression, "expr_type"):
    expression = expr.Expression()
    getattr(expression, name).SetInParent()
    fill(getattr(expression, name), 2)
    write("spark", f"expression_{name}", b"r" + select(expression).SerializeToString())
for name in members(expr.Expression.Literal, "literal_type"):
    expression = expr.Expression()
    getattr(expression.literal, name)
    fill(expression.literal, 2, name)
    write("spark", f"literal_{name}", b"e" + base.Plan(root=select(expression)).SerializeToString())
for name in members(base.AnalyzePlanRequest, "analyze"):
    request = base.AnalyzePlanRequest()
    getattr(request, name).SetInParent()
    fill(getattr(request, name), 2)
    write("spark", f"analyze_{name}", b"a" + request.SerializeToString())
SQL = {
    "query": "select a, sum(c) over (partition by b) from t where a > 1 order by 1 limit 3",
    "values": "select * from values (1, 'a'), (2, null) as t(x, y)", "range": "select id, id * 2 from range(10)",
    "subquery": "select (select max(a) from u), exists (select 1 from u where u.a = t.a) from t",
    "group": "select b, count(distinct a), grouping_id() from t group by cube (b, c)",
    "lambda": "select transform(array(1, 2), x -> x + 1), named_struct('a', 1).a, map('k', 2)['k']",
    "set": "set spark.sql.ansi.enabled=false", "view": "create temporary view v as select 1 as x", "show": "show tables",
    "explain": "explain extended select * from t", "describe": "describe query select 1", "table": "create table k (a int) using parquet",
    "variable": "declare variable x int default 1", "immediate": "execute immediate 'select ?' using 1",
    "function": "create temporary function f(x int) returns int return x + 1", "pivot": "select * from t pivot (sum(a) for b in ('x'))",
    "recursive": "with recursive r(n) as (select 1 union all select n + 1 from r where n < 9) select * from r",
    "cast": "select cast('2024-01-01' as date) + interval '1' month, '1' || 2, 1 / 3bd, date_format(now(), 'yyyy')",
}
for name, text in SQL.items():
    command = commands.Command()
    command.sql_command.input.sql.query = text
    write("spark", f"sql_{name}", b"e" + base.Plan(command=command).SerializeToString())
    write("spark", f"query_{name}", b"r" + rel.Relation(sql=rel.SQL(query=text)).SerializeToString())
command = commands.Command()
command.create_dataframe_view.input.sql.query, command.create_dataframe_view.name = "select 1", "v"
write("spark", "create_view", b"e" + base.Plan(command=command).SerializeToString())

NAMES = ["byte", "short", "integer", "long", "float", "double", "decimal(10,2)", "string", "char(3)", "varchar(9)", "binary", "boolean",
         "date", "timestamp", "timestamp_ntz", "time(6)", "interval year to month", "interval day to second", "void", "variant"]
fields = [{"name": f"c{i}", "type": name, "nullable": i % 2 == 0, "metadata": {"k": i}} for i, name in enumerate(NAMES)]
write("schema", "json_names", json.dumps({"type": "struct", "fields": fields}).encode())
inner = {"type": "map", "keyType": "string", "valueType": {"type": "array", "elementType": "integer", "containsNull": False}, "valueContainsNull": True}
for _ in range(8):
    inner = {"type": "struct", "fields": [{"name": "x", "type": inner, "nullable": True, "metadata": {}}]}
write("schema", "json_nested", json.dumps(inner).encode())
write("schema", "json_udt", b'{"type":"udt","class":"a.B","pyClass":"m.B","sqlType":{"type":"array","elementType":"double","containsNull":false}}')
write("schema", "json_one", b'"integer"')
write("schema", "json_duplicate", b'{"type":"struct","fields":[{"name":"a","type":"long"},{"name":"a","type":"long"}],"type":"array"}')
write("schema", "json_escapes", b'{"type":"struct","fields":[{"name":"\\u0000\\ud83d\\ude00\\"","type":"string","nullable":null}]}')
write("schema", "ddl", ", ".join(f"c{i} {name.upper()}" for i, name in enumerate(NAMES[6:17])).encode())
write("schema", "ddl_nested", b"a STRUCT<x: INT NOT NULL COMMENT 'c', y: ARRAY<MAP<STRING, DECIMAL(38, 18)>>> NOT NULL COMMENT 'it''s', `b c` INTERVAL DAY")
write("schema", "ddl_colons", b"struct<a:int,b:array<string>>")
write("schema", "ddl_one", b"bigint")
write("schema", "deep_array", b"a " + b"array<" * 60 + b"int" + b">" * 60)
