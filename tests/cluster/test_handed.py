"""The Ballista frontend in front of a Ballista cluster: plans come in by one and go on to the other, and where an option says so
clients fetch from the executors."""
import pytest

grpc = pytest.importorskip("grpc")
from conftest import Client, Failed, Server
from raw_client import Client as Raw, ticket_of


@pytest.fixture(scope="module")
def through(cluster, tmp_path_factory):
    """Ours in front of the cluster, with hand_through."""
    config = tmp_path_factory.mktemp("handed") / "t.yaml"
    config.write_text("frontends: {ballista: {hand_through: true}}\n")
    with Server("--config", config, "--backend", cluster.url) as running:
        yield running


@pytest.fixture(scope="module")
def stock(through, tpch_folder):
    with Client(through.df_url) as client:
        client.tables(tpch_folder)
        yield client


SQL = "SELECT n_name, count(*) AS n FROM nation JOIN customer ON n_nationkey = c_nationkey GROUP BY n_name ORDER BY n_name"


def test_the_stock_client_fetches_from_executors(stock, server, tpch_folder):
    with Client(server.df_url) as proxied:  # the same, its rows by way of the server
        proxied.tables(tpch_folder)
        expected = proxied.rows(SQL)
    assert stock.rows(SQL) == expected and len(expected) == 25
    assert list(expected[0]) == ["n_name", "n"]  # columns have their names wherever they come from


def test_locations_are_the_executors_and_go_with_the_job(stock, through, cluster):
    plan = bytes.fromhex(stock.ask(encode=SQL)["plan"])
    raw = Raw(through.address)
    *_, last = raw.push(logical_plan=plan)
    assert last.status.WhichOneof("status") == "successful" and not last.local
    places = last.status.successful.partition_location
    assert places and all(f":{place.executor_meta.port}" != through.address[-6:] for place in places)
    rows = 0
    for place in places:
        executor = Raw(f"{place.executor_meta.host}:{place.executor_meta.port}")
        rows += executor.fetch(ticket_of(place))[0].num_rows
        executor.close()
        with pytest.raises(grpc.RpcError):  # not here
            raw.fetch(ticket_of(place))
    assert rows == 25
    assert not raw.call("CancelJob", job_id=last.status.job_id).cancelled  # a job that is over keeps its output
    executor = Raw(f"{places[0].executor_meta.host}:{places[0].executor_meta.port}")
    assert executor.fetch(ticket_of(places[0]))[0].num_columns == 2
    raw.call("CleanJobData", job_id=last.status.job_id)
    for _ in range(200):  # the cluster is told, and removes it
        try:
            executor.fetch(ticket_of(places[0]))
        except grpc.RpcError:
            break
    else:
        pytest.fail("the output is still there")
    executor.close()
    raw.close()


def test_failures_come_through(stock):
    with pytest.raises(Failed, match="(?i)divi(de|sion).?by.?zero"):
        stock.rows("SELECT 1 / n_nationkey FROM nation")


def test_a_job_on_the_cluster_is_cancelled(stock, through):
    # A join that yields: one that does not (a nested loop) would keep its executor from the tests that follow.
    plan = bytes.fromhex(stock.ask(encode="SELECT count(*) FROM lineitem a JOIN lineitem b ON a.l_suppkey = b.l_suppkey "
                                          "JOIN lineitem c ON b.l_suppkey = c.l_suppkey")["plan"])
    raw = Raw(through.address)
    call = raw.push(logical_plan=plan)
    job_id = None
    for result in call:
        if result.status.WhichOneof("status") == "running":
            job_id = result.status.job_id
            assert raw.call("CancelJob", job_id=job_id).cancelled
    assert job_id and result.status.failed.error == "Cancelled"
    raw.close()
