"""Search on a GPU: the best tokens of a row, a step of all beams, and whole searches beside the processor's."""

import numpy as np
import pytest

from nmt.decode import Ensemble, SearchOptions, force, search
from nmt.decode.rules.score_rules import length_divisor
from nmt.errors import DeviceError
from nmt.rnn.arrays.beam_state import BeamSettings, BeamState
from nmt.rnn.arrays.device_operations import OutputLayer
from nmt.rnn.arrays.weights import Weights
from nmt.special_tokens import EOS_ID
from tests.cuda.test_cells import recording_device
from tests.refusals import refused
from tests.search_cases import RULES, options_for
from tests.small_models import build, on_device, random_sentences


def best(device, logits, bias, first, places):
    """The best tokens of rows whose outputs are their own logits."""
    V = logits.shape[1]
    weights = Weights({"W": device.upload(np.eye(V, dtype=logits.dtype)), "b": device.upload(bias)})
    layer = OutputLayer(weights, "W", "b", False, logits.dtype)
    found = device.best_tokens(device.upload(logits), layer, first, places, 1)
    return [device.download(a) for a in found]


@pytest.mark.parametrize(("V", "places"), [(4, 6), (40, 1), (40, 6), (1100, 6)])
def test_best_tokens_are_those_of_a_stable_sort(device, V, places):
    rng = np.random.default_rng(V)
    logits, bias = rng.integers(-3, 3, (2, V)).astype(np.float64), rng.integers(-3, 3, V).astype(np.float64)
    tokens, scores = best(device, logits, bias, 2, places)
    x = logits + bias
    order = 2 + np.argsort(-x[:, 2:], axis=1, kind="stable")[:, :places]
    there = order.shape[1]
    np.testing.assert_array_equal(tokens[:, :there], order)
    assert (tokens[:, there:] == -1).all()
    log_probs = x - np.log(np.exp(x).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(scores[:, :there], np.take_along_axis(log_probs, order, 1), rtol=1e-12)


def test_large_logits_keep_their_differences(device):
    logits = np.full((1, 50), -1e30, np.float32)
    logits[0, 7], logits[0, 9] = 1000.0, 1001.0
    tokens, scores = best(device, logits, np.zeros(50, np.float32), 1, 2)
    assert tokens.tolist() == [[9, 7]]
    np.testing.assert_allclose(scores, [[-0.31326, -1.31326]], atol=1e-4)


def one_step(device, tokens, scores, *, K, sums=None, live=None):
    """The beams after one step from `live` rows with the given sums."""
    settings = BeamSettings(1, K, 1, 2, 1, 0, length_divisor(1.0, np.arange(10)))
    beams = BeamState.start(device.xp, limits=np.array([9]), K=K, token=1, divisors=settings.divisors)
    if sums is not None:
        beams.sums[:] = device.upload(np.array(sums))
        beams.live[:] = live
    given = device.upload(np.array(tokens, np.int32)), device.upload(np.array(scores, np.float64))
    device.search.beam_step(*given, given[1], beams, settings)
    return beams, lambda name: device.download(getattr(beams, name)).reshape(-1).tolist()


def test_equal_sums_go_to_the_earlier_row_and_better_place(device):
    """As kernels.search.best_continuations: row 0 gives its second before row 1 its first."""
    tokens, scores = [[5, 6, 7], [8, 9, 10], [11, 12, 13]], [[-1.0, -2, -3], [-1.0, -2, -3], [-9.0, -9, -9]]
    _, get = one_step(device, tokens, scores, K=3, sums=[-1.0, 0.0, 0.0], live=3)
    assert get("tokens") == [8, 5, 9]
    assert get("parents") == [1, 0, 1]
    assert get("sums") == [-1.0, -2.0, -2.0]


def test_a_sentence_that_cannot_improve_ends(device):
    _, get = one_step(device, [[2, 5]], [[-0.01, -9.0]], K=2)
    assert (get("live"), get("going")) == ([0], [0])


CASES = {
    "lstm with a bridge": {},
    "gru, two layers, tied": {
        "encoder": {"rnn_type": "gru", "bidirectional": False, "num_layers": 2, "hidden_size": 6},
        "decoder": {"rnn_type": "gru", "num_layers": 2, "init_hidden": "last", "embeddings": {"embedding_dim": 6}},
        "tied": "softmax",
    },
    "no input feeding": {"decoder": {"input_feeding": False, "attention": "dot", "init_hidden": "zero"}},
    "a lexical output model": {"decoder": {"lexical": True}},
}


@pytest.mark.parametrize("case", CASES)
def test_translations_are_those_of_the_processor(device, case):
    sources = random_sentences(np.random.default_rng(0), 4, 14, 4)
    model = build(14, dtype=np.float64, seed=3, **CASES[case])
    options = {"beam_size": 2, "n_best": 2, "batch_size": 3, "max_length_ratio": 1.0, "max_length_extra": 2}
    ours = search(model, sources, **options)
    told = []
    theirs = search(on_device(model, device, dtype=np.float64, **CASES[case]), sources, on_ended=told.append, **options)
    assert sum(told) == len(sources)
    assert_close(theirs, ours, 1e-10)


def assert_close(found, expected, rtol):
    """The same hypotheses, with scores within rounding."""
    for mine, other in zip(expected, found, strict=True):
        assert [(h.ids, h.finished) for h in other] == [(h.ids, h.finished) for h in mine]
        np.testing.assert_allclose([h.log_prob for h in other], [h.log_prob for h in mine], rtol=rtol)
        np.testing.assert_allclose([h.score for h in other], [h.score for h in mine], rtol=rtol)


def lively(seed=5, **options):
    """A model some of whose translations end soon, some never, and repeat themselves."""
    model = build(14, dtype=np.float64, seed=seed, **options)
    model.params["output.b"][EOS_ID] += 1.2
    model.changed()
    return model


def assert_same(device, models, options, *, average=None, sentences=3, **settings):
    """The processor and the GPU find the same hypotheses."""
    sources = random_sentences(np.random.default_rng(0), sentences, 14, 4)
    settings = {"beam_size": 3, "n_best": 2, "batch_size": 2, "max_length_ratio": 1.0, "max_length_extra": 4} | settings
    found = []
    for place in (None, device):
        there = [m if place is None else on_device(m, device, dtype=np.float64) for m in models]
        whole = Ensemble(there, average) if average else there[0]
        found.append(search(whole, sources, options=options, **settings))
    assert_close(found[1], found[0], 1e-9)
    return found[0]


@pytest.mark.parametrize(
    "name", ["forbidden", "reward", "prefixes", "all", *(name for name in RULES if "samples" in name)]
)
def test_options_are_those_of_the_processor(device, name):
    model, options = lively(), options_for(name, 3)
    found = assert_same(device, [model], options, n_best=3)
    usual = {"beam_size": 3, "n_best": 3, "batch_size": 2, "max_length_ratio": 1.0, "max_length_extra": 4}
    sources = random_sentences(np.random.default_rng(0), 3, 14, 4)
    assert found != search(model, sources, **usual), "the option would not be missed"


@pytest.mark.parametrize("options", [{}, {"no_repeat_ngram_size": 2}])
def test_a_step_is_recorded_and_done_again(options):
    """The launches of a step are the same for all but the first steps of a block, arrays and all."""
    device, replays = recording_device()
    models, average = [lively(), lively(4)], "prob" if options else None
    assert_same(device, models[: 2 if options else 1], SearchOptions(**options), average=average)
    assert replays() > 4


def test_counted_positions_go_on_where_a_step_would_be_recorded():
    """What is added at a position comes from the host, so such steps are launched one by one."""
    conv = {"type": "conv", "hidden_size": 5, "embeddings": {"embedding_dim": 4}, "max_positions": 4}
    changes = {"encoder": conv, "decoder": conv | {"attention": "dot"}}
    model = build(14, dtype=np.float64, seed=3, **changes)
    there = on_device(model, recording_device()[0], dtype=np.float64, **changes)
    options = {"beam_size": 2, "options": SearchOptions(min_length=5), "max_length_ratio": 0.0, "max_length_extra": 7}
    mine, other = (search(m, [[5, 6, 7], [4]], **options) for m in (model, there))
    assert_close(other, mine, 1e-9)
    assert all(len(one[0].ids) > 4 for one in mine)


@pytest.mark.parametrize(("average", "options"), [("log_prob", {}), ("prob", {"min_length": 2})])
def test_ensembles_are_those_of_the_processor(device, average, options):
    assert_same(device, [lively(seed) for seed in (5, 4, 8)], SearchOptions(**options), average=average)


def test_what_only_the_processor_does_is_one_line(device):
    model = on_device(lively(), device, dtype=np.float64)
    nothing = SearchOptions(glossary=[[], []], glossary_bonus=3.0)
    assert search(model, [[5], [6]], beam_size=1, options=nothing, max_length_ratio=0.0, max_length_extra=1)
    options = SearchOptions(glossary=[[[5]], []])
    line = "^search: glossary must be omitted .* use --device cpu$"
    refused(DeviceError, line, search, model, [[5], [6]], beam_size=2, options=options)


@pytest.mark.parametrize("attention", [False, True])
def test_given_translations_are_scored_as_on_the_processor(device, attention):
    model = lively()
    there = on_device(model, device, dtype=np.float64)
    sources, targets = (random_sentences(np.random.default_rng(n), 3, 14, 5) for n in (0, 1))
    targets[1] = []
    targets = [[*target, EOS_ID] for target in targets]
    found = [force(m, sources, targets, attention=attention, batch_size=2) for m in (model, there)]
    for mine, other in zip(*found, strict=True):
        np.testing.assert_allclose(other.log_probs, mine.log_probs, rtol=1e-10)
        if attention:
            np.testing.assert_allclose(other.attention, mine.attention, rtol=1e-9, atol=1e-12)


def test_log_probs_are_the_scores_of_best_tokens(device):
    rng = np.random.default_rng(0)
    for V in (40, 1100):
        logits, bias = (rng.standard_normal(shape).astype(np.float32) for shape in ((2, V), (V,)))
        weights = Weights({"W": device.upload(np.eye(V, dtype=np.float32)), "b": device.upload(bias)})
        layer = OutputLayer(weights, "W", "b", False, logits.dtype)
        everything = device.download(device.log_probs(device.upload(logits), layer, 1))
        tokens, scores = best(device, logits, bias, 0, 3)
        np.testing.assert_array_equal(np.take_along_axis(everything, tokens.astype(np.int64), 1), scores)


def test_greedy_and_a_limit_of_nothing(device):
    model = build(10, dtype=np.float64)
    there = on_device(model, device, dtype=np.float64)
    for options in ({"beam_size": 1, "max_length_extra": 2}, {"beam_size": 2, "max_length_extra": 0}):
        found = [search(m, [[5, 6], [4]], max_length_ratio=0.4, **options) for m in (model, there)]
        assert [[h.ids for h in one] for one in found[0]] == [[h.ids for h in one] for one in found[1]]
    assert [len(one[0].ids) for one in found[1]] == [0, 0]
