"""Every option of the search against trying everything, on tables of probabilities that know the last token alone."""

import hashlib
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from nmt.decode.beam import BeamCell, run
from nmt.decode.hypotheses import Block
from nmt.decode.rules import constraints, selectors
from nmt.decode.rules.constraints import Glossary, Progress, advance
from nmt.decode.rules.options import SearchOptions
from nmt.decode.rules.score_rules import Rule
from tests.decode.test_beam import EOS, TableDecoder
from tests.oracle import beam

V, BOS, LONGEST = 7, 2, 4
WORDS = (1, 4, 5, 6)
EVERYTHING = 4000  # more than there are continuations of all prefixes


def tables(count=3, seed=5):
    chances = np.random.default_rng(seed).dirichlet(np.full(V, 0.7), (count, V)) + 1e-9
    return chances / chances.sum(-1, keepdims=True)


def find(options, *, beam_size=EVERYTHING, limit=LONGEST, penalty="none", n_best=4, size=9, order=(0, 1, 2)):
    """Hypotheses of each of three sentences, by their number."""
    decoder = TableDecoder(tables())
    sources = [[n] for n in order]
    limits = np.full(len(order), limit) + options.longer_by(len(order))
    options = replace(options, beam_size=beam_size, length_penalty=penalty, n_best=n_best)
    cell = BeamCell.of(options, decoder, sources, limits)
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
    for n, hypotheses in find(options, size=size).items():
        expected = everything(plain(n), legal=legal)
        assert expected != everything(plain(n)), "the option would not be missed"
        found = [(tuple(h.ids), h.score) for h in hypotheses if h.finished]
        assert len(found) >= 3
        for (ids, score), (want_ids, want) in zip(found, expected, strict=False):
            assert ids == want_ids and score == pytest.approx(want, abs=1e-9)
        assert all(h.log_prob == h.score for h in hypotheses)


@pytest.mark.parametrize("size", [2, 3])
def test_what_is_forbidden_may_not_begin_a_translation(size):
    for n in range(3):
        phrase = next(ids[:size] for ids, _ in everything(plain(n)) if len(ids) >= size)
        expected = everything(plain(n), legal=lambda ids, _, p=phrase: not has(ids, p))
        found = [tuple(h.ids) for h in find(SearchOptions(forbidden=[phrase]), n_best=50)[n] if h.finished]
        assert len(found) > 20 and found == [ids for ids, _ in expected[: len(found)]]


@pytest.mark.parametrize("prefix", [(4,), (5, 5, 6)])
def test_prefixes(prefix):
    options = SearchOptions(prefixes=[prefix, (), prefix])
    found = find(options)
    for n, given in ((0, prefix), (1, ()), (2, prefix)):
        expected = everything(plain(n), legal=lambda ids, _, p=given: ids[: len(p)] == p, limit=LONGEST + len(given))
        assert [tuple(h.ids) for h in found[n] if h.finished][:3] == [ids for ids, _ in expected[:3]]
        assert found[n][0].score == pytest.approx(expected[0][1])


def test_a_prefix_comes_before_all_that_is_forbidden():
    rules = {"generate_unk": False, "forbidden": [[5]], "no_repeat_ngram_size": 1, "min_length": 2}
    for n, hypotheses in find(SearchOptions(prefixes=[[1, 5, 5]] * 3, **rules), limit=2).items():
        assert hypotheses
        for h in hypotheses:
            assert h.ids[:3] == [1, 5, 5] and not set(h.ids[3:]) & {1, 5}
            if h.finished:
                assert h.log_prob == pytest.approx(true_log_prob(n, h.ids))


@pytest.mark.parametrize("penalty", ["none", 1.0])
@pytest.mark.parametrize("reward", [0.7, -0.7])
def test_word_reward(reward, penalty):
    for n, hypotheses in find(SearchOptions(word_reward=reward), penalty=penalty).items():
        expected = everything(plain(n), penalty=penalty, reward=reward)
        for h, (ids, score) in zip([h for h in hypotheses if h.finished], expected, strict=False):
            assert (tuple(h.ids), h.score) == (ids, pytest.approx(score))
        assert hypotheses[0].log_prob == pytest.approx(
            sum(plain(n)(tuple(hypotheses[0].ids[:t]))[w] for t, w in enumerate([*hypotheses[0].ids, EOS]))
        )


BONUS = np.array([0, -0.5, 0, -0.3, -2.0, -0.1, -0.9])


class Favour(Rule):
    """A score of its own for every token, as a language model would give."""

    reweights = True

    def apply(self, scores, beam, steps):
        scores += BONUS


def test_rules_of_others_take_part():
    def fused(n):
        return lambda prefix: plain(n)(prefix) + BONUS

    for n, hypotheses in find(SearchOptions(more_rules=lambda: [Favour()])).items():
        for h, (ids, score) in zip([h for h in hypotheses if h.finished], everything(fused(n)), strict=False):
            assert (tuple(h.ids), h.score) == (ids, pytest.approx(score))
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

    for n, hypotheses in find(SearchOptions(repetition_penalty=2.5)).items():
        expected = everything(penalised(n))
        for h, (ids, score) in zip([h for h in hypotheses if h.finished], expected, strict=False):
            assert (tuple(h.ids), h.score) == (ids, pytest.approx(score))
            assert h.log_prob == pytest.approx(true_log_prob(n, h.ids))


