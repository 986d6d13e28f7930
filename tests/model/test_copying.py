"""Output heads against their papers' formulas by loops: the pointer-generator (See et al. 2017, equations 8 and 9) and
the lexical output model; gradients by finite differences in float64, and forced scores against the search."""

import math
from dataclasses import replace
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest

from nmt.data.batching.batches import make_batch
from nmt.decode import force, search
from nmt.decode.ensemble import Ensemble
from nmt.decode.hypotheses import Hypothesis
from nmt.decode.rules.options import SearchOptions
from nmt.decode.search import SearchPath, search_plan
from nmt.decode.session import Session
from nmt.errors import DeviceError
from nmt.exporting import plain_numpy
from nmt.exporting.to_numpy import save_numpy
from nmt.inference.pipeline import source_ids, target_ids, texts_of, with_details
from nmt.inference.translator import Translator
from nmt.model.batch_pass import Objective
from nmt.model.copying import Copies, check_device, copy_loss
from nmt.special_tokens import BOS_ID, EOS_ID, UNK_ID
from nmt.storage.saved_model import load_saved_model
from nmt.train.updates.update import Methods
from tests import small_models
from tests.decode import test_options as options_of_search
from tests.finite_differences import check_gradients
from tests.oracle import attention, compare
from tests.oracle.layers import sigmoid
from tests.saved_models import sentences, write_folder
from tests.settings import settings_with

V = 9
SOURCES = [[4, 5, 6, 7, 8], [8, 4], [5, 5, 5], []]
TARGETS = [[4, 5, 8, 7], [7, 4], [6], [5, 4]]
LONG = [list(np.arange(45) % 5 + 4)]


def model_that_copies(dtype=np.float32, tied="none", decoder=None, **options):
    side = {"embeddings": {"embedding_dim": 6}}
    decoder = {"hidden_dropout": 0.2, "copy_source": True, **side, **(decoder or {})}
    return small_models.build(V, dtype=dtype, tied=tied, encoder={"dropout": 0.3, **side}, decoder=decoder, **options)


@pytest.mark.parametrize(
    ("smoothing", "tied", "decoder"),
    [
        (0.0, "none", {}),
        (0.2, "all", {}),
        (0.1, "none", {"conditional": True}),
        (0.1, "none", {"attention": "multi_head", "attention_heads": 2, "attention_size": 4}),
        (0.1, "none", {"readout": "recurrent", "input_feeding": False}),
        (0.1, "all", {"lexical": True}),
    ],
)
def test_gradients_are_those_of_the_loss(smoothing, tied, decoder):
    model = model_that_copies(np.float64, tied, decoder)
    batch = make_batch(SOURCES, TARGETS, range(len(SOURCES)))
    options = {"seed": 5, "threads": 1, "label_smoothing": smoothing}
    _, gradients = check_gradients(model, batch, options, smallest=1e-9)
    assert np.abs(gradients["decoder.W_g"]).max() > 1e-4


def test_the_loss_is_that_of_forced_scores():
    model = model_that_copies(np.float64)
    sources, targets = SOURCES * 60, TARGETS * 60  # more rows than a chunk of logits
    batch = make_batch(sources, targets, range(len(sources)))
    known = force(model, sources, [[*ids, EOS_ID] for ids in targets])
    assert model.loss(batch, threads=1).nll == pytest.approx(-sum(one.log_probs.sum() for one in known), rel=1e-9)


def test_mixing_is_equation_9_by_loops():
    rng = np.random.default_rng(3)
    weights = rng.dirichlet(np.ones(4), 3)
    ids, gate = np.array([[4, 5, 4, 2], [6, 2, 0, 0], [7, 7, 7, 7]]), np.array([0.3, 0.9, 0.0])
    log_probs = np.log(rng.dirichlet(np.ones(V), 3))
    found = Copies(gate, weights, ids).mixed(log_probs)
    for row in range(3):
        for token in range(V):
            copied = sum(weights[row, s] for s in range(4) if ids[row, s] == token)
            expected = gate[row] * math.exp(log_probs[row, token]) + (1 - gate[row]) * copied
            assert math.exp(found[row, token]) == pytest.approx(expected, abs=1e-12)


