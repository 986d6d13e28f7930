"""Text files to sentences, and pairs of files to pairs of subword sequences that stay aligned."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, zip_longest
from typing import TYPE_CHECKING, Literal

import numpy as np

from nmt.data.faults import pair_hashes
from nmt.data.filter import LineFilter
from nmt.data.readers import Alone, Readers, rows_before
from nmt.data.rows import TokenRows
from nmt.data.subwords import Subwords
from nmt.errors import DataError
from nmt.lines import read_lines
from nmt.special_tokens import EOS_ID

if TYPE_CHECKING:
    from nmt.config import SideConfig

# Lines cleaned and cut together: enough to keep sentencepiece's threads busy, and small.
_CHUNK = 16_384
# Control characters and all that other programs take for a line end, lone surrogates (no text), and
# the sign sentencepiece writes for a space. Format characters (joiners of emoji and of Persian,
# direction marks) and no-break spaces are text and stay.
_NOT_TEXT = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\u2581 ]+")
# Where there is none of it, and no space beside another, nothing is to be replaced: a search costs a tenth.
_UNCLEAN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\u2581]|  ")

# A line of nothing but these shows nothing: white space, and what Unicode says is to be ignored where a font lacks a
# sign for it (Default_Ignorable_Code_Point: zero-width spaces, joiners, fillers, direction marks, variation signs).
_INVISIBLE = re.compile(
    "[\\s\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001d173-\U0001d17a\U000e0000-\U000e0fff]*"
)

_Form = Literal["NFC", "NFKC"]
_FORMS: dict[str, _Form | None] = {"none": None, "nfc": "NFC", "nfkc": "NFKC"}


def clean_line(text: str, lowercase: bool = False, normalize: str = "nfc") -> str:
    """One sentence as a model sees it: normalised, spaces and control characters as one space.

    `normalize` is none, nfc or nfkc. The result has no line break of any kind, and no space at
    either end. It may be empty, as it is where nothing of the text is visible.
    """
    if _INVISIBLE.fullmatch(text):
        return ""
    form = _FORMS[normalize]
    if form is not None:
        text = unicodedata.normalize(form, text)
    if lowercase:
        text = text.lower()
        if form is not None:  # lower-casing can part a letter and its accent
            text = unicodedata.normalize(form, text)
    return (_NOT_TEXT.sub(" ", text) if _UNCLEAN.search(text) else text).strip(" ")


@dataclass(frozen=True)
class ParallelCorpus:
    """Pairs of subword sequences, without begin and end.

    `line_numbers` [N] int64 says where in the files each pair stands, counted from 0. `src_texts`
    and `tgt_texts` are the lines as they were read, `references` the target lines cleaned, as the
    model is taught to write them; all three are empty unless they were asked for. `filtered` says how
    many pairs which rule of `data.filter` left out.
    """

    src: TokenRows
    tgt: TokenRows
    line_numbers: np.ndarray
    total: int
    skipped_empty: int = 0
    skipped_long: int = 0
    filtered: str = ""
    src_texts: list[str] = field(default_factory=list)
    tgt_texts: list[str] = field(default_factory=list)
    references: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        """Return the number of pairs that were kept."""
        return len(self.src)

    def target_counts(self, vocab_size: int) -> np.ndarray:
        """How often each target token is to be predicted in an epoch, EOS included: int64 [V]."""
        counts = np.bincount(self.tgt.tokens, minlength=vocab_size)
        counts[EOS_ID] += len(self.tgt)
        return counts

    @property
    def num_tgt_tokens(self) -> int:
        """Target tokens to predict in an epoch: EOS counted."""
        return len(self.tgt.tokens) + len(self)

    @property
    def nbytes(self) -> int:
        """Bytes of all ids, texts not counted."""
        arrays = (self.src.tokens, self.src.starts, self.tgt.tokens, self.tgt.starts, self.line_numbers)
        return sum(array.nbytes for array in arrays)


@dataclass(frozen=True)
class Side:
    """One language: how its text is cleaned and cut."""

    config: "SideConfig"
    subwords: Subwords

    def clean(self, lines: Iterable[str]) -> list[str]:
        """Every line as `clean_line` makes it."""
        config = self.config
        return [clean_line(line, config.lowercase, config.normalize) for line in lines]


def load_parallel(
    prefix: str,
    src: Side,
    tgt: Side,
    *,
    training: bool = True,
    keep_texts: bool | None = None,
    rules: LineFilter | None = None,
    readers: Readers | None = None,
) -> ParallelCorpus:
    """Read, clean and cut PREFIX.SRC and PREFIX.TGT (or .gz).

    For training, a pair with an empty side, or with a side longer than its `max_length`, is left
    out as a pair and counted. Otherwise every line stays, also an empty one, so that translations
    line up with it, and the texts are kept too (`keep_texts` overrules this). `rules` leave out more
    pairs, of which the corpus tells how many. `readers` share the work of a text that is not kept, and must all call.

    Raises DataError if a file is missing or damaged, if the files differ in their number of lines,
    or if no pair is left.
    """
    keep_texts = not training if keep_texts is None else keep_texts
    collected = _Collected(src, tgt, training, keep_texts, rules, readers)
    for pairs in _chunks(prefix, src.config.lang, tgt.config.lang):
        collected.add(pairs)
    corpus = collected.corpus()
    where = f"{prefix}.{src.config.lang}, {prefix}.{tgt.config.lang}"
    if corpus.total == 0:
        raise DataError(f"{where}: must hold at least one pair of sentences, got empty files")
    if len(corpus) == 0 and corpus.total > corpus.skipped_empty + corpus.skipped_long:
        raise DataError(
            f"{where}: must hold at least one pair to train on, got none that data.filter lets through "
            f"({corpus.filtered}); take back some of its rules"
        )
    if len(corpus) == 0:
        raise DataError(
            f"{where}: must hold at least one pair to train on, got {corpus.skipped_empty} with an "
            f"empty side and {corpus.skipped_long} longer than max_length "
            f"({src.config.max_length}, "
            f"{tgt.config.max_length}); raise data.src.max_length and data.tgt.max_length"
        )
    return corpus


def training_text(prefix: str, sides: Sequence["SideConfig"]) -> Iterator[str]:
    """The cleaned lines of the files of one or both sides, one by one, to train subwords on."""
    for side in sides:
        for line in read_lines(f"{prefix}.{side.lang}"):
            yield clean_line(line, side.lowercase, side.normalize)


def filtered_text(
    prefix: str, sides: Sequence["SideConfig"], every_side: Sequence["SideConfig"], rules: LineFilter
) -> Iterator[str]:
    """The same without the pairs that `rules` leave out, which look at every side of them."""
    rows = zip(*(read_lines(f"{prefix}.{side.lang}") for side in every_side), strict=False)
    while chunk := list(islice(rows, _CHUNK)):
        raw = list(zip(*chunk, strict=True))
        clean = [
            [clean_line(line, side.lowercase, side.normalize) for line in lines]
            for lines, side in zip(raw, every_side, strict=True)
        ]
        kept = np.flatnonzero(rules.keep(raw, clean)).tolist()
        for lines, side in zip(clean, every_side, strict=True):
            if side in sides:
                yield from (lines[number] for number in kept)


def _chunks(prefix: str, src_lang: str, tgt_lang: str) -> Iterator[list[tuple[str, str]]]:
    """Lines of both files in step. Raises DataError at the end if one has more than the other."""
    src, tgt = read_lines(f"{prefix}.{src_lang}"), read_lines(f"{prefix}.{tgt_lang}")
    pairs = zip_longest(src, tgt)
    total = 0
    while chunk := list(islice(pairs, _CHUNK)):
        whole = [(a, b) for a, b in chunk if a is not None and b is not None]
        total += len(whole)
        if len(whole) < len(chunk):
            more = len(chunk) - len(whole) + sum(1 for _ in pairs)
            longer = chunk[-1][0] is not None
            counts = (total + more, total) if longer else (total, total + more)
            raise DataError(
                f"{prefix}.{src_lang}, {prefix}.{tgt_lang}: must have as many lines as each other, "
                f"got {counts[0]} and {counts[1]}; line n of one has to translate line n of the "
                "other"
            )
        yield whole


class _Collected:
    """What has been read so far: whole arrays a chunk, joined once at the end. Several readers have a chunk each in
    turn, and count the lines of all."""

    def __init__(
        self,
        src: Side,
        tgt: Side,
        training: bool,
        keep_texts: bool,
        rules: LineFilter | None,
        readers: Readers | None = None,
    ) -> None:
        self.src, self.tgt = src, tgt
        self.rules = rules
        self.readers: Readers = Alone() if readers is None or keep_texts else readers
        self.training, self.keep_texts = training, keep_texts
        # Of each chunk that is this reader's, by its number.
        self.ids: tuple[dict[int, np.ndarray], dict[int, np.ndarray]] = ({}, {})
        self.lengths: tuple[dict[int, np.ndarray], dict[int, np.ndarray]] = ({}, {})
        self.numbers: dict[int, np.ndarray] = {}
        self.hashes: dict[int, np.ndarray] = {}
        self.texts: tuple[list[str], ...] = ([], [], [])
        self.chunks = self.total = self.skipped_empty = self.skipped_long = 0

    def add(self, pairs: Sequence[tuple[str, str]]) -> None:
        """The next chunk of the text."""
        if self.chunks % self.readers.size == self.readers.rank:
            self._add([pair[0] for pair in pairs], [pair[1] for pair in pairs])
        elif not self.chunks and self.rules is not None:
            self.rules.learn(list(zip(*pairs, strict=True)))
        self.chunks += 1
        self.total += len(pairs)

    def _add(self, src_lines: list[str], tgt_lines: list[str]) -> None:
        """A chunk that is this reader's."""
        src_clean, tgt_clean = self.src.clean(src_lines), self.tgt.clean(tgt_lines)
        rows = self.src.subwords.encode(src_clean), self.tgt.subwords.encode(tgt_clean)
        lengths = [np.array([len(row) for row in side], dtype=np.int64) for side in rows]
        keep = np.ones(len(src_lines), dtype=bool)
        if self.training:
            empty = (lengths[0] == 0) | (lengths[1] == 0)
            limits = self.src.config.max_length, self.tgt.config.max_length
            long = ~empty & ((lengths[0] > limits[0]) | (lengths[1] > limits[1]))
            keep = ~(empty | long)
            if self.rules is not None:
                keep &= self.rules.keep((src_lines, tgt_lines), (src_clean, tgt_clean))
                if self.rules.drops_duplicates:
                    self.hashes[self.chunks] = pair_hashes(src_clean, tgt_clean)[keep]
            self.skipped_empty += int(empty.sum())
            self.skipped_long += int(long.sum())
        kept = np.flatnonzero(keep)
        self.numbers[self.chunks] = kept + self.total
        for side in (0, 1):
            joined = [token for i in kept.tolist() for token in rows[side][i]]
            self.ids[side][self.chunks] = np.array(joined, dtype=np.int32)
            self.lengths[side][self.chunks] = lengths[side][keep]
        if self.keep_texts:
            for texts, lines in zip(self.texts, (src_lines, tgt_lines, tgt_clean), strict=True):
                texts.extend(lines[i] for i in kept.tolist())

    def corpus(self) -> ParallelCorpus:
        """The whole, in every reader."""
        readers = self.readers
        skipped = readers.all_say((self.skipped_empty, self.skipped_long))
        if self.rules is not None:
            self.rules.add_up(readers.all_say(self.rules.counts))
            if self.rules.drops_duplicates and self.training:
                self._drop_duplicates(self.rules)
        rows = []
        for ids, lengths in zip(self.ids, self.lengths, strict=True):
            of_all = readers.gathered(lengths, np.int64)
            starts = np.zeros(len(of_all) + 1, dtype=np.int64)
            np.cumsum(of_all, out=starts[1:])
            tokens = readers.gathered(ids, np.int32)
            ids.clear()
            rows.append(TokenRows(tokens, starts))
        src_texts, tgt_texts, references = self.texts
        return ParallelCorpus(
            src=rows[0],
            tgt=rows[1],
            line_numbers=readers.gathered(self.numbers, np.int64),
            total=self.total,
            skipped_empty=sum(empty for empty, _ in skipped),
            skipped_long=sum(long for _, long in skipped),
            filtered="" if self.rules is None else self.rules.told(),
            src_texts=src_texts,
            tgt_texts=tgt_texts,
            references=references,
        )

    def _drop_duplicates(self, rules: LineFilter) -> None:
        """Keep the first of equal pairs, of which one may be another reader's."""
        first = rules.first_of_each(self.readers.gathered(self.hashes, np.int64))
        starts = rows_before(self.numbers, self.readers)
        for number in self.numbers:
            keep = first[starts[number] : starts[number + 1]]
            self.numbers[number] = self.numbers[number][keep]
            for ids, lengths in zip(self.ids, self.lengths, strict=True):
                ids[number] = ids[number][np.repeat(keep, lengths[number])]
                lengths[number] = lengths[number][keep]
        kept = np.flatnonzero(first).tolist()
        self.texts = tuple([texts[i] for i in kept] if texts else [] for texts in self.texts)
