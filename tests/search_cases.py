"""Options of a search that every place is tried with: steps, the compiled loop, programs, sessions, a GPU, a library
for C, a page."""

from itertools import cycle, islice
from typing import Any

from nmt.decode import SearchOptions
from nmt.search_settings import ROWS, Place

RULES = {
    "min length": {"min_length": 6},
    "no repeat": {"no_repeat_ngram_size": 2, "generate_unk": False},
    "repetition": {"repetition_penalty": 1.3, "length_penalty": 0.6},
    "reward": {"word_reward": 0.3},
    "all": {"min_length": 2, "no_repeat_ngram_size": 2, "repetition_penalty": 1.2, "word_reward": 0.1},
    "samples": {"sampling": True, "sampling_topk": 4, "sampling_temperature": 0.7, "no_repeat_ngram_size": 2},
    "samples of a nucleus": {"sampling": True, "sampling_topp": 0.8, "sampling_seed": 5, "repetition_penalty": 1.5},
}
"""Settings that all these places follow."""
LISTS = {
    "nothing": {},
    "forbidden": {"forbidden": [[5], [4, 4], [7, 7, 7], [7, 8]], "length_penalty": "average"},
    "forbidden without effect": {"forbidden": [[4] * 60]},
    "prefixes": {"prefixes": [[4, 7], [], [1, 4, 4]], "forbidden": [[4]], "min_length": 2},
    "glossary": {"glossary": [[[8, 9], [4]], []], "repetition_penalty": 1.4},
}
"""Lists of tokens, one for all sentences or one for each, which then come again for further sentences."""

ELSEWHERE = {
    **dict.fromkeys(("beam_size", "n_best", "batch_size", "max_length_ratio", "max_length_extra"), "all cases have it"),
    **dict.fromkeys(("mbr", "mbr_samples", "glossary_bonus"), "outside of the beam"),
}
"""Settings without a case here, and what tests them."""


def given_for(name: str, sentences: int) -> dict[str, Any]:
    """The options of a case, for so many sentences."""
    given: dict[str, Any] = {**RULES, **LISTS}[name]
    each = ("prefixes", "glossary")
    return given | {key: [*islice(cycle(given[key]), sentences)] for key in each if key in given}


def options_for(name: str, sentences: int) -> SearchOptions:
    """The same as options."""
    return SearchOptions(**given_for(name, sentences))


def test_every_setting_has_a_case_or_is_tested_elsewhere() -> None:
    """A place that ignored a setting would be noticed by no other test."""
    for row in ROWS.values():
        if row.name not in ELSEWHERE and Place.GPU not in row.lacks:
            assert any(row.name in case for case in (RULES | LISTS).values()), f"{row.name}: add a case to RULES"
