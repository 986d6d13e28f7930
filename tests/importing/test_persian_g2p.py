"""A model in the shape and file format of PersianG2p, beside the few lines of NumPy that the package runs it with."""

import io
import pickle

import numpy as np
import pytest

from nmt.errors import CheckpointError
from nmt.importing.persian_g2p import LETTERS, SOUNDS
from nmt.importing.sources import import_model
from tests.importing.checks import imported
from tests.importing.witness import cell_shapes, doubles, drawn, gru

E, H = 5, 6
WORDS = ["\u0633\u0644\u0627\u0645", "\u0622\u0628", "\u06a9\u062a\u0627\u0628\u0650", "a\u0628", "\u0628" * 30]


def arrays(seed=1):
    shapes = {"encoder.emb.weight": (len(LETTERS) + 3, E), "decoder.emb.weight": (len(SOUNDS) + 4, E)}
    shapes |= {"decoder.fc.weight": (len(SOUNDS) + 4, H), "decoder.fc.bias": (len(SOUNDS) + 4,)}
    found = drawn(np.random.default_rng(seed), shapes, 0.9)
    for side in ("encoder", "decoder"):
        cell = drawn(np.random.default_rng(seed + 1), cell_shapes("", "gru", E, H), 0.9)
        found |= {f"{side}.rnn.{name}_l0": array for name, array in cell.items()}
    return found


def predict(arrays, word):
    """What `Persian_g2p_converter.predict` computes, in float64."""
    w = doubles(arrays)
    cells = {}
    for side in ("encoder", "decoder"):
        start = f"{side}.rnn."
        cells[side] = {k.removeprefix(start).removesuffix("_l0"): v for k, v in w.items() if k.startswith(start)}
    h = np.zeros(H)
    for i in [*(3 + LETTERS.index(c) if c in LETTERS else 1 for c in word), 2]:
        (h,) = gru(cells["encoder"], "", w["encoder.emb.weight"][i], h)
    token, said = 2, []
    for _ in range(20):
        (h,) = gru(cells["decoder"], "", w["decoder.emb.weight"][token], h)
        token = int((w["decoder.fc.weight"] @ h + w["decoder.fc.bias"]).argmax())
        if token == 3:
            break
        said.append(token)
    return "".join(SOUNDS[i - 4] for i in said if i > 3)


def test_words_sound_as_in_the_package(tmp_path):
    found = arrays()
    found["decoder.fc.bias"][:3] = -50  # what ours never says
    np.save(tmp_path / "checkpoint.npy", found, allow_pickle=True)
    translator = imported(tmp_path / "checkpoint.npy", tmp_path / "model")
    expected = [predict(found, word) for word in WORDS]
    assert translator.translate(WORDS) == expected
    assert len(set(expected)) > 2


@pytest.mark.parametrize("kind", ["<f8", "<f2"])
def test_numbers_of_other_sizes(tmp_path, kind):
    found = {name: array.astype(kind) for name, array in arrays().items()}
    np.save(tmp_path / "a.npy", found, allow_pickle=True)
    params = import_model(tmp_path / "a.npy").params
    assert np.array_equal(params["output.W"][:, 4:], found["decoder.fc.weight"][4:].T.astype(np.float32))


class Planted:
    def __reduce__(self):
        return (open, ("planted", "w"))


@pytest.mark.parametrize("content", [[1], {"encoder.emb.weight": Planted()}, Planted(), np.zeros(3, "M8[s]"), {}])
def test_what_is_no_model_is_one_line_and_runs_nothing(tmp_path, monkeypatch, content):
    monkeypatch.chdir(tmp_path)
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "|O", "fortran_order": False, "shape": ()})
    whole = np.empty((), object)
    whole[()] = content
    pickle.dump(whole, file, protocol=3)
    (tmp_path / "a.npy").write_bytes(file.getvalue())
    with pytest.raises(CheckpointError) as caught:
        import_model(tmp_path / "a.npy")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "planted").exists()


def test_damaged_files_are_one_line(tmp_path):
    np.save(tmp_path / "a.npy", arrays(), allow_pickle=True)
    content, rng = (tmp_path / "a.npy").read_bytes(), np.random.default_rng(0)
    refused = 0
    for _ in range(300):
        damaged = bytearray(content)
        for place in rng.integers(0, 600 if rng.random() < 0.7 else len(content), 3):
            damaged[place] = rng.integers(256)
        (tmp_path / "b.npy").write_bytes(damaged[: rng.integers(1, len(damaged))] if rng.random() < 0.2 else damaged)
        try:
            import_model(tmp_path / "b.npy")
        except CheckpointError as error:
            refused += 1
            assert "\n" not in str(error)
    assert refused > 100
