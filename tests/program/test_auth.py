"""Who calls: tokens, passwords, JSON web tokens made by other libraries, certificates; identities and sessions; reloading."""
import base64, datetime, json, os, subprocess, sys, textwrap, time, uuid
import grpc, jwt, pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, ed448, rsa
from jwcrypto import jwk, jws, jwt as jwcrypto_jwt
from conftest import LEAVES, ROOT, Server, run
from credentials import Authority, config_call

OK, UNAUTHENTICATED = grpc.StatusCode.OK, grpc.StatusCode.UNAUTHENTICATED


def line_for(command, user, secret, groups=""):
    status, out, err = run(command, user, stdin=secret + "\n")
    assert status == 0, err
    assert secret not in out
    return out.strip() + (":" + groups if groups else "")


# ---- tokens and passwords ----

@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("auth")
    (folder / "tokens").write_text("# tokens\n" + line_for("hash-token", "ann", "token-of-ann", "red,blue") + "\n" +
                                   line_for("hash-token", "bob", "token-of-bob") + "\n")
    (folder / "users").write_text(line_for("hash-password", "cid", "päss:word", "green") + "\nbob::yellow\n" +
                                  pbkdf2_line("dora", "other") + "\n")
    return folder


def pbkdf2_line(user, password):
    """As Python's passlib writes it."""
    import hashlib
    salt = os.urandom(16)
    ab64 = lambda data: base64.b64encode(data).rstrip(b"=").replace(b"+", b".").decode()
    digest = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, 1000)
    return f"{user}:$pbkdf2-sha256$1000${ab64(salt)}${ab64(digest)}"


@pytest.fixture(scope="module")
def server(files):
    with Server("--listen", "127.0.0.1:0", "--tokens", files / "tokens", "--users", files / "users") as server:
        yield server


@pytest.fixture()
def channel(server):
    with grpc.insecure_channel(server.address) as channel:
        yield channel


def basic(user, password):
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.mark.parametrize("authorization", [
    "Bearer token-of-ann", "bearer token-of-bob", basic("cid", "päss:word"), basic("dora", "other"),
])
def test_known_credentials_are_accepted(channel, authorization):
    assert config_call(channel, authorization)[0] == OK


@pytest.mark.parametrize("authorization", [
    None, "Bearer token-of-anna", "Bearer", "token-of-ann", "Bearer token-of-ann x", "Negotiate abc", "Basic !!!",
    "Basic " + base64.b64encode(b"cid").decode(), basic("cid", "wrong"), basic("nobody", "x"), basic("bob", ""),
    basic("cid", ""), basic("ann", "token-of-ann"), "Bearer " + "x" * 40000,
    "Bearer a.b.c", "Basic " + base64.b64encode(b"cid\0x:y").decode(),
])
def test_everything_else_is_refused_without_repeating_it(channel, authorization):
    code, message = config_call(channel, authorization)
    assert code in (UNAUTHENTICATED, grpc.StatusCode.RESOURCE_EXHAUSTED)
    assert "token-of" not in message and "wrong" not in message.replace("is wrong", "")


def test_wrong_passwords_are_bounded_and_right_ones_that_are_known_still_work(files):
    settings = ["--listen", "127.0.0.1:0", "--users", files / "users", "--set", "auth.failures_max=2"]
    with Server(*settings) as server, grpc.insecure_channel(server.address) as channel:
        assert config_call(channel, basic("cid", "päss:word"))[0] == OK
        codes, deadline = set(), time.monotonic() + 20
        while grpc.StatusCode.RESOURCE_EXHAUSTED not in codes and time.monotonic() < deadline:
            futures = [config_call(channel, basic("cid", "no"))[0] for _ in range(6)]
            codes |= set(futures)
        assert grpc.StatusCode.RESOURCE_EXHAUSTED in codes
        assert config_call(channel, basic("cid", "päss:word"))[0] == OK


# ---- identities and sessions ----

