"""A pytest plugin: leaves without the interpreter's farewell, which waits for ever now and then when a session of
pyspark-client was not stopped (a lock inside grpcio). And a test that hangs fails, with the stacks of all threads, instead of
holding up everything behind it."""
import faulthandler, os, signal, sys
import pytest

HANGS_SECONDS = 900  # no test comes near it; the longest builds a program first

status = 0


def hangs(*_):
    faulthandler.dump_traceback(sys.__stderr__)
    pytest.fail(f"it hangs: {HANGS_SECONDS} s are over")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    signal.signal(signal.SIGALRM, hangs)
    signal.alarm(HANGS_SECONDS)
    try:
        return (yield)
    finally:
        signal.alarm(0)


def pytest_sessionfinish(session, exitstatus):
    global status
    status = int(exitstatus)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config):
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
