"""Drop training pairs by the rules of `data.filter`."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from nmt.data.quality.overlap import OverlapIndex
from nmt.data.tokens.characters import TextBlock, characters

if TYPE_CHECKING:
    from nmt.config import FilterConfig


_TAG = re.compile(
    r"</?[a-zA-Z][\w:-]*(?:\s+[\w:-]+(?:\s*=\s*(?:\"[^\"]*\"|'[^']*'|[^\s<>\"']+))?)*\s*/?>|<!--|<!\[CDATA\["
)
_ENTITY = re.compile(r"&(?:[a-zA-Z][a-zA-Z0-9]{1,15}|#[0-9]{1,7}|#x[0-9a-fA-F]{1,6});")
_FEW_CHARACTERS = 20
"""Pairs whose longer side has fewer characters are too short for a length ratio."""
_FEW_LETTERS = 5
_ENCODINGS = ("latin-1", "cp1250", "cp1251", "cp1252", "cp1253", "cp1254", "cp1257", "mac_roman", "cp437")


def _read_as(first: int, last: int) -> np.ndarray:
    """Return the non-ASCII characters, as code points, that `_ENCODINGS` assign to the bytes `first` to `last`."""
    content = bytes(range(first, last + 1))
    found = {ord(c) for encoding in _ENCODINGS for c in content.decode(encoding, "ignore")}
    return np.array(sorted(code for code in found if code >= 0x80), np.uint32)


# A multi-byte letter in UTF-8 begins with a byte of the first range, and continues with bytes of the second.
_LEADS, _TRAILS = _read_as(0xC2, 0xF4), _read_as(0x80, 0xBF)


def has_bad_bytes(block: TextBlock) -> np.ndarray:
    """Return the lines that were not UTF-8, bool [N]."""
    return block.marks(np.flatnonzero((block.codes >= 0xD800) & (block.codes < 0xE000)))


def has_broken_letters(block: TextBlock) -> np.ndarray:
    """Return the lines with U+FFFD, or with UTF-8 read as another encoding (`Ã¤`) by the rules of ftfy, bool [N]."""
    from ftfy.badness import is_bad

    codes = block.codes
    broken = block.marks(np.flatnonzero(codes == 0xFFFD))
    pairs = np.flatnonzero((codes[:-1] >= 0x80) & (codes[1:] >= 0x80))
    pairs = pairs[np.isin(codes[pairs], _LEADS) & np.isin(codes[pairs + 1], _TRAILS)]
    for number in block.lines_of(pairs[block.follows(pairs)]).tolist():
        # To ftfy an f with a hook is a sign of Windows-1252; in Ewe it is a letter.
        broken[number] = broken[number] or is_bad(block.lines[number].replace("ƒ", "f"))
    return broken


def has_controls(block: TextBlock) -> np.ndarray:
    """Return the lines with control characters (except tabs) or line separators within them, bool [N]."""
    codes = block.codes
    control = (
        (codes < 0x20) & (codes != 0x09) | (codes >= 0x7F) & (codes < 0xA0) | (codes == 0x2028) | (codes == 0x2029)
    )
    return block.marks(np.flatnonzero(control))


def has_markup(block: TextBlock) -> np.ndarray:
    """Return the lines with tags or entities of HTML and XML, bool [N]."""
    found = np.zeros(len(block), dtype=bool)
    for number in block.lines_of(np.flatnonzero((block.codes == ord("<")) | (block.codes == ord("&")))).tolist():
        line = block.lines[number]
        found[number] = bool(_TAG.search(line) or _ENTITY.search(line))
    return found


def main_script(block: TextBlock) -> int:
    """Return the number of the script of most letters; 0 without letters."""
    counts = np.bincount(block.script, minlength=2)
    counts[0] = 0
    return int(counts.argmax()) if counts.any() else 0


def is_foreign(block: TextBlock, main: int) -> np.ndarray:
    """Return the lines of 5 letters or more, more than half of which are of another script than `main`, bool [N]."""
    letters = block.count(block.script != 0)
    return (letters >= _FEW_LETTERS) & (block.count(block.script == main) * 2 < letters)


def has_mixed_words(block: TextBlock, main: int) -> np.ndarray:
    """Return the lines with words that mix two of the similar scripts Latin, Cyrillic and Greek, bool [N]. Greek
    letters in Latin text are allowed: phonetic alphabets have them."""
    table = characters()
    latin, greek, cyrillic = (table.number(name) for name in ("Latin", "Greek", "Cyrillic"))
    script = block.script
    alike = [(latin, cyrillic), (greek, cyrillic)] + ([] if main == latin else [(latin, greek)])
    first, second = script[:-1], script[1:]
    mixed = np.zeros(len(first), dtype=bool)
    for one, other in alike:
        mixed |= (first == one) & (second == other) | (first == other) & (second == one)
    places = np.flatnonzero(mixed)
    return block.marks(places[block.follows(places)])


def length_ratios(src: np.ndarray, tgt: np.ndarray, usual: float) -> np.ndarray:
    """Return, for each pair, the factor by which one line is longer than expected from the other, in characters and at
    least 1: float64 [N]. `usual` is the usual ratio of target to source length. The factor is 1 if both lines are short
    or one is empty.
    """
    comparable = (np.maximum(src, tgt) >= _FEW_CHARACTERS) & (np.minimum(src, tgt) > 0)
    ratio = tgt / np.maximum(src * usual, 1e-9)
    ratio = np.where(comparable, np.maximum(ratio, 1e-9), 1.0)
    both: np.ndarray = np.maximum(ratio, 1 / ratio)
    return both


def has_bpe(block: TextBlock) -> np.ndarray:
    """Return the lines with words that subword-nmt has cut, `hel@@ lo`, bool [N]."""
    codes, at, space = block.codes, ord("@"), ord(" ")
    places = np.flatnonzero(codes[1:-2] == at)  # of the letter before the first @
    places = places[(codes[places + 2] == at) & (codes[places + 3] == space)]
    places = places[(codes[places] != space) & (codes[places] != at)]
    return block.marks(places[block.follows(places) & block.follows(places + 1) & block.follows(places + 2)])


def has_pieces(block: TextBlock) -> np.ndarray:
    """Return the lines with the sign that begins a word for sentencepiece, U+2581, before a letter, bool [N]."""
    places = np.flatnonzero(block.codes[:-1] == 0x2581)
    places = places[block.script[places + 1] != 0] if len(places) else places
    return block.marks(places[block.follows(places)])


def has_joiners(block: TextBlock) -> np.ndarray:
    """Return the lines with the joiner of OpenNMT's tokenizer, U+FFED, at a word, bool [N]."""
    codes, joiner, space = block.codes, 0xFFED, ord(" ")
    signs = np.flatnonzero(codes == joiner)
    places = np.concatenate([signs, signs - 1])  # of two characters, one of which is the joiner
    places = places[(places >= 0) & (places < len(codes) - 1)]
    places = places[(codes[places] != space) & (codes[places + 1] != space)]
    return block.marks(places[block.follows(places)])


