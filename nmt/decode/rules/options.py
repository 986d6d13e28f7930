"""Options of a search: settings, and token ids that its translations must, should or may not contain; lexical
shortlists."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nmt.decode.rules.glossary import Glossary
from nmt.decode.rules.score_rules import Forbidding, Prefix, Reweighting, Rule, length_divisors
from nmt.decode.rules.selectors import CandidateSelector, RuledSelector, SamplingSelector, sample_keys
from nmt.errors import ShapeError
from nmt.rnn.arrays.beam_state import BeamSettings
from nmt.rnn.kernels.search.token_rules import TokenRules
from nmt.search_settings import Place, SearchSettings, SearchValues, setting
from nmt.special_tokens import BOS_ID, EOS_ID, UNK_ID


class Shortlist:
    """A lexical shortlist: the target tokens that a sentence's translation may contain, so few that the output layer no
    longer dominates the work. They are the frequent tokens and the translations of the source tokens (Jean et al. 2015,
    section 2.3, and Junczys-Dowmunt et al. 2018, section 3.1).

    The candidates of source token s are tokens[starts[s] : starts[s + 1]], with starts int64 [source vocabulary + 1]
    and tokens int32 [n], and those of every sentence always, int32 [m]. vocab_size: that of the target. Raises
    ShapeError if the arrays do not fit one another.
    """

    def __init__(self, starts: np.ndarray, tokens: np.ndarray, always: np.ndarray, vocab_size: int) -> None:
        whole = len(starts) > 0 and starts[0] == 0 and starts[-1] == len(tokens) and (np.diff(starts) >= 0).all()
        every = np.concatenate([tokens, always])
        if not whole or (len(every) and not 0 <= every.min() <= every.max() < vocab_size):
            raise ShapeError(
                f"Shortlist: must have rising starts up to {len(tokens)} and tokens below {vocab_size}, got others"
            )
        self.starts, self.tokens, self.vocab_size = starts, tokens, vocab_size
        self.always = np.union1d(always, [UNK_ID, EOS_ID]).astype(np.int32)
        self._always_there = np.zeros(vocab_size, np.bool_)
        self._always_there[self.always] = True

    def candidates(self, src_ids: Sequence[int], needed: Iterable[int] = ()) -> np.ndarray:
        """Return the sorted candidates of a sentence, int32 [U]. They depend only on its tokens and on `needed`, the
        tokens that the options force, not on the rest of the batch."""
        parts = [self.tokens[self.starts[s] : self.starts[s + 1]] for s in set(src_ids) if s + 1 < len(self.starts)]
        # Scanning all tokens takes a tenth of the time of sorting a sentence's candidates.
        there = self._always_there.copy()
        there[np.concatenate([*parts, np.fromiter(needed, np.int32)])] = True
        return np.flatnonzero(there).astype(np.int32)


_STEPPED = (Place.LOOP, Place.PROGRAM)
_PROCESSOR_ONLY = (*_STEPPED, Place.GPU)


class Settings(SearchSettings, total=False):
    """Settings of a search by name; None: the default."""

    n_best: int | None


@dataclass(frozen=True, kw_only=True)
class SearchOptions(SearchValues):
    """Options of a search. Each default disables its option; all defaults together give the plain search.

    Those of `SearchValues` that concern minimum Bayes risk are read by the callers of the search.

    forbidden: sequences of tokens that may not be produced. prefixes: the first tokens of each sentence's translations.
    glossary: the phrases of each sentence that earn `glossary_bonus`. shortlist: tokens that are not candidates of a
    sentence have no probability and are not produced, except those that the options force. more_rules: a factory of
    further rules, called once per thread, whose rules are applied before those that forbid tokens.
    """

    forbidden: Sequence[Sequence[int]] = setting((), lacks=(Place.LOOP,))
    prefixes: Sequence[Sequence[int]] | None = setting(None, lacks=(Place.LOOP, Place.SESSION))
    glossary: Sequence[Sequence[Sequence[int]]] | None = setting(None, lacks=_PROCESSOR_ONLY)
    shortlist: Shortlist | None = setting(None, lacks=(Place.PROGRAM, Place.GPU))
    more_rules: Callable[[], Sequence[Rule]] | None = setting(None, lacks=_PROCESSOR_ONLY)

    @classmethod
    def of(cls, options: SearchOptions | None, settings: Settings) -> SearchOptions:
        """Return these options, or else the defaults, with other settings."""
        given: dict[str, Any] = {name: value for name, value in settings.items() if value is not None}
        return replace(options or cls(), **given)

    @property
    def first_token(self) -> int:
        """Return the first token that may be produced: the unknown token, or the one after it."""
        return UNK_ID if self.generate_unk else BOS_ID

    def rules(self, eos_id: int) -> list[Rule]:
        """Return the active rules. Rules that forbid tokens come after those that change scores, so that no forbidden
        token comes back. A glossary only adds to scores and comes last: tokens of a prefix earn their share, too."""
        rules, given = list[Rule](), TokenRules.of(self)
        if given.reweights:
            rules.append(Reweighting(given))
        if self.more_rules is not None:
            rules.extend(self.more_rules())
        if given.forbids:
            rules.append(Forbidding(given, eos_id))
        if self.prefixes is not None and any(self.prefixes):
            rules.append(Prefix(self.prefixes))
        if self.glossary is not None and any(self.glossary):
            rules.append(Glossary(self.glossary, self.glossary_bonus))
        return rules

    def token_rules(self, sentences: Sequence[int]) -> TokenRules:
        """Return the rules on single tokens for these sentences, as a program or a GPU follows them."""
        return TokenRules.of(self, [] if self.prefixes is None else [self.prefixes[n] for n in sentences])

    def selector(self, src_ids: Sequence[Sequence[int]], eos_id: int) -> CandidateSelector:
        """Return a new selector for these options; each thread needs its own."""
        rules = self.rules(eos_id)
        if self.sampling:
            keys = sample_keys(src_ids, self.sampling_seed)
            return SamplingSelector(rules, self.beam_size, keys, TokenRules.of(self).drawing)
        return RuledSelector(rules) if rules else CandidateSelector()

    def candidates(self, n: int, src_ids: Sequence[int]) -> np.ndarray:
        """Return the shortlist candidates of sentence n with this source. Raises ValueError without a shortlist."""
        if self.shortlist is None:
            raise ValueError("SearchOptions: without a shortlist there are no candidates")
        needed = list(self.prefixes[n]) if self.prefixes is not None else []
        if self.glossary is not None:
            needed += [token for phrase in self.glossary[n] for token in phrase]
        return self.shortlist.candidates(src_ids, needed)

    def limits(self, src_ids: Sequence[Sequence[int]]) -> np.ndarray:
        """Return the maximum length of the translations of each sentence, including EOS, int64 [N]: `max_length_ratio`
        times the source length, plus `max_length_extra`, plus the tokens that the options force."""
        limits = np.array([int(self.max_length_ratio * len(s)) + self.max_length_extra for s in src_ids], np.int64)
        return np.maximum(limits, self.min_length + bool(self.min_length)) + self.longer_by(len(src_ids))

    def longer_by(self, count: int) -> np.ndarray:
        """Return by how many tokens translations may exceed their limits for what the options force: int64 [count]."""
        more = np.zeros(count, np.int64)
        if self.prefixes is not None:
            more += [len(prefix) for prefix in self.prefixes]
        return more


def beam_settings(options: SearchOptions, size: int, longest: int) -> BeamSettings:
    """Return the settings of a search over `size` sentences at a time, whose translations have `longest` tokens."""
    return BeamSettings(
        size=size,
        beam_size=options.beam_size,
        n_best=options.n_best,
        eos_id=EOS_ID,
        never=BOS_ID,
        first_token=options.first_token,
        divisors=length_divisors(options.length_penalty, longest + 2),
        word_reward=options.word_reward,
    )