def test_a_claimed_user_is_replaced_by_the_authenticated_one(channel):
    session = str(uuid.uuid4())
    ann, bob = "Bearer token-of-ann", "Bearer token-of-bob"
    assert config_call(channel, ann, "ann", session, set_key=("spark.app.name", "of ann"))[0] == OK
    assert config_call(channel, ann, "somebody else", session) == (OK, "of ann"), "the claim does not matter"
    assert config_call(channel, bob, "ann", session) == (OK, "trunnion"), "another user's session is another session"
    assert config_call(channel, bob, "ann", session, set_key=("spark.app.name", "of bob"))[0] == OK
    assert config_call(channel, ann, "bob", session) == (OK, "of ann")


def test_groups_of_tokens_and_of_the_file_of_users_reach_the_policies(files, tmp_path):
    import pyarrow, pyarrow.parquet
    pyarrow.parquet.write_table(pyarrow.table({"x": [1, 2]}), tmp_path / "x.parquet")
    (tmp_path / "trunnion.yaml").write_text(json.dumps({
        "listen": "127.0.0.1:0", "auth": {"tokens": str(files / "tokens"), "users": str(files / "users")},
        "layers": [{"authorize": {"rules": [{"groups": ["red", "yellow"], "paths": f"{tmp_path}/*", "allow": "read"}]}}]}))
    script = tmp_path / "client.py"
    script.write_text(LEAVES + textwrap.dedent("""
        import sys, grpc
        from pyspark.sql.connect.session import SparkSession
        from pyspark.sql.connect.client import DefaultChannelBuilder
        class Insecure(DefaultChannelBuilder):
            def metadata(self):
                return list(super().metadata()) + [("authorization", sys.argv[2])]
        spark = SparkSession.builder.channelBuilder(Insecure(sys.argv[1])).create()
        print(spark.read.parquet(sys.argv[3]).count())"""))
    with Server("--config", tmp_path / "trunnion.yaml") as server:
        for header, allowed in [("Bearer token-of-ann", True), ("Bearer token-of-bob", True), (basic("cid", "päss:word"), False)]:
            done = subprocess.run([sys.executable, str(script), f"sc://{server.address}", header, str(tmp_path / "x.parquet")],
                                  capture_output=True, text=True, timeout=300)
            if allowed:
                assert done.stdout.strip() == "2", done.stderr[-2000:]
            else:
                assert "User 'cid' may not read path" in done.stderr


# ---- Flight: a handshake gives a token of its own ----

def test_a_handshake_of_flight_takes_a_password_and_gives_a_token(server):
    from pyarrow import flight
    client = flight.FlightClient(f"grpc://{server.address}")
    with pytest.raises(flight.FlightUnauthenticatedError):
        client.authenticate_basic_token("cid", "wrong")
    header, value = client.authenticate_basic_token("cid", "päss:word")
    assert header == b"authorization" and value.startswith(b"Bearer ") and len(value) > 20
    options = flight.FlightCallOptions(headers=[(header, value)])
    assert list(client.list_actions(options))
    assert list(client.list_actions(flight.FlightCallOptions(headers=[(b"authorization", b"Bearer token-of-bob")])))
    for headers in ([], [(header, value[:-1] + (b"A" if value[-1:] != b"A" else b"B"))], [(header, b"Bearer x")]):
        with pytest.raises(flight.FlightUnauthenticatedError):
            list(client.list_actions(flight.FlightCallOptions(headers=headers)))
    with grpc.insecure_channel(server.address) as channel:
        assert config_call(channel, value.decode())[0] == UNAUTHENTICATED, "a token of Flight is for Flight alone"
    client.close()


# ---- reloading ----

