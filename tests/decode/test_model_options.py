"""Search options on real models: scores are those of forced decoding, attention is what the cell attends to, and
neither batches nor threads change anything."""

import numpy as np
import pytest

from nmt.decode import Ensemble, Fusion, SearchOptions, force, search
from nmt.errors import ShapeError
from nmt.special_tokens import EOS_ID
from tests import small_models
from tests.model import test_language
from tests.search_cases import LISTS, RULES, given_for

VOCAB = 12


@pytest.fixture(scope="module")
def model():
    return build(4)


def build(seed, **changes):
    """A model whose translations do end."""
    found = small_models.build(VOCAB, scale=0.8, seed=seed, **changes)
    found.params["output.b"][EOS_ID] += 3
    found.changed()
    return found


@pytest.fixture(scope="module")
def sentences():
    return small_models.random_sentences(np.random.default_rng(3), 24, VOCAB, longest=9)


def find(model, sentences, *, threads=1, batch_size=None, **options):
    common = {"beam_size": 4, "n_best": 2, "length_penalty": "average", "max_length_ratio": 1.5, "max_length_extra": 4}
    return search(model, sentences, threads=threads, batch_size=batch_size, options=SearchOptions(**options), **common)


def forced_targets(found):
    return [[*h.ids, EOS_ID] if h.finished else h.ids for hypotheses in found for h in hypotheses]


def sources_of(found, sentences):
    return [sentences[n] for n, hypotheses in enumerate(found) for _ in hypotheses]


N = 24
EVERY = {name: given_for(name, N) for name in (*RULES, *LISTS)}


@pytest.mark.parametrize("name", EVERY)
def test_log_probs_are_those_of_forced_decoding_for_every_batch(name, model, sentences):
    compare_with_forced(name, model, sentences)


def compare_with_forced(name, model, sentences):
    """What the search with these options finds, against forced decoding, batches and threads."""
    found = find(model, sentences, **EVERY[name])
    forced = force(model, sources_of(found, sentences), forced_targets(found), threads=1, batch_size=7)
    if name not in ("min length", "prefixes"):  # these leave hardly any within the limits
        assert sum(h.finished for hypotheses in found for h in hypotheses) >= 10
    for h, one in zip((h for hypotheses in found for h in hypotheses), forced, strict=True):
        assert h.log_prob == pytest.approx(float(one.log_probs.sum(dtype=np.float64)), abs=1e-4)
    assert find(model, sentences, threads=2, batch_size=16, **EVERY[name]) == found
    assert find(model, sentences, batch_size=5, **EVERY[name]) == found


def test_forced_log_probs_are_minus_the_training_loss(model, sentences):
    targets = small_models.random_sentences(np.random.default_rng(4), len(sentences), VOCAB, longest=7)
    forced = force(model, sentences, [[*t, EOS_ID] for t in targets], threads=1, attention=True)
    for source, target, one in zip(sentences, targets, forced, strict=True):
        loss = model.loss(small_models.batch_of([(source, target)]), threads=1).nll
        assert float(one.log_probs.sum()) == pytest.approx(-loss, abs=5e-5)
        assert one.log_probs.shape == (len(target) + 1,)
        assert one.attention.shape == (len(target) + 1, len(source) + 1)
        assert one.attention.sum(1) == pytest.approx(1, abs=1e-5)
    alone = force(model, sentences, [[*t, EOS_ID] for t in targets], threads=1, attention=True, batch_size=1)
    for one, other in zip(forced, alone, strict=True):
        assert (one.log_probs == other.log_probs).all() and (one.attention == other.attention).all()


def test_attention_is_what_the_context_is_made_of():
    """With `dot` attention and a memory that can be read back: the weights of the probe are the softmax's."""
    from nmt.rnn.arrays.weights import Weights
    from nmt.rnn.cells import AttentionCell, AttentionProbe, ElmanCell
    from nmt.rnn.scan.scan import Scan

    rng = np.random.default_rng(0)
    cell = AttentionCell(ElmanCell(3, 4), 4, 4, attention="dot", input_feeding=False)
    scan = Scan(AttentionProbe(cell, 5), threads=1)
    weights = Weights({k: rng.normal(size=p.shape).astype("f4") for k, p in scan.params.items()})
    x, memory = rng.normal(size=(3, 2, 3)).astype("f4"), rng.normal(size=(5, 2, 4)).astype("f4")
    unit = np.ascontiguousarray(np.broadcast_to(np.eye(5, dtype="f4")[:, None], (5, 2, 5)))
    captured = {"memory": memory, "positions": unit}
    y = scan.forward(weights, x, captured=captured, source_lengths=[5, 3]).y
    h = np.zeros((2, 4))
    for t in range(3):
        h = np.tanh(x[t] @ weights["cell.W_x"] + h @ weights["cell.W_h"] + weights["cell.b"])
        for b, length in enumerate((5, 3)):
            scores = memory[:length, b] @ h[b]
            expected = np.exp(scores - scores.max())
            assert y[t, b, 4 : 4 + length] == pytest.approx(expected / expected.sum(), abs=1e-5)
            assert not y[t, b, 4 + length :].any()