LINE_FAULTS: dict[str, Callable[[TextBlock], np.ndarray]] = {
    "encoding": has_broken_letters,
    "control": has_controls,
    "markup": has_markup,
    "bpe": has_bpe,
    "pieces": has_pieces,
    "joiners": has_joiners,
}
"""Faults of a single line, by their names in `data.filter` where that has a rule."""

FAULTS = (*LINE_FAULTS, "script", "mixed", "same", "ratio")
"""All faults, in the order in which they are reported."""


class FaultFinder:
    """Finds faults in one text, block after block; the usual script and length ratio are learned from the first block.
    `names`: the members of FAULTS to look for; `most_ratio`: a pair has the fault `ratio` if its length ratio in
    characters, relative to that of the whole first block, is greater than this."""

    def __init__(self, names: Sequence[str] = FAULTS, most_ratio: float = 4.0) -> None:
        self._names, self._most_ratio = frozenset(names), most_ratio
        self.main_scripts: list[int] = []
        self.usual_ratio = 1.0

    def learn(self, raw: Sequence[Sequence[str]]) -> None:
        """Learn the usual script of each side, and the ratio of the last side's length to the first side's, from the
        first block; otherwise the first `find` does."""
        self._learn([TextBlock(lines) for lines in raw])

    def _learn(self, blocks: Sequence[TextBlock]) -> None:
        self.main_scripts = [main_script(block) for block in blocks]
        totals = [max(1, int(block.lengths.sum())) for block in blocks]
        self.usual_ratio = totals[-1] / totals[0]

    def find(self, raw: Sequence[Sequence[str]], clean: Sequence[Sequence[str]]) -> dict[str, np.ndarray]:
        """Find the faults of the lines of one or two sides, given as read and as cleaned. Returns for each fault's
        name, bool [sides, N], or [1, N] for `same` and `ratio`, which are faults of pairs."""
        blocks = [TextBlock(lines) for lines in raw]
        if not self.main_scripts:
            self._learn(blocks)
        found: dict[str, np.ndarray] = {}
        for name, has in LINE_FAULTS.items():
            if name in self._names:
                found[name] = np.stack([has(block) for block in blocks])
        for name, has_script in (("script", is_foreign), ("mixed", has_mixed_words)):
            if name in self._names:
                both = zip(blocks, self.main_scripts, strict=True)
                found[name] = np.stack([has_script(block, main) for block, main in both])
        if len(blocks) == 2 and "same" in self._names:
            found["same"] = np.array([[a == b and len(a) > 1 for a, b in zip(*clean, strict=True)]], bool)
        if len(blocks) == 2 and "ratio" in self._names:
            ratios = length_ratios(blocks[0].lengths, blocks[1].lengths, self.usual_ratio)
            found["ratio"] = (ratios > self._most_ratio)[None]
        return {name: found[name] for name in FAULTS if name in found}


