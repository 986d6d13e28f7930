"""A language model on a GPU: losses, gradients, probabilities and the states carried on are those of the processor."""

import numpy as np
import pytest

from nmt.decode import Fusion, SearchOptions, search
from nmt.model.language import LanguageModel
from tests.cuda.test_cells import recording_device
from tests.model.test_language import V, build, segments_of, settings
from tests.small_models import build as build_translator
from tests.small_models import on_device

DROPOUT = {"dropout": 0.3, "hidden_dropout": 0.2}


def on_both(device, **changes):
    """A model of the processor, and one of the device with the same parameters."""
    ours = build(**changes)
    theirs = LanguageModel(settings(**changes).model, V, dtype=np.float64, device=device)
    for name, param in ours.params.items():
        theirs.params[name][...] = device.upload(param)
    theirs.changed()
    return ours, theirs


def test_log_probabilities_are_those_of_the_processor(device):
    ours, theirs = on_both(device)
    rng = np.random.default_rng(2)
    tokens = rng.integers(4, V, (7, 3)).astype(np.int32)
    lengths, mine, other = np.array([6, 2, 1]), {}, {}
    for _ in range(2):  # the second time after the states of the first
        want, mine = ours.log_probs(tokens[:-1], tokens[1:], lengths, mine)
        found, other = theirs.log_probs(tokens[:-1], tokens[1:], lengths, other)
        for one, row in zip(want, found, strict=True):
            np.testing.assert_allclose(row, one, rtol=1e-11)


@pytest.mark.parametrize(
    "options", [{}, {"sampling": True, "sampling_seed": 3, "sampling_topk": 6, "generate_unk": False, "min_length": 2}]
)
def test_lines_are_found_as_on_the_processor(device, options):
    """More than there is room for at once."""
    settings = {"beam_size": 2, "n_best": 2, "batch_size": 3, "max_length_ratio": 0.0, "max_length_extra": 5}
    sources = [[], [5], [4, 9, 8], [6, 7]]
    mine, other = (search(m, sources, options=SearchOptions(**options), **settings) for m in on_both(device))
    for one, expected in zip(other, mine, strict=True):
        assert [(h.ids, h.finished) for h in one] == [(h.ids, h.finished) for h in expected]
        np.testing.assert_allclose([h.log_prob for h in one], [h.log_prob for h in expected], rtol=1e-9)
    assert len({tuple(h.ids) for some in mine for h in some}) > 3


FUSED = {"search": ({}, {}), "no repeat": ({"no_repeat_ngram_size": 2}, {"length_penalty": "average"})}


@pytest.mark.parametrize("case", FUSED)
def test_beside_a_translator_it_is_heard_as_on_the_processor(case):
    """In recorded steps too."""
    options, more = {"min_length": 4} | FUSED[case][0], FUSED[case][1]
    device, replays = recording_device()
    model = build_translator(V, dtype=np.float64, seed=4)
    models = model, on_device(model, device, dtype=np.float64)
    fused = [Fusion(m, prior, 0.6) for m, prior in zip(models, on_both(device), strict=True)]
    settings = {"beam_size": 2, "n_best": 2, "batch_size": 2, "max_length_ratio": 0.0, "max_length_extra": 5} | more
    sources = [[5, 6, 8], [4], [9, 10]]
    mine, other = (search(m, sources, options=SearchOptions(**options), **settings) for m in fused)
    for one, expected in zip(other, mine, strict=True):
        assert [(h.ids, h.finished) for h in one] == [(h.ids, h.finished) for h in expected]
        np.testing.assert_allclose([h.score for h in one], [h.score for h in expected], rtol=1e-9)
    assert mine != search(model, sources, options=SearchOptions(**options), **settings)
    assert replays() > 0


def test_segments_are_those_of_the_processor(device):
    ours, theirs = on_both(device, **DROPOUT)
    for number, segment in enumerate(segments_of(2, 3, lines=4)[:2]):
        mine, gradients = ours.loss_and_gradients(segment, seed=number)
        other, found = theirs.loss_and_gradients(segment, seed=number)
        assert other.nll == pytest.approx(mine.nll, rel=1e-12)
        for name, gradient in gradients.items():
            got = device.download(found[name])
            np.testing.assert_allclose(got, gradient, rtol=1e-10, atol=1e-12, err_msg=name)
        carried = theirs.carried
        assert carried.keys() == ours.carried.keys() and len(carried) == 4
        for name, state in ours.carried.items():
            np.testing.assert_allclose(carried[name], state, rtol=1e-11, atol=1e-13)
