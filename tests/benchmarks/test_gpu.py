"""The benchmark of a GPU, its checks and tables, on the stand-in."""

import importlib
import sys

import numpy as np
import pytest

from nmt.rnn.kernels.cuda.device_cuda import CudaDevice
from tests.devices import runtime_with


@pytest.fixture
def gpu(monkeypatch):
    module = importlib.import_module("gpu")
    monkeypatch.setattr(module, "TURN_SECONDS", 0)
    monkeypatch.setattr(module, "TURNS", 1)
    yield module
    for name in ("gpu", "_gpu_peer"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_rows_of_a_case(cell, gpu):
    runtime, rows = runtime_with(), []
    gpu.case(cell, gpu.Shape("tiny", 2, 2, 4, 8, mean_length=2), CudaDevice(runtime), rows)
    ours = [row for row in rows if row["contender"].startswith("ours")]
    assert [row["contender"] for row in ours] == ["ours float32", "ours bfloat16"]
    assert all(row["training"] > 0 and "failed" not in row for row in ours), ours
    # Without a GPU PyTorch's rows say why they are empty.
    assert all("failed" in row for row in rows if row["contender"].startswith("torch"))


def test_what_disagrees_is_named(gpu):
    ones, twos = {"y": np.ones(3)}, {"y": np.full(3, 2.0)}
    assert gpu.wrong(ones, twos, 1e-3) == "y is off by 5.0e-01, allowed 1e-03"
    assert gpu.wrong(twos, twos, 1e-3) is None


def test_persistent_rows(gpu):
    runtime, rows = runtime_with(multiprocessors=132), []
    gpu.persistent("gru", gpu.Shape("tiny", 1, 2, 4, 32), runtime, rows)
    gpu.persistent("gru", gpu.Shape("tiny", 1, 2, 4, 20), runtime, rows)
    assert rows[0]["backward us a step"] > 0
    assert rows[2]["failed"] == "does not fit"
