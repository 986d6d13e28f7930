"""The register tile for a machine; tests/rnn/test_compute_dtype.py runs scans on smaller ones, by NMT_CPU."""

import pytest

from nmt.rnn.kernels.machine_code import features
from nmt.rnn.kernels.machine_code.features import TARGET
from tests.processes import python


def test_the_tile_fits_the_registers():
    assert TARGET.lanes == 16 or not TARGET.has_bf16
    registers = 16 if TARGET.name in ("avx2_vnni", "avx2", "generic") else 32
    assert (TARGET.rows[0] + 1) * TARGET.vectors + 1 <= registers
    assert TARGET.rows[-1] == 1
    assert TARGET.panel_width("f4") == TARGET.lanes * TARGET.vectors == 2 * TARGET.panel_width("f8")


def test_an_unknown_target_is_refused_in_one_line():
    code = (
        "from nmt.errors import DeviceError\n"
        "try:\n    import nmt.rnn.kernels.machine_code.features\n"
        "except DeviceError as error:\n    print(error)"
    )
    assert python(code, NMT_CPU="sse9").stdout == (
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
    assert python(code, NMT_CPU="").stdout == "False\n"
