"""A pytest plugin: leaves without the interpreter's farewell, which waits for ever now and then when a session of
pyspark-client was not stopped (a lock inside grpcio)."""
import os, sys
import pytest

status = 0


def pytest_sessionfinish(session, exitstatus):
    global status
    status = int(exitstatus)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config):
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
