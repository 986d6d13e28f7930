"""A model in g2p-en's shape, beside the few lines of NumPy that the package runs it with."""

import numpy as np
import pytest

from nmt.errors import CheckpointError
from nmt.importing.g2p_en import LETTERS, PHONEMES
from nmt.importing.sources import import_model
from tests.importing.checks import imported
from tests.importing.witness import cell_shapes, doubles, drawn, gru, log_prob

E, H = 5, 6


def arrays(seed=1):
    shapes = {"enc_emb": (29, E), "dec_emb": (74, E), "fc_w": (74, H), "fc_b": (74,)}
    for side in ("enc", "dec"):
        shapes |= cell_shapes(f"{side}_", "gru", E, H)
    found = drawn(np.random.default_rng(seed), shapes, 0.9)
    short = {"weight_": "w_", "bias_": "b_"}
    return {next((k.replace(a, b) for a, b in short.items() if a in k), k): v for k, v in found.items()}


class Package:
    """What `G2p.predict` computes, and its log-probabilities."""

    def __init__(self, w):
        self.w = doubles({k.replace("w_", "weight_").replace("b_", "bias_"): v for k, v in w.items()})
        self.w |= doubles({k: w[k] for k in ("enc_emb", "dec_emb", "fc_w", "fc_b")})

    def read(self, word):
        h = np.zeros(H)
        for i in [*(3 + LETTERS.index(c) if c in LETTERS else 1 for c in word), 2]:
            (h,) = gru(self.w, "enc_", self.w["enc_emb"][i], h)
        return h

    def logits(self, token, h):
        (h,) = gru(self.w, "dec_", self.w["dec_emb"][token], h)
        return self.w["fc_w"] @ h + self.w["fc_b"], h

    def predict(self, word):
        h, token, said = self.read(word), 2, []
        for _ in range(20):
            logits, h = self.logits(token, h)
            token = int(logits.argmax())
            if token == 3:
                break
            said.append(token)
        return " ".join(PHONEMES[i - 4] for i in said if i > 3)

    def score(self, word, phonemes):
        h, token, scores = self.read(word), 2, []
        for said in [*(4 + PHONEMES.index(p) for p in phonemes.split()), 3]:
            logits, h = self.logits(token, h)
            scores.append(log_prob(logits, said))
            token = said
        return scores


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("g2p")
    np.savez(folder / "checkpoint.npz", **arrays())
    return imported(folder / "checkpoint.npz", folder / "model"), Package(arrays())


WORDS = ["a", "hello", "it's", "a--b", "ZEBRA", "x" * 40]


def test_words_sound_as_in_the_package(model):
    translator, package = model
    assert translator.translate(WORDS) == [package.predict(word.lower()) for word in WORDS]
    assert translator.translate(WORDS, batch_size=2) == translator.translate(WORDS)


def test_log_probabilities_are_the_packages(model):
    translator, package = model
    targets = ["AH0", "HH AH0 L OW1", "IH1 T S", "B", "", "Z IY1 B R AH0"]
    for detail, word, target in zip(translator.score(WORDS, targets), WORDS, targets, strict=True):
        np.testing.assert_allclose(detail.log_probs, package.score(word.lower(), target), atol=1e-5)
        assert detail.alignment == [] and detail.warnings == []


def test_what_is_missing_or_too_much_is_one_line(tmp_path):
    path = tmp_path / "checkpoint.npz"
    np.savez(path, **{k: v for k, v in arrays().items() if k != "enc_b_ih"})
    with pytest.raises(CheckpointError, match="must contain the tensor enc_b_ih"):
        import_model(path)
    np.savez(path, **arrays(), coverage=np.zeros(3))
    with pytest.raises(CheckpointError, match="'coverage', which has no counterpart here"):
        import_model(path)
    np.savez(path, **(arrays() | {"fc_b": np.zeros(73, np.float32)}))
    with pytest.raises(CheckpointError, match=r"fc_b must be \[74\]"):
        import_model(path)
    np.savez(path, **(arrays() | {"fc_b": np.full(74, np.nan, np.float32)}))
    with pytest.raises(CheckpointError, match="fc_b must contain finite numbers"):
        import_model(path)


def test_objects_in_an_npz_are_never_loaded(tmp_path):
    path = tmp_path / "checkpoint.npz"
    np.savez(path, **arrays(), more=np.array([{}], object))
    with pytest.raises(CheckpointError, match="Python objects, which are never loaded"):
        import_model(path)


def test_a_bomb_is_not_unpacked(tmp_path):
    path = tmp_path / "checkpoint.npz"
    np.savez_compressed(path, zeros=np.zeros(10_000_000))
    with pytest.raises(CheckpointError, match="unpacks to 80,000,"):
        import_model(path)


def test_changed_bytes_are_one_line_or_a_model(tmp_path):
    path = tmp_path / "checkpoint.npz"
    np.savez(path, **arrays())
    content, rng = path.read_bytes(), np.random.default_rng(2)
    errors = 0
    for _ in range(200):
        changed = np.frombuffer(content, np.uint8).copy()
        changed[rng.integers(len(changed), size=3)] = rng.integers(256, size=3)
        path.write_bytes(changed.tobytes()[: int(rng.integers(len(changed))) if rng.random() < 0.3 else None])
        try:
            import_model(path)
        except CheckpointError as error:
            assert "\n" not in str(error)
            errors += 1
    assert errors > 50
