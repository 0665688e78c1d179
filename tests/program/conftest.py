"""The program `trunnion` from outside: its settings, its authentication, its plugins. TRUNNION_BUILD names the build folder
(default build/release); TRUNNION_ENGINE and TRUNNION_FUNCTIONS are the program's own variables."""
import os, pathlib, re, select, signal, subprocess, sys, time
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TRUNNION_BUILD", ROOT / "build/release"))
PROGRAM = BUILD / "trunnion"
sys.path.insert(0, str(pathlib.Path(__file__).parent))


# The beginning of a client's script: it leaves without the interpreter's farewell, in which grpcio waits for itself now and then.
LEAVES = """
import atexit, os, sys

def leave(status):
    sys.stdout.flush(), sys.stderr.flush()
    os._exit(status)

def failed(kind, value, trace):
    sys.__excepthook__(kind, value, trace)
    leave(1)

atexit.register(leave, 0)
sys.excepthook = failed
"""


class Server:
    """A running `trunnion serve`; a context manager."""

    def __init__(self, *arguments, **environment):
        self.process = subprocess.Popen([str(PROGRAM), "serve", *map(str, arguments)], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, env=dict(os.environ, **environment))
        line = self.process.stdout.readline().decode()
        match = re.search(r"sc://(\S+?):(\d+)", line)
        if not match:
            self.process.kill()
            raise RuntimeError(f"the server did not start: {line!r} {self.process.communicate()[1].decode()[:2000]}")
        self.line = line
        self.host, self.port = match.group(1), int(match.group(2))
        self.address = f"{self.host}:{self.port}"

    def reload(self):
        """SIGHUP; gives what the server says about it."""
        self.process.send_signal(signal.SIGHUP)
        said, deadline = b"", time.monotonic() + 20
        while b"reloaded" not in said:
            assert time.monotonic() < deadline, f"no answer to SIGHUP: {said!r}"
            if select.select([self.process.stderr], [], [], 0.2)[0]:
                said += os.read(self.process.stderr.fileno(), 65536)
        return said.decode()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            assert self.process.wait(30) == 0, "the server must end cleanly"
        finally:
            self.process.kill()
            self.process.stdout.close()
            self.process.stderr.close()


def run(*arguments, stdin=None, **environment):
    """(exit status, standard output, standard error) of a run that ends by itself."""
    done = subprocess.run([str(PROGRAM), *map(str, arguments)], capture_output=True, text=True, input=stdin, timeout=120,
                          env=dict(os.environ, **environment))
    return done.returncode, done.stdout, done.stderr


def pytest_collection_modifyitems(items):
    for item in items:
        if not PROGRAM.exists():
            item.add_marker(pytest.mark.skip(reason=f"{PROGRAM} is not built"))
