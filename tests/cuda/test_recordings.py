"""Updates whose passes are recordings: the numbers are those of updates that launch everything."""

import numpy as np
import pytest

from nmt.errors import ShapeError
from nmt.rnn.kernels.cuda.device_cuda import CudaDevice
from nmt.storage.model_folder import build_model
from nmt.train.updates.optimizer import make_optimizer
from nmt.train.updates.update import Updater
from tests.devices import ptx_runtime_with
from tests.oracle.compare import assert_same_bits
from tests.refusals import refused
from tests.settings import settings_with
from tests.small_models import DECODER, ENCODER, Group, batch_of

V = 14
SIZES = [(4, 4), (4, 4), (5, 3)]  # the longest source and target


def batch(number, longest):
    """Four ragged rows, at least three quarters of each side real; other lengths each time, and numbers of tokens that
    share a recording."""
    rng = np.random.default_rng(number)
    lengths = [rng.permutation([most, most - 1, most - 1, most - rng.integers(2)]) for most in longest]
    sides = ([rng.integers(4, V, n).tolist() for n in side] for side in lengths)
    return batch_of(list(zip(*sides, strict=True)))


def settings(compute_dtype, **training):
    sides = {
        "encoder": {**ENCODER, "hidden_size": 32, "embeddings": {"embedding_dim": 4, "dropout": 0.2}},
        "decoder": {**DECODER, "hidden_dropout": 0.3},
    }
    training = {"optimizer": "adam", "clip_grad_norm": 0.5, "label_smoothing": 0.1, "weight_decay": 0.01, **training}
    return settings_with(model=sides, training=training, compute_dtype=compute_dtype)


class Run:
    """A model in training on a GPU of its own; `recorded`: as it is, or without recordings of passes."""

    def __init__(self, config, *, recorded):
        self.runtime = ptx_runtime_with(132, seed=1)
        self.device = CudaDevice(self.runtime)
        if not recorded:
            self.device._repeat = lambda most, key, arrays, launch: launch()
        self.model = build_model(config, V, V, device=self.device)
        self.model.initialize(7)
        self.optimizer = make_optimizer(config.training, self.model.params, 1, self.device)
        self.updater = Updater(config, self.model, self.optimizer, 1)
        self.outcomes = []

    def update(self, number):
        """Sizes alternate, rates change, every fifth update adds up two batches, the seventh is not finite."""
        broken, several = number == 7, number % 5 == 0
        batches = [batch(10 * number + n, SIZES[number % 3]) for n in range(1 + several)]
        bias = self.model.params["output.b"]
        before = self.device.download(bias)
        if broken:
            bias[...] = self.device.upload(np.full_like(before, np.nan))
            self.model.changed()
        outcome = self.updater.update(Group(batches), number, 0.02 / number)
        if broken:
            assert not outcome.is_finite
            bias[...] = self.device.upload(before)
            self.model.changed()
            return
        self.outcomes.append((outcome.stats, outcome.norm))

    def state(self):
        arrays, numbers = self.optimizer.state_dict()
        return {name: self.device.download(array) for name, array in self.model.params.items()}, arrays, numbers


def assert_same(one, other):
    assert one.outcomes == other.outcomes
    for mine, theirs in zip(one.state(), other.state(), strict=True):
        assert_same_bits(mine, theirs)


@pytest.mark.parametrize("compute_dtype", ["float32", "bfloat16"])
def test_recorded_updates_have_the_bits_of_others(compute_dtype):
    """And a run that stops goes on with the same bits, where it has recorded nothing yet."""
    config = settings(compute_dtype)
    recorded, launched = (Run(config, recorded=kind) for kind in (True, False))
    resumed = None
    for number in range(1, 13):
        if number == 9:
            resumed = Run(config, recorded=True)
            params, arrays, numbers = recorded.state()
            for name, array in params.items():
                resumed.model.params[name][...] = resumed.device.upload(array)
            resumed.model.changed()
            resumed.optimizer.load_state_dict(arrays, numbers)
            resumed.outcomes = list(recorded.outcomes)
        for run in (recorded, launched, resumed):
            if run is not None:
                run.update(number)
    assert_same(recorded, launched)
    assert_same(recorded, resumed)
    counts = recorded.runtime.gpu.counts
    assert counts["graph"] >= 6
    assert not launched.runtime.gpu.counts["graph"]
    counts.clear()
    recorded.update(12)
    assert (counts["graph"], counts["product"], counts["cooperative"], counts["upload"]) == (1, 0, 0, 1)
    wrong = batch(120, SIZES[0])
    wrong.tgt_out[0, 0] = V
    line = "targets must be classes from 0 and below 14, got 3 to 14"
    refused(ShapeError, line, recorded.updater.update, Group([wrong]), 12, 0.01)


def test_what_cuda_does_not_record_is_launched_with_the_numbers_of_its_batch():
    config = settings("float32")
    broken, launched = (Run(config, recorded=kind) for kind in (True, False))
    broken.runtime.gpu.breaks_capture = True
    with pytest.warns(UserWarning, match="launched without a recording"):
        for run in (broken, launched):
            for number in (1, 3, 4, 6):
                run.update(number)
    assert_same(broken, launched)
