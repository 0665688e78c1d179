"""The frontend that speaks Ballista's protocol, in front of the backend of this process: the stock client, 54.x clients as
recorded, raw requests that no client would make."""
import gzip, json, os, subprocess
import pytest

grpc = pytest.importorskip("grpc")
import pyarrow as pa
from conftest import BUILD, CLIENT, PROGRAM, ROOT, Client, Failed, Server
import raw_client
from raw_client import FLIGHT, SERVICE, Client as Raw, m, params, ticket_of

OLD = ROOT / "tests/cluster/requests_54"
LONG = "SELECT count(*) AS n FROM lineitem a, lineitem b, lineitem c WHERE a.l_orderkey + b.l_partkey + c.l_suppkey = -1"


@pytest.fixture(scope="module")
def front():
    with Server() as running:
        yield running


@pytest.fixture(scope="module")
def stock(front, tpch_folder):
    if not CLIENT:
        pytest.skip("the stock client is not built: make engine")
    with Client(front.df_url) as running:
        running.tables(tpch_folder)
        yield running


@pytest.fixture(scope="module")
def stock_pull(front, stock, tpch_folder):
    with Client(front.df_url, "--pull") as running:
        running.tables(tpch_folder)
        yield running


@pytest.fixture()
def raw(front):
    client = Raw(front.address)
    yield client
    client.close()


@pytest.fixture(scope="module")
def plan_of(stock):
    """A plan's bytes, as the stock client encodes it."""
    return lambda sql: bytes.fromhex(stock.ask(encode=sql)["plan"])


@pytest.fixture(scope="module")
def oracle(tpch_folder):
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    for path in tpch_folder.glob("*.parquet"):
        connection.execute(f"create view {path.stem} as from '{path}'")
    return lambda sql: connection.execute(sql).fetchall()


def text_of(number):
    return (ROOT / f"tests/data/tpch/q{number:02d}.sql").read_text()


def close(ours, theirs):
    """As numbers where they are: the client prints what it got as JSON."""
    if theirs is None or ours is None:
        return ours is None and theirs is None
    try:
        a, b = float(ours), float(theirs)
    except (TypeError, ValueError):
        return str(ours) == str(theirs)[: len(str(ours))]
    return abs(a - b) <= 1e-2 * 0.5 + 1e-9 * abs(b)  # averages of decimals have fewer digits here


def same(ours, theirs):
    assert len(ours) == len(theirs)
    for row, expected in zip(ours, theirs):
        values = list(row.values())
        assert len(values) == len(expected)
        assert all(map(close, values, expected)), (row, expected)


def failed_with(code, call, *arguments, **fields):
    with pytest.raises(grpc.RpcError) as caught:
        answer = call(*arguments, **fields)
        list(answer) if hasattr(answer, "__next__") else answer
    assert caught.value.code() == code, caught.value.details()
    return caught.value.details()


# ---- the stock client ----

@pytest.mark.parametrize("number", range(1, 23))
def test_tpch(stock, oracle, number):
    same(stock.rows(text_of(number)), oracle(text_of(number)))


@pytest.mark.parametrize("number", [1, 9, 16, 21])
def test_tpch_by_polling(stock_pull, oracle, number):
    same(stock_pull.rows(text_of(number)), oracle(text_of(number)))


def test_explain_has_the_three_rows_of_a_cluster(stock):
    rows = stock.rows("EXPLAIN SELECT l_returnflag, count(*) FROM lineitem WHERE l_quantity > 3 GROUP BY 1")
    assert [row["plan_type"] for row in rows] == ["logical_plan", "physical_plan", "distributed_plan"]
    assert "Aggregate" in rows[0]["plan"] and "AggregateExec" in rows[1]["plan"] and "stage_id=1" in rows[2]["plan"]


def test_explain_analyze_has_numbers(stock):
    rows = stock.rows("EXPLAIN ANALYZE SELECT count(*) FROM lineitem WHERE l_quantity > 3")
    assert rows[0]["plan_type"] == "Plan with Metrics"
    assert "SuccessfulStage[stage_id=1" in rows[0]["plan"]
    assert "FilterExec" in rows[0]["plan"] and "output_rows=1," in rows[0]["plan"]


