"""make demo: TPC-H data, a server on a free loopback port, PySpark against it. usage: demo.py CACHE_DIR"""
import pathlib, re, subprocess, sys

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

server = subprocess.Popen([str(program), "serve", "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
try:
    line = server.stdout.readline()
    match = re.search(r"sc://\S+", line)
    if not match:
        sys.exit("the server did not start")
    print(line, end="", flush=True)
    status = subprocess.call([sys.executable, str(root / "examples/tpch.py"), match.group(0), str(data)])
    print(f"""
To connect yourself:
  {program} serve --listen 127.0.0.1:15002 &
  {sys.executable} - <<EOF
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote("sc://127.0.0.1:15002").getOrCreate()
spark.read.parquet("{data}/nation.parquet").show()
EOF""")
finally:
    server.terminate()
    server.wait(30)
sys.exit(status)
