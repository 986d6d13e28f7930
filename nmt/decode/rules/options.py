"""Options of a search beyond beam size and length penalty."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from nmt.decode.rules.constraints import ConstrainedSelector, Glossary
from nmt.decode.rules.diverse import DiverseSelector
from nmt.decode.rules.sampling import SamplingSelector
from nmt.decode.rules.score_rules import Forbidden, MinLength, NoRepeat, Prefix, RepetitionPenalty, Rule
from nmt.decode.rules.selectors import BestSelector, CandidateSelector, RuledSelector
from nmt.decode.shortlist import Shortlist
from nmt.special_tokens import BOS_ID, UNK_ID


@dataclass(frozen=True)
class Sampling:
    """Draw translations instead of searching; see `draw_tokens` and `SamplingSelector`."""

    seed: int = 0
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0


@dataclass(frozen=True)
class SearchOptions:
    """Options of a search. Each default disables its option; all defaults together give the plain search.

    min_length: the least number of tokens before EOS. generate_unk: whether the unknown token may be produced.
    forbidden: sequences of tokens that may not be produced. no_repeat_ngram_size, repetition_penalty, word_reward,
    coverage_penalty: see the rules and `final_scores`. prefixes: the first tokens of each sentence's translations.
    constraints: the phrases that each sentence's translations must contain. glossary: the phrases that earn
    `glossary_bonus`. beam_groups, diversity_strength: see `DiverseSelector`. shortlist: tokens that are not candidates
    of a sentence have no probability and are not produced, except those that the options force. expected_lengths: the
    expected length of each sentence's translations; tokens beyond it earn no word reward. more_rules: a factory of
    further rules, called once per thread, whose rules are applied before those that forbid tokens. Constraints cannot
    be combined with sampling or groups.
    """

    min_length: int = 0
    generate_unk: bool = True
    forbidden: Sequence[Sequence[int]] = ()
    no_repeat_ngram_size: int = 0
    repetition_penalty: float = 1.0
    word_reward: float = 0.0
    coverage_penalty: float = 0.0
    sampling: Sampling | None = None
    prefixes: Sequence[Sequence[int]] | None = None
    constraints: Sequence[Sequence[Sequence[int]]] | None = None
    glossary: Sequence[Sequence[Sequence[int]]] | None = None
    glossary_bonus: float = 8.0
    beam_groups: int = 1
    diversity_strength: float = 0.5
    shortlist: Shortlist | None = None
    expected_lengths: Sequence[float] | None = None
    more_rules: Callable[[], Sequence[Rule]] | None = None

    @property
    def first_token(self) -> int:
        """Return the first token that may be produced: the unknown token, or the one after it."""
        return UNK_ID if self.generate_unk else BOS_ID

    def rules(self, eos_id: int) -> list[Rule]:
        """Return the active rules. Rules that forbid tokens come after those that change scores, so that no forbidden
        token comes back. A glossary only adds to scores and comes last: tokens of a prefix earn their share, too."""
        rules: list[Rule] = []
        if self.repetition_penalty != 1.0:
            rules.append(RepetitionPenalty(self.repetition_penalty))
        if self.more_rules is not None:
            rules.extend(self.more_rules())
        if self.no_repeat_ngram_size:
            rules.append(NoRepeat(self.no_repeat_ngram_size))
        if self.forbidden:
            rules.append(Forbidden(self.forbidden))
        if self.min_length:
            rules.append(MinLength(self.min_length, eos_id))
        if self.prefixes is not None and any(self.prefixes):
            rules.append(Prefix(self.prefixes))
        if self.glossary is not None and any(self.glossary):
            rules.append(Glossary(self.glossary, self.glossary_bonus))
        return rules

    def selector(self, src_ids: Sequence[Sequence[int]], beam_size: int, eos_id: int) -> CandidateSelector:
        """Return a new selector for these options; each thread needs its own."""
        rules = self.rules(eos_id)
        if self.sampling is not None:
            s = self.sampling
            options = {"seed": s.seed, "temperature": s.temperature, "top_k": s.top_k, "top_p": s.top_p}
            return SamplingSelector(src_ids, beam_size, rules, **options)  # type: ignore[arg-type]
        if self.beam_groups > 1:
            size = beam_size // self.beam_groups
            return DiverseSelector(len(src_ids), self.beam_groups, size, self.diversity_strength, rules)
        if self.constraints is not None and any(self.constraints):
            return ConstrainedSelector(self.constraints, rules)
        return RuledSelector(rules) if rules else BestSelector()

    def candidates(self, n: int, src_ids: Sequence[int]) -> np.ndarray:
        """Return the shortlist candidates of sentence n, whose source tokens are `src_ids`. Raises ValueError without a
        shortlist."""
        if self.shortlist is None:
            raise ValueError("SearchOptions: without a shortlist there are no candidates")
        needed = list(self.prefixes[n]) if self.prefixes is not None else []
        for phrases in (self.constraints, self.glossary):
            needed += [token for phrase in phrases[n] for token in phrase] if phrases is not None else []
        return self.shortlist.candidates(src_ids, needed)

    def limits(self, src_ids: Sequence[Sequence[int]], ratio: float, extra: int) -> np.ndarray:
        """Return the maximum length of the translations of each sentence, including EOS, int64 [N]: `ratio` times the
        source length, plus `extra`, plus the tokens that the options force."""
        limits = np.array([int(ratio * len(s)) + extra for s in src_ids], np.int64)
        return np.maximum(limits, self.min_length + bool(self.min_length)) + self.longer_by(len(src_ids))

    def longer_by(self, count: int) -> np.ndarray:
        """Return by how many tokens translations may exceed their limits for what the options force: int64 [count]."""
        more = np.zeros(count, np.int64)
        if self.prefixes is not None:
            more += [len(prefix) for prefix in self.prefixes]
        if self.constraints is not None:
            more += [sum(map(len, phrases)) for phrases in self.constraints]
        return more
