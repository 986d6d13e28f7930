"""A model in the shape of g2p-fa's, beside what its own code computes in eval mode, in NumPy."""

import numpy as np
import pytest

from nmt.errors import CheckpointError
from nmt.importing.g2p_fa import LETTERS, SOUNDS
from nmt.importing.sources import import_model
from tests.importing.checks import imported
from tests.importing.torch_files import save
from tests.importing.witness import cell_shapes, doubles, drawn, layers, lstm

E, H, LAYERS, LENGTH = 4, 6, 2, 30
WORDS = ["\u0633\u0644\u0627\u0645", "\u0622\u0628", "\u06a9a\u062a", "\u0628" * 28, "\u0628"]


def arrays(seed=1):
    shapes = {"encoder.embedding.weight": (len(LETTERS) + 4, E), "decoder.embedding.weight": (len(SOUNDS) + 4, E)}
    for side in ("encoder", "decoder"):
        for n in range(LAYERS):
            shapes |= cell_shapes(f"{side}.rnn.", "lstm", H if n else E, H, f"_l{n}")
    shapes |= {"decoder.fc_out.weight": (len(SOUNDS) + 4, H), "decoder.fc_out.bias": (len(SOUNDS) + 4,)}
    found = drawn(np.random.default_rng(seed), shapes, 0.9)
    found["decoder.fc_out.bias"][[0, 1]] = -50  # what ours never says
    for n in range(LAYERS):  # forget gates that remember a word behind all that fills it up
        found[f"encoder.rnn.bias_ih_l{n}"][H : 2 * H] += 3
    return found


def predict(arrays, word):
    """Ids that the package's model says before the end, in float64."""
    w = doubles(arrays)
    ids = [1, *(3 + LETTERS.index(c) if c in LETTERS else 2 for c in word), 2]
    xs = w["encoder.embedding.weight"][ids + [0] * (LENGTH - len(ids))]
    _, states = layers(w, "encoder.rnn.", "lstm", xs, LAYERS, 1)
    token, said = 1, []
    while len(said) < LENGTH - 2:
        x = w["decoder.embedding.weight"][token]
        for n in range(LAYERS):
            states[n] = lstm(w, "decoder.rnn.", x, *states[n], end=f"_l{n}")
            x = states[n][0]
        token = int((w["decoder.fc_out.weight"] @ x + w["decoder.fc_out.bias"]).argmax())
        if token == 2:
            break
        said.append(token)
    return said


def test_words_sound_as_in_the_package(tmp_path):
    found = arrays()
    save(tmp_path / "weights", found)
    translator = imported(tmp_path, tmp_path / "model")  # the package's file has no ending
    expected = [predict(found, word) for word in WORDS]
    units = [*SOUNDS, "<unused>"]
    assert translator.translate(WORDS) == ["".join(units[i - 3] for i in ids) for ids in expected]
    assert len({tuple(ids) for ids in expected}) > 3
    assert translator.translate(WORDS) == [translator.translate([word])[0] for word in WORDS]


def test_another_alphabet_is_one_line(tmp_path):
    found = arrays()
    found["encoder.embedding.weight"] = found["encoder.embedding.weight"][1:]
    save(tmp_path / "weights", found)
    with pytest.raises(CheckpointError, match=r"must be a model of g2p-fa, .* got 40 and 33"):
        import_model(tmp_path / "weights")
