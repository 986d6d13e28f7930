"""A language model on a card: losses, gradients and the states carried on are those of the processor."""

import numpy as np
import pytest

from nmt.model.language import LanguageModel
from tests.model.test_language import V, build, segments_of, settings

DROPOUT = {"dropout": 0.3, "hidden_dropout": 0.2}


def test_segments_are_those_of_the_processor(device):
    ours = build(**DROPOUT)
    theirs = LanguageModel(settings(**DROPOUT).model, V, dtype=np.float64, device=device)
    for name, param in ours.params.items():
        theirs.params[name][...] = device.upload(param)
    theirs.changed()
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
