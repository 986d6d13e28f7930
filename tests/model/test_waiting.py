"""Nobody but `Device.host` hands memory of launches that wait to NumPy: with their arrays spoilt until they run, all
parts of an update have the same bits."""

import numpy as np
import pytest

from nmt.data.batching.batches import make_batch
from nmt.model.batch_pass import Alignment, Objective
from nmt.model.translation import TranslationModel
from nmt.rnn import GRU, LSTM, GRUCell, LSTMCell, Scan
from nmt.rnn.arrays.weights import Weights, initial_params
from nmt.rnn.kernels.device_cpu import CPUDevice
from nmt.rnn.kernels.products.packing import packed_weight
from nmt.rnn.kernels.threads import pool
from nmt.rnn.scan.layered import LayeredScan
from tests import small_models
from tests.oracle import compare
from tests.rnn.poison import poisoned
from tests.settings import settings_with

V = 9
SOURCES = [[4, 5, 6, 7, 8], [8, 4], [5, 5, 5], [6]]
TARGETS = [[4, 5, 8, 7], [7, 4], [6], [5, 4]]
ACTIONS = [[V + 4, 7, V + 7, V, V + 7, V + 8], [5, V + 8, V], [V, V, V], [V + 4]]
EVERY = np.arange(len(SOURCES))
ATTENTION = Objective(guided_alignment=0.4, alignment=Alignment(0 * EVERY, EVERY, 0 * EVERY, np.ones(len(SOURCES))))
CONV = {"type": "conv", "num_layers": 2, "hidden_size": 5, "max_positions": 3}
SIX = {"embeddings": {"embedding_dim": 6}}
EDITS = {"edit_actions": True, "attention": "none", "input_feeding": False}
STACKED = {"num_layers": 2, "residual": True, "dropout": 0.3}

MODELS = {
    "plain": ({}, None),
    "stacked": ({"encoder": STACKED, "decoder": {**STACKED, "hidden_dropout": 0.2}}, None),
    "one direction": ({"encoder": {**STACKED, "bidirectional": False}}, None),
    "bfloat16": ({"compute_dtype": "bfloat16", "encoder": STACKED}, None),
    "convolutions": ({"encoder": CONV, "decoder": CONV}, None),
    "from the mean": ({"decoder": {"init_from": "mean"}, "encoder": CONV}, None),
    "copying": ({"encoder": SIX, "decoder": {**SIX, "copy_source": True}}, None),
    "copying, attention": ({"encoder": SIX, "decoder": {**SIX, "copy_source": True}}, ATTENTION),
    "edits": ({"encoder": SIX, "decoder": {**SIX, **EDITS}}, None),
    "attention": ({}, ATTENTION),
    "lexical": ({"encoder": SIX, "decoder": {**SIX, "lexical": True}, "tied": "all"}, None),
}


def gradients(model, batch, objective):
    options = {"objective": objective} if objective else {}
    stats, found = model.loss_and_gradients(batch, seed=5, threads=2, label_smoothing=0.1, **options)
    return [np.array([stats.nll, stats.loss]), *found.values()]


@pytest.fixture
def spoilt(monkeypatch):
    """Return a function that returns what another returns with spoilt arrays; some calls must have waited."""

    def run(function):
        with poisoned(monkeypatch) as poison:
            found = function()
        assert poison.calls > 3
        return found

    return run


def model_and_batch(name):
    changes, objective = MODELS[name]
    if name == "lexical":
        changes = changes | {"decoder": {**changes["decoder"], "hidden_size": 6}}
    model = small_models.build(V, **changes)
    return model, make_batch(SOURCES, ACTIONS if model.actions else TARGETS, EVERY), objective


@pytest.mark.parametrize("name", MODELS)
def test_an_update_reads_no_array_of_a_launch_that_waits(name, spoilt):
    model, batch, objective = model_and_batch(name)
    expected = gradients(model, batch, objective)
    compare.assert_same_arrays(spoilt(lambda: gradients(model, batch, objective)), expected)


