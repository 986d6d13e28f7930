"""Read text files as sentences, and pairs of files as aligned pairs of subword sequences."""

import re
import time
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Literal

import numpy as np
from tqdm import tqdm

from nmt.data.corpora.readers import Pieces, Readers, TokenRows, rows_before
from nmt.data.corpora.sources import Source, format_of, name_of, pair_chunks, sources_of
from nmt.data.quality.filter import LineFilter, pair_hashes
from nmt.data.tokens.characters import lowered
from nmt.data.tokens.factors import FactorError
from nmt.data.tokens.subwords import Subwords
from nmt.errors import DataError
from nmt.special_tokens import EOS_ID, UNK_ID
from nmt.system.lines import PACKED, text_file
from nmt.system.notices import Show

if TYPE_CHECKING:
    from nmt.config import CorpusConfig, SideConfig


# The number of lines cleaned and tokenized together: enough to keep sentencepiece's threads busy, and small.
CHUNK = 16_384
_COUNTED = 1 << 24
# Control characters and everything that other programs treat as a line end, lone surrogates (not text), and
# the sign sentencepiece writes for a space. Format characters (joiners of emoji and of Persian,
# direction marks) and no-break spaces are text and stay.
NOT_TEXT = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\u2581 ]+")
# Without any of these, and without two spaces in a row, nothing needs replacing: a search takes a tenth of the time.
_UNCLEAN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\u2581]|  ")
# The same for text that consists of sentencepiece pieces already, in which its sign for a space is text.
NOT_PIECES = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff ]+")

