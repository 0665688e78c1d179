"""The yardstick programs, which are not part of the project: what passes is listed with what does not, and why."""
import re, subprocess, sys
import pytest
from conftest import TOOLS

pytest.importorskip("adbc_driver_flightsql")

SKIPS = {"adbc_wrong_password": "needs credentials", "raw_handshake_basic": "needs credentials"}


def test_ninety_four_cases(address):
    if not (TOOLS / "flightsql_clients.py").exists():
        pytest.skip("flightsql_clients.py is not there (TRUNNION_YARDSTICKS)")
    done = subprocess.run([sys.executable, TOOLS / "flightsql_clients.py", f"grpc://{address}"], capture_output=True, text=True, timeout=600)
    lines = done.stdout.splitlines()
    assert not [line for line in lines if line.startswith("FAIL")]
    skipped = {line.split()[1] for line in lines if line.startswith("SKIP")}
    assert skipped <= set(SKIPS), skipped - set(SKIPS)
    assert len([line for line in lines if line.startswith("PASS")]) >= 92


def test_user_cases(address):
    if not (TOOLS / "cases.py").exists():
        pytest.skip("cases.py is not there (TRUNNION_YARDSTICKS)")
    done = subprocess.run([sys.executable, TOOLS / "cases.py", f"grpc://{address}"], capture_output=True, text=True, timeout=600)
    assert re.search(r"^[4-9]\d* passed, 0 failed", done.stdout, re.M), done.stdout[-2000:]
