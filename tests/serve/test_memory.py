"""One heap for all threads, so that what one has freed is another's, or the system's."""

import subprocess
import sys

import pytest

_PROGRAM = """
import ctypes, sys, threading
from nmt.serve.memory import keep_little

if sys.argv[1] == "little":
    keep_little()
held, all_there = [], threading.Barrier(4)

def hold():
    all_there.wait()
    held.append([bytearray(3000) for _ in range(2000)])

threads = [threading.Thread(target=hold) for _ in range(4)]
for one in threads:
    one.start()
for one in threads:
    one.join()
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
libc.fclose.argtypes = [ctypes.c_void_p]
libc.malloc_info.argtypes = [ctypes.c_int, ctypes.c_void_p]
stream = libc.fopen(sys.argv[2].encode(), b"w")
libc.malloc_info(0, stream)
libc.fclose(stream)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the allocator of glibc")
@pytest.mark.parametrize("way", ["little", "usual"])
def test_threads_share_a_heap(tmp_path, way):
    out = tmp_path / "heaps"
    subprocess.run([sys.executable, "-c", _PROGRAM, way, str(out)], check=True)
    heaps = out.read_text().count("<heap nr=")
    if not heaps:
        pytest.skip("another C library")
    assert (heaps == 1) == (way == "little")