def test_errors_say_what_was_wrong(stock, stock_pull):
    for client in (stock, stock_pull):
        with pytest.raises(Failed, match="(?i)divi(de|sion).by.zero"):
            client.rows("SELECT 1 / n_nationkey FROM nation")
    assert stock.rows("SELECT 1 AS a") == [{"a": 1}]


def test_results_of_all_shapes(stock):
    assert stock.rows("SELECT * FROM nation WHERE n_nationkey < 0") == []
    assert stock.rows("SELECT arrow_cast('a', 'Dictionary(Int32, Utf8)') AS d") == [{"d": "a"}]
    assert stock.rows("SELECT [1, NULL] AS l, {'x': 1, 'y': 'z'} AS s, CAST(1.5 AS DECIMAL(10, 2)) AS n") == [
        {"l": [1, None], "s": {"x": 1, "y": "z"}, "n": 1.5}]


def test_a_result_beyond_what_is_kept_streams(stock):
    """150 MB: nine times what the server keeps of one job."""
    many = ", ".join(f"({i})" for i in range(20))
    answer = stock.ask(sql=f"SELECT l.* FROM lineitem l, (VALUES {many}) AS v", output="none")
    assert answer["rows"] == 20 * 60175


def written(folder):
    """What is in the one file of a folder that was written."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name[0] not in "._"]
    assert len(files) == 1, files
    return files[0].read_bytes()


def test_copy_writes_what_it_says(stock, tmp_path):
    """Ballista numbers file formats in its own way: each must be read as what it was."""
    for name, magic in [("parquet", b"PAR1"), ("csv", b"a,b\n1,x\n"), ("json", b'{"a":1,"b":"x"}')]:
        target = tmp_path / name
        assert stock.rows(f"COPY (SELECT 1 AS a, 'x' AS b) TO '{target}' STORED AS {name}") == [{"count": 1}]
        assert written(target).startswith(magic), name


def test_copy_by_partitions(stock, tmp_path):
    """As DataFusion lays them out: directories by value, files without those columns unless a setting keeps them."""
    import pyarrow.parquet as pq
    rows = "VALUES (1, 'x', 10), (2, 'y', 10), (3, 'x', 20), (4, NULL, 20)"
    copy = f"COPY (SELECT column1 AS a, column2 AS b, column3 AS c FROM ({rows})) TO '{tmp_path}/parts/' STORED AS parquet PARTITIONED BY "
    assert stock.rows(copy + "(c, b)") == [{"count": 4}]
    files = {str(path.parent.relative_to(tmp_path / "parts")): pq.ParquetFile(path).read().to_pydict()
             for path in (tmp_path / "parts").rglob("*.parquet")}
    assert files == {"c=10/b=x": {"a": [1]}, "c=10/b=y": {"a": [2]}, "c=20/b=x": {"a": [3]},
                     "c=20/b=__HIVE_DEFAULT_PARTITION__": {"a": [4]}}
    for columns, says in [("(nothing)", "nothing"), ("(a, b, c)", "all are partition columns"), ("(b, b)", "twice")]:
        with pytest.raises(Failed, match=says):
            stock.rows(copy.replace("parts", "none") + columns)
    assert not (tmp_path / "none").exists()


def test_copy_keeps_partition_columns_where_that_is_set(raw, plan_of, tmp_path):
    copy = plan_of(f"COPY (SELECT 1 AS a, 'x' AS b) TO '{tmp_path}/parts/' STORED AS json PARTITIONED BY (b)")
    settings = {"datafusion.execution.keep_partition_by_columns": "true"}
    *_, last = raw.push(logical_plan=copy, settings=settings)
    assert raw.table_of(last).to_pylist() == [{"count": 1}]
    assert written(tmp_path / "parts/b=x") == b'{"a":1,"b":"x"}\n'


def test_insert_adds_files_to_a_client_s_table(stock, tmp_path):
    for name, options in [("parquet", ""), ("csv", " OPTIONS ('format.has_header' 'true', 'format.delimiter' ';')"), ("json", "")]:
        folder = tmp_path / name
        folder.mkdir()
        stock.rows(f"CREATE EXTERNAL TABLE into_{name} (a INT, b VARCHAR, c DOUBLE) STORED AS {name} LOCATION '{folder}/'{options}")
        assert stock.rows(f"INSERT INTO into_{name} VALUES (1, 'x', 1.5), (2, NULL, 2)") == [{"count": 2}]
        assert stock.rows(f"INSERT INTO into_{name} (c, a) SELECT n_nationkey, 7 FROM nation WHERE n_nationkey < 3") == [{"count": 3}]
        rows = stock.rows(f"SELECT a, b, c FROM into_{name} ORDER BY a, c")
        assert [(row.get("a"), row.get("b"), row.get("c")) for row in rows] == [(1, "x", 1.5), (2, None, 2.0), (7, None, 0.0), (7, None, 1.0),
                                                                               (7, None, 2.0)], name
        assert len(list(folder.glob("part-*"))) == 2


def test_insert_into_partitions_and_what_is_no_insert(stock, tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    stock.rows(f"CREATE EXTERNAL TABLE into_parts (a INT, b VARCHAR) STORED AS parquet PARTITIONED BY (b) LOCATION '{folder}/'")
    assert stock.rows("INSERT INTO into_parts VALUES (1, 'x'), (2, 'y'), (3, 'y')") == [{"count": 3}]
    assert stock.rows("SELECT b, count(*) AS n FROM into_parts GROUP BY b ORDER BY b") == [{"b": "x", "n": 1}, {"b": "y", "n": 2}]
    assert sorted(path.name for path in folder.glob("b=*")) == ["b=x", "b=y"]
    with pytest.raises(Failed, match="(?i)overwrite"):
        stock.rows("INSERT OVERWRITE into_parts VALUES (1, 'x')")
    assert len(list(folder.rglob("*.parquet"))) == 2


def test_copy_takes_the_options_of_its_format(raw, plan_of, tmp_path):
    """The client's SQL loses them (DataFusion's encoding has no place for them); its DataFrame's writers do not."""
    csv = field(1, b"\0") + field(2, b";") + field(3, b'"') + varint(5 << 3) + varint(4) + field(12, b"none")
    plan = plan_of("SELECT 1 AS a, CAST(NULL AS VARCHAR) AS b")
    copy = lambda format_, options: field(29, field(1, plan) + field(2, f"file://{tmp_path}/{format_}") +
                                          field(3, varint(8) + varint(format_) + field(2, options)))
    assert raw.run(logical_plan=copy(1, csv)).to_pylist() == [{"count": 1}]
    assert written(tmp_path / "1") == b"1;none\n"
    assert raw.run(logical_plan=copy(2, varint(8) + varint(0))).to_pylist() == [{"count": 1}]
    assert gzip.decompress(written(tmp_path / "2")) == b'{"a":1}\n'
    assert "number 9" in failure_of(raw, copy(9, b"")) and "avro" in failure_of(raw, copy(4, b""))
    assert "only to local absolute paths" in failure_of(raw, copy(1, csv).replace(b"file:///", b"s3://b/x"))