def test_sighup_reads_tokens_again_and_drops_no_session(tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text(line_for("hash-token", "ann", "first") + "\n" + line_for("hash-token", "bob", "old") + "\n")
    with Server("--listen", "127.0.0.1:0", "--tokens", tokens) as server, grpc.insecure_channel(server.address) as channel:
        session = str(uuid.uuid4())
        assert config_call(channel, "Bearer first", session=session, set_key=("spark.app.name", "kept"))[0] == OK
        assert config_call(channel, "Bearer old")[0] == OK
        tokens.write_text(line_for("hash-token", "ann", "first") + "\n" + line_for("hash-token", "bob", "new") + "\n")
        assert config_call(channel, "Bearer new")[0] == UNAUTHENTICATED
        assert "except" not in server.reload()
        assert config_call(channel, "Bearer new")[0] == OK
        assert config_call(channel, "Bearer old")[0] == UNAUTHENTICATED
        assert config_call(channel, "Bearer first", session=session) == (OK, "kept")
        tokens.write_text("not hashed\n")
        said = server.reload()
        assert f"{tokens}:1" in said and "except" in said
        assert config_call(channel, "Bearer new")[0] == OK, "what cannot be read leaves things as they were"


def test_sighup_changes_policies_and_drops_no_session(tmp_path):
    from pyspark.sql.connect import proto as pb
    file = tmp_path / "trunnion.yaml"

    def write(rules, forbidden):
        file.write_text(json.dumps({"listen": "127.0.0.1:0", "layers": [
            {"validate": {"settings": {"rules": [{"keys": [forbidden], "set": False, "get": True}]}}},
            {"authorize": {"default": "allow", "rules": rules}}]}))

    write([], "spark.nothing")
    with Server("--config", file) as server, grpc.insecure_channel(server.address) as channel:
        session = str(uuid.uuid4())
        set_name = dict(session=session, set_key=("spark.app.name", "mine"))
        assert config_call(channel, **set_name)[0] == OK
        write([], "spark.app.*")
        assert "except" not in server.reload()
        code, message = config_call(channel, session=session, set_key=("spark.app.name", "other"))
        assert code != OK and "may not be set" in message
        assert config_call(channel, session=session) == (OK, "mine")
        write([{"tables": "*"}], "spark.nothing")
        said = server.reload()
        assert "a rule says what it allows or denies" in said and "except" in said
        assert config_call(channel, **set_name)[0] != OK, "what is wrong leaves things as they were"
        file.write_text(json.dumps({"listen": "127.0.0.1:0", "layers": ["authorize"]}))
        assert "these are other layers than those that run" in server.reload()
        write([], "spark.nothing")
        assert "except" not in server.reload()
        assert config_call(channel, **set_name)[0] == OK


GROUPED = """
import sys, grpc
from pyspark.sql.connect.session import SparkSession
from pyspark.sql.connect.client import DefaultChannelBuilder
class Insecure(DefaultChannelBuilder):
    def metadata(self):
        return list(super().metadata()) + [("authorization", "Bearer token-of-ann")]
spark = SparkSession.builder.channelBuilder(Insecure(sys.argv[1])).create()
spark.sql("CREATE TEMPORARY VIEW mine AS SELECT 7 AS seven")
spark.conf.set("spark.app.name", "kept")
session = spark._client._session_id
print("ready", flush=True)
for path in sys.stdin:
    try:
        said = spark.read.parquet(path.strip()).count()
    except Exception as error:
        said = "may not" if "may not read" in str(error) else repr(error)
    assert spark._client._session_id == session
    print(said, spark.conf.get("spark.app.name"), spark.table("mine").first().seven, flush=True)
"""


def test_groups_that_a_reload_takes_and_gives_count_at_once_in_a_session_that_stays(tmp_path):
    import pyarrow, pyarrow.parquet
    from pyarrow import flight
    pyarrow.parquet.write_table(pyarrow.table({"x": [1, 2]}), tmp_path / "x.parquet")
    (tmp_path / "tokens").write_text(line_for("hash-token", "ann", "token-of-ann") + "\n")
    password = line_for("hash-password", "cid", "of cid")

    def write(of_ann, of_cid):
        (tmp_path / "users").write_text(f"ann::{of_ann}\n{password}:{of_cid}\n")

    write("readers", "readers")
    (tmp_path / "trunnion.yaml").write_text(json.dumps({
        "listen": "127.0.0.1:0", "auth": {"tokens": str(tmp_path / "tokens"), "users": str(tmp_path / "users")},
        "layers": [{"authorize": {"rules": [{"groups": "readers", "paths": f"{tmp_path}/*", "allow": "read"}]}}]}))
    (tmp_path / "client.py").write_text(LEAVES + GROUPED)
    query = f"SELECT count(*) FROM parquet.`{tmp_path / 'x.parquet'}`".encode()
    with Server("--config", tmp_path / "trunnion.yaml") as server:
        client = flight.FlightClient(f"grpc://{server.address}")
        options = flight.FlightCallOptions(headers=[client.authenticate_basic_token("cid", "of cid")])
        spark = subprocess.Popen([sys.executable, str(tmp_path / "client.py"), f"sc://{server.address}"],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

        def of_spark():
            spark.stdin.write(f"{tmp_path}/x.parquet\n")
            spark.stdin.flush()
            return spark.stdout.readline().strip()

        def of_flight():
            from pyarrow.flight import FlightDescriptor
            command = any_message("CommandStatementQuery", b"\x0a" + varint(len(query)) + query)
            info = client.get_flight_info(FlightDescriptor.for_command(command), options)
            return client.do_get(info.endpoints[0].ticket, options).read_all().column(0).to_pylist()

        def set_option(key, value):
            from pyarrow.flight import Action
            body = b"".join([b"\x0a", varint(len(key)), key, b"\x12", varint(len(value) + 2), b"\x0a", varint(len(value)), value])
            entry = b"\x0a" + varint(len(body)) + body
            list(client.do_action(Action("SetSessionOptions", entry), options))

        assert spark.stdout.readline() == "ready\n"
        set_option(b"dialect", b"spark")
        assert of_spark() == "2 kept 7" and of_flight() == [2]
        write("others", "others")
        assert of_spark() == "2 kept 7", "nothing is read before it is told to"
        assert "except" not in server.reload()
        assert of_spark() == "may not kept 7"
        with pytest.raises(flight.FlightUnauthorizedError, match="may not read"):
            of_flight()
        write("others,readers", "readers")
        assert "except" not in server.reload()
        assert of_spark() == "2 kept 7" and of_flight() == [2], "the option of the session is still there, too"
        (tmp_path / "users").write_text(line_for("hash-password", "cid", "another") + ":readers\n")
        assert "except" not in server.reload()
        assert of_spark() == "may not kept 7"
        with pytest.raises(flight.FlightUnauthenticatedError, match="log in again"):
            of_flight()
        spark.stdin.close()
        assert spark.wait(60) == 0
        client.close()


def varint(value):
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + varint(value >> 7)


def any_message(name, message):
    url = b"type.googleapis.com/arrow.flight.protocol.sql." + name.encode()
    return b"\x0a" + varint(len(url)) + url + b"\x12" + varint(len(message)) + message


# ---- JSON web tokens ----

KEYS = {
    "rsa": rsa.generate_private_key(public_exponent=65537, key_size=2048),
    "other": rsa.generate_private_key(public_exponent=65537, key_size=2048),
    "p256": ec.generate_private_key(ec.SECP256R1()),
    "p384": ec.generate_private_key(ec.SECP384R1()),
    "p521": ec.generate_private_key(ec.SECP521R1()),
    "ed25519": ed25519.Ed25519PrivateKey.generate(),
    "ed448": ed448.Ed448PrivateKey.generate(),
    "secret": os.urandom(64),
}
ALL = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "HS256", "HS384", "HS512"]


def public(name, **members):
    key = KEYS[name]
    if isinstance(key, bytes):
        made = {"kty": "oct", "k": base64.urlsafe_b64encode(key).rstrip(b"=").decode()}
    else:
        made = json.loads(jwk.JWK.from_pyca(key.public_key()).export_public())
    made.pop("kid", None)
    return {**made, "kid": name, **members}


def write_keys(path, *keys):
    path.write_text(json.dumps({"keys": list(keys)}))


def claims(**changes):
    now = int(time.time())
    made = {"sub": "ann", "iss": "https://issuer", "aud": "trunnion", "iat": now, "exp": now + 300, "groups": ["red"]}
    made.update(changes)
    return {key: value for key, value in made.items() if value is not None}


def token(key="rsa", algorithm="RS256", headers=None, **changes):
    headers = {"kid": key, **(headers or {})}
    return jwt.encode(claims(**changes), KEYS[key], algorithm, {k: v for k, v in headers.items() if v is not None})


def start_jwt(path, algorithms=ALL):
    file = path / "trunnion.yaml"
    file.write_text(json.dumps({"listen": "127.0.0.1:0", "auth": {"jwt": {
        "jwks": str(path / "keys.json"), "issuer": "https://issuer", "audience": ["trunnion", "second"],
        "algorithms": algorithms, "leeway": "5s"}}}))  # JSON is YAML
    return Server("--config", file)


@pytest.fixture(scope="module")
def jwt_server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("jwt")
    write_keys(folder / "keys.json", *(public(name) for name in KEYS if name != "other"))
    with start_jwt(folder) as server:
        yield server


@pytest.fixture()
def jwt_channel(jwt_server):
    with grpc.insecure_channel(jwt_server.address) as channel:
        yield channel


ACCEPTED = [("rsa", a) for a in ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")] + [
    ("p256", "ES256"), ("p384", "ES384"), ("p521", "ES512"), ("ed25519", "EdDSA"), ("ed448", "EdDSA"), ("secret", "HS256"),
    ("secret", "HS384"), ("secret", "HS512")]


@pytest.mark.parametrize("key, algorithm", ACCEPTED)
def test_tokens_of_pyjwt(jwt_channel, key, algorithm):
    assert config_call(jwt_channel, "Bearer " + token(key, algorithm))[0] == OK
    assert config_call(jwt_channel, "Bearer " + token(key, algorithm, headers={"kid": None}))[0] == OK


@pytest.mark.parametrize("key, algorithm", [pair for pair in ACCEPTED if pair[0] != "secret"])
def test_tokens_of_jwcrypto(jwt_channel, key, algorithm):
    made = jwcrypto_jwt.JWT(header={"alg": algorithm, "kid": key}, claims=claims(), algs=[algorithm])
    made.make_signed_token(jwk.JWK.from_pyca(KEYS[key]))
    assert config_call(jwt_channel, "Bearer " + made.serialize())[0] == OK


def b64(data):
    return base64.urlsafe_b64encode(data if isinstance(data, bytes) else json.dumps(data).encode()).rstrip(b"=").decode()


def unsigned(header):
    return f"{b64(header)}.{b64(claims())}."


def confused():
    """HS256 with the text of the public key as the secret."""
    import hashlib, hmac
    pem = KEYS["rsa"].public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    signed = f"{b64({'alg': 'HS256', 'kid': 'rsa'})}.{b64(claims())}"
    return f"{signed}.{b64(hmac.new(pem, signed.encode(), hashlib.sha256).digest())}"


def raw(payload, header=None, key="rsa"):
    """A right signature over any payload."""
    made = jws.JWS(payload if isinstance(payload, bytes) else payload.encode())
    made.add_signature(jwk.JWK.from_pyca(KEYS[key]), alg="RS256", protected=json.dumps(header or {"alg": "RS256", "kid": key}))
    return made.serialize(compact=True)


def tampered():
    head, payload, signature = token().split(".")
    return f"{head}.{b64(claims(sub='root'))}.{signature}"


now = int(time.time())
REFUSED = {
    "none": lambda: unsigned({"alg": "none"}),
    "None": lambda: unsigned({"alg": "None", "kid": "rsa"}),
    "no algorithm": lambda: unsigned({"kid": "rsa"}),
    "no signature": lambda: token().rsplit(".", 1)[0] + ".",
    "two parts": lambda: token().rsplit(".", 1)[0],
    "four parts": lambda: token() + ".x",
    "key confusion": confused,
    "another payload": tampered,
    "another key of the same name": lambda: jwt.encode(claims(), KEYS["other"], "RS256", {"kid": "rsa"}),
    "unknown key": lambda: token("other"),
    "wrong key for the algorithm": lambda: token("p256", "ES256", headers={"kid": "p384"}),
    "expired": lambda: token(exp=now - 60),
    "not yet valid": lambda: token(nbf=now + 600),
    "issued in the future": lambda: token(iat=now + 600),
    "no expiry": lambda: token(exp=None),
    "expiry as text": lambda: raw(json.dumps(claims(exp="tomorrow"))),
    "expiry beyond numbers": lambda: raw(json.dumps(claims(exp=1e300))),
    "another issuer": lambda: token(iss="https://other"),
    "no issuer": lambda: token(iss=None),
    "another audience": lambda: token(aud="others"),
    "other audiences": lambda: token(aud=["others", "more"]),
    "no audience": lambda: token(aud=None),
    "no user": lambda: token(sub=None),
    "empty user": lambda: token(sub=""),
    "user as a number": lambda: raw(json.dumps({**claims(), "sub": 5})),
    "critical header": lambda: token(headers={"crit": ["exp"], "exp": 1}),
    "the same claim twice": lambda: raw(json.dumps(claims())[:-1] + ', "sub": "root"}'),
    "claims that are a list": lambda: raw("[1]"),
    "claims that are nothing": lambda: raw(""),
    "claims nested deep": lambda: raw(json.dumps(claims())[:-1] + ', "x": ' + "[" * 100 + "]" * 100 + "}"),
    "a zero byte": lambda: raw(json.dumps(claims(sub="ann\0root"))),
    "signature with a bit left over": lambda: token()[:-1] + {"A": "B", "Q": "R", "g": "h", "w": "x"}[token()[-1]]
        if token()[-1] in "AQgw" else token() + "A",
    "padding": lambda: token() + "==",
    "plain base64": lambda: token().replace("-", "+").replace("_", "/") + "+",
    "too long": lambda: token(padding="x" * 40000),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_tokens_are_refused(jwt_channel, name):
    code, message = config_call(jwt_channel, "Bearer " + REFUSED[name]())
    assert code == UNAUTHENTICATED, name
    assert len(message) < 200 and "eyJ" not in message


def test_times_have_the_leeway_that_is_set(jwt_channel):
    assert config_call(jwt_channel, "Bearer " + token(exp=int(time.time()) - 2))[0] == OK
    assert config_call(jwt_channel, "Bearer " + token(nbf=int(time.time()) + 2))[0] == OK
    assert config_call(jwt_channel, "Bearer " + token(aud=["x", "second"]))[0] == OK


def test_algorithms_that_are_not_asked_for_are_refused(tmp_path):
    write_keys(tmp_path / "keys.json", public("rsa"), public("secret"), public("p256", alg="ES256"))
    with start_jwt(tmp_path, ["PS256", "ES256"]) as server, grpc.insecure_channel(server.address) as channel:
        assert config_call(channel, "Bearer " + token("rsa", "PS256"))[0] == OK
        assert config_call(channel, "Bearer " + token("p256", "ES256"))[0] == OK
        assert config_call(channel, "Bearer " + token("rsa", "RS256"))[0] == UNAUTHENTICATED
        assert config_call(channel, "Bearer " + token("secret", "HS256"))[0] == UNAUTHENTICATED


def test_keys_say_what_they_are_for(tmp_path):
    write_keys(tmp_path / "keys.json", public("rsa", alg="PS256"), public("other", use="enc"), public("p256", key_ops=["sign"]),
               public("ed25519", use="sig", key_ops=["verify"]), {"kty": "later", "kid": "x"})
    with start_jwt(tmp_path) as server, grpc.insecure_channel(server.address) as channel:
        assert config_call(channel, "Bearer " + token("rsa", "PS256"))[0] == OK
        assert config_call(channel, "Bearer " + token("ed25519", "EdDSA"))[0] == OK
        for key, algorithm in [("rsa", "RS256"), ("other", "RS256"), ("p256", "ES256")]:
            assert config_call(channel, "Bearer " + token(key, algorithm))[0] == UNAUTHENTICATED


def test_keys_rotate_without_a_signal(tmp_path):
    write_keys(tmp_path / "keys.json", public("rsa"))
    with start_jwt(tmp_path) as server, grpc.insecure_channel(server.address) as channel:
        assert config_call(channel, "Bearer " + token())[0] == OK
        assert config_call(channel, "Bearer " + token("other"))[0] == UNAUTHENTICATED
        write_keys(tmp_path / "keys.json", public("other"))
        time.sleep(1.1)  # a changed file is looked for once in a second
        assert config_call(channel, "Bearer " + token("other"))[0] == OK
        assert config_call(channel, "Bearer " + token())[0] == UNAUTHENTICATED, "the old key is gone"


@pytest.mark.parametrize("keys, message", [
    ("{}", "has no list"), ("[", "has no list"), ('{"keys": []}', "no key in it can verify"),
    ('{"keys": [{"kty": "RSA", "n": "AQAB", "e": "AQAB"}]}', "key 0: an RSA key has 2048"),
    ('{"keys": [{"kty": "oct", "k": "c2hvcnQ"}]}', "key 0: a secret has 32 bytes"),
    ('{"keys": [{"kty": "EC", "crv": "P-256", "x": "AQ", "y": "AQ"}]}', "no point of the curve"),
    ('{"keys": [{"kty": "RSA", "alg": "ES256"}]}', "'alg' does not go with 'kty'"),
    ('{"keys": [{"kid": "x"}]}', "a key needs 'kty'"),
])
def test_bad_keys_are_named(tmp_path, keys, message):
    (tmp_path / "keys.json").write_text(keys)
    status, _, err = run("serve", "--check", "--jwks", tmp_path / "keys.json")
    assert status == 2 and message in err and "keys.json" in err


# ---- TLS and certificates ----

@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    authority = Authority()
    certificate, key = authority.server()
    (folder / "cert.pem").write_bytes(certificate)
    (folder / "key.pem").write_bytes(key)
    (folder / "ca.pem").write_bytes(authority.pem)
    (folder / "tokens").write_text(line_for("hash-token", "ann", "token-of-ann") + "\n")
    return folder, authority


def tls_arguments(folder):
    return ["--listen", "127.0.0.1:0", "--tls-cert", folder / "cert.pem", "--tls-key", folder / "key.pem"]


def secure(address, root, client=None):
    key, certificate = (client[1], client[0]) if client else (None, None)
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(root, key, certificate))


PYSPARK = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote(sys.argv[1]).create()
print(spark.range(5).selectExpr("sum(id) AS s", "current_user() AS u").collect()[0])
spark.stop()
"""


def run_pyspark(tmp_path, url, ca):
    script = tmp_path / "client.py"
    script.write_text(LEAVES + PYSPARK)
    done = subprocess.run([sys.executable, str(script), url], capture_output=True, text=True, timeout=300,
                          env=dict(os.environ, GRPC_DEFAULT_SSL_ROOTS_FILE_PATH=str(ca)))
    return done.returncode, done.stdout, done.stderr


def test_pyspark_over_tls_with_a_token(tls, tmp_path):
    folder, _ = tls
    with Server(*tls_arguments(folder), "--tokens", folder / "tokens") as server:
        url = f"sc://localhost:{server.port}/;use_ssl=true"
        status, out, err = run_pyspark(tmp_path, url + ";token=token-of-ann;user_id=root", folder / "ca.pem")
        assert status == 0 and out.strip() == "Row(s=10, u='ann')", err[-2000:]
        status, out, err = run_pyspark(tmp_path, url + ";token=token-of-bob", folder / "ca.pem")
        assert status != 0 and "The token is not known here" in err and "token-of-bob" not in err.replace(url, "")


def test_certificates_of_clients(tls):
    folder, authority = tls
    with Server(*tls_arguments(folder), "--client-ca", folder / "ca.pem", "--client-names") as server:
        address, session = f"localhost:{server.port}", str(uuid.uuid4())
        with secure(address, authority.pem, authority.client("ann")) as channel:
            assert config_call(channel, session=session, set_key=("spark.app.name", "of ann"))[0] == OK
            assert config_call(channel, user="x", session=session) == (OK, "of ann")
            assert config_call(channel, "Bearer x")[0] == UNAUTHENTICATED, "a token that is there must be right"
        with secure(address, authority.pem, authority.client("bob")) as channel:
            assert config_call(channel, user="ann", session=session) == (OK, "trunnion")
        with secure(address, authority.pem, Authority("another").client("ann")) as channel:
            assert config_call(channel)[0] == grpc.StatusCode.UNAVAILABLE
        with secure(address, authority.pem) as channel:
            assert config_call(channel)[0] == grpc.StatusCode.UNAVAILABLE


def test_a_certificate_that_is_no_name_here_lets_nobody_in_without_credentials(tls):
    """Also where the frontend looks at credentials itself."""
    from pyarrow import flight
    folder, authority = tls
    certificate, key = authority.client("ann")
    with Server(*tls_arguments(folder), "--client-ca", folder / "ca.pem", "--tokens", folder / "tokens") as server:
        client = flight.FlightClient(f"grpc+tls://localhost:{server.port}", tls_root_certs=authority.pem,
                                     cert_chain=certificate, private_key=key)
        for headers in ([], [(b"authorization", b"Bearer x")]):
            with pytest.raises(flight.FlightUnauthenticatedError):
                list(client.list_actions(flight.FlightCallOptions(headers=headers)))
        assert list(client.list_actions(flight.FlightCallOptions(headers=[(b"authorization", b"Bearer token-of-ann")])))
        client.close()


def get(address, path):
    import urllib.error, urllib.request
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=10) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""


def test_health_for_everybody_metrics_where_nobody_is_asked_who_he_is(server, tmp_path):
    assert get(server.address, "/healthz") == (200, "ok\n")
    assert get(server.address, "/metrics")[0] == 404
    assert get(server.address, "/nothing")[0] == 404
    (tmp_path / "trunnion.yaml").write_text("listen: 127.0.0.1:0\nlayers: [trace]\n")
    with Server("--config", tmp_path / "trunnion.yaml") as traced, grpc.insecure_channel(traced.address) as channel:
        assert config_call(channel)[0] == OK
        status, text = get(traced.address, "/metrics")
        assert status == 200 and "# TYPE" in text


def test_sighup_replaces_the_certificate_and_keeps_connections(tls, tmp_path):
    old, new = Authority("old"), Authority("new")
    def write(authority):
        certificate, key = authority.server()
        (tmp_path / "cert.pem").write_bytes(certificate)
        (tmp_path / "key.pem").write_bytes(key)
    write(old)
    with Server(*tls_arguments(tmp_path)) as server:
        address, session = f"localhost:{server.port}", str(uuid.uuid4())
        with secure(address, old.pem) as channel:
            assert config_call(channel, session=session, set_key=("spark.app.name", "kept"))[0] == OK
            write(new)
            assert "except" not in server.reload()
            assert config_call(channel, session=session) == (OK, "kept")
        with secure(address, new.pem) as channel:
            assert config_call(channel, session=session) == (OK, "kept")
        with secure(address, old.pem) as channel:
            assert config_call(channel)[0] == grpc.StatusCode.UNAVAILABLE
        (tmp_path / "cert.pem").write_text("no certificate")
        assert "except" in server.reload()
        with secure(address, new.pem) as channel:
            assert config_call(channel)[0] == OK
