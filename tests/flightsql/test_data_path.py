"""How rows travel: how large messages are, when the first one comes, which types are in them, and that rows which a server
keeps in a file come back as they went in."""
import datetime, decimal, struct
import pytest

pa = pytest.importorskip("pyarrow")
flight = pytest.importorskip("pyarrow.flight")
adm = pytest.importorskip("adbc_driver_manager")
from test_poll import query

MIB = 1 << 20
SPOOL = 40 * MIB  # more than what an ingestion keeps in memory (TRN_FLIGHT_SPOOL_BYTES)


@pytest.fixture()
def client(address):
    with flight.connect(f"grpc://{address}") as client:
        yield client


def ticket_of(client, text):
    return client.get_flight_info(query(text)).endpoints[0].ticket


def messages(address, client, text):
    """The bytes of each FlightData of a result but the schema's, read by a client that takes what gRPC's clients take: 4 MiB."""
    grpc = pytest.importorskip("grpc")
    with grpc.insecure_channel(address) as channel:
        do_get = channel.unary_stream("/arrow.flight.protocol.FlightService/DoGet")
        return list(do_get(ticket_of(client, text).serialize(), timeout=120))[1:]


def test_narrow_results_come_in_messages_of_about_a_megabyte(address, client):
    sizes = [len(message) for message in messages(address, client, "SELECT value FROM generate_series(1, 4000000) AS t(value)")]
    assert sum(sizes) >= 32_000_000
    # Batches of the engine's have 64 KiB here: 489 of them. On a busy machine one is not waited for very long.
    assert len(sizes) <= 160, (len(sizes), sizes[:10])
    assert max(sizes) <= 2.5 * MIB


def test_the_first_batch_comes_before_the_last_is_computed(client):
    """What is behind it takes minutes: the first rows are read all the same, and the rest is cancelled."""
    numbers = "(SELECT value AS x FROM generate_series(1, 4000)) "
    slow = f"SELECT count(*) FROM {numbers} a, {numbers} b, {numbers} c WHERE a.x * 7 + b.x * 3 <> c.x - 5"
    reader = client.do_get(ticket_of(client, f"SELECT 1 AS n UNION ALL {slow}"))
    assert reader.read_chunk().data.to_pylist() == [{"n": 1}]
    reader.cancel()
    assert client.do_get(ticket_of(client, "SELECT 2 AS n")).read_all().to_pylist() == [{"n": 2}]


def test_wide_batches_are_cut_below_what_clients_take(address, client):
    text = "SELECT value, repeat('x', 5000) AS s FROM generate_series(1, 8192) AS t(value)"  # 40 MiB in one batch of the engine's
    sizes = [len(message) for message in messages(address, client, text)]
    assert sum(sizes) >= 8192 * 5000 and max(sizes) < 4 * MIB
    table = client.do_get(ticket_of(client, text)).read_all()
    assert table["value"].to_pylist() == list(range(1, 8193)) and set(map(len, table["s"].to_pylist())) == {5000}


def test_a_row_that_is_larger_than_any_message_travels_whole(client):
    table = client.do_get(ticket_of(client, "SELECT 1 AS i, repeat('x', 6000000) AS s UNION ALL SELECT 2, 'y'")).read_all()
    assert sorted(map(len, table["s"].to_pylist())) == [1, 6_000_000]


def test_bodies_are_not_compressed(address, client):
    """Zeros: compressed they would be nothing."""
    text = "SELECT CAST(0 AS BIGINT) AS z FROM generate_series(1, 1000000) AS t(value)"
    assert sum(len(message) for message in messages(address, client, text)) >= 8_000_000


