"""Build the index of a text (`nmt.data.batching.index`) in bounded memory, or find the one built from the same input.

Each pair is put into a randomly chosen bucket, with enough buckets that each fits in memory, and each bucket is then
shuffled: the result is a uniformly random permutation (Rao 1961; Sandelius 1962).
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nmt.data.batching.index import (
    BLOCKS,
    LEAST_BLOCK,
    MOST_BLOCK,
    VERSION,
    Index,
    IndexedCorpus,
    IndexWriter,
    Rows,
    joined,
    packed_bytes,
    unpacked,
)
from nmt.data.corpora.corpus import CHUNK, ParallelCorpus, Side, Tagged, TokenizedPairs, Tokenizer, check_corpus
from nmt.data.corpora.reading_meter import ReadingMeter, text_bytes
from nmt.data.corpora.sources import Source, pair_chunks, sources_of
from nmt.system.files import TEMPORARY_SUFFIX, lock_alone, new_folder, writing
from nmt.system.lines import text_file
from nmt.system.notices import Show

if TYPE_CHECKING:
    from nmt.config import Config, CorpusConfig
    from nmt.data.quality.filter import LineFilter

MOST_TEXT_BYTES = 2**30
"""The largest training text that is read without an index by default; compressed text counts four times."""
MOST_IN_MEMORY = 2_000_000
"""The largest number of pairs kept in memory; larger corpora stay on disk and are divided into windows."""
_BUCKET_BYTES = 32 * 2**20
_MOST_BUCKETS = 1024
_BUCKET_TYPES = np.dtype(np.int64), np.dtype(np.int64), np.dtype(np.int32)
_BUFFER_PAIRS = 8 * CHUNK
"""The number of pairs distributed to buckets at once."""


def needs_index(corpora: str | Sequence[CorpusConfig], langs: Sequence[str]) -> bool:
    """Return whether a text has more than MOST_TEXT_BYTES. Raises DataError if a file is missing."""
    return sum(text_bytes(source, langs) for source in sources_of(corpora)) > MOST_TEXT_BYTES


def index_folder(config: Config) -> Path | None:
    """Return the folder of the indexes of a run's training text, or None if the text is read directly, because it is
    small and no folder for indexes is set. Raises DataError if a file is missing."""
    data = config.data
    if data.index is not None:
        return Path(data.index)
    langs = [side.lang for side in (data.src, data.tgt)]
    return Path(config.model_dir).parent / "index" if needs_index(data.train, langs) else None


def text_state(source: Source, langs: Sequence[str]) -> list[tuple[str, int, int]]:
    """Return the path, size and modification time of each file of a corpus. Raises DataError if one is missing."""
    files = [text_file(file) for part in source.parts(langs) for file in dict.fromkeys(part.files)]
    return [(str(file.resolve()), file.stat().st_size, file.stat().st_mtime_ns) for file in files]


class Indexing:
    """Finds or builds the indexes of a training text.

    Args:
        folder: The folder in which each index has a folder.
        rules: Creates the rules of data.filter for each corpus; None if there are none.
        rules_key: What the rules depend on, as values that JSON can represent.
    """

    def __init__(
        self,
        folder: Path,
        corpora: str | Sequence[CorpusConfig],
        sides: tuple[Side, Side],
        rules: Callable[[], LineFilter | None] = lambda: None,
        rules_key: Any = None,
    ) -> None:
        self._folder, self._corpora, self._sides = folder, corpora, sides
        self._rules, self._rules_key = rules, rules_key
        self._langs = [side.config.lang for side in sides]

    @property
    def is_current(self) -> bool:
        """Return whether all indexes exist and match the current files."""
        return all(path.is_dir() for path in self._paths())

    def make(self, show: Show, notify: Show) -> None:
        """Build the missing indexes. Raises DataError if a text is missing or damaged, or does not consist of pairs,
        and CheckpointError if the folder cannot be written. `notify`: called with a line about each index built."""
        for source, path in zip(sources_of(self._corpora), self._paths(), strict=True):
            if path.is_dir():
                continue
            began = time.monotonic()
            with writing(path):
                self._folder.mkdir(parents=True, exist_ok=True)
                with self._locked(path, show):
                    if not path.is_dir():
                        with new_folder(path) as aside:
                            self._build(source, aside, show)
            notify(f"index of {source.path}: made in {time.monotonic() - began:.0f} s, in {path}")

    def load(self) -> IndexedCorpus:
        """Return the indexed corpora. Raises DataError if an index is damaged or missing, or if no pair is left."""
        sources = sources_of(self._corpora)
        corpus = IndexedCorpus(
            [Index(path, source.weight) for source, path in zip(sources, self._paths(), strict=True)]
        )
        check_corpus(corpus, self._corpora, self._sides)
        return corpus

    def _paths(self) -> list[Path]:
        """Return the folder of each corpus; its name is a digest of everything that the index is made from."""
        return [self._folder / self._key(source) for source in sources_of(self._corpora)]

    def _key(self, source: Source) -> str:
        stats = text_state(source, self._langs)
        subwords = [blake2b(side.subwords.model_bytes).hexdigest() for side in self._sides]
        configs = [side.config.to_dict() for side in self._sides]
        content = [VERSION, stats, source.columns, source.tag, subwords, configs, self._rules_key]
        return blake2b(json.dumps(content).encode(), digest_size=12).hexdigest()

    @contextmanager
    def _locked(self, path: Path, show: Show) -> Iterator[None]:
        """Keep other processes from building the same index: they wait, and then find it."""
        with path.with_suffix(".lock").open("wb") as lock:
            while not lock_alone(lock.fileno()):
                show(f"index: another process makes {path}")
                time.sleep(1.0)
            for leftover in path.parent.glob(f".{path.name}.*{TEMPORARY_SUFFIX}"):  # left by a process that was killed
                shutil.rmtree(leftover, ignore_errors=True)
            yield
            path.with_suffix(".lock").unlink(missing_ok=True)

    def _build(self, source: Source, folder: Path, show: Show) -> None:
        """Read the text, tokenize it, distribute the pairs to buckets, shuffle and write them."""
        src, tgt = self._sides
        rules = self._rules()
        tokenizer = Tokenizer(self._sides, True, rules)
        size = text_bytes(source, self._langs)
        buckets = _Buckets(folder, min(_MOST_BUCKETS, max(1, -(-size // _BUCKET_BYTES))))
        tagged, meter = Tagged(source.tag, src), ReadingMeter("index", size, show)
        total = 0
        for part in source.parts(self._langs):
            for pairs in pair_chunks(part, CHUNK):
                lines = [list(side) for side in zip(*pairs, strict=True)]
                buckets.add(total, tokenizer.tokenize(lines, tagged))
                total += len(pairs)
                meter.show(total, sum(map(len, lines[0])) + sum(map(len, lines[1])))
        buckets.flush()
        block = min(MOST_BLOCK, max(LEAST_BLOCK, buckets.pairs // BLOCKS))
        types = (
            _narrowest(max(side.config.max_length for side in self._sides)),
            _narrowest(total),
            _narrowest(max(side.subwords.vocab_size for side in self._sides)),
        )
        writer = IndexWriter(folder, types, block)
        counts, repeated = np.zeros(tgt.subwords.vocab_size, np.int64), 0
        for number in range(buckets.count):
            rows, dropped = buckets.shuffled(number)
            repeated += dropped
            counts += np.bincount(rows.tgt.tokens, minlength=len(counts))
            writer.add(rows)
            show(f"index: {number + 1} of {buckets.count} parts shuffled")
        if rules is not None and rules.drops_duplicates:
            rules.counts["duplicates"] = repeated
        header = {
            "text": source.path,
            "total": total,
            "skipped_empty": tokenizer.skipped_empty,
            "skipped_long": tokenizer.skipped_long,
            "filtered": "" if rules is None else rules.summary(),
            "target_counts": counts.tolist(),
        }
        writer.close(header)


class _Buckets:
    """Temporary files of pairs, each small enough for memory."""

    def __init__(self, folder: Path, count: int) -> None:
        self.count = count
        self.pairs = 0
        self._folder = folder
        self._random = np.random.default_rng(count)
        self._waiting: list[tuple[Rows, np.ndarray | None]] = []
        self._hashed = False

    def add(self, first: int, found: TokenizedPairs) -> None:
        """Distribute pairs to buckets; `first` is the line number of the first line of their chunk."""
        rows = Rows(found.sides[0], found.sides[1], found.kept + first)
        self._waiting.append((rows, found.hashes))
        self.pairs += len(rows)
        if sum(len(waiting) for waiting, _ in self._waiting) >= _BUFFER_PAIRS:
            self.flush()

    def flush(self) -> None:
        """Write the buffered pairs to the files of their buckets."""
        if not self._waiting:
            return
        rows = joined([waiting for waiting, _ in self._waiting])
        hashes = [found for _, found in self._waiting if found is not None]
        self._hashed = self._hashed or bool(hashes)
        # Equal pairs go to the same bucket, so that the first of them can be found there.
        values = np.concatenate(hashes) if hashes else np.zeros(len(rows), np.int64)
        drawn = values.view(np.uint64) % self.count if hashes else self._random.integers(0, self.count, len(rows))
        order = np.argsort(drawn, kind="stable")
        ends = np.searchsorted(drawn[order], np.arange(self.count), side="right").tolist()
        start = 0
        for number, end in enumerate(ends):
            self._append(number, rows.taken(order[start:end]), values[order[start:end]])
            start = end
        self._waiting = []

    def shuffled(self, number: int) -> tuple[Rows, int]:
        """Return the shuffled pairs of a bucket and the number of duplicates removed; delete its file."""
        path = self._path(number)
        several, hashes = [], [np.zeros(0, np.int64)]
        if path.exists():
            content, at = path.read_bytes(), 0
            while at < len(content):
                counts = np.frombuffer(content, np.int64, 3, at).tolist()
                hashes.append(np.frombuffer(content, np.int64, counts[0], at + 24))
                at += 24 + 8 * counts[0]
                several.append(unpacked(content, _BUCKET_TYPES, counts, at))
                at += packed_bytes(_BUCKET_TYPES, counts[0], counts[1] + counts[2])
            path.unlink()
        rows = joined(several)
        kept = np.arange(len(rows))
        if self._hashed:  # a bucket has its lines in file order: the first of equal pairs is kept
            kept = np.sort(np.unique(np.concatenate(hashes), return_index=True)[1])
        order = np.random.default_rng([self.count, number]).permutation(kept)
        return rows.taken(order), len(rows) - len(kept)

    def _append(self, number: int, rows: Rows, hashes: np.ndarray) -> None:
        counts = np.array([len(rows), len(rows.src.tokens), len(rows.tgt.tokens)], np.int64)
        with self._path(number).open("ab") as file:
            file.write(counts.tobytes() + hashes.tobytes() + rows.packed(_BUCKET_TYPES))

    def _path(self, number: int) -> Path:
        return self._folder / f"bucket-{number}"


def _narrowest(most: int) -> str:
    """Return the narrowest data type for numbers from 0 to `most`."""
    return "<u2" if most < 2**16 else "<u4" if most < 2**32 else "<i8"


def load_indexed(indexing: Indexing) -> ParallelCorpus | IndexedCorpus:
    """Return an indexed corpus, loaded into memory if it is small, so that it is divided into batches as without an
    index. Raises DataError if an index is damaged or missing."""
    corpus = indexing.load()
    return corpus.in_memory() if len(corpus) <= MOST_IN_MEMORY else corpus
