"""Planted faults are found: an access beyond an array by a fence, a rename that is not whole by system calls that
fail."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from tests.witness.faults import COMPILER, SCENARIOS, compiled
from tests.witness.fence import Side

pytestmark = pytest.mark.skipif(COMPILER is None or sys.platform != "linux", reason="needs cc, and Linux")
READ = """
import os, sys
import numpy as np
from numba import njit
from tests.witness.fence import Side, raise_fences

@njit
def read(array, place):
    return array[place]

read(np.ones(3, np.float32), 0)
if sys.argv[1] != "none":
    raise_fences(Side(sys.argv[1]))
array = np.ones(1000, np.float32)
assert read(array, 0) == read(array, 999) == 1
print("inside")
sys.stdout.flush()
read(array, int(sys.argv[2]))
print("beyond")
"""


def outcome(side: str, place: int) -> tuple[int, list[str]]:
    """Return the exit code of a process that reads this place of an array of 1,000 numbers, and what it printed."""
    done = subprocess.run([sys.executable, "-c", READ, side, str(place)], capture_output=True, text=True)
    return done.returncode, done.stdout.split()


@pytest.mark.parametrize(("side", "place"), [(Side.END, 1000), (Side.BEGIN, -1001)])
def test_one_number_beyond_an_array_ends_the_process(side, place):
    assert outcome(side.value, place) == (-signal.SIGSEGV, ["inside"])
    assert outcome("none", place) == (0, ["inside", "beyond"])


@pytest.mark.skipif("NMT_FENCE" not in os.environ, reason="NMT_FENCE is not set")
def test_arrays_of_the_tests_have_fences():
    assert np._core.multiarray.get_handler_name(np.ones(3)) == "fence"


FLAW = """
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
    assert (int(preloaded(tmp_path, "-c", FLAW, planted)) > 0) == (planted != "none")
