"""File, environment and flags; what --check says; help and man pages."""
import json, re, shutil, subprocess
import pytest
from conftest import LEAVES, PROGRAM, ROOT, Server, run
from credentials import Authority


def check(tmp_path, text, *arguments, **environment):
    file = tmp_path / "trunnion.yaml"
    file.write_text(text)
    return run("serve", "--config", file, "--check", *arguments, **environment)


def test_check_says_what_would_run(tmp_path):
    certificate, key = Authority().server()
    (tmp_path / "cert.pem").write_bytes(certificate)
    (tmp_path / "key.pem").write_bytes(key)
    (tmp_path / "tokens").write_text("# nobody yet\n")
    status, out, err = check(tmp_path, f"""
listen: [127.0.0.1:0, "unix:{tmp_path}/socket"]
tls: {{cert: {tmp_path}/cert.pem, key: {tmp_path}/key.pem}}
auth: {{tokens: {tmp_path}/tokens}}
backend: embedded
frontends:
  spark: {{timezone: Europe/Berlin}}
""")
    assert status == 0, err
    assert re.search(r"listen +127.0.0.1:0, TLS\nlisten +unix:", out)
    assert re.search(r"authentication +tokens \(", out)
    assert re.search(r"frontends +.*spark", out)
    assert re.search(r"backend +embedded", out)
    assert "substrait.plan.v1" in out and out.endswith("the settings are valid\n")


RULE = "layers:\n  - authorize:\n      rules:\n        - {tables: a, allow: read}\n        -\n          tables: b\n"