def test_types_are_those_that_every_driver_reads(client):
    text = ("SELECT arrow_cast('a', 'Utf8View') AS view, arrow_cast('b', 'Dictionary(Int32, Utf8)') AS dictionary, "
            "arrow_cast(1.5, 'Float16') AS half, arrow_cast(arrow_cast('c', 'Binary'), 'BinaryView') AS bytes, "
            "make_array(arrow_cast('d', 'Utf8View')) AS list, named_struct('f', arrow_cast('e', 'Dictionary(Int8, Utf8)')) AS struct")
    info = client.get_flight_info(query(text))
    table = client.do_get(info.endpoints[0].ticket).read_all()
    assert info.schema == table.schema  # what was announced is what comes
    assert table.to_pylist() == [{"view": "a", "dictionary": "b", "half": 1.5, "bytes": b"c", "list": ["d"], "struct": {"f": "e"}}]
    nested = table.schema.field("struct").type
    assert table.schema.types[:4] == [pa.string(), pa.string(), pa.float32(), pa.binary()], table.schema
    assert table.schema.field("list").type.value_type == pa.string() and nested.field("f").type == pa.string()


# ---- rows that are kept in a file ----


def many_types(start, count):
    numbers = range(start, start + count)
    return pa.record_batch({
        "i": pa.array(numbers, pa.int64()),
        "d": pa.array([decimal.Decimal(i) / 100 for i in numbers], pa.decimal128(20, 2)),  # aligned by 16
        "s": pa.array([None if i % 7 == 0 else "x" * (i % 90) + str(i) for i in numbers]),
        "b": pa.array([i % 3 == 0 for i in numbers]),
        "t": pa.array([datetime.date(2000, 1, 1) + datetime.timedelta(i % 5000) for i in numbers]),
        "l": pa.array([[i, None] if i % 2 else [] for i in numbers], pa.list_(pa.int32())),
        "r": pa.array([{"a": i, "b": str(i)} for i in numbers], pa.struct({"a": pa.int64(), "b": pa.string()}))})


def ingest(connection, table, batches, schema, **options):
    with connection.cursor() as cursor:
        cursor.adbc_ingest(table, pa.RecordBatchReader.from_batches(schema, iter(batches)), mode="create", temporary=True, **options)


def test_kept_rows_come_back_as_they_went_in(connect, table):
    connection = connect()
    n, times = 100_000, 5
    batches = [many_types(start, 20_000) for start in range(0, n, 20_000)] * times
    whole = pa.Table.from_batches(batches)
    assert whole.nbytes > SPOOL
    ingest(connection, table, batches, batches[0].schema)
    with connection.cursor() as cursor:
        for _ in range(2):
            cursor.execute(f"SELECT * FROM {table}")
            assert cursor.fetch_arrow_table().combine_chunks().equals(whole.combine_chunks())
        cursor.execute(f"SELECT DISTINCT s, i FROM {table} WHERE i >= 99990 ORDER BY i DESC LIMIT 2")
        assert cursor.fetchall() == [("x" * (i % 90) + str(i), i) for i in (99_999, 99_998)]
        cursor.execute(f"SELECT count(*), sum(i), sum(d), count(s) FROM {table}")
        total = times * n * (n - 1) // 2
        assert cursor.fetchall() == [(times * n, total, decimal.Decimal(total) / 100, times * (n - len(range(0, n, 7))))]
        cursor.execute(f"SELECT count(*) FROM {table} a JOIN {table} b ON a.i = b.i + 1")
        assert cursor.fetchall() == [((n - 1) * times * times,)]


def test_kept_rows_of_one_row_batches_and_dictionaries(connect, table):
    connection = connect()
    one = pa.record_batch({"i": pa.array([1], pa.int64()), "s": ["y" * 5000]})
    ingest(connection, table, [one] * 9000, one.schema)  # 45 MB, in as many messages
    values = pa.array([f"z{i:09}" for i in range(50_000)])
    coded = pa.record_batch({"k": pa.DictionaryArray.from_arrays(pa.array(range(50_000), pa.int32()), values), "s": ["y" * 200] * 50_000})
    ingest(connection, table + "_d", [coded] * 5, coded.schema)  # 50 MB
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*), sum(i), min(length(s)), max(length(s)) FROM {table}")
        assert cursor.fetchall() == [(9000, 9000, 5000, 5000)]
        cursor.execute(f"SELECT count(*), count(DISTINCT k), min(length(k)) FROM {table}_d")
        assert cursor.fetchall() == [(250_000, 50_000, 10)]
        cursor.execute(f"DROP TABLE {table}_d")