def test_factors(spoilt):
    settings = settings_with(
        {"src_factors": ["case"], "factor_separator": "|", "subwords": {"joint": False}},
        model={"encoder": {**small_models.ENCODER, "factors": [3]}, "decoder": small_models.DECODER},
    )
    model = TranslationModel(settings.model, V, V, src_factor_sizes=[2])
    model.initialize(1)
    batch = make_batch([[n + V * (n % 2) for n in ids] for ids in SOURCES], TARGETS, EVERY)
    expected = gradients(model, batch, None)
    compare.assert_same_arrays(spoilt(lambda: gradients(model, batch, None)), expected)


SCANS = {
    "mask": (GRUCell(3, 4), {"mask": np.random.default_rng(0).random((6, 3)) < 0.6, "reverse": True}),
    "reversed": (LSTMCell(3, 4), {"reverse": True, "lengths": [6, 2, 4]}),
}


@pytest.mark.parametrize("name", SCANS)
def test_scans_within_one_call(name, spoilt):
    cell, given = SCANS[name]
    compare.assert_same_arrays(*twice(Scan(cell), given, spoilt))


def test_layers_with_residuals(spoilt):
    compare.assert_same_arrays(*twice(LayeredScan([GRUCell(3, 3), GRUCell(3, 3)], residual=True), {}, spoilt))


def twice(scan, given, spoilt):
    params = initial_params(scan.cell, 1)
    x = np.random.default_rng(2).standard_normal((6, 3, 3)).astype(np.float32)
    initial = {name: np.ones((3, n), np.float32) for name, n in scan.states.items()}

    def run():
        with scan.device.in_one_call():
            result = scan.forward(Weights(params), x, initial, training=True, **given)
            found = {name: np.zeros_like(a) for name, a in params.items()}
            back = scan.backward(result.tape, result.y, None, found)
        return [result.y, *result.final.values(), back.x, *back.initial.values(), *found.values()]

    return run(), spoilt(run)


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_packed_weights_are_whole_before_another_thread_may_read_them(spoilt, dtype):
    def pack_all():
        weights = Weights({str(n): np.arange(12, dtype=np.float32).reshape(3, 4) + n for n in range(5)})
        packed = [packed_weight(weights, str(n), 0, 3, False, dtype=np.dtype(dtype)) for n in range(5)]
        return [one.tobytes() for one in packed]

    def within_one_call():
        with CPUDevice().in_one_call():
            return pack_all()

    assert spoilt(within_one_call) == pack_all()


def test_a_norm_is_of_what_waits():
    device, one = CPUDevice(), np.zeros(5, np.float32)
    with device.in_one_call():
        device.add(one, np.ones(5, np.float32), 1)
        assert device.square_norm([one], 1) == 5


def test_operators(spoilt):
    x = np.random.default_rng(2).standard_normal((6, 3, 3)).astype(np.float32)
    for kind, options in ((LSTM, {"dropout": 0.3}), (GRU, {"padding": "carry", "learn_initial": True})):

        def run(kind=kind, options=options):
            layers = kind(3, 4, 2, bidirectional=True, **options)
            layers.load({key: np.full_like(a, 0.3) for key, a in layers.params.items()})
            results = layers.forward(x, lengths=[6, 0, 4])
            found = layers.backward(results[0])
            return [*results, found.d_x, *found.params.values()]

        compare.assert_same_arrays(run(), spoilt(run))


@pytest.mark.parametrize("name", ["convolutions", "from the mean", "copying, attention", "edits"])
def test_each_way_past_host_is_noticed(name, spoilt, monkeypatch):
    """Every call of `host` with an array of a launch that waits is left out in turn."""
    model, batch, objective = model_and_batch(name)
    expected = gradients(model, batch, objective)
    found, left_out = 0, -1

    def host(self, arrays):
        nonlocal found
        waits = bool(pool._waiting.calls) and pool._waiting.poison.holds(arrays)
        found += waits
        return arrays if waits and found - 1 == left_out else pool.host(arrays)

    monkeypatch.setattr(CPUDevice, "host", host)
    compare.assert_same_arrays(spoilt(lambda: gradients(model, batch, objective)), expected)
    count = found
    assert count
    for left_out in range(count):  # noqa: B007 - `host` reads it
        found = 0
        with np.errstate(invalid="ignore"), pytest.raises((AssertionError, ValueError)):
            compare.assert_same_arrays(spoilt(lambda: gradients(model, batch, objective)), expected)
