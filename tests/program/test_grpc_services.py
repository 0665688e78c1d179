"""gRPC's own services of the bundled server, asked with the clients of PyPI's grpcio-health-checking and grpcio-reflection."""
import grpc, pytest
from conftest import Server, run

health_pb2 = pytest.importorskip("grpc_health.v1.health_pb2")
health_pb2_grpc = pytest.importorskip("grpc_health.v1.health_pb2_grpc")
reflection_pb2 = pytest.importorskip("grpc_reflection.v1alpha.reflection_pb2")
from google.protobuf import descriptor_pool, message_factory  # noqa: E402
from google.protobuf import descriptor_pb2  # noqa: E402
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase  # noqa: E402

SPARK, FLIGHT = "spark.connect.SparkConnectService", "arrow.flight.protocol.FlightService"
SERVING, SERVICE_UNKNOWN = 1, 3


@pytest.fixture(scope="module")
def server():
    with Server("--listen", "127.0.0.1:0") as server:
        yield server


@pytest.fixture
def channel(server):
    with grpc.insecure_channel(server.address) as channel:
        yield channel


def test_the_server_and_its_services_are_serving(channel):
    stub = health_pb2_grpc.HealthStub(channel)
    for service in ("", SPARK, FLIGHT, "grpc.health.v1.Health"):
        assert stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=10).status == SERVING
    with pytest.raises(grpc.RpcError) as caught:
        stub.Check(health_pb2.HealthCheckRequest(service="no.such.Service"), timeout=10)
    assert caught.value.code() == grpc.StatusCode.NOT_FOUND


def test_a_watch_hears_at_once_and_goes_on(channel):
    stub = health_pb2_grpc.HealthStub(channel)
    for service, status in (("", SERVING), ("no.such.Service", SERVICE_UNKNOWN)):
        watch = stub.Watch(health_pb2.HealthCheckRequest(service=service), timeout=1)
        assert next(watch).status == status
        with pytest.raises(grpc.RpcError) as caught:
            next(watch)
        assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED


def test_the_list_has_every_service(channel):
    reply = health_pb2_grpc.HealthStub(channel).List(health_pb2.HealthListRequest(), timeout=10)
    assert {"", SPARK, FLIGHT} <= set(reply.statuses)
    assert all(entry.status == SERVING for entry in reply.statuses.values())


def test_services_can_be_called_by_what_reflection_tells(channel):
    database = ProtoReflectionDescriptorDatabase(channel)
    assert {SPARK, FLIGHT, "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection"} <= set(database.get_services())
    pool = descriptor_pool.DescriptorPool(database)
    method = pool.FindServiceByName(SPARK).FindMethodByName("Config")
    request = message_factory.GetMessageClass(method.input_type)(session_id="00112233-4455-4677-8899-aabbccddeeff")
    request.operation.get.keys.append("spark.sql.ansi.enabled")
    call = channel.unary_unary(f"/{SPARK}/Config", request_serializer=lambda m: m.SerializeToString(),
                               response_deserializer=message_factory.GetMessageClass(method.output_type).FromString)
    reply = call(request, timeout=10)
    assert [(pair.key, pair.value) for pair in reply.pairs] == [("spark.sql.ansi.enabled", "true")]
    action = message_factory.GetMessageClass(pool.FindServiceByName(FLIGHT).FindMethodByName("ListActions").output_type)
    actions = channel.unary_stream(f"/{FLIGHT}/ListActions", response_deserializer=action.FromString)(b"", timeout=10)
    assert "CreatePreparedStatement" in [one.type for one in actions]
    assert pool.FindMessageTypeByName("arrow.flight.protocol.sql.CommandStatementQuery")
    assert pool.FindEnumTypeByName("grpc.health.v1.HealthCheckResponse.ServingStatus")


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
def test_both_versions_answer_each_kind_of_question(channel, version):
    Request, Response = reflection_pb2.ServerReflectionRequest, reflection_pb2.ServerReflectionResponse
    ask = channel.stream_stream(f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
                                request_serializer=Request.SerializeToString, response_deserializer=Response.FromString)
    questions = [Request(host="h", list_services="*"), Request(file_by_filename="spark/connect/base.proto"),
                 Request(file_containing_symbol="spark.connect.Plan"), Request(file_by_filename="no/such.proto"),
                 Request(file_containing_symbol="spark.connect.Nothing"), Request(all_extension_numbers_of_type="spark.connect.Plan"),
                 Request(all_extension_numbers_of_type="no.Such"),
                 Request(file_containing_extension={"containing_type": "spark.connect.Plan", "extension_number": 5}), Request(host="h")]
    answers = list(ask(iter(questions), timeout=20))
    assert [a.original_request for a in answers] == questions and answers[0].valid_host == "h"
    files = [descriptor_pb2.FileDescriptorProto.FromString(f) for f in answers[1].file_descriptor_response.file_descriptor_proto]
    assert files[0].name == "spark/connect/base.proto"
    missing = {name for file in files for name in file.dependency} - {file.name for file in files}
    assert not missing, "what a file needs comes with it"
    again = [descriptor_pb2.FileDescriptorProto.FromString(f) for f in answers[2].file_descriptor_response.file_descriptor_proto]
    assert [file.name for file in again] == ["spark/connect/base.proto"], "and not twice"
    assert answers[5].all_extension_numbers_response.base_type_name == "spark.connect.Plan"
    codes = [answers[i].error_response.error_code for i in (3, 4, 6, 7, 8)]
    assert codes == [5, 5, 5, 5, 3]


def test_files_of_services_that_are_not_mounted_are_not_told():
    with Server("--listen", "127.0.0.1:0", "--set", "frontends.flightsql=off", "--set", "frontends.ballista=off") as server, grpc.insecure_channel(server.address) as channel:
        database = ProtoReflectionDescriptorDatabase(channel)
        assert FLIGHT not in database.get_services()
        with pytest.raises(KeyError):
            database.FindFileContainingSymbol(FLIGHT)
        assert database.FindFileContainingSymbol(SPARK).name == "spark/connect/base.proto"


def test_health_needs_no_credentials_and_reflection_does(tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text(run("hash-token", "ann", stdin="token-of-ann\n")[1])
    with Server("--listen", "127.0.0.1:0", "--set", f"auth.tokens={tokens}") as server, grpc.insecure_channel(server.address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        assert stub.Check(health_pb2.HealthCheckRequest(), timeout=10).status == SERVING
        with pytest.raises(grpc.RpcError) as caught:
            ProtoReflectionDescriptorDatabase(channel).get_services()
        assert caught.value.code() == grpc.StatusCode.UNAUTHENTICATED
