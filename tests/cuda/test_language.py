"""A language model on a card: losses, gradients, probabilities and the states carried on are those of the processor."""

import numpy as np
import pytest

from nmt.decode import Sampling, SearchOptions, search
from nmt.errors import DeviceError
from nmt.model.language import LanguageModel
from tests.model.test_language import V, build, segments_of, settings

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


def test_search_says_that_it_needs_the_processor(device):
    _, theirs = on_both(device)
    with pytest.raises(DeviceError, match="a language model must run on the processor, got the device cuda; use"):
        search(theirs, [[5, 6]], options=SearchOptions(sampling=Sampling()))


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
