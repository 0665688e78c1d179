"""The ways into the server for one user: DataFrames, Spark's SQL, Flight SQL (texts, prepared, Substrait), and plans inside Spark's
extension (SQL, Substrait, DataFusion's protobuf). Plans are written by hand, field by field, as an attacker may."""
import pyarrow.flight as flight
import pyspark.sql.connect.proto as pb
from google.protobuf import any_pb2
from google.protobuf.internal.encoder import _VarintBytes
from pyspark.sql import SparkSession
from pyspark.sql.connect.dataframe import DataFrame
from pyspark.sql.connect.plan import LogicalPlan

SQL = "type.googleapis.com/arrow.flight.protocol.sql."


def field(number, value):
    """A field of a protobuf message: a number, else bytes or text."""
    if isinstance(value, int):
        return _VarintBytes(number << 3) + _VarintBytes(value)
    value = value.encode() if isinstance(value, str) else value
    return _VarintBytes(number << 3 | 2) + _VarintBytes(len(value)) + value


def fields(number, values):
    return b"".join(field(number, value) for value in values)


# ---- Substrait ----

SUBSTRAIT_TYPES = {"bigint": 7, "string": 12}


def sub_column(index):
    return field(2, field(1, field(2, field(1, index))) + field(4, b""))


def sub_text(text):
    return field(1, field(12, text))


def sub_call(function, *arguments, output=12):
    return field(3, field(1, function) + fields(4, [field(3, a) for a in arguments]) + field(3, field(output, field(2, 1))))


def sub_read(schema, names=None, files=None):
    types = b"".join(field(1, field(SUBSTRAIT_TYPES[t], field(2, 1))) for t in schema.values())
    base = fields(1, schema) + field(2, types + field(3, 2))
    source = field(7, fields(1, names)) if names else field(6, fields(1, [field(2, f) + field(9, b"") for f in files]))
    return field(1, field(2, base) + source)


def sub_project(relation, width, expressions):
    mapping = b"".join(_VarintBytes(width + i) for i in range(len(expressions)))
    return field(7, field(1, field(2, field(1, mapping))) + field(2, relation) + fields(3, expressions))


def sub_filter(relation, condition):
    return field(2, field(2, relation) + field(3, condition))


def sub_plan(relation, names, functions=()):
    declared = b"".join(field(2, field(3, field(2, i + 1) + field(3, name))) for i, name in enumerate(functions))
    return field(6, field(2, 63)) + declared + field(3, field(2, field(1, relation) + fields(2, names)))


# ---- DataFusion's protobuf ----

ARROW_TYPES = {"bigint": 10, "string": 14}


def df_column(name):
    return field(1, field(1, name))


def df_name(*parts):
    return field(len(parts), b"".join(field(i + 1, part) for i, part in enumerate(parts)))


def df_schema(schema):
    return b"".join(field(1, field(1, n) + field(2, field(ARROW_TYPES[t], b"")) + field(3, 1)) for n, t in schema.items())


def df_table(schema, *parts):
    return field(25, field(6, df_name(*parts)) + field(2, fields(1, schema)) + field(3, df_schema(schema)))


def df_files(schema, *paths):
    return field(1, field(14, df_name("f")) + fields(2, paths) + field(3, ".parquet") + field(4, fields(1, schema)) +
                 field(5, df_schema(schema)) + field(11, b""))


def df_project(relation, expressions):
    return field(3, field(1, relation) + fields(2, expressions))


def df_filter(relation, condition):
    return field(4, field(1, relation) + field(2, condition))


def df_text(text):
    return field(3, field(2, text))


def df_equal(a, b):
    return field(4, field(1, a) + field(1, b) + field(3, "Eq"))


def df_call(name, *arguments):
    return field(20, field(1, name) + fields(2, arguments))


# ---- a user ----

class Encoded(LogicalPlan):
    def __init__(self, format, payload):
        super().__init__(None)
        value = field(1, format) + field(2, payload)
        self.message = any_pb2.Any(type_url="type.googleapis.com/trunnion.EncodedQuery", value=value)

    def plan(self, session):
        relation = self._create_proto_relation()
        relation.extension.CopyFrom(self.message)
        return relation


class User:
    """One user of the server at `address`, in sessions of its own."""

    def __init__(self, address, token):
        self.spark = SparkSession.builder.remote(f"sc://{address}/;authorization=Bearer {token}").create()
        self.flight = flight.connect(f"grpc://{address}")
        self.options = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {token}".encode())])

    def close(self):
        self.spark.stop()
        self.flight.close()

    # -- ways: each gives a list of tuples --

    def frame(self, df):
        return sorted((tuple(row) for row in df.collect()), key=repr)

    def sql(self, text):
        return self.frame(self.spark.sql(text))

    def encoded(self, format, payload):
        return self.frame(DataFrame(Encoded(format, payload), self.spark))

    def encoded_schema(self, format, payload):
        return DataFrame(Encoded(format, payload), self.spark).schema

    def command(self, name, body):
        """The command's result by Flight SQL; its schema is what GetFlightInfo said."""
        descriptor = flight.FlightDescriptor.for_command(field(1, SQL + name) + field(2, body))
        info = self.flight.get_flight_info(descriptor, self.options)
        table = self.flight.do_get(info.endpoints[0].ticket, self.options).read_all()
        return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)

    def flight_sql(self, text):
        return self.command("CommandStatementQuery", field(1, text))

    def flight_substrait(self, plan):
        return self.command("CommandStatementSubstraitPlan", field(1, field(1, plan)))

    def flight_dialect(self, dialect):
        pair = field(1, "dialect") + field(2, field(1, dialect))
        list(self.flight.do_action(flight.Action("SetSessionOptions", field(1, pair)), self.options))

    def flight_prepare(self, text):
        """(bytes of the schema, handle) of a prepared statement."""
        body = field(1, SQL + "ActionCreatePreparedStatementRequest") + field(2, field(1, text))
        result = list(self.flight.do_action(flight.Action("CreatePreparedStatement", body), self.options))[0].body.to_pybytes()
        answer = any_pb2.Any.FromString(result).value
        parts, at = {}, 0
        while at < len(answer):
            number, size, at, shift = answer[at] >> 3, 0, at + 1, 0
            while True:
                size |= (answer[at] & 0x7f) << shift
                shift, at = shift + 7, at + 1
                if answer[at - 1] < 0x80:
                    break
            if number == 4:
                continue  # a number, already read
            parts[number], at = answer[at:at + size], at + size
        return parts.get(2, b""), parts[1]

    def flight_prepared(self, text):
        return self.command("CommandPreparedStatementQuery", field(1, self.flight_prepare(text)[1]))
