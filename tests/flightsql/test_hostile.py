"""Bytes that no driver sends: Arrow data cut at every byte, schemas that change, clients that vanish between any two messages."""
import struct, threading, time, uuid
import pytest

pa = pytest.importorskip("pyarrow")
flight = pytest.importorskip("pyarrow.flight")
grpc = pytest.importorskip("grpc")
adm = pytest.importorskip("adbc_driver_manager")
dbapi = pytest.importorskip("adbc_driver_flightsql.dbapi")
from conftest import start_server

PREFIX = "type.googleapis.com/arrow.flight.protocol.sql."
SERVICE = "/arrow.flight.protocol.FlightService/"


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + bytes([value]))


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def command(name, *fields):
    return field(1, PREFIX + name) + field(2, b"".join(fields))


def descriptor(value):
    return field(1, 2) + field(2, value)


def data(message, about=b""):
    """A FlightData of one encapsulated IPC message."""
    size = struct.unpack("<I", message[4:8])[0]
    return (field(1, about) if about else b"") + field(2, message[8:8 + size]) + field(1000, message[8 + size:])


def messages(table):
    """Schema and first batch, encapsulated."""
    schema = table.schema.serialize().to_pybytes()
    return schema, table.to_batches()[0].serialize().to_pybytes()


def ingestion(table):
    return descriptor(command("CommandStatementIngest", field(1, field(1, 1) + field(2, 1)), field(2, table)))


@pytest.fixture(scope="module")
def own():
    process, address = start_server()
    yield address
    process.terminate()
    assert process.wait(30) == 0, "the server must end cleanly"


@pytest.fixture()
def channel(own):
    with grpc.insecure_channel(own) as channel:
        yield channel


def call(channel, method, *requests):
    """The status code of a call with these requests."""
    try:
        list(channel.stream_stream(SERVICE + method)(iter(requests), timeout=60))
        return grpc.StatusCode.OK
    except grpc.RpcError as error:
        return error.code()


def exists(own, table):
    with dbapi.connect(f"grpc://{own}", autocommit=True) as connection, connection.cursor() as cursor:
        try:
            cursor.execute(f"SELECT count(*) FROM {table}")
            return cursor.fetchone()[0]
        except adm.Error:
            return None


ROWS = pa.table({"a": pa.array([1, 2, None], pa.int64()), "b": pa.array(["x", None, "z"], pa.string())})


def test_ingestions_cut_at_every_byte_leave_no_table(own, channel):
    table = "cut" + uuid.uuid4().hex[:8]
    schema, batch = messages(ROWS)
    head = struct.unpack("<I", batch[4:8])[0]
    about = ingestion(table)
    for size in range(1, len(schema) - 8):
        if not any(schema[8 + size:]):
            break  # what is cut from here on is padding
        broken = schema[:4] + struct.pack("<I", size) + schema[8:8 + size]
        assert call(channel, "DoPut", data(broken, about), data(batch)) is grpc.StatusCode.INVALID_ARGUMENT, size
    for size in range(1, len(batch) - 8):
        header, body = batch[8:8 + min(size, head)], batch[8 + head:8 + max(size, head)]
        cut = field(2, header) + field(1000, body)
        assert call(channel, "DoPut", data(schema, about), cut) is grpc.StatusCode.INVALID_ARGUMENT, size
    assert exists(own, table) is None
    assert call(channel, "DoPut", data(schema, about), data(batch)) is grpc.StatusCode.OK
    assert exists(own, table) == 3


def nulls(count):
    """Schema and batch of so many rows of nothing: made of few, for not every library takes a header at its word."""
    schema, batch = messages(pa.table({"p": pa.nulls(12345)}))
    return schema, batch.replace(struct.pack("<q", 12345), struct.pack("<q", count))


@pytest.mark.parametrize("counts", [[1 << 45], [9_000_000, 9_000_000], [100_000, 100_000]])
def test_rows_without_bytes_are_few_or_refused(own, channel, counts):
    table = "nulls" + uuid.uuid4().hex[:8]
    sent = [nulls(count) for count in counts]
    said = call(channel, "DoPut", data(sent[0][0], ingestion(table)), *(data(batch) for _, batch in sent))
    is_few = sum(counts) < 1 << 24
    assert said is (grpc.StatusCode.OK if is_few else grpc.StatusCode.RESOURCE_EXHAUSTED)
    assert exists(own, table) == (sum(counts) if is_few else None)


def test_parameters_of_too_many_rows_are_refused_before_they_are_read(channel):
    handle = prepared(channel, "SELECT CAST(? AS BIGINT) AS x")
    schema, rows = nulls(1 << 62)
    bound = descriptor(command("CommandPreparedStatementQuery", field(1, handle)))
    assert call(channel, "DoPut", data(schema, bound), data(rows)) is grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.mark.parametrize("what", ["the same again", "another one", "other columns", "no schema", "fewer columns"])
