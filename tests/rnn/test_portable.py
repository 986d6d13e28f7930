"""Forward and backward on smaller vector units: whole programs, in a process of their own."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from nmt.rnn.kernels.machine_code.features import TARGET

ROOT = Path(__file__).resolve().parents[2]
CHECK = """
import gc

from nmt.rnn.kernels.machine_code.features import TARGET
from nmt.rnn.kernels.machine_code.recipes import GeneratedLoop
from nmt.rnn.kernels.machine_code.store import store
from tests.oracle import compare
from tests.rnn import scan_cases as cases

# Attention on one of the targets: its row work is vectorised as the cell's is.
for name in ("lstm", "lstm_bahdanau_feed") if TARGET.name == "avx2" else ("lstm",):
    case = cases.draw(cases.CELLS[name](), "float32", cases.LENGTHS["mixed"])
    outputs, gradients, masks = cases.compiled(case, threads=2)
    expected = cases.interpreted(case, masks)
    for found, wanted in zip((outputs, gradients), expected, strict=True):
        assert set(found) == set(wanted)
        for key, value in wanted.items():
            compare.assert_close(found[key], value, compare.TOLERANCE["float32"], f"{name} {key}")
    if name == "lstm":
        rounded = cases.compiled(case, threads=2, compute_dtype="bfloat16")
        inferred = cases.inferred(case, threads=2, compute_dtype="int8")
        for key, value in cases.interpreted(case, None)[0].items():
            assert 0 < compare.norm_error(inferred[key], value) < 0.03, f"{name} int8 {key}"
        for found, wanted in zip(rounded, expected, strict=False):
            for key, value in wanted.items():
                assert 0 < compare.norm_error(found[key], value) < compare.BFLOAT16_TOLERANCE, f"{name} {key}"
loops = [one for one in gc.get_objects() if isinstance(one, GeneratedLoop)]
assert all(store().has(one.code_name) for one in loops)
print(TARGET.name, len(loops))
"""


@pytest.mark.skipif(platform.machine().lower() not in ("x86_64", "amd64"), reason="names of x86 targets")
@pytest.mark.parametrize("name", ["avx2", "generic"])
def test_scans_on_a_smaller_vector_unit(name):
    if name == "avx2" and TARGET.lanes < 8:
        pytest.skip("this machine has no AVX2")
    result = subprocess.run(
        [sys.executable, "-c", CHECK],
        cwd=ROOT,
        env={**os.environ, "NMT_CPU": name, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    # Forward and backward of the cells and of the LSTM in bfloat16, its forward in int8, backward of the attention's
    # keys (forward they are a product and nothing else).
    assert result.stdout.split() == [name, {"avx2": "8", "generic": "5"}[name]]