@pytest.mark.parametrize("average", ["log_prob", "prob"])
def test_ensembles(average, model, sentences):
    other = build(2, decoder={"hidden_size": 7})
    settings = {"min_length": 1}
    twice = find(Ensemble([model, model], average), sentences, **settings)
    for one, expected in zip(twice, find(model, sentences, **settings), strict=True):
        assert [h.ids for h in one] == [h.ids for h in expected]
        assert [h.score for h in one] == pytest.approx([h.score for h in expected], abs=1e-5)
    pair = Ensemble([model, other], average)
    found = find(pair, sentences)
    assert find(pair, sentences, threads=2, batch_size=16) == found
    targets, sources = forced_targets(found), sources_of(found, sentences)
    own = [force(m, sources, targets, threads=1) for m in (model, other)]
    forced = force(pair, sources, targets, attention=True, threads=1)
    for n, h in enumerate(h for some in found for h in some):
        parts = np.stack([own[0][n].log_probs, own[1][n].log_probs]).astype(np.float64)
        mean = parts.mean(0) if average == "log_prob" else np.log(np.exp(parts).mean(0))
        assert h.log_prob == pytest.approx(mean.sum(), abs=1e-4)
        assert forced[n].log_probs == pytest.approx(mean, abs=1e-5)
    assert [h.ids for some in found for h in some] != [h.ids for some in find(model, sentences) for h in some]


def test_an_ensemble_of_one_is_the_model(model, sentences):
    alone = Ensemble([model])
    assert find(alone, sentences) == find(model, sentences)
    assert alone.device is model.device and alone.written([4, 5]) == [4, 5]
    targets = [[4, EOS_ID]] * len(sentences)
    log_probs, attention = alone.forced_log_probs(sentences, targets)
    assert len(log_probs) == len(sentences) and not attention, "attention is recorded if it is asked for"
    pair = Ensemble([model, build(2, decoder={"hidden_size": 7})])
    every = [one.forced_log_probs(sentences, targets, attention=True)[1] for one in (pair, *pair.models)]
    for mean, one, other in zip(*every, strict=True):
        assert mean == pytest.approx((one + other) / 2, abs=1e-6)
    assert not Fusion(model, test_language.build(np.float32, 0, VOCAB), 0.5).forced_log_probs(sentences, targets)[1]


def test_nothing_to_score_is_an_empty_array_in_its_place(model):
    sources, targets = [[4, 5], [6], [7, 8, 9]], [[], [7, EOS_ID], []]
    found = force(model, sources, targets, attention=True)
    assert [one.log_probs.shape for one in found] == [(0,), (2,), (0,)]
    assert [one.attention.shape for one in found] == [(0, 3), (2, 2), (0, 4)]
    (alone,) = force(model, sources[1:2], targets[1:2])
    assert alone.log_probs.tolist() == found[1].log_probs.tolist() and alone.attention is None
    assert [one.attention for one in force(model, sources, targets)] == [None] * 3


def test_a_least_length_beyond_the_limit_moves_the_limit(model, sentences):
    for hypotheses in find(model, sentences[:3], min_length=40):
        assert all(len(h.ids) >= 40 for h in hypotheses)


@pytest.mark.parametrize("tokens", [[VOCAB], [4, -1]])
def test_tokens_beyond_the_vocabulary_are_one_line(tokens, model, sentences):
    with pytest.raises(ShapeError, match=f"^search: tokens .* must be from 0 to {VOCAB - 1}, got {tokens[-1]}$"):
        find(model, sentences, forbidden=[tokens])
    for options in ({"forbidden": [tokens]}, {"prefixes": [tokens]}):
        with pytest.raises(ShapeError, match="^search: tokens of forbidden and prefixes must be"):
            find(model, sentences[:1], **options)


def test_in_bfloat16(sentences):
    model = build(4, compute_dtype="bfloat16")
    found = find(model, sentences[:5])
    forced = force(model, sources_of(found, sentences), forced_targets(found), attention=True, threads=1)
    for h, one in zip((h for some in found for h in some), forced, strict=True):
        assert h.log_prob == pytest.approx(float(one.log_probs.sum()), abs=1e-4)
        assert one.attention.sum(1) == pytest.approx(1, abs=1e-5)