CONSTRAINTS = [[[5], [6, 4]], [], [[4, 4, 6]]]


@pytest.mark.parametrize("size", [1, 9])
def test_constraints_are_in_every_finished_translation(size):
    options = SearchOptions(constraints=CONSTRAINTS)
    for n, hypotheses in find(options, size=size).items():
        limit = LONGEST + sum(map(len, CONSTRAINTS[n]))
        legal = lambda ids, _, n=n: all(has(ids, p) for p in CONSTRAINTS[n])  # noqa: E731
        expected = everything(plain(n), legal=legal, limit=limit)
        found = [(tuple(h.ids), h.score) for h in hypotheses if h.finished]
        assert found[0] == (expected[0][0], pytest.approx(expected[0][1]))
        assert all(legal(ids, True) for ids, _ in found)


def test_constraints_in_a_narrow_beam():
    for n, hypotheses in find(SearchOptions(constraints=CONSTRAINTS), beam_size=3, n_best=1, limit=8).items():
        (h,) = hypotheses
        assert all(has(tuple(h.ids), p) for p in CONSTRAINTS[n])
        if h.finished:
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
    options = SearchOptions(glossary=glossary, glossary_bonus=bonus)
    for n, hypotheses in find(options).items():
        scored = [
            (ids, score + bonus * sum(has(ids, p) for p in glossary[n]))
            for ids, score in everything(plain(n))
            if not (n == 0 and ids[-1:] == (5,))  # ends in the middle of a phrase: what it began is counted
        ]
        expected = sorted(scored, key=lambda f: -f[1])
        found = [h for h in hypotheses if h.finished and not (n == 0 and h.ids[-1:] == [5])]
        for h, (ids, score) in zip(found, expected, strict=False):
            assert (tuple(h.ids), h.score) == (ids, pytest.approx(score))
            assert h.log_prob == pytest.approx(true_log_prob(n, h.ids))


@pytest.mark.parametrize("prefix", [(5,), (5, 6), (4, 5, 5), (6, 5)])
def test_a_prefix_earns_of_the_glossary_what_other_tokens_earn(prefix):
    """Also the phrase that it begins; what it begins and nobody ends costs nothing."""
    glossary, bonus = [[5, 6], [4]], 3.0
    options = SearchOptions(prefixes=[prefix] * 3, glossary=[glossary] * 3, glossary_bonus=bonus)
    for n, hypotheses in find(options, n_best=EVERYTHING, penalty="average").items():
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


def test_places_of_the_beam_are_dealt_out_evenly_to_what_was_said():
    """Post and Vilar 2018, section 3.2: what a bank does not fill goes to those that have said most."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        total, room = int(rng.integers(1, 5)), int(rng.integers(1, 9))
        banks = [int(rng.integers(0, 7)) for _ in range(total + 1)]  # candidates by tokens said
        candidates = [
            (float(rng.normal()), n, 10 * met + n, met) for met, count in enumerate(banks) for n in range(count)
        ]
        chosen = constraints._allocate(sorted(candidates, key=lambda c: -c[0]), room, total)
        assert len(set(chosen)) == len(chosen) == min(room, len(candidates))
        share = room // (total + 1)
        left = room - sum(min(share, count) for count in banks)
        for met in range(total, -1, -1):
            here = min(share, banks[met]) + min(left, banks[met] - min(share, banks[met]))
            left -= here - min(share, banks[met])
            best = sorted((c for c in candidates if c[3] == met), key=lambda c: -c[0])[:here]
            assert {(row, token) for row, token in chosen if token // 10 == met} == {(c[1], c[2]) for c in best}
        order = {(c[1], c[2]): -c[0] for c in candidates}
        assert [order[one] for one in chosen] == sorted(order[one] for one in chosen)


def test_a_glossary_can_still_add_the_bonus_of_what_was_not_said():
    rule = Glossary([[[5, 6], [4], [4, 4, 4]]], 2.5)
    extra = rule.start(np.zeros(3, np.int64))
    for token in (5, 6):
        progress = extra["glossary"][1:]
        advance(progress, np.array([token, 4]))
    beam = SimpleNamespace(extra=extra)
    assert rule.most_to_gain(beam, np.array([2, 0, 1])).tolist() == pytest.approx([2.5 * (3 - 1 - 2 / 3), 7.5, 5.0])


def sampled(size=9, order=(0, 1, 2), count=400, **settings):
    options = SearchOptions(sampling=True, **{f"sampling_{name}": value for name, value in settings.items()})
    return find(options, beam_size=count, n_best=count, limit=3, size=size, order=order)


def test_the_numbers_of_samples_are_hashes_of_seed_source_sample_and_step(monkeypatch):
    """The same ones in each version, on each device: SplitMix64 in plain integers."""

    def mix(x):
        x = (x + 0x9E3779B97F4A7C15) % 2**64
        x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        x = (x ^ x >> 27) * 0x94D049BB133111EB % 2**64
        return x ^ x >> 31

    drawn, draw = [], selectors.draw_tokens
    monkeypatch.setattr(
        selectors,
        "draw_tokens",
        lambda rows, uniforms, **more: (drawn.append(uniforms), draw(rows, uniforms, **more))[1],
    )
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