def test_kept_rows_outlive_their_table_while_they_are_read(client, address):
    """The table is dropped, and its file with it, in the middle of a read."""
    def run(text):
        return client.do_get(ticket_of(client, text)).read_all()

    run("CREATE TEMPORARY TABLE outlived AS SELECT value, repeat('x', 100) AS s FROM generate_series(1, 500000) AS t(value)")
    reader = client.do_get(ticket_of(client, "SELECT * FROM outlived"))
    first = reader.read_chunk().data
    run("DROP TABLE outlived")
    rest = reader.read_all()
    assert first.num_rows + rest.num_rows == 500_000
    assert sum(first["value"].to_pylist()) + sum(rest["value"].to_pylist()) == 125_000_250_000
    with pytest.raises(Exception, match="outlived"):
        run("SELECT * FROM outlived")


def test_broken_rows_of_an_ingestion_are_refused(connect, table):
    """Offsets that lead elsewhere and texts that are no UTF-8 would be read without a check later: they are found before."""
    connection = connect()
    count = 100_000

    def batch(offset=0, text=b"x"):
        offsets = list(range(0, 100 * (count + 1), 100))
        offsets[count // 2] += offset
        data = b"x" * 12_345 + text + b"x" * (100 * count - 12_346)
        buffers = pa.py_buffer(struct.pack(f"<{count + 1}i", *offsets)), pa.py_buffer(data)
        return pa.record_batch([pa.StringArray.from_buffers(count, *buffers)], names=["s"])

    good = batch()
    for broken in [batch(offset=1 << 28), batch(offset=-(1 << 27)), batch(text=b"\xff")]:
        with pytest.raises(adm.Error) as raised:
            ingest(connection, table, [good] * 5 + [broken], good.schema)
        assert "Arrow IPC stream" in str(raised.value), raised.value
    ingest(connection, table, [good] * 6, good.schema)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*), sum(length(s)) FROM {table}")
        assert cursor.fetchall() == [(600_000, 60_000_000)]


def test_columns_of_every_arrow_number_make_tables(connect, run, table):
    """Also of types that SQL has no name for; half floats become single ones."""
    numpy = pytest.importorskip("numpy")
    whole = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
    columns = {str(type_): pa.array([1, None, 100], type_) for type_ in whole}
    columns["uint64"] = pa.array([1, None, 2**64 - 1], pa.uint64())
    columns["list"] = pa.array([[1], None, [255]], pa.list_(pa.uint8()))
    columns["date64"] = pa.array([datetime.date(2000, 1, 1), None, datetime.date(1969, 12, 31)], pa.date64())
    columns["half"] = pa.array(numpy.array([0.5, -2.0, 65504.0], dtype="float16"))
    rows = pa.table(columns)
    with connect().cursor() as cursor:
        for temporary in (False, True):
            cursor.adbc_ingest(table, rows, mode="create", temporary=temporary)
            cursor.execute(f"SELECT * FROM {table}")
            got = cursor.fetch_arrow_table()
            assert got.to_pylist() == rows.to_pylist()
            assert got.schema.field("half").type == pa.float32() and got.schema.field("uint64").type == pa.uint64()
        cursor.execute(f"SELECT sum(uint8) + 1 AS a, max(uint64) AS b FROM {table}")
        assert cursor.fetchall() == [(102, 2**64 - 1)]
        cursor.execute(f"DROP TABLE {table}")  # the temporary one, which hides the other
        cursor.execute(f"INSERT INTO {table} (uint8, half) VALUES (7, 1.5)")
        cursor.execute(f"SELECT sum(uint8) AS a, max(half) AS b FROM {table}")
        assert cursor.fetchall() == [(108, 65504.0)]