# A line of only these characters is invisible: white space, and what Unicode tells fonts without a glyph to ignore
# (Default_Ignorable_Code_Point: zero-width spaces, joiners, fillers, direction marks, variation signs).
INVISIBLE_SIGN = (
    "[\\s\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_INVISIBLE, _INVISIBLE_START = re.compile(f"{INVISIBLE_SIGN}*"), re.compile(INVISIBLE_SIGN)

_Form = Literal["NFC", "NFKC"]
FORMS: dict[str, _Form | None] = {"none": None, "pieces": None, "nfc": "NFC", "nfkc": "NFKC"}


def clean_line(text: str, lowercase: bool = False, normalize: str = "nfc") -> str:
    """Return one sentence in the form that a model reads: Unicode-normalised, with runs of spaces and control
    characters replaced by one space.

    `normalize` is none, nfc, nfkc, or pieces, which keeps sentencepiece's sign for a space. The result has no line
    break of any kind and no space at either end. It is empty if nothing in the text is visible.
    """
    form = FORMS[normalize]
    if form is not None:
        text = unicodedata.normalize(form, text)
    if lowercase:
        text = lowered(text)
        if form is not None:  # lower-casing can separate a letter from its accent
            text = unicodedata.normalize(form, text)
    if normalize == "pieces":
        text = NOT_PIECES.sub(" ", text).strip(" ")
    else:
        text = (NOT_TEXT.sub(" ", text) if _UNCLEAN.search(text) else text).strip(" ")
    return "" if _INVISIBLE.fullmatch(text) else text


def clean_lines(lines: Sequence[str], lowercase: bool = False, normalize: str = "nfc") -> list[str]:
    """Return the lines, each as `clean_line` returns it. All are normalised together; only lines that need more are
    handled one by one, and `str.isprintable` finds them ten times as fast as a regular expression."""
    whole = "\n".join(lines)
    form = FORMS[normalize]
    if form is None or whole.count("\n") != max(0, len(lines) - 1):
        return [clean_line(line, lowercase, normalize) for line in lines]
    text = unicodedata.normalize(form, whole)
    if lowercase:
        text = unicodedata.normalize(form, lowered(text))
    found = text.split("\n") if lines else []
    odd = [number for number, line in enumerate(found) if not line.isprintable()]
    odd += [number for number, line in enumerate(lines) if _INVISIBLE_START.match(line)]
    for sign in ("  ", "\u2581"):  # printable, but still to be replaced
        if sign in text:
            odd += [number for number, line in enumerate(found) if sign in line]
    found = [line.strip(" ") for line in found]
    for number in odd:
        found[number] = clean_line(lines[number], lowercase, normalize)
    return found


@dataclass(frozen=True)
class ParallelCorpus:
    """Pairs of subword sequences, without BOS and EOS.

    `line_numbers` [N] int64 are the line numbers of the pairs in the files, from 0. `total` counts all pairs,
    `skipped_empty` and `skipped_long` those dropped because a side is empty or too long; `filtered` says how many each
    rule of `data.filter` removed. `src_texts` are the source lines as read, `references` the target lines cleaned,
    as the model is trained to produce them; both are empty unless requested.
    """

    src: TokenRows
    tgt: TokenRows
    line_numbers: np.ndarray
    total: int
    skipped_empty: int = 0
    skipped_long: int = 0
    filtered: str = ""
    src_texts: list[str] = field(default_factory=list)
    references: list[str] = field(default_factory=list)
    parts: tuple[tuple[int, float], ...] = ()
    """The number of pairs and weight of each of its corpora; empty for a single one of weight 1."""

    def __len__(self) -> int:
        return len(self.src)

    def target_counts(self, vocab_size: int) -> np.ndarray:
        """Return how often each target token is to be predicted in an epoch, EOS included: int64 [V]."""
        tokens = self.tgt.tokens
        counts = np.zeros(max(vocab_size, 1 + int(tokens.max(initial=0))), np.int64)
        for first in range(0, len(tokens), _COUNTED):  # bincount copies to eight bytes a token
            counts += np.bincount(tokens[first : first + _COUNTED], minlength=len(counts))
        counts[EOS_ID] += len(self.tgt)
        return counts

    @property
    def num_tgt_tokens(self) -> int:
        """Return the number of target tokens in an epoch, by weight, EOS counted."""
        ends = np.cumsum([size for size, _ in self.parts or ((len(self), 1.0),)])
        tokens = np.diff(self.tgt.starts[ends] + ends, prepend=0).tolist()
        weights = [weight for _, weight in self.parts or ((len(self), 1.0),)]
        return round(sum(weight * count for weight, count in zip(weights, tokens, strict=True)))

    @property
    def nbytes(self) -> int:
        """Return the number of bytes of all ids, without the texts."""
        arrays = (self.src.tokens, self.src.starts, self.tgt.tokens, self.tgt.starts, self.line_numbers)
        return sum(array.nbytes for array in arrays)


@dataclass(frozen=True)
class Side:
    """One language, with its settings for cleaning and its subwords."""

    config: "SideConfig"
    subwords: Subwords

    def clean(self, lines: Iterable[str]) -> list[str]:
        """Return every line as `clean_line` returns it."""
        config = self.config
        return clean_lines(list(lines), config.lowercase, config.normalize)


def load_parallel(
    corpora: "str | Sequence[CorpusConfig]",
    src: Side,
    tgt: Side,
    *,
    training: bool = True,
    rules: LineFilter | None = None,
    readers: Readers | None = None,
) -> ParallelCorpus:
    """Read, clean and tokenize PREFIX.SRC and PREFIX.TGT (or .gz, .zst), or a list of corpora, one after another.

    For training, a pair with an empty side, or with a side longer than its `max_length`, is dropped and counted.
    Otherwise every line is kept, even an empty one, so that translations line up with it, and the texts are kept too.
    `rules` drop more pairs; the corpus has their counts. `readers` share the work for training; all of them must call
    this function.

    Raises DataError if a file is missing or damaged, if the files of one text differ in their number of lines, if a row
    is not a pair, or if no pair is left.
    """
    collected = Collected((src, tgt), rules, readers, training=training)
    ends, weights = [], []
    for source in sources_of(corpora):
        tag = _checked_tag(source.tag, src)
        for part in source.parts((src.config.lang, tgt.config.lang)):
            for pairs in pair_chunks(part, CHUNK):
                try:
                    collected.add(pairs, tag)
                except FactorError as error:
                    line = collected.total + error.index + 1
                    raise error.at(f"{name_of(corpora)}, source line {line}") from None
        ends.append(collected.total)
        weights.append(source.weight)
    (src_rows, tgt_rows), numbers, (skipped_empty, skipped_long) = collected.gathered()
    ends = np.searchsorted(numbers, ends).tolist()
    corpus = ParallelCorpus(
        src=src_rows,
        tgt=tgt_rows,
        line_numbers=numbers,
        total=collected.total,
        skipped_empty=skipped_empty,
        skipped_long=skipped_long,
        filtered="" if rules is None else rules.summary(),
        src_texts=collected.texts[0],
        references=collected.texts[1],
        parts=tuple((end - start, weight) for end, start, weight in zip(ends, [0, *ends], weights, strict=False)),
    )
    check_corpus(corpus, corpora, (src, tgt))
    return corpus


def check_corpus(corpus: ParallelCorpus, corpora: "str | Sequence[CorpusConfig]", sides: tuple[Side, Side]) -> None:
    """Raise DataError, with the reason, if no pair is left."""
    configs = sides[0].config, sides[1].config
    if isinstance(corpora, str) and format_of(corpora) == "lines":
        where = f"{corpora}.{configs[0].lang}, {corpora}.{configs[1].lang}"
    else:
        where = name_of(corpora)
    if corpus.total == 0:
        raise DataError(f"{where}: must contain at least one pair of sentences, got empty files")
    if len(corpus) == 0 and corpus.total > corpus.skipped_empty + corpus.skipped_long:
        raise DataError(
            f"{where}: must contain at least one pair to train on, got none that pass data.filter "
            f"({corpus.filtered}); relax some of its rules"
        )
    if len(corpus) == 0:
        raise DataError(
            f"{where}: must contain at least one pair to train on, got {corpus.skipped_empty} with an "
            f"empty side and {corpus.skipped_long} longer than max_length "
            f"({configs[0].max_length}, "
            f"{configs[1].max_length}); raise data.src.max_length and data.tgt.max_length"
        )


def _checked_tag(tag: str | None, src: Side) -> str:
    """Return the tag of a corpus, cleaned; empty for none. Raises DataError if the subwords do not contain it."""
    found = "" if tag is None else src.clean([tag])[0]
    if tag is not None and (not found or UNK_ID in src.subwords.encode([found])[0]):
        raise DataError(
            f"data.train: tag must be text that the subwords cover, got {tag!r}; train subwords with the tag, or "
            "choose one of letters that they have"
        )
    return found


def _tagged(lines: list[str], tag: str) -> list[str]:
    """Return the lines with the tag before them; empty ones stay empty."""
    return [f"{tag} {line}" if line else line for line in lines] if tag else lines


class Collected:
    """Cleans, tokenizes and collects what has been read, and counts the pairs that it drops (see `load_parallel`): one
    array for each chunk, joined at the end. With n readers, each processes every n-th chunk; all count all lines."""

    def __init__(
        self, sides: tuple[Side, Side], rules: LineFilter | None, readers: Readers | None, *, training: bool
    ) -> None:
        self.sides, self.rules, self.training = sides, rules, training
        self.readers = readers if training and readers is not None else Readers()
        self.skipped = np.zeros(2, np.int64)  # with an empty side, and too long
        # The arrays of each chunk of this reader, by chunk number.
        self.ids: tuple[Pieces, ...] = tuple(Pieces() for _ in sides)
        self.lengths: tuple[dict[int, np.ndarray], ...] = tuple({} for _ in sides)
        self.numbers: dict[int, np.ndarray] = {}
        self.hashes: dict[int, np.ndarray] = {}
        self.texts: tuple[list[str], ...] = ([], [])
        """The source lines with their tags, and the cleaned target lines, if it is not for training."""
        self.chunks = self.total = 0

    def add(self, rows: Sequence[tuple[str, ...]], tag: str) -> None:
        """Process the next chunk of the text if it belongs to this reader; count its lines in any case."""
        if self.chunks % self.readers.size == self.readers.rank:
            self._add([list(lines) for lines in zip(*rows, strict=True)], tag)
        elif not self.chunks and self.rules is not None:
            self.rules.learn(list(zip(*rows, strict=True)))
        self.chunks += 1
        self.total += len(rows)

    def _add(self, raw: list[list[str]], tag: str) -> None:
        """Tokenize and store a chunk of this reader."""
        clean = [side.clean(lines) for side, lines in zip(self.sides, raw, strict=True)]
        read = _tagged(clean[0], tag), clean[1]
        rows = [side.subwords.encode(lines) for side, lines in zip(self.sides, read, strict=True)]
        keep = np.ones(len(raw[0]), dtype=bool)
        if self.training:
            counts = np.array([[len(row) for row in of_side] for of_side in rows])
            empty = (counts == 0).any(axis=0)
            long = ~empty & (counts > [[side.config.max_length] for side in self.sides]).any(axis=0)
            self.skipped += empty.sum(), long.sum()
            keep = ~(empty | long)
            if self.rules is not None:
                keep &= self.rules.keep(raw, clean)
                if self.rules.settings.duplicates:
                    self.hashes[self.chunks] = pair_hashes(*clean)[keep]
        kept = np.flatnonzero(keep)
        self.numbers[self.chunks] = kept + self.total
        for ids, lengths, of_side in zip(self.ids, self.lengths, rows, strict=True):
            found = TokenRows.from_lists([of_side[i] for i in kept.tolist()])
            ids[self.chunks], lengths[self.chunks] = found.tokens, found.lengths
        if not self.training:
            for texts, lines in zip(self.texts, (_tagged(raw[0], tag), clean[1]), strict=True):
                texts.extend(lines)

    def gathered(self) -> tuple[list[TokenRows], np.ndarray, list[int]]:
        """Return, in every reader, the rows of each side, their line numbers, and the numbers of pairs skipped because
        a side is empty or too long. The counts of the rules are then those of all readers."""
        readers = self.readers
        skipped: list[int] = np.sum(readers.all_gather(self.skipped), axis=0).tolist()
        if self.rules is not None:
            of_each, self.rules.counts = readers.all_gather(self.rules.counts), Counter()
            for counts in of_each:
                self.rules.counts.update(counts)
            if self.rules.settings.duplicates and self.training:
                self._drop_duplicates(self.rules)
        rows = []
        for ids, lengths in zip(self.ids, self.lengths, strict=True):
            of_all = readers.gathered(lengths, np.int64)
            rows.append(TokenRows.of_lengths(readers.gathered(ids, np.int32), of_all))
        self.ids = ()
        return rows, readers.gathered(self.numbers, np.int64), skipped

    def _drop_duplicates(self, rules: LineFilter) -> None:
        """Keep the first of equal pairs, even if they were read by different readers."""
        first = rules.first_of_each(self.readers.gathered(self.hashes, np.int64))
        starts = rows_before(self.numbers, self.readers)
        for number in self.numbers:
            keep = first[starts[number] : starts[number + 1]]
            self.numbers[number] = self.numbers[number][keep]
            for ids, lengths in zip(self.ids, self.lengths, strict=True):
                ids[number] = ids[number][np.repeat(keep, lengths[number])]
                lengths[number] = lengths[number][keep]


_PACKED_FACTOR = 4
_LINES = 4096


def text_bytes(source: Source, langs: Sequence[str]) -> int:
    """Return the bytes of a corpus, estimated for compressed files. Raises DataError if a file is missing."""
    files = [text_file(file) for part in source.parts(langs) for file in dict.fromkeys(part.files)]
    factors = [_PACKED_FACTOR if file.suffix in (*PACKED, ".parquet") else 1 for file in files]
    return sum(factor * file.stat().st_size for factor, file in zip(factors, files, strict=True))


def metered(lines: Iterable[str], name: str, size: int, show: Show) -> Iterator[str]:
    """Yield the lines, and show about once a second how far reading is: characters relative to `size` in bytes."""
    began = shown_at = time.monotonic()
    count, read, left = 0, 0, iter(lines)
    while some := list(islice(left, _LINES)):
        count, read, now = count + len(some), read + sum(map(len, some)), time.monotonic()
        if now - shown_at >= 1.0:
            shown_at = now
            meter = tqdm.format_meter(read, max(size, read), now - began, 0, name, unit="B", unit_scale=True)
            show(f"{meter}  {count:,} lines")
        yield from some
