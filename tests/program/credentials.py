"""Certificates, keys and calls for the tests."""
import datetime, ipaddress, uuid
import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
import pyspark.sql.connect.proto as pb
import pyspark.sql.connect.proto.base_pb2_grpc as stubs


def pem(key):
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


class Authority:
    """Signs certificates."""

    def __init__(self, name="test authority"):
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.certificate = self._make(self.name, self.key.public_key(), [x509.BasicConstraints(ca=True, path_length=None)])

    def _make(self, subject, public_key, extensions):
        now = datetime.datetime.now(datetime.timezone.utc)
        builder = (x509.CertificateBuilder().subject_name(subject).issuer_name(self.name).public_key(public_key)
                   .serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(hours=1))
                   .not_valid_after(now + datetime.timedelta(days=2)))
        for extension in extensions:
            builder = builder.add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
        return builder.sign(self.key, hashes.SHA256())

    @property
    def pem(self):
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def server(self):
        """(certificate, key) for localhost."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        certificate = self._make(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")]), key.public_key(),
                                 [x509.SubjectAlternativeName(names)])
        return certificate.public_bytes(serialization.Encoding.PEM), pem(key)

    def client(self, name):
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._make(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), key.public_key(), [])
        return certificate.public_bytes(serialization.Encoding.PEM), pem(key)


def config_call(channel, authorization=None, user="claimed", session=None, set_key=None, get_key="spark.app.name"):
    """One Config RPC: (status code, message or value)."""
    request = pb.ConfigRequest(session_id=session or str(uuid.uuid4()), user_context=pb.UserContext(user_id=user))
    if set_key:
        request.operation.set.pairs.add(key=set_key[0], value=set_key[1])
    else:
        request.operation.get_option.keys.append(get_key)
    metadata = [("authorization", authorization)] if authorization else []
    try:
        reply = stubs.SparkConnectServiceStub(channel).Config(request, metadata=metadata, timeout=20)
        return grpc.StatusCode.OK, reply.pairs[0].value if reply.pairs and reply.pairs[0].HasField("value") else None
    except grpc.RpcError as error:
        return error.code(), error.details()