def failure_of(raw, plan):
    *_, last = raw.push(logical_plan=plan)
    return last.status.failed.error


def varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(number, value):
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def test_many_at_once(stock):
    waiting = [stock.send(sql=f"SELECT {i} AS i, count(*) AS n FROM lineitem WHERE l_linenumber > {i % 7}", output="json")
               for i in range(40)]
    answers = [json.loads(w.get(timeout=120)["data"]) for w in waiting]
    assert [a["i"] for a in answers] == list(range(40))
    assert all(answers[i]["n"] == answers[i + 7]["n"] for i in range(33))


# ---- jobs ----

def test_headers_come_before_anything_is_known_and_a_job_is_cancelled(raw, plan_of):
    call = raw.push(logical_plan=plan_of(LONG), settings={"ballista.job.name": "long one"})
    assert ("ballista-version", "55.0.0") in [tuple(pair) for pair in call.initial_metadata()]
    status = next(call).status
    assert status.WhichOneof("status") in ("queued", "running") and status.job_name == "long one"
    assert raw.call("CancelJob", job_id=status.job_id).cancelled
    last = list(call)[-1].status
    assert last.failed.error == "Cancelled"
    assert not raw.call("CancelJob", job_id=status.job_id).cancelled
    assert raw.call("GetJobStatus", job_id=status.job_id).status.failed.error == "Cancelled"