@pytest.mark.parametrize("text, message", [
    ("lisen: 127.0.0.1:0\n", "trunnion.yaml:1: unknown key 'lisen'; did you mean 'listen'?"),
    ("listen: 127.0.0.1:0\ntls:\n  crt: x\n", "trunnion.yaml:3: unknown key 'crt' in 'tls'; did you mean 'cert'?"),
    ("limits: {stream: 5}\n", "did you mean 'streams'?"),
    ("limits: {streams: many}\n", "trunnion.yaml:1: streams: 'many' is not a number from 0 to 1000000"),
    ("limits: {memory: 5Q}\n", "'5Q' is not a number of bytes such as 512M"),
    ("grace: soon\n", "'soon' is not a time such as 500ms or 2m"),
    ("backend: {embeded: {}}\n", "There is no backend 'embeded', did you mean 'embedded'?"),
    ("backend: {embedded: {memry: 1G}}\n", "did you mean 'memory'?"),
    ("backend: {embedded: {}, other: {}}\n", "one backend is wanted"),
    ("frontends: {spork: {}}\n", "There is no frontend 'spork', did you mean 'spark'?"),
    ("frontends: {spark: {timezon: UTC}}\n", "did you mean 'timezone'?"),
    ("frontends: {spark: {timezone: Europe/Berlim}}\n", "trunnion.yaml:1: timezone: there is no time zone 'Europe/Berlim'"),
    ("frontends: {spark: {timezone: ../../etc/passwd}}\n", "there is no time zone '../../etc/passwd'"),
    ("frontends: []\n", "frontends: none is left"),
    ("catalogs: {lake: {warehous: {}}}\n", "There is no catalog 'warehous', did you mean 'warehouse'?"),
    ("catalogs: {lake: {warehouse: {dir: x}}}\n", "unknown key 'dir'"),
    ("catalogs: [lake]\n", "a map of names is wanted"),
    ("layers: [nothing_like_it]\n", "'nothing_like_it'"),
    ("layers: [5, [x]]\n", "layer"),
    ("plugins: [/nonexistent/plugin.so]\n", "cannot load the plugin /nonexistent/plugin.so"),
    ("plugins: [libc.so.6]\n", "libc.so.6 is no plugin"),
    ("plugins: [{fil: x}]\n", "did you mean 'file'?"),
    ("tls: {cert: /nonexistent/cert.pem, key: /nonexistent/key.pem}\n", "cannot read /nonexistent/cert.pem"),
    ("tls: {cert: /etc/passwd, key: /etc/passwd}\n", "certificate"),
    ("tls: {cert: /etc/passwd}\n", "'cert' and 'key' go together"),
    ("auth: {tokens: /nonexistent/tokens}\n", "trunnion.yaml:1: cannot read /nonexistent/tokens"),
    ("auth:\n  jwt:\n    isuer: x\n", "trunnion.yaml:3: unknown key 'isuer' in 'jwt'; did you mean 'issuer'?"),
    ("layers:\n  - trace\n  - authorise\n", "trunnion.yaml:3: There is no layer 'authorise', did you mean 'authorize'?"),
    ("layers:\n  - trace: {file: /nonexistent/dir/x}\n", "trunnion.yaml:2: /nonexistent/dir/x cannot be written"),
    ("layers:\n  - limit: {pools: [{name: a, concurent: 1}]}\n", "trunnion.yaml:2: unknown key 'concurent'; did you mean 'concurrent'?"),
    ("layers:\n  - route: {backends: [{name: a, embeded: {}}]}\n", "trunnion.yaml:2: There is no backend 'embeded', did you mean 'embedded'?"),
    ("layers:\n  - authorize:\n      rules:\n        - groups: a\n          alow: read\n", "trunnion.yaml:5: unknown key 'alow'; did you mean 'allow'?"),
    (RULE + '          filter: "region = = 3"\n',
     "trunnion.yaml:7: rule 2, its filter: a value is missing, at character 10 of \"region = = 3\""),
    (RULE + "          filter: region = 'EU\n", "trunnion.yaml:7: rule 2, its filter: a quote is not closed, at character 11"),
    (RULE + "          filter: region = 'EU' owner\n", "rule 2, its filter: the text goes on after its end, at character 15"),
    (RULE + "          filter: upper(region, 5) = 'EU'\n", "rule 2, its filter: upper takes 1 to 1 arguments, not 2"),
    (RULE + "          filter: case when a then 1 else 'one' end = b\n", "int and string do not go together"),
    (RULE + "          filter: a + date '2024-01-31' > b\n", "'+' is for numbers"),
    (RULE + "          filter: region || 'x'\n", "rule 2, its filter: a condition is expected, not a value"),
    (RULE + "          masks:\n            ssn: right(ssn, 4)\n            name: initials(name)\n",
     "trunnion.yaml:9: rule 2, the mask of 'name': there is no function 'initials' for policies, at character 1"),
    (RULE + "          masks: {ssn: ''}\n", "trunnion.yaml:7: rule 2, the mask of 'ssn': the text ends too early"),
    ("layers:\n  - validate: {settings: {rules: [{keys: x, gets: true}]}}\n", "trunnion.yaml:2: unknown key 'gets'; did you mean 'get'?"),
    ("backend: {embeded: {}}\n", "trunnion.yaml:1: There is no backend 'embeded', did you mean 'embedded'?"),
    ("catalogs:\n  c: {warehous: {}}\n", "trunnion.yaml:2: There is no catalog 'warehous', did you mean 'warehouse'?"),
    ("frontends: {spark: {timezon: UTC}}\n", "trunnion.yaml:1: unknown key 'timezon' in 'spark'; did you mean 'timezone'?"),
    ("warehouse: /nonexistent/dir\n", "trunnion.yaml:1: The warehouse directory /nonexistent/dir cannot be made"),
    ("plugins: [/nonexistent.so]\n", "trunnion.yaml:1: cannot load the plugin /nonexistent.so"),
    ("auth: {}\n", "nobody could be known"),
    ("auth: {certificates: true}\n", "nobody checks certificates without tls.client_ca"),
    ("auth: {jwt: {issuer: me}}\n", "'jwks' is missing"),
    ("auth: {jwt: {jwks: x, algorithms: [none]}}\n", "algorithms: 'none' is none of RS256"),
    ("listen: 127.0.0.1\n", "trunnion.yaml:1: listen: '127.0.0.1' is not host:port"),
    ("listen: [127.0.0.1:99999]\n", "'127.0.0.1:99999' is not host:port"),
    ("listen: 'unix:'\n", "'unix:' is not host:port"),
    ("backend: {embedded: {spill_dir: /nonexistent/dir}}\n", "trunnion.yaml:1: spill_dir: /nonexistent/dir is no directory"),
    ("listen: 0.0.0.0:0\n", "0.0.0.0:0 is not loopback and clients are not authenticated"),
    ("listen: [127.0.0.1:0, '[::]:0']\n", "[::]:0 is not loopback"),
    ("listen: 127.0.0.1:0\nlisten: 127.0.0.1:1\n", "trunnion.yaml:2: 'listen' is there twice, first at"),
    ("a: &x 1\n", "anchors and tags are not supported"),
    ("a: *x\n", "aliases are not supported"),
    ("listen: !!str x\n", "anchors and tags are not supported"),
    ("- a\n", "no map of settings"),
    ("a\n", "no map of settings"),
    ("{a: 1\n", "trunnion.yaml:"),
    ("a: \t- b\n\t- c", "trunnion.yaml:"),
    ("? [a]\n: b\n", "a key is a text"),
    ("a: 1\n---\nb: 2\n", "a second document"),
    ("a: " + "[" * 500 + "\n", "trunnion.yaml:"),
])
def test_mistakes_are_named_and_nothing_runs(tmp_path, text, message):
    status, out, err = check(tmp_path, text)
    assert status == 2 and "valid" not in out
    assert message in err, err