def test_the_loss_and_right_tokens_are_those_of_the_whole_distribution(monkeypatch):
    """Tokens that occur twice in a source, targets in the source and not, a gate that is nearly closed."""
    rng = np.random.default_rng(4)
    logits, rows = rng.standard_normal((40, V)), 40
    weights, ids = rng.dirichlet(np.full(5, 0.3), rows), rng.integers(2, V, (rows, 5))
    gate = rng.random(rows)
    gate[0] = 1e-20
    targets = np.where(rng.random(rows) < 0.5, ids[:, 1], logits.argmax(1))

    def each_logits(h, layer, fill, into, threads):
        for part in (slice(0, 15), slice(15, 40)):
            fill(logits[part].copy(), part)

    monkeypatch.setattr("nmt.model.copying.each_logits", each_logits)
    copies = Copies(gate, weights, ids)
    sums, _, _ = copy_loss(None, None, copies, targets, 0.2, None, 1.0, 1)
    mixed = copies.mixed(logits - np.log(np.exp(logits).sum(1, keepdims=True)))
    nll, everywhere = -mixed[np.arange(rows), targets], -mixed.mean(1)
    assert sums[:2] == pytest.approx([nll.sum(), (0.8 * nll + 0.2 * everywhere).sum()], rel=1e-12)
    assert sums[2] == np.count_nonzero(mixed.argmax(1) == targets)


def test_a_copy_needs_no_output_layer():
    """With a closed gate, only source tokens can be produced."""
    model = model_that_copies()
    model.params["decoder.b_g"][...] = -60
    model.changed()
    (found,) = search(model, [SOURCES[0]], beam_size=3, n_best=3)
    assert found
    assert {token for one in found for token in one.ids} <= set(SOURCES[0])


@pytest.mark.parametrize("lexical", [False, True])
@pytest.mark.parametrize("settings", [{}, {"shortlist": None, "min_length": 2}])
def test_the_search_has_the_scores_of_forced_decoding(settings, lexical):
    model = model_that_copies(decoder={"lexical": lexical})
    sources = [*SOURCES[:3], *LONG]
    for batch_size in (1, 4):
        found = search(model, sources, beam_size=3, batch_size=batch_size, **settings)
        best = [one[0] for one in found]
        known = force(model, sources, [[*one.ids, EOS_ID] if one.finished else one.ids for one in best])
        assert [one.log_prob for one in best] == pytest.approx([float(k.log_probs.sum()) for k in known], abs=1e-4)


def test_neighbours_change_no_bit_and_a_session_finds_the_same():
    model, sources = model_that_copies(), [*SOURCES[:3], *LONG]
    together = search(model, sources, beam_size=3)
    assert together == [search(model, [one], beam_size=3)[0] for one in sources]
    assert Session(model, SOURCES[0]).complete(options=SearchOptions(beam_size=3)) == together[0]


def test_the_search_goes_step_by_step_in_ensembles_too():
    one, other = model_that_copies(), small_models.build(V)
    assert search_plan(one, SearchOptions()).path is SearchPath.STEPS
    both = Ensemble([one, other])
    (found,) = search(both, [SOURCES[0]], beam_size=2)
    (known,) = force(both, [SOURCES[0]], [[*found[0].ids, EOS_ID] if found[0].finished else found[0].ids])
    assert found[0].log_prob == pytest.approx(float(known.log_probs.sum()), abs=1e-4)


def test_int8_computes_nearly_the_same():
    model, small = model_that_copies(), model_that_copies(compute_dtype="int8")
    small.adopt(dict(model.params))
    pairs = SOURCES[:2], [[*ids, EOS_ID] for ids in TARGETS[:2]]
    for one, other in zip(force(model, *pairs), force(small, *pairs), strict=True):
        assert np.abs(one.log_probs - other.log_probs).max() < 0.1


def test_a_gpu_is_refused_in_one_line():
    config = model_that_copies().config
    with pytest.raises(DeviceError, match="copy_source: must be false on a GPU, got true on the device cuda:0; use -"):
        check_device(config, SimpleNamespace(is_cpu=False, name="cuda:0"))


