"""The output layer over candidates: against all tokens in NumPy, and the same bits whatever else is in work."""

import numpy as np
import pytest

from nmt.decode import Ensemble, SearchOptions, Shortlist
from nmt.errors import ShapeError
from nmt.model.decoders import NarrowOutput
from nmt.rnn.arrays.device_operations import OutputLayer
from nmt.rnn.arrays.weights import Weights, packed_dtype
from nmt.rnn.kernels.search import candidates
from nmt.special_tokens import EOS_ID, UNK_ID
from tests.decode.test_options import build, find, sentences  # noqa: F401 - a fixture
from tests.refusals import refused
from tests.search_cases import LISTS, RULES, given_for

VOCAB = 12


@pytest.fixture(autouse=True)
def _small_work_is_divided_too(monkeypatch):
    monkeypatch.setattr(candidates, "_ALONE_BELOW", 0)


@pytest.fixture(scope="module")
def model():
    return build(4)


def shortlist_of(lists, always=(), size=VOCAB):
    starts = np.concatenate([[0], np.cumsum([len(x) for x in lists])]).astype(np.int64)
    tokens = np.array([t for x in lists for t in x], np.int32)
    return Shortlist(starts, tokens, np.array(always, np.int32), size)


SOME = shortlist_of([[]] * 4 + [[4, 5], [9], [], [7, 8, 9], [4], [10], [11, 5], [6]], always=[8])


def test_candidates_are_those_of_the_source_the_frequent_and_the_needed():
    assert SOME.candidates([4, 7, 4], [11]).tolist() == [1, 3, 4, 5, 7, 8, 9, 11]
    assert SOME.candidates([6]).tolist() == [UNK_ID, EOS_ID, 8]
    assert SOME.candidates([6, 99]).tolist() == [UNK_ID, EOS_ID, 8], "a source token that it does not know adds none"
    refused(ShapeError, "", shortlist_of, [[12]])
    for starts in ([], [1, 2], [0, 1], [0, 3], [0, 3, 2]):
        with pytest.raises(ShapeError, match="rising starts up to 2"):
            Shortlist(np.array(starts, np.int64), np.array([4, 5], np.int32), np.array([8], np.int32), VOCAB)


def narrow(H, V, dtype, tied, compute_dtype=None, seed=0):
    rng = np.random.default_rng(seed)
    W, b = rng.normal(size=(H, V)).astype(dtype), rng.normal(size=V).astype(dtype)
    weights = Weights({"W": np.ascontiguousarray(W.T) if tied else W, "b": b})
    layer = OutputLayer(weights, "W", "b", tied, packed_dtype("test", dtype, compute_dtype))
    return NarrowOutput(layer, 1), W.astype(np.float64), b.astype(np.float64)


def expected(h, W, b, own):
    logits = (h.astype(np.float64) @ W + b)[own]
    return logits - np.log(np.exp(logits - logits.max()).sum()) - logits.max()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 2e-5), (np.float64, 1e-12)])
def test_best_candidates_against_numpy(dtype, tolerance, tied, threads):
    H, V = 13, 701
    narrow_output, W, b = narrow(H, V, dtype, tied)
    narrow_output.threads = threads
    rng = np.random.default_rng(1)
    lists = [np.unique(rng.integers(1, V, n)).astype(np.int32) for n in (1, 3, 97, 300, 600)]
    sentence_ids = np.array([3, 4, 7, 8, 9])
    narrow_output.admit(sentence_ids[:2], lists[:2])
    narrow_output.admit(sentence_ids[2:], lists[2:])
    rows = np.array([7, 9, 3, 8, 8, 4, 7])
    h = rng.normal(size=(len(rows), H)).astype(dtype)
    tokens, scores = narrow_output.best_tokens(h, rows, 2, 5)
    everything = narrow_output.log_probs(h, rows)
    for r, sentence_id in enumerate(rows):
        own = lists[sentence_ids.tolist().index(sentence_id)]
        want = np.full(V, -np.inf)
        want[own] = expected(h[r], W, b, own)
        assert np.isneginf(everything[r]).tolist() == np.isneginf(want).tolist()
        assert everything[r][own] == pytest.approx(want[own], abs=tolerance)
        best = sorted((v for v in own if v >= 2), key=lambda v: -everything[r, v])[:5]
        assert tokens[r].tolist() == best + [-1] * (5 - len(best))
        assert (scores[r, : len(best)] == everything[r, best]).all(), "both give the same bits"


