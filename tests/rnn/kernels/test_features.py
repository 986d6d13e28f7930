"""The register tile for a machine, and the smaller ones that NMT_CPU asks for."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from nmt.rnn.kernels.machine_code import features
from nmt.rnn.kernels.machine_code.features import TARGET

ROOT = Path(__file__).resolve().parents[3]
# What each forced target has to get right in a process of its own: the choice is made once, at
# import.
CHECK = """
import sys
import numpy as np
from nmt.rnn.kernels.machine_code.features import TARGET
from nmt.rnn.kernels.machine_code.jit import kernel
from nmt.rnn.kernels.loops import activation_code
from nmt.rnn.kernels.products import packing
from nmt.rnn.kernels.products import product as products
from nmt.rnn.kernels.products.gradients import weight_gradient
from nmt.rnn.kernels.products.packing import packed_size
rng = np.random.default_rng(0)
A, W, B = (rng.standard_normal(s).astype("f4") for s in ((37, 45), (45, 70), (37, 70)))
packed = np.empty(packed_size(45, 70, "f4"), "f4")
packing.pack(0, 1, W, 0, 45, packed)
C, dW, rows = np.full((37, 72), 7, "f4"), np.empty((45, 70), "f4"), np.array([[0, 37]])
products.product(0, 1, A, 0, packed, C, 0, 45, 70, rows, 0)
weight_gradient(0, 1, A, 0, 45, B, 0, 70, rows, dW, 0)
np.testing.assert_allclose(C[:, :70], A @ W, atol=1e-4)
np.testing.assert_array_equal(C[:, 70:], 7)
np.testing.assert_allclose(dW, A.T @ B, atol=1e-4)
@kernel
def tanh(x, y):
    for i in range(x.size):
        y[i] = activation_code.tanh(x[i])
tanh(A.ravel(), out := np.empty(A.size, "f4"))
np.testing.assert_allclose(out, np.tanh(A.ravel()), atol=1e-6)
from tests.rnn.kernels.company import assembly_of
code = assembly_of(tanh.native(("float32 1", "float32 1")))
print(TARGET.name, "zmm" in code, "ymm" in code)
"""


def _run(forced, code=CHECK):
    environment = {**os.environ, "NMT_CPU": forced, "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)


def test_the_tile_fits_the_registers():
    assert TARGET.lanes == 16 or not TARGET.has_bf16
    registers = 16 if TARGET.name in ("avx2_vnni", "avx2", "generic") else 32
    assert (TARGET.rows[0] + 1) * TARGET.vectors + 1 <= registers
    assert TARGET.rows[-1] == 1
    assert TARGET.panel_width("f4") == TARGET.lanes * TARGET.vectors == 2 * TARGET.panel_width("f8")


@pytest.mark.skipif(platform.machine().lower() not in ("x86_64", "amd64"), reason="names of x86 targets")
@pytest.mark.parametrize("name", ["avx2", "generic"])
def test_a_forced_target_computes_the_same_with_smaller_vectors(name):
    if name == "avx2" and TARGET.lanes < 8:
        pytest.skip("this machine has no AVX2")
    result = _run(name)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == [name, "False", str(name == "avx2")]


def test_an_unknown_target_is_refused_in_one_line():
    code = (
        "from nmt.errors import DeviceError\n"
        "try:\n    import nmt.rnn.kernels.machine_code.features\n"
        "except DeviceError as error:\n    print(error)"
    )
    assert _run("sse9", code).stdout == (
        "NMT_CPU: must be one of avx512_amx, avx512_bf16, avx512_vnni, avx512, avx2_vnni, avx2, generic, "
        "native, got 'sse9'; unset it to use the whole machine\n"
    )


class Refusing:
    """A C library whose system keeps the tiles to itself, or that has no such call at all."""

    def __init__(self, answer):
        if answer is not None:
            self.syscall = lambda *numbers: answer


@pytest.mark.parametrize("answer", [-1, None])
def test_a_system_that_refuses_the_matrix_unit_is_believed(monkeypatch, answer):
    monkeypatch.setattr(features.ctypes, "CDLL", lambda name: Refusing(answer))
    assert not features._host_target().has_amx
    if TARGET.has_amx:
        assert features._host_target().name == "avx512_bf16"


def test_the_features_are_known_without_numba():
    code = "import sys, nmt.rnn.kernels.machine_code.features, nmt.rnn.cores\nprint('numba' in sys.modules)"
    assert _run("", code).stdout == "False\n"