def pair_hashes(src: Sequence[str], tgt: Sequence[str]) -> np.ndarray:
    """Return a hash of each pair of lines, int64 [N], the same in every process."""
    pairs = (f"{one}\n{other}".encode("utf-8", "surrogatepass") for one, other in zip(src, tgt, strict=True))
    return np.frombuffer(b"".join(hashlib.blake2b(pair, digest_size=8).digest() for pair in pairs), dtype="<i8")


Lines = Sequence[Sequence[str]]
"""The lines of each side."""


class LineFilter:
    """Decides which pairs to keep, for one block of a text after another; with the rule `duplicates` the caller drops
    these, by `first_of_each`, after reading everything. `held_out`: cleaned source lines, for the rule `overlap`."""

    def __init__(self, settings: FilterConfig, held_out: Iterable[str] = ()) -> None:
        self.settings = settings
        names = [name for name in ("encoding", "control", "markup", "script", "same") if getattr(settings, name)]
        ratio = settings.max_length_ratio
        names += [] if ratio is None else ["ratio"]
        self._finder = FaultFinder(names, 1.0 if ratio is None else ratio) if names else None
        lines = list(held_out) if settings.overlap != "none" else []
        self._overlap = OverlapIndex(lines, every=True) if lines else None
        self.counts: Counter[str] = Counter()
        """The number of pairs dropped so far by each rule; a pair that breaks several rules counts for the first."""

    def learn(self, raw: Lines) -> None:
        """Learn what is usual from the first block of a text, for a filter whose `keep` gets later blocks only."""
        if self._finder is not None:
            self._finder.learn(raw)

    def keep(self, raw: Lines, clean: Lines) -> np.ndarray:
        """Return which of the pairs to keep, by all rules except `duplicates`: bool [N]. `raw`: the lines of each side
        as they were read; `clean`: the same lines, cleaned."""
        keep = np.ones(len(clean[0]), dtype=bool)
        if self._finder is not None:
            for name, masks in self._finder.find(raw, clean).items():
                self._drop("max_length_ratio" if name == "ratio" else name, keep, masks.max(axis=0))
        if self._overlap is not None:
            met = np.zeros(len(keep), dtype=bool)
            met[[match.number for match in self._overlap.find(clean[0], near=self.settings.overlap == "near")]] = True
            self._drop("overlap", keep, met)
        return keep

    def first_of_each(self, hashes: np.ndarray) -> np.ndarray:
        """Return which pairs are the first of equal ones, bool [N], given `pair_hashes` in order."""
        keep = np.zeros(len(hashes), dtype=bool)
        keep[np.unique(hashes, return_index=True)[1]] = True
        self.counts["duplicates"] = int((~keep).sum())
        return keep

    def summary(self) -> str:
        """Return how many pairs each rule removed: `12 duplicates, 3 markup`; empty if no rule is set."""
        if not self.settings.is_on:
            return ""
        names = {"overlap": "held out for validation or test (overlap)"}
        return ", ".join(f"{count:,} {names.get(name, name)}" for name, count in self.counts.items()) or "none"

    def _drop(self, name: str, keep: np.ndarray, faulty: np.ndarray) -> None:
        self.counts[name] += int((keep & faulty).sum())
        keep &= ~faulty