def test_a_finished_job_keeps_its_output_when_it_is_cancelled(raw, plan_of):
    *_, last = raw.push(logical_plan=plan_of("SELECT 7 AS x"))
    assert not raw.call("CancelJob", job_id=last.status.job_id).cancelled
    assert raw.table_of(last).to_pylist() == [{"x": 7}]
    raw.call("CleanJobData", job_id=last.status.job_id)
    details = failed_with(grpc.StatusCode.NOT_FOUND, raw.table_of, last)
    assert "result" in details


def test_a_client_that_hangs_up_ends_its_job(raw, plan_of):
    call = raw.push(logical_plan=plan_of(LONG))
    job_id = next(call).status.job_id
    call.cancel()
    for _ in range(2000):
        status = raw.call("GetJobStatus", job_id=job_id).status
        if status.WhichOneof("status") == "failed":
            break
    assert status.failed.error == "Cancelled"


def test_pull_gives_an_id_at_once_and_unknown_jobs_have_no_status(raw, plan_of):
    answer = raw.call("ExecuteQuery", **params({"logical_plan": plan_of(LONG), "session_id": "my own", "operation_id": "op-1"}))
    assert answer.operation_id == "op-1" and answer.success.session_id == "my own"
    assert raw.call("GetJobStatus", job_id=answer.success.job_id).HasField("status")
    assert raw.call("CancelJob", job_id=answer.success.job_id).cancelled
    assert not raw.call("GetJobStatus", job_id="nobody's").HasField("status")
    failed_with(grpc.StatusCode.NOT_FOUND, raw.call, "GetJobMetrics", job_id="nobody's")


# ---- 54.x ----

def old_cases():
    return sorted(json.loads((OLD / "expected.json").read_text()))


@pytest.mark.parametrize("name", old_cases())
def test_requests_of_54_give_what_54_gives(front, name):
    client = Raw(front.address, version=None)
    last = m.GetJobStatusResult.FromString(client.raw(SERVICE + "ExecuteQueryPush", (OLD / name).read_bytes(), stream=True)[-1])
    location = last.status.successful.partition_location[0]
    table, _ = client.fetch(ticket_of(location, older=True))
    client.close()
    assert [list(row.values()) for row in table.to_pylist()] == json.loads((OLD / "expected.json").read_text())[name]


def test_a_server_may_refuse_them(tmp_path):
    config = tmp_path / "t.yaml"
    config.write_text("frontends: {ballista: {older_clients: false}}\n")
    with Server("--config", config) as server:
        client = Raw(server.address, version=None)
        details = failed_with(grpc.StatusCode.FAILED_PRECONDITION, client.raw, SERVICE + "ExecuteQueryPush",
                              (OLD / "values").read_bytes(), stream=True)
        client.close()
    assert "older than 55.0.0" in details


# ---- bad input ----

@pytest.mark.parametrize("version", ["56.0.0", "5", "five", ""])
def test_other_versions_are_refused(front, version):
    client = Raw(front.address)
    client.metadata = [("ballista-version", version)]
    failed_with(grpc.StatusCode.FAILED_PRECONDITION, client.push, logical_plan=b"")
    failed_with(grpc.StatusCode.FAILED_PRECONDITION, client.call, "ExecuteQuery", logical_plan=b"")
    client.close()