@pytest.mark.parametrize("compute_dtype", [None, "bfloat16"])
def test_bits_do_not_depend_on_other_sentences(compute_dtype):
    H, V = 24, 333
    rng = np.random.default_rng(2)
    lists = [np.unique(rng.integers(1, V, 60)).astype(np.int32) for _ in range(20)]
    h = rng.normal(size=(20, H)).astype("f4")
    together = narrow(H, V, np.float32, False, compute_dtype)[0]
    together.admit(np.arange(20), lists)
    tokens, scores = together.best_tokens(h, np.arange(20), 1, 6)
    together.release(np.arange(0, 20, 2))
    together.admit(np.array([50]), [lists[0]])
    later = together.best_tokens(np.concatenate([h[1::2], h[:1]]), np.array([*range(1, 20, 2), 50]), 1, 6)
    assert (later[0] == np.concatenate([tokens[1::2], tokens[:1]])).all()
    assert (later[1] == np.concatenate([scores[1::2], scores[:1]])).all()
    for n in range(20):
        alone = narrow(H, V, np.float32, False, compute_dtype)[0]
        alone.admit(np.array([n]), [lists[n]])
        one = alone.best_tokens(h[n : n + 1], np.array([n]), 1, 6)
        assert (one[0][0] == tokens[n]).all() and (one[1][0] == scores[n]).all()


@pytest.mark.parametrize("name", [*RULES, *LISTS])
def test_translations_hold_candidates_alone_and_do_not_depend_on_the_batch(name, model, sentences):  # noqa: F811
    given = given_for(name, len(sentences))
    options = {"shortlist": SOME, **given}
    found = find(model, sentences, **options)
    search_options = SearchOptions(**options)
    for n, hypotheses in enumerate(found):
        assert hypotheses
        allowed = set(search_options.candidates(n, sentences[n]).tolist())
        for h in hypotheses:
            assert set(h.ids) <= allowed
            assert given.get("generate_unk", True) or UNK_ID not in h.ids
            if name == "prefixes":
                assert h.ids[: len(given[name][n])] == given[name][n], "forced though no candidate of the source"
    assert find(model, sentences, batch_size=5, **options) == found
    assert find(model, sentences, threads=2, batch_size=16, **options) == found
    if not any(isinstance(value, list) for value in given.values()):
        for n in (0, 7, 23):
            assert find(model, sentences[n : n + 1], **options)[0] == found[n]


def test_all_tokens_as_candidates_are_the_search_without(model, sentences):  # noqa: F811
    everything = shortlist_of([[]] * VOCAB, always=range(VOCAB))
    for one, other in zip(find(model, sentences, shortlist=everything), find(model, sentences), strict=True):
        assert [h.ids for h in one] == [h.ids for h in other]
        assert [h.score for h in one] == pytest.approx([h.score for h in other], abs=1e-5)


@pytest.mark.parametrize("average", ["log_prob", "prob"])
def test_an_ensemble_over_candidates(average, model, sentences):  # noqa: F811
    twice = find(Ensemble([model, model], average), sentences, shortlist=SOME)
    for one, other in zip(twice, find(model, sentences, shortlist=SOME), strict=True):
        assert [h.ids for h in one] == [h.ids for h in other]
        assert [h.log_prob for h in one] == pytest.approx([h.log_prob for h in other], abs=1e-5)
