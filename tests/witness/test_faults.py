"""Commands whose system calls fail: some of the calls, and planted flaws: a rename that is not whole, a file left."""

import os
import subprocess
import sys

import pytest

from tests.witness.faults import COMPILER, SCENARIOS, compiled

pytestmark = pytest.mark.skipif(COMPILER is None or sys.platform != "linux", reason="needs cc, and Linux")
PLANTED = """
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
if sys.argv[1] == "left":
    import nmt.system.files

    nmt.system.files._remove = lambda path: None
kind = Fault.ONCE if sys.argv[1] == "left" else Fault.KILL
print(len(check("bundle", [kind], 100, lambda line: None).wrong))
"""


def preloaded(folder, *words):
    """Run Python with faults.c loaded; return its output."""
    environment = {**os.environ, "LD_PRELOAD": str(compiled(folder)), "FAULT_FOLDER": str(folder)}
    done = subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ["translate", "bundle", "reload"])
def test_commands_end_well_whatever_call_fails(tmp_path, name):
    if name == "reload":
        pytest.importorskip("starlette", reason="needs the extra [serve]")
    most = "1" if name == "reload" else "3"
    assert ", 0 wrong" in preloaded(tmp_path, "-m", "tests.witness.faults", "--most", most, "--only", name)
    assert name in SCENARIOS


@pytest.mark.parametrize("planted", ["torn", "left", "none"])
def test_planted_flaws_are_found(tmp_path, planted):
    assert (int(preloaded(tmp_path, "-c", PLANTED, planted)) > 0) == (planted != "none")
