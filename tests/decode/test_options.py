"""Every option of the search against trying everything, on tables of probabilities that know the last token alone."""

import hashlib
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from nmt.decode import Ensemble, SearchOptions, force, search
from nmt.decode.beam import BeamCell, run
from nmt.decode.hypotheses import Block
from nmt.decode.rules import selectors
from nmt.decode.rules.glossary import Glossary, Progress
from nmt.decode.rules.score_rules import Rule
from nmt.errors import ShapeError
from nmt.rnn.arrays.weights import Weights
from nmt.rnn.cells import AttentionCell, AttentionProbe, ElmanCell
from nmt.rnn.scan.scan import Scan
from nmt.special_tokens import EOS_ID
from tests import small_models
from tests.decode.test_beam import EOS, TableDecoder
from tests.oracle import beam
from tests.refusals import refused
from tests.search_cases import LISTS, RULES, given_for

V, BOS, LONGEST = 7, 2, 4
WORDS = (1, 4, 5, 6)
EVERYTHING = 4000  # more than there are continuations of all prefixes


def tables(count=3, seed=5):
    chances = np.random.default_rng(seed).dirichlet(np.full(V, 0.7), (count, V)) + 1e-9
    return chances / chances.sum(-1, keepdims=True)


def tried(options, *, beam_size=EVERYTHING, limit=LONGEST, penalty="none", n_best=4, size=9, order=(0, 1, 2)):
    """Hypotheses of each of three sentences, by their number."""
    decoder = TableDecoder(tables())
    sources = [[n] for n in order]
    limits = np.full(len(order), limit) + options.longer_by(len(order))
    options = replace(options, beam_size=beam_size, length_penalty=penalty, n_best=n_best)
    cell = BeamCell(options, decoder, sources, limits)
    numbers = np.arange(len(order))
    blocks = [Block(part, [sources[n] for n in part]) for part in np.split(numbers, numbers[size::size])]
    found = dict(run(cell, iter(blocks), size))
    assert not decoder.sources
    return {order[n]: found[n] for n in numbers}


def plain(n):
    table = np.log(tables()[n])
    return lambda prefix: table[prefix[-1] if prefix else BOS].copy()


def everything(log_probs, *, legal=lambda ids, finished: True, limit=LONGEST, penalty="none", reward=0.0):
    """The finished sequences that are legal, the best first, as (ids, score)."""
    found = beam.all_sequences(log_probs, eos=EOS, max_length=limit, length_penalty=penalty, forbidden=(0, BOS))
    found = [(s.ids, s.score + reward * (len(s.ids) + 1)) for s in found if s.finished and legal(s.ids, s.finished)]
    return sorted((f for f in found if f[1] > -1e9), key=lambda f: -f[1])


def agree(hypotheses, expected):
    """Those that are finished are the best of what is expected, which is (ids, score)."""
    found = [h for h in hypotheses if h.finished]
    for h, (ids, score) in zip(found, expected, strict=False):
        assert (tuple(h.ids), h.score) == (ids, pytest.approx(score))
    return found


def has(ids, phrase):
    return any(ids[i : i + len(phrase)] == tuple(phrase) for i in range(len(ids) - len(phrase) + 1))


def no_repeat(size):
    return lambda ids, _: len({ids[i : i + size] for i in range(len(ids) - size + 1)}) == max(0, len(ids) - size + 1)


LEGAL = {
    "min length": (SearchOptions(min_length=2), lambda ids, _: len(ids) >= 2),
    "no unk": (SearchOptions(generate_unk=False), lambda ids, _: 1 not in ids),
    "forbidden": (SearchOptions(forbidden=[[5], [4, 6]]), lambda ids, _: 5 not in ids and not has(ids, (4, 6))),
    "no repeat 1": (SearchOptions(no_repeat_ngram_size=1), no_repeat(1)),
    "no repeat 2": (SearchOptions(no_repeat_ngram_size=2), no_repeat(2)),
    "several": (SearchOptions(min_length=2, no_repeat_ngram_size=1), lambda i, f: len(i) >= 2 and no_repeat(1)(i, f)),
}


