"""Checks of the tree that no compiler makes: public headers stand alone (C11, C17, C++11), includes point one way, the
program includes public headers only, the libraries import nothing that the header denies. usage: check_tree.py BUILD_DIR"""
import pathlib, re, subprocess, sys, tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
build = pathlib.Path(sys.argv[1])
failures = []

# A folder may include from itself, from these, and from include/trunnion.
MAY_INCLUDE = {
    "core": ["arrow"], "arrow": ["core", "plan"], "plan": ["core", "arrow"], "optimize": ["core", "plan"], "catalog": ["core", "plan", "arrow"],
    "engine": ["core", "plan", "arrow"], "backend": ["core", "plan", "arrow", "engine", "optimize"],
    "layer": ["core", "plan", "arrow"], "scheduler": ["core", "plan", "arrow", "backend", "engine"], "functions": [],
    "transport/h2": [], "transport/auth": [], "transport/inproc": ["core"], "transport/client": ["core", "transport/inproc"], "frontend/wire": ["core"],
    "frontend/spark": ["core", "frontend/wire", "plan", "arrow", "catalog"],
    "frontend/ballista": ["core", "plan", "arrow", "frontend/flight", "frontend/spark", "frontend/wire"],
    "frontend/flight": ["core", "arrow", "frontend/wire", "frontend/spark"], "frontend/flightsql": ["core", "plan", "arrow", "catalog", "frontend/flight", "frontend/spark", "frontend/wire"], "udf": ["core"],
    "frontend/grpc": ["core", "frontend/wire"],
}
# Headers that stand alone: the server's library, which sees no inside of the core, has them too.
ANYWHERE = {"core/base64.h"}


def room(path):
    parts = path.relative_to(ROOT / "src").parts
    return "/".join(parts[:2]) if parts[0] in ("transport", "frontend") else parts[0]


for path in sorted((ROOT / "src").rglob("*.[ch]")):
    here = room(path)
    for line in path.read_text().splitlines():
        match = re.match(r'#include "([^"]+)"', line)
        if not match or "/" not in match.group(1):
            continue
        target = ROOT / "src" / match.group(1)
        if target.exists() and match.group(1) not in ANYWHERE and room(target) != here and room(target) not in MAY_INCLUDE.get(here, []):
            failures.append(f"{path.relative_to(ROOT)}: {here} may not include {match.group(1)}")
    if here not in ("transport/h2", "transport/client") and re.search(r"#include <(nghttp2|uv)", path.read_text()):
        failures.append(f"{path.relative_to(ROOT)}: only src/transport includes nghttp2 and libuv")
    if here not in ("transport/h2", "transport/client", "transport/auth") and "#include <openssl" in path.read_text():
        failures.append(f"{path.relative_to(ROOT)}: only src/transport includes OpenSSL")
for path in (ROOT / "cmd").rglob("*.[ch]"):
    for match in re.findall(r'#include "([^"]+)"', path.read_text()):
        if not (path.parent / match).exists() or "/" in match:
            failures.append(f"{path.relative_to(ROOT)}: the program includes public headers only, not {match}")

with tempfile.TemporaryDirectory() as scratch:
    for header in sorted((ROOT / "include/trunnion").glob("*.h")):
        for compiler, language, standard in [("cc", "c", "c11"), ("cc", "c", "c17"), ("c++", "c++", "c++11")]:
            source = pathlib.Path(scratch) / f"alone.{'cc' if language == 'c++' else 'c'}"
            source.write_text(f"#include <trunnion/{header.name}>\nint main(void) {{ return 0; }}\n".replace("(void)", "()" if language == "c++" else "(void)"))
            try:
                done = subprocess.run([compiler, f"-std={standard}", "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only",
                                       f"-I{ROOT}/include", str(source)], capture_output=True, text=True)
            except FileNotFoundError:
                print(f"SKIPPED: headers as {standard} (no {compiler})")
                continue
            if done.returncode:
                failures.append(f"{header.name} does not stand alone as {standard}: {done.stderr.splitlines()[:1]}")

# What the library never does to its host (trunnion.h).
FORBIDDEN = {"exit", "_exit", "abort", "raise", "kill", "signal", "sigaction", "setenv", "putenv", "puts", "printf", "putchar",
             "system", "fork", "popen", "socket", "connect", "bind", "listen", "accept"}
for library, allowed in {"libtrunnion.so": set(), "libtrunnion_functions.so": set(),
                         "libtrunnion_server.so": {"socket", "connect", "bind", "listen", "accept"}}.items():
    names = subprocess.run(["nm", "-D", "--undefined-only", str(build / library)], capture_output=True, text=True, check=True)
    imports = {line.split()[-1].split("@")[0] for line in names.stdout.splitlines() if line.strip()}
    for name in sorted(imports & (FORBIDDEN - allowed)):
        failures.append(f"{library} imports {name}")

# What the libraries export is what docs/abi/symbols.txt says: an ABI grows by decision. --write-symbols writes it anew.
exported = []
for library in ("libtrunnion.so", "libtrunnion_server.so", "libtrunnion_functions.so"):
    names = subprocess.run(["nm", "-D", "--defined-only", str(build / library)], capture_output=True, text=True, check=True)
    exported += sorted(f"{library} {line.split()[-1].split('@')[0]}" for line in names.stdout.splitlines() if line.strip())
symbols = ROOT / "docs/abi/symbols.txt"
if "--write-symbols" in sys.argv:
    symbols.parent.mkdir(parents=True, exist_ok=True)
    symbols.write_text("\n".join(exported) + "\n")
known = symbols.read_text().split("\n")[:-1]
for name in sorted(set(known) - set(exported)):
    failures.append(f"{name} is in docs/abi/symbols.txt and not exported any more")
for name in sorted(set(exported) - set(known)):
    failures.append(f"{name} is exported and not in docs/abi/symbols.txt ('make symbols' adds it)")
for name in exported:
    if not re.search(r" trn_[a-z0-9_]+$", name) or " trn__" in name:
        failures.append(f"{name} is exported, but is no public name")

for failure in failures:
    print("FAILED", failure)
print(f"check_tree: {len(failures)} failures")
sys.exit(bool(failures))