def test_garbage_and_truncated_plans(raw, plan_of):
    plan = plan_of("SELECT n_name, count(*) AS n FROM nation JOIN region ON n_regionkey = r_regionkey GROUP BY n_name")
    for broken in [b"", b"garbage", os.urandom(200), plan[: len(plan) // 2], plan[:-1], b"\x22" * 5000]:
        for field in ["logical_plan", "substrait_plan", "physical_plan"]:
            try:
                list(raw.push(**{field: broken}))
            except grpc.RpcError as error:
                assert error.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED,
                                        grpc.StatusCode.RESOURCE_EXHAUSTED), (broken[:20], error.details())
                assert "Could not parse plan" in error.details() or error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        answer = raw.call("ExecuteQuery", **params({"logical_plan": broken}))
        assert answer.failure.plan_parsing_failure
    # messages that are none, and one that is larger than any
    for method in ["ExecuteQuery", "GetJobStatus", "CancelJob", "CreateUpdateSession"]:
        failed_with(grpc.StatusCode.INVALID_ARGUMENT, raw.raw, SERVICE + method, b"\x0a\xff\xff\xff\xff\x0f")
    failed_with(grpc.StatusCode.RESOURCE_EXHAUSTED, raw.raw, SERVICE + "ExecuteQuery", b"\x0a" + b"\xff" * (65 << 20))


def test_forged_tickets(raw, plan_of):
    *_, mine = raw.push(logical_plan=plan_of("SELECT 1 AS x"))
    *_, other = raw.push(logical_plan=plan_of("SELECT 2 AS x"))
    location, theirs = mine.status.successful.partition_location[0], other.status.successful.partition_location[0]
    forged = [{"file_id": theirs.file_id}, {"file_id": 0}, {"file_id": None}, {"job_id": "../../../../etc/passwd"}, {"job_id": ""},
              {"stage_id": 0}, {"partition_id": 1}, {"layout": 1}, {"file_kind": 1}, {"is_sort_shuffle": True}]
    for change in forged:
        failed_with(grpc.StatusCode.NOT_FOUND, raw.fetch, ticket_of(location, **change))
    ranged = m.Action.FromString(ticket_of(location))
    ranged.fetch_partition.byte_ranges.add(offset=0, length=10)
    failed_with(grpc.StatusCode.NOT_FOUND, raw.fetch, ranged.SerializeToString())
    for bytes_ in [b"", b"\x1a", b"\x1a\x02\x0a\x05", os.urandom(64)]:
        failed_with(grpc.StatusCode.INVALID_ARGUMENT, raw.fetch, bytes_)
    assert raw.fetch(ticket_of(location, host="169.254.169.254", port=80))[0].to_pylist() == [{"x": 1}]  # never dialled
    assert location.file_id > 1 << 32 and location.file_id != theirs.file_id


def test_a_result_expires(tmp_path, plan_of):
    config = tmp_path / "t.yaml"
    config.write_text("frontends: {ballista: {result: 300ms, job: 600ms}}\n")
    with Server("--config", config) as server:
        client = Raw(server.address)
        *_, last = client.push(logical_plan=plan_of("SELECT 1 AS x"))
        assert client.table_of(last).to_pylist() == [{"x": 1}]
        for _ in range(100000):
            if not client.call("GetJobStatus", job_id=last.status.job_id).HasField("status"):
                break
        failed_with(grpc.StatusCode.NOT_FOUND, client.table_of, last)
        client.close()


# ---- messages ----

def test_messages_are_small_and_have_no_dictionaries(raw, plan_of):
    *_, last = raw.push(logical_plan=plan_of("SELECT *, arrow_cast(l_comment, 'Dictionary(Int32, Utf8)') AS d FROM lineitem"))
    table, sizes = raw.fetch(ticket_of(last.status.successful.partition_location[0]))  # the reader knows no dictionaries
    assert table.num_rows == 60175 and max(sizes) < (2 << 20) + (64 << 10) and len(sizes) > 3
    assert not any(pa.types.is_dictionary(field.type) for field in table.schema)


# ---- who ----

def test_credentials_count_for_jobs_and_tickets_stand_alone(tmp_path, plan_of):
    made = subprocess.run([str(PROGRAM), "new-token", "ann"], capture_output=True, text=True)
    tokens, (line, token) = tmp_path / "tokens", read_token(made)
    bob_line, bob = read_token(subprocess.run([str(PROGRAM), "new-token", "bob"], capture_output=True, text=True))
    tokens.write_text(line + "\n" + bob_line + "\n")
    config = tmp_path / "t.yaml"
    config.write_text(f"auth: {{tokens: {tokens}}}\n")
    with Server("--config", config) as server:
        nobody, ann, bob = (Raw(server.address, metadata=[("authorization", f"Bearer {t}")] if t else []) for t in (None, token, bob))
        failed_with(grpc.StatusCode.UNAUTHENTICATED, nobody.push, logical_plan=plan_of("SELECT 1 AS x"))
        *_, last = ann.push(logical_plan=plan_of("SELECT 1 AS x"))
        job_id, ticket = last.status.job_id, ticket_of(last.status.successful.partition_location[0])
        assert not bob.call("GetJobStatus", job_id=job_id).HasField("status")
        assert ann.call("GetJobStatus", job_id=job_id).HasField("status")
        failed_with(grpc.StatusCode.NOT_FOUND, bob.fetch, ticket, metadata=bob.metadata)
        assert ann.fetch(ticket)[0].to_pylist() == [{"x": 1}]  # as the stock client does: without credentials
        assert ann.fetch(ticket, metadata=ann.metadata)[0].to_pylist() == [{"x": 1}]
        wrong = ticket_of(last.status.successful.partition_location[0], file_id=1)
        failed_with(grpc.StatusCode.NOT_FOUND, ann.fetch, wrong)
        failed_with(grpc.StatusCode.UNAUTHENTICATED, ann.fetch, b"\x0a\x01x")
        for client in (nobody, ann, bob):
            client.close()


def read_token(done):
    """(line of the file, token) of `trunnion new-token`."""
    assert done.returncode == 0, done.stderr
    line = next(l for l in done.stdout.splitlines() if ":" in l and not l.startswith("#"))
    token = (done.stderr.strip() or done.stdout).split()[-1]
    return line, token


def test_policies_see_what_a_plan_reads(tmp_path, plan_of, tpch_folder):
    config = tmp_path / "t.yaml"
    config.write_text(f"""
layers:
  - authorize:
      rules:
        - {{allow: read, paths: {tpch_folder}/nation.parquet}}
""")
    with Server("--config", config) as server:
        client = Raw(server.address)
        assert client.run(logical_plan=plan_of("SELECT count(*) AS n FROM nation")).to_pylist() == [{"n": 25}]
        for sql in ["SELECT count(r_name) AS n FROM region", "EXPLAIN SELECT r_name FROM region",
                    f"COPY (SELECT 1 AS a) TO '{tmp_path}/x.csv' STORED AS csv",
                    f"COPY (SELECT 1 AS a, 2 AS b) TO '{tmp_path}/p/' STORED AS csv PARTITIONED BY (b)"]:
            try:
                *_, last = client.push(logical_plan=plan_of(sql))
                assert last.status.WhichOneof("status") == "failed", sql
            except grpc.RpcError as error:
                assert error.code() in (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNIMPLEMENTED), error.details()
        assert not (tmp_path / "x.csv").exists()
        client.close()


# ---- formats of plugins ----

def test_a_plugin_s_format_comes_through_field_8(tmp_path):
    source, plugin = ROOT / "examples/plugin", tmp_path / "sample.so"
    built = subprocess.run(["cc", "-std=c11", "-D_GNU_SOURCE", "-shared", "-fPIC", f"-I{ROOT}/include", *map(str, source.glob("*.c")),
                            "-o", str(plugin), f"-L{BUILD}", "-ltrunnion", f"-Wl,-rpath,{BUILD}"], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    left, right = tmp_path / "lefts.parquet", tmp_path / "rights.parquet"
    import pyarrow.parquet as pq
    pq.write_table(pa.table({"k": [1, 2], "l": ["a", "b"]}), left)
    pq.write_table(pa.table({"k": [2, 3], "r": [2.5, 3.5]}), right)
    with Server("--plugin", plugin) as server:
        client = Raw(server.address)
        make_tables(server, {"lefts": left, "rights": right})
        text = lambda number, value: bytes([number << 3 | 2, len(value)]) + value.encode()
        query = {"format": "sample.join.v1", "payload": text(1, "lefts") + text(2, "default.rights") + text(3, "k")}
        table = client.run(encoded_query=query)
        assert [column.to_pylist() for column in table.columns] == [[2], ["b"], [2], [2.5]]
        details = failed_with(grpc.StatusCode.INVALID_ARGUMENT, client.push, encoded_query=dict(query, format="sample.join.v2"))
        assert "did you mean 'sample.join.v1'" in details
        details = failed_with(grpc.StatusCode.INVALID_ARGUMENT, client.push, encoded_query=dict(query, payload=b"\xff\xff"))
        assert "sample.Join" in details
        assert client.run(encoded_query={"format": "sql", "payload": b"SELECT 1 + 1 AS two"}).to_pylist() == [{"two": 2}]
        client.close()


def make_tables(server, tables):
    """Tables of the server's catalog, by Flight SQL."""
    dbapi = pytest.importorskip("adbc_driver_flightsql.dbapi")
    with dbapi.connect(server.grpc_url, autocommit=True) as connection, connection.cursor() as cursor:
        for name, path in tables.items():
            cursor.execute(f"CREATE EXTERNAL TABLE {name} STORED AS PARQUET LOCATION '{path}'")
