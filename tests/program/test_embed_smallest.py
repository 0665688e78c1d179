"""What the documentation shows a stranger: the program of docs/embedding.md, built by pkg-config against the installed tree."""
import os, re, shutil, subprocess, sys
import pytest
from conftest import BUILD, LEAVES, ROOT

CLIENT = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote(sys.argv[1]).create()
print(spark.sql("SELECT sum(id) AS s, current_user() AS u FROM range(5)").first().s)
spark.stop()
"""


def call(*command, **options):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=300, **options)
    assert done.returncode == 0, f"{command}: {done.stdout[-2000:]} {done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    if not shutil.which("pkg-config"):
        pytest.skip("there is no pkg-config on this machine")
    folder = tmp_path_factory.mktemp("smallest")
    prefix = folder / "installed"
    call("cmake", "--install", BUILD, "--prefix", prefix)
    found = list(prefix.rglob("trunnion-server.pc"))
    assert found, "pkg-config's files are installed"
    text = (ROOT / "docs/embedding.md").read_text()
    (folder / "smallest.c").write_text(re.search(r"```c\n(.*?)```", text, re.S).group(1))
    library = found[0].parent.parent
    environment = dict(os.environ, PKG_CONFIG_PATH=str(found[0].parent), LD_LIBRARY_PATH=str(library))
    flags = call("pkg-config", "--cflags", "--libs", "trunnion", "trunnion-server", env=environment).split()
    call("cc", "-std=c17", "-Wall", "-Wextra", "-Werror", "-pedantic", folder / "smallest.c", "-o", folder / "smallest", *flags)
    for variable in ("TRUNNION_ENGINE", "TRUNNION_FUNCTIONS"):
        if os.environ.get(variable):
            file = os.path.abspath(os.environ[variable])
            os.symlink(file, folder / os.path.basename(file))  # beside the program
    return folder / "smallest", environment


def test_the_smallest_program_of_the_documentation_serves_pyspark(program, tmp_path):
    binary, environment = program
    (tmp_path / "client.py").write_text(LEAVES + CLIENT)
    with subprocess.Popen([str(binary)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            address = process.stdout.readline().strip()
            assert address.startswith("sc://127.0.0.1:")
            done = subprocess.run([sys.executable, str(tmp_path / "client.py"), address], capture_output=True, text=True, timeout=250)
            assert done.stdout.strip() == "10", done.stderr[-2000:]
            process.stdin.close()
            assert process.wait(60) == 0, "it ends with its input"
        finally:
            process.kill()