def test_texts_that_some_table_fits_pass(tmp_path):
    """Columns may be of any type where no table is known: what decides is only said when one is read."""
    filters = ["flag", "not flag and other.flag", "a.b.c between -x and x * 2 + 1.5", "a like b or `odd name` not like '%x'",
               "if(flag, d, date '2024-01-31') < '2024-02-01'", "d in ('2024-01-31', other, null)", "case a when 1 then flag else null end",
               "left(s, n) || substr(s, n, 2) = concat(s, t)", "coalesce(a, b, 5) % c = -d", "coalesce(flag, false)",
               "cast(x as decimal(10,2)) / y > 1e3", "is_member('staff') or owner = current_user()", "if(a is null, b, c) = d", "null"]
    masks = ["null", "x", "x.y", "sha2(x, 256)", "length(x) + y", "case when x > 5 then y end", "x || 'a'"]
    text = "layers:\n  - authorize:\n      rules:\n" + "".join(f"        - {{tables: t, filter: {json.dumps(f)}}}\n" for f in filters)
    text += "        - tables: t\n          masks:\n" + "".join(f"            c{i}: {json.dumps(m)}\n" for i, m in enumerate(masks))
    status, out, err = check(tmp_path, text)
    assert status == 0 and out.endswith("the settings are valid\n"), err


def test_files_of_users_must_hold_hashes(tmp_path):
    users = tmp_path / "users"
    for line, what in [("ann:secret", "the password is not hashed"), ("ann", "this is not user:hash"),
                       ("ann:$scrypt$ln=30,r=8,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaA", "the password is not hashed")]:
        users.write_text("\n# a comment\n" + line + "\n")
        status, _, err = check(tmp_path, f"auth: {{users: {users}}}\n")
        assert status == 2 and f"{users}:3: {what}" in err
        assert "secret" not in err, "a secret must not be repeated"


def test_flags_go_over_the_environment_and_that_over_the_file(tmp_path):
    def listens(*arguments, **environment):
        status, out, err = check(tmp_path, "listen: 127.0.0.1:1111\ngrace: 1s\n", *arguments, **environment)
        assert status == 0, err
        return re.search(r"listen +127.0.0.1:(\d+)", out).group(1)

    assert listens() == "1111"
    assert listens(TRUNNION_LISTEN="127.0.0.1:2222") == "2222"
    assert listens("--listen", "127.0.0.1:3333", TRUNNION_LISTEN="127.0.0.1:2222") == "3333"
    assert listens("--set", "listen=127.0.0.1:4444") == "4444"
    status, _, err = check(tmp_path, "", "--set", "lisen=x")
    assert status == 2 and "--set: unknown key 'lisen'" in err
    status, _, err = check(tmp_path, "", TRUNNION_GRACE="soon")
    assert status == 2 and "TRUNNION_GRACE: grace: 'soon'" in err
    status, out, err = run("serve", "--check", TRUNNION_CONFIG=str(tmp_path / "missing.yaml"))
    assert status == 2 and "missing.yaml" in err


def test_remote_is_allowed_when_it_is_said_twice(tmp_path):
    status, _, err = check(tmp_path, "listen: 0.0.0.0:0\n", "--allow-remote")
    assert status == 0, err
    (tmp_path / "tokens").write_text("")
    status, _, err = check(tmp_path, f"listen: 0.0.0.0:0\nauth: {{tokens: {tmp_path}/tokens}}\n")
    assert status == 0 and "travel unencrypted" in err


def test_help_and_manual_have_the_same_options():
    status, help_text, _ = run("--help")
    assert status == 0
    flags = set(re.findall(r"^  --([a-z-]+)", help_text, re.M))
    assert {"listen", "config", "check", "plugin", "tls-cert", "jwks"} <= flags
    man, *parts = run("--man")[1].replace("\\-", "-").split(".SH OPTIONS OF ")
    assert flags == set(re.findall(r"^\\fB--([a-z-]+)\\fR", man, re.M))
    assert [part.split()[0] for part in parts] == ["CLUSTER", "JOBS"]
    for part in parts:
        own = set(re.findall(r"^  --([a-z-]+)", run(part.split()[0].lower(), "--help")[1], re.M))
        assert own and own == set(re.findall(r"^\\fB--([a-z-]+)\\fR", part, re.M))
    for flag in flags - {"check", "config", "set", "allow-remote", "client-names"}:
        status, _, err = run("serve", f"--{flag}")
        assert status == 2 and "requires an argument" in err, flag
    for arguments in (["serve", "--nothing"], ["serve", "extra"], ["nothing"], [], ["hash-token", "a", "b"]):
        assert run(*arguments)[0] == 2