def test_schemas_that_change_in_the_middle_leave_no_table(own, channel, what):
    table = "mid" + uuid.uuid4().hex[:8]
    schema, batch = messages(ROWS)
    other_schema, other_batch = messages(pa.table({"a": pa.array([1.5, 2.5, 3.5]), "c": [1, 2, 3], "d": [True, False, None]}))
    _, fewer = messages(pa.table({"a": pa.array([1, 2, 3], pa.int64())}))
    about = ingestion(table)
    requests = {
        "the same again": [data(schema, about), data(batch), data(schema), data(batch)],
        "another one": [data(schema, about), data(batch), data(other_schema), data(other_batch)],
        "other columns": [data(schema, about), data(batch), data(other_batch)],
        "fewer columns": [data(schema, about), data(batch), data(fewer)],
        "no schema": [data(batch, about)]}[what]
    assert call(channel, "DoPut", *requests) is grpc.StatusCode.INVALID_ARGUMENT
    assert exists(own, table) is None


def test_binds_of_a_wrong_type_say_so(own):
    with dbapi.connect(f"grpc://{own}", autocommit=True) as connection, connection.cursor() as cursor:
        for value in (pa.array(["abc"]), pa.array([b"\xff\xfe"])):
            with pytest.raises(adm.Error):
                cursor.execute("SELECT 1 + CAST(? AS BIGINT) AS x", parameters=pa.record_batch({"p": value}))
                cursor.fetchall()
        for value in (pa.array([[1]]), pa.array([{"x": 1}]), pa.array(["a"]).dictionary_encode()):
            with pytest.raises(adm.Error):
                cursor.execute("SELECT ? AS x", parameters=pa.record_batch({"p": value}))
                cursor.fetchall()
        cursor.execute("SELECT 1 + CAST(? AS BIGINT) AS x", parameters=pa.record_batch({"p": ["41"]}))
        assert cursor.fetchall() == [(42,)]


def prepared(channel, text):
    """The handle of a prepared statement."""
    body = command("ActionCreatePreparedStatementRequest", field(1, text))
    reply, = channel.unary_stream(SERVICE + "DoAction")(field(1, "CreatePreparedStatement") + field(2, body), timeout=60)
    at = reply.index(b"ActionCreatePreparedStatementResult")
    at = reply.index(b"\x0a\x24", at) + 2  # field 1: 36 bytes
    return reply[at:at + 36]


def test_clients_vanish_between_any_two_messages(own, channel):
    """Each call is left at each of its states; what it had begun is nowhere, and the server answers as before."""
    table = "gone" + uuid.uuid4().hex[:8]
    schema, batch = messages(ROWS)
    handle = prepared(channel, "SELECT CAST(? AS BIGINT) AS x")
    one_schema, one = messages(pa.table({"p": pa.array([1], pa.int64())}))
    bound = descriptor(command("CommandPreparedStatementQuery", field(1, handle)))
    rows_without_end = command("CommandStatementQuery", field(1, "SELECT value FROM generate_series(1, 1000000000) AS t(value)"))
    long = descriptor(rows_without_end)
    changing = descriptor(command("CommandStatementUpdate", field(1, f"CREATE TABLE {table} AS SELECT value FROM generate_series(1, 1000000000) AS t(value)")))
    states = [
        ("DoPut", []), ("DoPut", [data(schema, ingestion(table))]), ("DoPut", [data(schema, ingestion(table)), data(batch)]),
        ("DoPut", [data(schema, ingestion(table))] + [data(batch)] * 50),
        ("DoPut", [data(one_schema, bound)]), ("DoPut", [data(one_schema, bound), data(one)]),
        ("DoPut", [data(schema, changing)]), ("DoExchange", []), ("DoExchange", [data(schema, long)]),
        ("Handshake", []), ("Handshake", [field(2, b"\x0a\x03joe")]),
        ("GetFlightInfo", [long]), ("PollFlightInfo", [long]), ("GetSchema", [long]), ("DoAction", [field(1, "BeginTransaction")]),
        ("ListFlights", [b""]), ("ListActions", [b""])]

    def leave(method, requests, pause):
        release = threading.Event()

        def sent():
            yield from requests
            release.wait(30)

        one_call = channel.stream_stream(SERVICE + method)(sent())
        time.sleep(pause)
        one_call.cancel()
        release.set()

    for pause in (0, 0.005, 0.05):
        threads = [threading.Thread(target=leave, args=(method, requests, pause)) for method, requests in states]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in threads)
    with flight.connect(f"grpc://{own}") as client:
        for pause in (0, 0.005, 0.05):
            info = client.get_flight_info(flight.FlightDescriptor.for_command(rows_without_end))
            reading = client.do_get(info.endpoints[0].ticket)
            time.sleep(pause)
            reading.cancel()
    assert exists(own, table) is None
    with dbapi.connect(f"grpc://{own}", autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {table} AS SELECT 1 AS a")  # nobody holds the right to write
        cursor.execute(f"SELECT a FROM {table}")
        assert cursor.fetchall() == [(1,)]