def test_a_dropped_word_is_copied_as_what_it_was():
    """With a closed gate, the loss of a source whose words are unknown is finite only if the true words are copied."""
    model = model_that_copies()
    model.params["decoder.b_g"][...] = -60
    model.changed()
    batch = make_batch([[5, 6, 5]], [[5, 6]], [0])
    dropped = replace(batch, src=np.where(batch.src > EOS_ID, UNK_ID, batch.src).astype(np.int32))
    losses = [
        model.loss_and_gradients(dropped, seed=1, threads=1, objective=objective)[0].nll
        for objective in (Objective(), Objective(copied=batch.src))
    ]
    assert losses[0] > 50 > 10 > losses[1]


def test_training_with_dropped_words_copies_the_true_ones():
    """As the updates of a training prepare a batch."""
    batch = make_batch([[5, 6, 5]], [[5, 6]], [0])
    config = settings_with(training={"src_word_dropout": 0.9}, model={"decoder": {"copy_source": True}})
    prepared = Methods(config, model_that_copies()).prepare(batch, 3)
    assert (prepared.batch.src == UNK_ID).any() and (prepared.objective.copied == batch.src).all()


def test_copies_of_words_that_are_unknown_have_the_words_of_the_source(tmp_path):
    """In their order; the last one stands for all that are left, and nothing for those of a source that is known."""
    translator = Translator.load(write_folder(tmp_path / "model", subwords="word", decoder={"copy_source": True}))
    (known,) = translator.src_subwords.encode(["kara losu"])
    rows = [[UNK_ID, known[0], UNK_ID, UNK_ID], [known[1]]]
    assert texts_of(translator, rows, "mia kara lisa") == ["mia kara lisa lisa", "losu"]
    assert texts_of(translator, rows, "kara losu") == ["kara", "losu"]
    line, found = ["mia kara lisa"], [[Hypothesis(rows[0], -1.0, -1.0, True)]]
    for dictionary in (None, {}):  # also of translations with details, and with replace_unk, where there is no entry
        ((one,),) = with_details(translator, line, source_ids(translator, line), found, dictionary)
        assert one.text == "mia kara lisa lisa"
    session = translator.session(*line)
    session._session.complete = lambda prefix, options: found[0]
    assert session.complete()[0].text == "mia kara lisa lisa"


VOCAB = 12
TIED = {"tied": "all", "encoder": {"embeddings": {"embedding_dim": 6, "scale": True}}}
TIED["decoder"] = {"embeddings": {"embedding_dim": 6}, "lexical": True}
ABOVE = {"encoder": {"rnn_type": "gru", "projection": 5, "num_layers": 2}}
ABOVE["decoder"] = {"rnn_type": "gru", "conditional": True, "lexical": True, "readout": "deep"}
EXPORTED = {"tied": TIED, "conditional above a projection": ABOVE}
has_onnx = all(find_spec(name) for name in ("onnx", "onnxruntime"))
KINDS = {"own output matrix": {"decoder": {"lexical": True}}, "tied": TIED}


def log_probs_by_loops(model, source, target):
    """Log-probabilities of a target and its EOS, by the formulas of Nguyen and Chiang (2018, section 4)."""
    w = {name: np.asarray(value, np.float64) for name, value in model.params.items()}
    src = np.array([*source, EOS_ID])
    encoded = model.encode(*model.pad_sources([source]), 1)
    outputs = np.asarray(encoded.memory[:, 0, : model.config.encoder.output_size], np.float64)
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
        scores.append(compare.log_softmax(logits)[token])
    return np.array(scores)


@pytest.mark.parametrize("kind", KINDS)
def test_log_probs_equal_the_formulas_of_the_paper(kind):
    model = small_models.build(VOCAB, dtype=np.float64, **KINDS[kind])
    sources, targets = [[4, 9, 5], [7], [6, 11, 8, 4, 5]], [[5, 10], [], [4, 4, 9]]
    found, _ = model.forced_log_probs(sources, [[*target, EOS_ID] for target in targets], threads=1)
    for source, target, scores in zip(sources, targets, found, strict=True):
        np.testing.assert_allclose(scores, log_probs_by_loops(model, source, target), rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", ["nothing", "prefixes"])
def test_every_search_scores_as_forced_decoding(name):
    model = options_of_search.build(4, **TIED)
    sentences = small_models.random_sentences(np.random.default_rng(3), 24, VOCAB, longest=9)
    options_of_search.compare_with_forced(name, model, sentences)


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
