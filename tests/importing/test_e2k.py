"""Models in e2k's shape, beside NumPy after the package's own code."""

import json

import numpy as np
import pytest
from safetensors.numpy import save_file

from nmt.errors import CheckpointError
from nmt.importing.sources import import_model
from tests.importing.checks import imported
from tests.importing.witness import cell_shapes, doubles, drawn, gru, layers, log_prob, softmax

D, A, HEADS = 8, 8, 4
SPECIAL = ["<pad>", "<sos>", "<eos>"]
LETTERS, KANA = [*SPECIAL, *"abcd'"], [*SPECIAL, *"アイウエオー"]


def arrays():
    shapes = {"e_emb.weight": (len(LETTERS), D), "k_emb.weight": (len(KANA), A), "fc.weight": (len(KANA), A)}
    shapes |= {"fc.bias": (len(KANA),), "encoder_fc.0.weight": (A, 2 * D), "encoder_fc.0.bias": (A,)}
    shapes |= {"attn.in_proj_weight": (3 * A, A), "attn.in_proj_bias": (3 * A,)}
    shapes |= {"attn.out_proj.weight": (A, A), "attn.out_proj.bias": (A,)}
    shapes |= cell_shapes("encoder.", "gru", D, D, "_l0") | cell_shapes("encoder.", "gru", D, D, "_l0_reverse")
    shapes |= cell_shapes("pre_decoder.", "gru", A, A, "_l0") | cell_shapes("post_decoder.", "gru", 2 * A, A, "_l0")
    return {k: v.astype(np.float16) for k, v in drawn(np.random.default_rng(4), shapes, 0.8).items()}


METADATA = {"in_table": "\0".join(LETTERS), "out_table": "\0".join(KANA), "sos_idx": "1", "eos_idx": "2"}


def step_logits(w, word, said):
    """The logits after <sos> and `said`, ids of the package."""
    ids = [1, *(LETTERS.index(c) for c in word if c in LETTERS), 2]
    memory = np.tanh(
        layers(w, "encoder.", "gru", w["e_emb.weight"][ids])[0] @ w["encoder_fc.0.weight"].T + w["encoder_fc.0.bias"]
    )
    W, b = np.split(w["attn.in_proj_weight"], 3), np.split(w["attn.in_proj_bias"], 3)
    keys, values = memory @ W[1].T + b[1], memory @ W[2].T + b[2]
    h1 = h2 = np.zeros(A)
    for token in [1, *said]:
        (h1,) = gru(w, "pre_decoder.", w["k_emb.weight"][token], h1, end="_l0")
        query, contexts = h1 @ W[0].T + b[0], []
        for head in np.split(np.arange(A), HEADS):
            weights = softmax(keys[:, head] @ query[head] / np.sqrt(A // HEADS))
            contexts.append(weights @ values[:, head])
        context = np.concatenate(contexts) @ w["attn.out_proj.weight"].T + w["attn.out_proj.bias"]
        (h2,) = gru(w, "post_decoder.", np.concatenate([h1, context]), h2, end="_l0")
    return w["fc.weight"] @ h2 + w["fc.bias"]


def predict(w, word):
    said = []
    for _ in range(16):
        said.append(int(step_logits(w, word, said).argmax()))
        if said[-1] == 2:
            break
    return "".join(KANA[i] for i in said if i > 2)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("e2k")
    save_file(arrays(), folder / "model.safetensors", metadata=METADATA)
    return imported(folder / "model.safetensors", folder / "model"), doubles(arrays())


WORDS = ["a", "abcd", "d'ac", "Bad!", "cabbac"]


def test_words_come_out_as_in_the_package(model):
    translator, w = model
    assert translator.translate(WORDS) == [predict(w, word.lower()) for word in WORDS]


def test_log_probabilities_are_the_packages(model):
    translator, w = model
    for word, target in zip(WORDS, ["アイ", "", "ー", "ウエオ", "ア"], strict=True):
        ids = [KANA.index(c) for c in target]
        want = [log_prob(step_logits(w, word.lower(), ids[:n]), [*ids, 2][n]) for n in range(len(ids) + 1)]
        (detail,) = translator.score([word], [target])
        np.testing.assert_allclose(detail.log_probs, want, atol=1e-5)
        # Words and the end of the source share all attention; what <sos> gets is the end's.
        np.testing.assert_allclose(detail.attention.sum(1), 1, atol=1e-5)
        assert detail.attention.shape[1] == sum(c in LETTERS for c in word.lower()) + 1


def test_a_vocabulary_that_does_not_fit_is_one_line(tmp_path):
    path = tmp_path / "model.safetensors"
    for change, line in [
        ({"in_table": "a"}, r"e_emb.weight must be"),
        ({"sos_idx": "x"}, "must have a number sos_idx"),
        ({"out_table": "\0".join([*KANA[:-1], "ア"])}, "every unit once"),
    ]:
        save_file(arrays(), path, metadata=METADATA | change)
        with pytest.raises(CheckpointError, match=line):
            import_model(path)


def test_the_predictor_of_accents_is_no_translator(tmp_path):
    path = tmp_path / "accent.safetensors"
    save_file({"emb.weight": np.zeros((3, 2), np.float16)}, path, metadata={"in_table": json.dumps("x")})
    with pytest.raises(CheckpointError, match="must be a model of one of g2p-en, e2k"):
        import_model(path)