def test_every_key_of_the_manual_is_accepted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a check opens what it is told to, also a warehouse of that name
    manual = run("--man", "5")[1].replace("\\-", "-")
    keys = re.findall(r"^\\fB([a-z_.]+)\\fR", manual, re.M)
    assert len(keys) > 30
    for key in keys:  # the key is known: what is wrong is the value, or nothing
        err = run("serve", "--check", "--set", f"{key}=nonsense")[2]
        assert "unknown key" not in err, (key, err)


@pytest.mark.skipif(not shutil.which("groff"), reason="no groff on this machine")
@pytest.mark.parametrize("section", ["1", "5"])
def test_manual_pages_are_well_formed(section):
    text = run("--man", section)[1]
    done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z"], input=text, capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr


def test_it_listens_where_it_is_told(tmp_path):
    import grpc
    from credentials import config_call
    file = tmp_path / "trunnion.yaml"
    file.write_text(f"listen: [127.0.0.1:0, 127.0.0.1:0, 'unix:{tmp_path}/s']\n")
    with Server("--config", file) as server:
        second = server.process.stdout.readline().decode()
        port = int(re.search(r":(\d+)", second).group(1))
        assert port != server.port
        for address in (server.address, f"127.0.0.1:{port}", f"unix:{tmp_path}/s"):
            with grpc.insecure_channel(address) as channel:
                assert config_call(channel)[0] == grpc.StatusCode.OK, address


@pytest.mark.parametrize("frontends, line", [
    ("{}", r"Spark Connect on sc://127.0.0.1:\d+ \(and flightsql.*\)$"), ("[flightsql]", r": flightsql on 127.0.0.1:\d+$"),
    ("{flightsql: false, ballista: false}", r"Spark Connect on sc://127.0.0.1:\d+ \(and health, reflection\)$"),
    ("{flightsql: false, ballista: false, health: false, reflection: false}", r"Spark Connect on sc://127.0.0.1:\d+$"), ("[spark]", r"sc://127.0.0.1:\d+$"),
])
def test_the_first_line_says_what_is_served(tmp_path, frontends, line):
    file = tmp_path / "trunnion.yaml"
    file.write_text(f"listen: 127.0.0.1:0\nfrontends: {frontends}\n")
    process = subprocess.Popen([str(PROGRAM), "serve", "--config", str(file)], stdout=subprocess.PIPE, text=True)
    said = process.stdout.readline().rstrip()
    process.terminate()
    assert process.wait(60) == 0
    process.stdout.close()
    assert re.search(line, said), said


def test_catalogs_are_there_by_name_and_kept(tmp_path):
    import json, os, sys
    file = tmp_path / "trunnion.yaml"
    file.write_text(json.dumps({"listen": "127.0.0.1:0", "warehouse": str(tmp_path / "main"),
                                "catalogs": {"lake": {"warehouse": {"directory": str(tmp_path / "lake")}}}}))

    def pyspark(server, code):
        script = tmp_path / "client.py"
        script.write_text(LEAVES + "import sys\nfrom pyspark.sql import SparkSession\n"
                          "spark = SparkSession.builder.remote(sys.argv[1]).create()\n" + code)
        done = subprocess.run([sys.executable, str(script), f"sc://{server.address}"], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout.strip()

    with Server("--config", file) as server:
        pyspark(server, "spark.sql('CREATE TABLE lake.default.t AS SELECT 5 AS five')\nspark.sql('CREATE TABLE u AS SELECT 6 AS six')")
    with Server("--config", file) as server:
        assert pyspark(server, "print(spark.table('lake.default.t').collect(), spark.table('u').collect())") == \
            "[Row(five=5)] [Row(six=6)]"


def test_the_example_in_the_manual_and_the_documentation_are_valid(tmp_path):
    import os
    certificate, key = Authority().server()
    (tmp_path / "server.pem").write_bytes(certificate)
    (tmp_path / "server.key").write_bytes(key)
    for name in ("tokens.txt", "users.txt"):
        (tmp_path / name).write_text("")
    (tmp_path / "keys.json").write_text('{"keys": [{"kty": "EC", "crv": "P-256", '
        '"x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}')
    text = (ROOT / "docs/server.md").read_text().split("```yaml\n")[1].split("```")[0]
    manual = run("--man", "5")[1].replace("\\-", "-").split(".nf\n")[1].split(".fi")[0]
    for sample in (text, manual):
        sample = re.sub(r"plugins:\n  - .*\n", "", sample).replace("/var/lib/trunnion", str(tmp_path / "warehouse"))
        (tmp_path / "trunnion.yaml").write_text(sample)
        done = subprocess.run([str(PROGRAM), "serve", "--config", "trunnion.yaml", "--check"], cwd=tmp_path, capture_output=True,
                              text=True, timeout=60)
        assert done.returncode == 0, done.stderr
