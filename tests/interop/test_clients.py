"""Clients of other gRPC implementations, unmodified, against grpc_interop_server: grpc-java over Netty, and tonic. Deadlines,
cancels, large messages, 1,000 streams at once on one connection. TRUNNION_BUILD names the folder with the server."""
import os, pathlib, re, shutil, subprocess
import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = pathlib.Path(os.environ.get("TRUNNION_BUILD", ROOT / "build/release"))
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "trunnion"
CASES = ["deadline", "cancel", "large", "upload", "streams"]


def netty(tmp_path):
    """The command of the Java client."""
    for tool in ("javac", "mvn"):
        if not shutil.which(tool):
            pytest.skip(f"{tool} is not installed: Netty's client is NOT tested")
    jars = CACHE / "grpc-netty"
    if not (jars / "complete").exists():
        done = subprocess.run(["mvn", "-q", "-f", str(HERE / "netty/pom.xml"), "dependency:copy-dependencies", f"-DoutputDirectory={jars}"],
                              capture_output=True, text=True, timeout=600)
        if done.returncode:
            pytest.skip(f"grpc-netty cannot be had: {done.stdout[-300:]}")
        (jars / "complete").touch()
    subprocess.check_call(["javac", "-cp", f"{jars}/*", "-d", str(tmp_path), str(HERE / "netty/InteropClient.java")])
    return ["java", "-Xmx1g", "-cp", f"{jars}/*:{tmp_path}", "InteropClient"]


def tonic(tmp_path):
    if not shutil.which("cargo"):
        pytest.skip("cargo is not installed: tonic's client is NOT tested")
    target = CACHE / "tonic-target"
    subprocess.run(["cargo", "build", "--quiet", "--locked", "--example", "interopclient"], cwd=ROOT / "hosts/tonic", check=True,
                   env=os.environ | {"CARGO_TARGET_DIR": str(target), "TRUNNION_LIB_DIR": str(BUILD)})
    return [str(target / "debug/examples/interopclient")]


def memory(process):
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status).group(1)) // 1024


@pytest.mark.parametrize("client", [netty, tonic], ids=["netty", "tonic"])
def test_another_implementation(client, tmp_path):
    program = BUILD / "grpc_interop_server"
    if not program.exists():
        pytest.skip(f"{program} is absent")
    command = client(tmp_path)
    server = subprocess.Popen([str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        port = server.stdout.readline().split()[1]
        done = subprocess.run([*command, port], capture_output=True, text=True, timeout=240, env=os.environ | {"LD_LIBRARY_PATH": str(BUILD)})
        print(f"{client.__name__}: the server's peak is {memory(server)} MiB")
        assert [line for line in done.stdout.splitlines() if line] == [f"ok {case}" for case in CASES], done.stdout + done.stderr[-2000:]
    finally:
        server.stdin.close()
        assert server.wait(20) == 0
