"""Commands whose system calls fail: some of the calls, and a planted rename that is not whole."""

import os
import subprocess
import sys

import pytest

from tests.witness.faults import COMPILER, SCENARIOS, compiled

pytestmark = pytest.mark.skipif(COMPILER is None or sys.platform != "linux", reason="needs cc, and Linux")
TORN = """
import os, sys
from pathlib import Path
from tests.witness.faults import Fault, check

def torn(source, target):
    content = Path(source).read_bytes()
    with open(target, "wb", buffering=0) as file:
        file.write(content[: len(content) // 2])
        file.write(content[len(content) // 2 :])
    os.unlink(source)

if sys.argv[1] == "torn":
    os.replace = torn
print(len(check("bundle", [Fault.KILL], 100, lambda line: None).wrong))
"""


def preloaded(folder, *words):
    """Run Python with faults.c loaded; return its output."""
    environment = {**os.environ, "LD_PRELOAD": str(compiled(folder)), "FAULT_FOLDER": str(folder)}
    done = subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ["translate", "bundle"])
def test_commands_end_well_whatever_call_fails(tmp_path, name):
    assert "0 wrong" in preloaded(tmp_path, "-m", "tests.witness.faults", "--most", "3", "--only", name)
    assert name in SCENARIOS


@pytest.mark.parametrize("planted", ["torn", "none"])
def test_a_rename_that_is_not_whole_is_found(tmp_path, planted):
    assert (int(preloaded(tmp_path, "-c", TORN, planted)) > 0) == (planted == "torn")
