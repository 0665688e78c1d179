"""The Ballista backend over TLS, to a server that is scheduler and proxy of results at once: our own with Ballista's frontend, since
Ballista's programs have no TLS."""
import sys
import pytest
from conftest import ROOT, Server
from test_backend import failure, session

pytest.importorskip("pyspark")
pytest.importorskip("cryptography")
sys.path.insert(0, str(ROOT / "tests/program"))
from credentials import Authority  # noqa: E402


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder, authority, other = tmp_path_factory.mktemp("tls"), Authority(), Authority()
    certificate, key = authority.server()
    (folder / "cert.pem").write_bytes(certificate)
    (folder / "key.pem").write_bytes(key)
    (folder / "ca.pem").write_bytes(authority.pem)
    (folder / "other.pem").write_bytes(other.pem)
    return folder


@pytest.fixture(scope="module")
def scheduler(folder):
    with Server("--tls-cert", folder / "cert.pem", "--tls-key", folder / "key.pem") as running:
        yield "localhost:" + running.address.rpartition(":")[2]


def backend(folder, **options):
    """A configuration with this cluster."""
    path = folder / "trunnion.yaml"
    path.write_text(f"backend: {{ballista: {{{', '.join(f'{key}: {str(value)!r}' for key, value in options.items())}}}}}\n")
    return path


def test_queries_and_their_results_over_tls(folder, scheduler):
    config = backend(folder, scheduler=scheduler, tls="true", ca=folder / "ca.pem", fallback="refuse")
    with Server("--config", config) as server:
        spark = session(server)
        assert spark.range(100000).selectExpr("sum(id) s", "count(*) n").collect() == [(4999950000, 100000)]
        assert [r.id for r in spark.range(3, 20, 4).collect()] == [3, 7, 11, 15, 19]
        spark.stop()


@pytest.mark.parametrize("options", [dict(tls="true", ca="other.pem"), dict(tls="true"), dict()],
                         ids=["signed by another", "signed by nobody known", "without TLS"])
def test_who_cannot_be_trusted_gets_no_query(folder, scheduler, options):
    if "ca" in options:
        options = dict(options, ca=folder / options["ca"])
    config = backend(folder, scheduler=scheduler, timeout="3s", fallback="refuse", **options)
    with Server("--config", config) as server:
        spark = session(server)
        text = failure(lambda: spark.range(100000).selectExpr("sum(id) s").collect())
        assert scheduler in text
        spark.stop()