@pytest.mark.parametrize("size", [1, 9])
@pytest.mark.parametrize("name", LEGAL)
def test_what_is_forbidden_is_not_found_and_all_else_is(name, size):
    options, legal = LEGAL[name]
    for n, hypotheses in tried(options, size=size).items():
        expected = everything(plain(n), legal=legal)
        assert expected != everything(plain(n)), "the option would not be missed"
        assert len(agree(hypotheses, expected)) >= 3
        assert all(h.log_prob == h.score for h in hypotheses)


@pytest.mark.parametrize("size", [2, 3])
def test_what_is_forbidden_may_not_begin_a_translation(size):
    for n in range(3):
        phrase = next(ids[:size] for ids, _ in everything(plain(n)) if len(ids) >= size)
        expected = everything(plain(n), legal=lambda ids, _, p=phrase: not has(ids, p))
        found = [tuple(h.ids) for h in tried(SearchOptions(forbidden=[phrase]), n_best=50)[n] if h.finished]
        assert len(found) > 20 and found == [ids for ids, _ in expected[: len(found)]]


@pytest.mark.parametrize("prefix", [(4,), (5, 5, 6)])
def test_prefixes(prefix):
    found = tried(SearchOptions(prefixes=[prefix, (), prefix]))
    for n, given in ((0, prefix), (1, ()), (2, prefix)):
        expected = everything(plain(n), legal=lambda ids, _, p=given: ids[: len(p)] == p, limit=LONGEST + len(given))
        assert [tuple(h.ids) for h in found[n] if h.finished][:3] == [ids for ids, _ in expected[:3]]
        assert found[n][0].score == pytest.approx(expected[0][1])


def test_a_prefix_comes_before_all_that_is_forbidden():
    rules = {"generate_unk": False, "forbidden": [[5]], "no_repeat_ngram_size": 1, "min_length": 2}
    for n, hypotheses in tried(SearchOptions(prefixes=[[1, 5, 5]] * 3, **rules), limit=2).items():
        assert hypotheses
        for h in hypotheses:
            assert h.ids[:3] == [1, 5, 5] and not set(h.ids[3:]) & {1, 5}
            if h.finished:
                assert h.log_prob == pytest.approx(true_log_prob(n, h.ids))


@pytest.mark.parametrize("penalty", ["none", 1.0])
@pytest.mark.parametrize("reward", [0.7, -0.7])
def test_word_reward(reward, penalty):
    for n, hypotheses in tried(SearchOptions(word_reward=reward), penalty=penalty).items():
        agree(hypotheses, everything(plain(n), penalty=penalty, reward=reward))
        assert hypotheses[0].log_prob == pytest.approx(true_log_prob(n, hypotheses[0].ids))


BONUS = np.array([0, -0.5, 0, -0.3, -2.0, -0.1, -0.9])


class Favour(Rule):
    """A score of its own for every token, as another model would give."""

    reweights = True

    def apply(self, scores, beam, steps):
        scores += BONUS


def test_rules_of_others_take_part():
    def fused(n):
        return lambda prefix: plain(n)(prefix) + BONUS

    for n, hypotheses in tried(SearchOptions(more_rules=lambda: [Favour()])).items():
        for h in agree(hypotheses, everything(fused(n))):
            assert h.log_prob == pytest.approx(true_log_prob(n, h.ids))


def true_log_prob(n, ids):
    return sum(plain(n)(tuple(ids[:t]))[token] for t, token in enumerate([*ids, EOS]))


