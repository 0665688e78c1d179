"""make demo: TPC-H data, a server on a free loopback port, PySpark against it; with --cluster on a Ballista cluster of two
executors. usage: demo.py CACHE_DIR [--cluster]"""
import contextlib, pathlib, re, subprocess, sys, tempfile

root = pathlib.Path(__file__).resolve().parents[1]
cache = pathlib.Path(sys.argv[1])
data = cache / "tpch-0.1"
program = root / "build/release/trunnion"

if not (data / ".complete").exists():
    print("making TPC-H data, scale 0.1 ...", flush=True)
    data.mkdir(parents=True, exist_ok=True)
    generator = pathlib.Path(sys.executable).with_name("tpchgen-cli")
    subprocess.check_call([str(generator), "parquet", "-s", "0.1", "--output-dir", str(data)], stdout=subprocess.DEVNULL)
    (data / ".complete").touch()



@contextlib.contextmanager
def cluster(folder):
    """Gives the server's arguments for a cluster that runs meanwhile."""
    command = [str(program), "cluster", "up", "--executors", "2", "--work-dir", folder]
    started = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    print(started.stdout, end="", flush=True)
    if started.returncode:
        sys.exit(started.returncode)
    try:
        yield ["--backend", re.search(r"ready: (\S+)", started.stdout).group(1)]
    finally:
        subprocess.call([str(program), "cluster", "down", "--work-dir", folder])


def run(arguments):
    server = subprocess.Popen([str(program), "serve", "--listen", "127.0.0.1:0", *arguments], stdout=subprocess.PIPE, text=True)
    try:
        line = server.stdout.readline()
        match = re.search(r"sc://\S+", line)
        if not match:
            sys.exit("the server did not start")
        print(line, end="", flush=True)
        status = subprocess.call([sys.executable, str(root / "examples/tpch.py"), match.group(0), str(data)])
        up = f"{program} cluster up\n  " if arguments else ""
        backend = " --backend ballista://HOST:PORT" if arguments else ""
        print(f"""
To connect yourself:
  {up}{program} serve --listen 127.0.0.1:15002{backend} &
  {sys.executable} - <<EOF
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote("sc://127.0.0.1:15002").getOrCreate()
spark.read.parquet("{data}/nation.parquet").show()
EOF""")
        return status
    finally:
        server.terminate()
        server.wait(30)


if "--cluster" in sys.argv[2:]:
    with tempfile.TemporaryDirectory(prefix="trunnion-cluster-") as folder, cluster(folder) as arguments:
        status = run(arguments)
else:
    status = run([])
sys.exit(status)
