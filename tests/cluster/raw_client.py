"""A client of Ballista's protocol made of raw requests: what the stock client does, and what it never would. Messages come
from proto/*.proto by protoc; plans from PyPI's datafusion, in an environment of its own (tests/cluster/producer.py)."""
import pathlib, subprocess, tempfile
import grpc
import pyarrow as pa

ROOT = pathlib.Path(__file__).resolve().parents[2]
SERVICE = "/ballista.protobuf.SchedulerGrpc/"
FLIGHT = "/arrow.flight.protocol.FlightService/DoGet"


def load_messages():
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    with tempfile.TemporaryDirectory() as scratch:
        out = pathlib.Path(scratch) / "set"
        subprocess.check_call(["protoc", f"-I{ROOT}/proto", "--include_imports", f"--descriptor_set_out={out}",
                               str(ROOT / "proto/ballista.proto"), str(ROOT / "proto/flight.proto")])
        files = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    return lambda name: message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


_get = load_messages()


class Messages:
    def __getattr__(self, name):
        return _get("ballista.protobuf." + name)


m = Messages()
FlightData, Ticket = _get("arrow.flight.protocol.FlightData"), _get("arrow.flight.protocol.Ticket")
UNARY = {"ExecuteQuery": ("ExecuteQueryParams", "ExecuteQueryResult"), "GetJobStatus": ("GetJobStatusParams", "GetJobStatusResult"),
         "GetJobMetrics": ("GetJobMetricsParams", "GetJobMetricsResult"), "CancelJob": ("CancelJobParams", "CancelJobResult"),
         "CleanJobData": ("CleanJobDataParams", "CleanJobDataResult"),
         "CreateUpdateSession": ("CreateUpdateSessionParams", "CreateUpdateSessionResult"),
         "RemoveSession": ("RemoveSessionParams", "RemoveSessionResult")}


class Client:
    """`version` None: a client of 54.x, which sends none."""

    def __init__(self, address, version="55.0.0", metadata=(), credentials=None):
        options = [("grpc.max_receive_message_length", 16 << 20), ("grpc.max_send_message_length", 128 << 20)]
        self.channel = (grpc.secure_channel(address, credentials, options=options) if credentials
                        else grpc.insecure_channel(address, options=options))
        self.metadata = (([("ballista-version", version)] if version else []) + list(metadata)) or None

    def close(self):
        self.channel.close()

    def call(self, method, timeout=30, **fields):
        """A unary call by the fields of its request."""
        request, reply = UNARY[method]
        stub = self.channel.unary_unary(SERVICE + method, request_serializer=lambda x: x.SerializeToString(),
                                        response_deserializer=getattr(m, reply).FromString)
        return stub(getattr(m, request)(**fields), metadata=self.metadata, timeout=timeout)

    def raw(self, path, payload, stream=False, timeout=30):
        if stream:
            return list(self.channel.unary_stream(path)(payload, metadata=self.metadata, timeout=timeout))
        return self.channel.unary_unary(path)(payload, metadata=self.metadata, timeout=timeout)

    def push(self, timeout=60, **fields):
        """The stream of ExecuteQueryPush, as it comes."""
        stub = self.channel.unary_stream(SERVICE + "ExecuteQueryPush", request_serializer=lambda x: x.SerializeToString(),
                                         response_deserializer=m.GetJobStatusResult.FromString)
        return stub(m.ExecuteQueryParams(**params(fields)), metadata=self.metadata, timeout=timeout)

    def fetch(self, ticket, timeout=60, metadata=None):
        """(schema, batches, sizes of messages) of a DoGet. The stock client sends no metadata with it."""
        stub = self.channel.unary_stream(FLIGHT, request_serializer=lambda x: x.SerializeToString())
        messages = list(stub(Ticket(ticket=ticket), timeout=timeout, metadata=metadata))
        stream, kinds = b"", []
        for bytes_ in messages:
            data = FlightData.FromString(bytes_)
            header = data.data_header
            stream += b"\xff\xff\xff\xff" + len(header).to_bytes(4, "little") + header + data.data_body
            kinds.append(pa.ipc.read_message(b"\xff\xff\xff\xff" + len(header).to_bytes(4, "little") + header + data.data_body).type)
        assert "dictionary" not in kinds
        with pa.ipc.open_stream(stream + b"\xff\xff\xff\xff\0\0\0\0") as reader:
            return reader.read_all(), [len(x) for x in messages]

    def run(self, **fields):
        """Submits by push, fetches every location: a table."""
        statuses = list(self.push(**fields))
        return self.table_of(statuses[-1])

    def table_of(self, result):
        kind = result.status.WhichOneof("status")
        if kind != "successful":
            raise RuntimeError(f"Job {result.status.job_id} {kind}: {result.status.failed.error}")
        assert result.local, "one port for everything"
        tables = [self.fetch(ticket_of(location))[0] for location in result.status.successful.partition_location]
        return pa.concat_tables(tables)


def params(fields):
    fields = dict(fields)
    settings = fields.pop("settings", {})
    fields.setdefault("session_id", "6f1c6a50-0000-4000-8000-000000000001")
    fields.setdefault("operation_id", "019d0000-0000-7000-8000-000000000001")
    fields["settings"] = [m.KeyValuePair(key=k, **({} if v is None else {"value": v})) for k, v in settings.items()]
    return fields


def ticket_of(location, older=False, **changes):
    """The ticket that a client makes of a location: of 55, or of 54."""
    fetch = m.FetchPartition(job_id=location.partition_id.job_id, stage_id=location.partition_id.stage_id,
                             partition_id=location.partition_id.partition_id, host=location.executor_meta.host,
                             port=location.executor_meta.port)
    if location.WhichOneof("has_file_id"):
        fetch.file_id = location.file_id
    if older:
        fetch.is_sort_shuffle = location.is_sort_shuffle
    else:
        fetch.layout = 1 if location.is_sort_shuffle else 0
    for key, value in changes.items():
        if value is None:
            fetch.ClearField(key)
        else:
            setattr(fetch, key, value)
    return m.Action(fetch_partition=fetch).SerializeToString()
