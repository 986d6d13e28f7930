"""A planted access beyond an array ends the process behind a fence, and is not seen without one."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from tests.witness.fence import COMPILER, Side

pytestmark = pytest.mark.skipif(COMPILER is None or sys.platform != "linux", reason="needs cc, and Linux")
PLANTED = """
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
    done = subprocess.run([sys.executable, "-c", PLANTED, side, str(place)], capture_output=True, text=True)
    return done.returncode, done.stdout.split()


@pytest.mark.parametrize(("side", "place"), [(Side.END, 1000), (Side.BEGIN, -1001)])
def test_one_number_beyond_an_array_ends_the_process(side, place):
    assert outcome(side.value, place) == (-signal.SIGSEGV, ["inside"])
    assert outcome("none", place) == (0, ["inside", "beyond"])


@pytest.mark.skipif("NMT_FENCE" not in os.environ, reason="NMT_FENCE is not set")
def test_arrays_of_the_tests_have_fences():
    assert np._core.multiarray.get_handler_name(np.ones(3)) == "fence"
