"""Small models that learn."""

import numpy as np
import pytest

from tests import saved_models


def parameters(translator):
    """The bytes of all parameters of a translator's model, by name."""
    return {name: np.asarray(array).tobytes() for name, array in translator.model.params.items()}


@pytest.fixture(scope="session")
def pairs():
    lines = saved_models.sentences(120, seed=3, longest=6)
    return list(zip(lines[:60], lines[60:], strict=True))


@pytest.fixture
def learning(folder, tmp_path):
    """Returns learning translators of the model, each with a memory of its own unless it is named."""
    from nmt import LearningTranslator, Translator

    opened = []

    def open_(name="memory.sqlite", model=folder, compute_dtype="float32", **options):
        base = Translator.load(model, compute_dtype=compute_dtype)
        opened.append(LearningTranslator(base, tmp_path / name, **options))
        return opened[-1]

    yield open_
    for one in opened:
        if not one._projects.is_closed:
            one.close()
