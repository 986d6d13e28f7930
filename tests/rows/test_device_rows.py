"""What rows of results/engine-rows.md promise of devices."""

import numpy as np

from nmt.rnn import LSTM, LSTMCell, Scan
from nmt.rnn.devices import cpu
from tests.devices import device_at

T, B, D, H = 4, 3, 5, 6


def run(device):
    """A layer made by the same call with the same parameters, and what it gives, on the host."""
    place = device or cpu()
    layer = LSTM(D, H, dtype="float64", device=device)
    rng = np.random.default_rng(0)
    for array in layer.params.values():
        array[...] = place.upload(rng.standard_normal(array.shape))
    x, d_y = rng.standard_normal((T, B, D)), rng.standard_normal((T, B, H))
    y, *_ = layer.forward(place.upload(x), lengths=np.array([4, 2, 3]))
    found = layer.backward(place.upload(d_y))
    gradients = {name: place.download(g) for name, g in found.params.items()}
    return {"y": place.download(y), "d_x": place.download(found.d_x), **gradients}


def test_the_device_is_the_only_change():
    """The same interface and parameters on a GPU: `device=` differs and nothing else."""
    ours, theirs = LSTM(D, H), LSTM(D, H, device=device_at("cuda"))
    assert {k: (v.shape, v.dtype) for k, v in ours.params.items()} == {
        k: (v.shape, v.dtype) for k, v in theirs.params.items()
    }
    assert set(run(None)) == set(run(device_at("cuda")))


def test_plans_are_kept_by_device_and_type():
    """A plan is found again for the same cell, sizes, type and device, and for no other."""

    def plan(device=None, dtype="float32", hidden=H):
        return Scan(LSTMCell(D, hidden), dtype=dtype, device=device).compiled(False)

    gpu = device_at("cuda")
    assert plan() is plan() and plan(gpu) is plan(gpu)
    others = [plan(), plan(gpu), plan(dtype="float64"), plan(hidden=H + 1)]
    assert len({id(one) for one in others}) == len(others)


def test_devices_agree():
    """Outputs and every gradient of a ragged batch are the processor's, within float64's rounding."""
    ours, theirs = run(None), run(device_at("cuda"))
    for name, array in ours.items():
        np.testing.assert_allclose(theirs[name], array, rtol=1e-10, atol=1e-12, err_msg=name)