def test_repetition_penalty():
    def penalised(n):
        def log_probs(prefix):
            scores = plain(n)(prefix)
            for token in set(prefix):
                scores[token] *= 2.5
            return scores

        return log_probs

    for n, hypotheses in tried(SearchOptions(repetition_penalty=2.5)).items():
        for h in agree(hypotheses, everything(penalised(n))):
            assert h.log_prob == pytest.approx(true_log_prob(n, h.ids))


def test_progress_agrees_with_a_search_in_the_tokens_said():
    """Of phrases that differ, those in a random row of tokens are done, and the rest is as far as its end begins."""
    rng = np.random.default_rng(3)
    for _ in range(2000):
        phrases = list({tuple(rng.integers(4, 7, rng.integers(1, 5)).tolist()) for _ in range(rng.integers(1, 4))})
        said = tuple(rng.integers(4, 7, 8).tolist())
        progress = Progress(tuple(phrases))
        for token in said:
            progress = progress.after(token)
        done = {n for n, p in enumerate(phrases) if has(said, p)}
        begun = [k for n, p in enumerate(phrases) if n not in done for k in range(len(p)) if said[8 - k :] == p[:k]]
        assert progress.done == done
        assert progress.place == max(begun, default=0)


def test_glossary_bonus():
    """A bonus for each phrase, once, however many tokens it has, and nothing for a phrase half said."""
    glossary, bonus = [[[5, 6]], [[4]], []], 3.0
    for n, hypotheses in tried(SearchOptions(glossary=glossary, glossary_bonus=bonus)).items():
        scored = [
            (ids, score + bonus * sum(has(ids, p) for p in glossary[n]))
            for ids, score in everything(plain(n))
            if not (n == 0 and ids[-1:] == (5,))  # ends in the middle of a phrase: what it began is counted
        ]
        expected = sorted(scored, key=lambda f: -f[1])
        for h in agree([h for h in hypotheses if n or h.ids[-1:] != [5]], expected):
            assert h.log_prob == pytest.approx(true_log_prob(n, h.ids))


@pytest.mark.parametrize("prefix", [(5,), (5, 6), (4, 5, 5), (6, 5)])
def test_a_prefix_earns_of_the_glossary_what_other_tokens_earn(prefix):
    """Also the phrase that it begins; what it begins and nobody ends costs nothing."""
    glossary, bonus = [[5, 6], [4]], 3.0
    options = SearchOptions(prefixes=[prefix] * 3, glossary=[glossary] * 3, glossary_bonus=bonus)
    for n, hypotheses in tried(options, n_best=EVERYTHING, penalty="average").items():
        legal = lambda ids, _: ids[: len(prefix)] == prefix  # noqa: E731
        expected = {
            ids: score + bonus * sum(has(ids, p) for p in glossary) / (len(ids) + 1)
            for ids, score in everything(plain(n), legal=legal, limit=LONGEST + len(prefix), penalty="average")
        }
        found = {tuple(h.ids): h for h in hypotheses if h.finished}
        assert len(found) > 20 and found.keys() == expected.keys()
        for ids, h in found.items():
            assert h.score == pytest.approx(expected[ids])
            assert h.log_prob == pytest.approx(true_log_prob(n, ids))


def test_a_glossary_can_still_add_the_bonus_of_what_was_not_said():
    rule = Glossary([[[5, 6], [4], [4, 4, 4]]], 2.5)
    extra = rule.start(np.zeros(3, np.int64))
    for token in (5, 6):
        rule.follow({"glossary": extra["glossary"][1:]}, np.array([token, 4]))
    beam = SimpleNamespace(extra=extra)
    assert rule.most_to_gain(beam, np.array([2, 0, 1])).tolist() == pytest.approx([2.5 * (3 - 1 - 2 / 3), 7.5, 5.0])


def sampled(size=9, order=(0, 1, 2), count=400, **settings):
    options = SearchOptions(sampling=True, **{f"sampling_{name}": value for name, value in settings.items()})
    return tried(options, beam_size=count, n_best=count, limit=3, size=size, order=order)


