"""The lexical output model: its formulas by loops, its search, and what it adds."""

from importlib.util import find_spec

import numpy as np
import pytest

from nmt.decode import force
from nmt.exporting import plain_numpy
from nmt.exporting.to_numpy import save_numpy
from nmt.inference.pipeline import source_ids, target_ids
from nmt.inference.translator import Translator
from nmt.special_tokens import BOS_ID, EOS_ID
from nmt.storage.saved_model import load_saved_model
from tests import small_models
from tests.decode import test_options as options_of_search
from tests.oracle import attention, loss
from tests.saved_models import sentences, write_folder

VOCAB = 12
TIED = {
    "tied": "all",
    "encoder": {"embeddings": {"embedding_dim": 6, "scale": True}},
    "decoder": {"embeddings": {"embedding_dim": 6}, "lexical": True},
}
EXPORTED = {
    "tied": TIED,
    "conditional above a projection": {
        "encoder": {"rnn_type": "gru", "projection": 5, "num_layers": 2},
        "decoder": {"rnn_type": "gru", "conditional": True, "lexical": True, "readout": "deep"},
    },
}
has_onnx = all(find_spec(name) for name in ("onnx", "onnxruntime"))
KINDS = {"own output matrix": {"decoder": {"lexical": True}}, "tied": TIED}


def log_probs_by_loops(model, source, target):
    """Log-probabilities of a target and its EOS, by the formulas of Nguyen and Chiang (2018, section 4)."""
    w = {name: np.asarray(value, np.float64) for name, value in model.params.items()}
    src = np.array([*source, EOS_ID])
    encoded = model.encode(*model.pad_sources([source]), 1)
    width = model.config.encoder.output_size
    outputs = np.asarray(encoded.memory[:, 0, :width], np.float64)
    table = w[model.table("src")]
    words = table[src] * (table.shape[1] ** 0.5 if model.config.encoder.embeddings.scale else 1.0)
    p = {"W_query": w["decoder.W_q"], "W_key": w["decoder.W_k"], "v": w["decoder.v"]}
    cell = {f"{name}_l0": w[f"decoder.cell.0.{name}"] for name in ("W_x", "W_h", "b")}
    h, c = (encoded.states[f"cell.0.{name}"][0].astype(np.float64) for name in "hc")
    fed, scores = np.zeros(model.config.decoder.hidden_size), []
    matrix = w[model.table("tgt")].T if model.tied else w["output.W"]
    for before, token in zip([BOS_ID, *target], [*target, EOS_ID], strict=True):
        x = np.concatenate([w[model.table("tgt")][before], fed])
        a = x @ cell["W_x_l0"] + h @ cell["W_h_l0"] + cell["b_l0"]
        i, f, g, o = np.split(a, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        context, weights = attention.attend("additive", h, outputs, len(src), p)
        fed = np.tanh(np.concatenate([context, h]) @ w["decoder.W_c"] + w["decoder.b_c"])
        mean = np.tanh(sum(weight * word for weight, word in zip(weights, words, strict=True)))
        lexical = np.tanh(mean @ w["decoder.W_l"]) + mean
        logits = (fed + lexical @ w["decoder.W_o"]) @ matrix + w["output.b"]
        scores.append(loss.log_softmax(logits)[token])
    return np.array(scores)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize("kind", KINDS)
def test_log_probs_equal_the_formulas_of_the_paper(kind):
    model = small_models.build(VOCAB, dtype=np.float64, **KINDS[kind])
    sources, targets = [[4, 9, 5], [7], [6, 11, 8, 4, 5]], [[5, 10], [], [4, 4, 9]]
    found, _ = model.forced_log_probs(sources, targets_with_end(targets), threads=1)
    for source, target, scores in zip(sources, targets, found, strict=True):
        np.testing.assert_allclose(scores, log_probs_by_loops(model, source, target), rtol=0, atol=1e-9)


def targets_with_end(targets):
    return [[*target, EOS_ID] for target in targets]


@pytest.mark.parametrize("name", ["nothing", "prefixes"])
def test_every_search_scores_as_forced_decoding(name):
    model = options_of_search.build(4, **TIED)
    sentences = small_models.random_sentences(np.random.default_rng(3), 24, VOCAB, longest=9)
    options_of_search.compare_with_forced(name, model, sentences)


def test_a_source_word_changes_the_output_through_its_embedding_alone():
    """With the lexical layer at zero the model is the plain one; otherwise it is not."""
    model = small_models.build(VOCAB, **KINDS["own output matrix"])
    plain = small_models.build(VOCAB)
    for name, value in plain.params.items():
        value[...] = model.params[name]
    plain.changed()
    sources, targets = [[4, 9, 5]], [[5, 10, EOS_ID]]
    scores = [force(one, sources, targets, threads=1)[0].log_probs for one in (model, plain)]
    assert not np.allclose(*scores)
    model.params["decoder.W_o"][...] = 0
    model.changed()
    again = force(model, sources, targets, threads=1)[0].log_probs
    np.testing.assert_allclose(again, scores[1], rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", EXPORTED)
def test_exports_score_as_the_model(kind, tmp_path):
    """A page of NumPy; a graph for ONNX Runtime where that is installed."""
    folder = write_folder(tmp_path / "model", **EXPORTED[kind])
    translator, saved = Translator.load(folder, threads=1), load_saved_model(folder)
    lines, targets = sentences(4, seed=3), sentences(4, seed=4)
    ids = list(zip(source_ids(translator, lines), target_ids(translator, targets), strict=True))
    save_numpy(tmp_path / "page", saved)
    models = [plain_numpy.Model(tmp_path / "page")]
    if has_onnx:
        from nmt.exporting import run_onnx
        from nmt.exporting.to_onnx import save_onnx

        save_onnx(tmp_path / "graphs", saved)
        models.append(run_onnx.Model(tmp_path / "graphs", threads=1))
    for (src, tgt), detail in zip(ids, translator.score(lines, targets), strict=True):
        for model in models:
            np.testing.assert_allclose(model.score(src, tgt), detail.log_probs, atol=1e-4)