def test_the_numbers_of_samples_are_hashes_of_seed_source_sample_and_step(monkeypatch):
    """The same ones in each version, on each device: SplitMix64 in plain integers."""

    def mix(x):
        x = (x + 0x9E3779B97F4A7C15) % 2**64
        x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        x = (x ^ x >> 27) * 0x94D049BB133111EB % 2**64
        return x ^ x >> 31

    drawn, draw = [], selectors.draw_tokens
    noted = lambda rows, uniforms, **more: (drawn.append(uniforms), draw(rows, uniforms, **more))[1]  # noqa: E731
    monkeypatch.setattr(selectors, "draw_tokens", noted)
    sampled(count=4, seed=-3, order=(1,), size=1)
    digest = hashlib.blake2b((1).to_bytes(4, "little"), digest_size=8).digest()
    key = mix(int.from_bytes(digest, "little") ^ 2**64 - 3)
    for step, uniforms in enumerate(drawn):
        every = [(mix(mix((key + sample) % 2**64) + step) >> 11) / 2**53 for sample in range(4)]
        assert set(uniforms.tolist()) <= set(every) and (step or uniforms.tolist() == every)
    assert len(drawn) > 1


def test_samples_do_not_depend_on_batch_or_order():
    base = sampled(count=20)
    assert sampled(count=20, size=1) == base
    assert sampled(count=20, order=(2, 0, 1)) == base
    assert sampled(count=20, seed=1) != base


@pytest.mark.parametrize("settings", [{}, {"temperature": 0.5}, {"topk": 2}, {"topp": 0.6}], ids=str)
def test_first_tokens_of_samples_are_as_frequent_as_they_should_be(settings):
    for n, hypotheses in sampled(count=2000, **settings).items():
        chances = np.exp(plain(n)(()))
        chances[[0, BOS]] = 0
        chances = chances ** (1 / settings.get("temperature", 1))
        order = np.argsort(-chances)
        chances[order[settings.get("topk", V) :]] = 0
        chances /= chances.sum()
        running = np.cumsum(chances[order]) - chances[order]
        chances[order[running >= settings.get("topp", 1.0)]] = 0
        chances /= chances.sum()
        counts = np.bincount([(h.ids or [EOS])[0] for h in hypotheses], minlength=V)
        assert len(hypotheses) == 2000
        assert not counts[chances == 0].any()
        assert np.abs(counts / 2000 - chances).max() < 0.05
        for h in hypotheses[:5]:
            if h.finished:
                assert h.log_prob == pytest.approx(true_log_prob(n, h.ids))


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


@pytest.mark.parametrize("tokens", [[VOCAB], [4, -1]])
def test_tokens_beyond_the_vocabulary_are_one_line(tokens, model, sentences):
    with pytest.raises(ShapeError, match=f"^search: tokens .* must be from 0 to {VOCAB - 1}, got {tokens[-1]}$"):
        find(model, sentences, forbidden=[tokens])
    for options in ({"forbidden": [tokens]}, {"prefixes": [tokens]}):
        refused(ShapeError, "^search: tokens of forbidden and prefixes must be", find, model, sentences[:1], **options)


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
    rng = np.random.default_rng(0)
    cell = AttentionCell(ElmanCell(3, 4), 4, 4, attention="dot", input_feeding=False)
    scan = Scan(AttentionProbe(cell, 5), threads=1)
    weights = Weights({k: rng.normal(size=p.shape).astype("f4") for k, p in scan.params.items()})
    x, memory = rng.normal(size=(3, 2, 3)).astype("f4"), rng.normal(size=(5, 2, 4)).astype("f4")
    unit = np.ascontiguousarray(np.broadcast_to(np.eye(5, dtype="f4")[:, None], (5, 2, 5)))
    y = scan.forward(weights, x, captured={"memory": memory, "positions": unit}, source_lengths=[5, 3]).y
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
