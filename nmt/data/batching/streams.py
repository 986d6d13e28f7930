"""Divide one long text into parallel streams, and these into consecutive segments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from nmt.data.batching.epochs import Batches
from nmt.data.corpora.rows import TokenRows
from nmt.errors import ConfigError
from nmt.overriding import override
from nmt.special_tokens import EOS_ID, PAD_ID


@dataclass(frozen=True)
class Segment:
    """One span of time steps of all streams, [T, B], C-contiguous int32, padded with PAD_ID.

    Row b of `tgt_out` is the text of stream b, `tgt_in` the token before each of these; lengths [B] int32, longest
    first. Each row continues the previous segment of the same `part` of the streams, unless `starts` is true: then all
    streams begin.
    """

    tgt_in: np.ndarray
    tgt_out: np.ndarray
    tgt_lengths: np.ndarray
    starts: bool
    part: int = 0

    num_src_tokens = 0
    """There is no source."""

    @property
    def num_tgt_tokens(self) -> int:
        """Return the number of tokens without padding."""
        return int(self.tgt_lengths.sum())

    def __len__(self) -> int:
        """Return the number of streams, B."""
        return len(self.tgt_lengths)

    def doubled(self) -> Segment:
        """Return a segment that contains every stream twice, in neighbouring rows."""
        tgt_in, tgt_out, lengths = (np.repeat(one, 2, axis=-1) for one in (self.tgt_in, self.tgt_out, self.tgt_lengths))
        return replace(self, tgt_in=tgt_in, tgt_out=tgt_out, tgt_lengths=lengths)


class StreamBatches(Batches):
    """The lines of a text, each ended by EOS, concatenated, divided into streams of equal length and split into
    segments of `steps` tokens (Mikolov et al. 2010; truncated backpropagation through time, Williams and Peng 1990).

    The text begins as if after an EOS. Stream b + 1 begins where stream b ends, possibly within a line. An epoch
    depends on (seed, epoch) alone: with `shuffle` the order of the lines differs between epochs; without it they keep
    the order of the text, so that the state carried from segment to segment spans lines. With `parts` there are that
    many times as many streams; the same time steps then give one segment for each part, one after another.
    """

    in_order = True

    def __init__(
        self, lines: TokenRows, streams: int, steps: int, seed: int = 42, shuffle: bool = False, *, parts: int = 1
    ) -> None:
        """Use at most `streams` streams per part. Raises ConfigError if there are fewer tokens than parts."""
        self._lines, self._steps, self._seed, self._shuffle = lines, steps, seed, shuffle
        self._length = len(lines.tokens) + len(lines)
        if self._length < parts:
            raise ConfigError(
                f"training.batch_multiplier: with the ranks it must divide the text, of {self._length} tokens, into at "
                f"most so many parts, got {parts}; lower it"
            )
        self._streams_in_all = min(streams * parts, self._length)
        self._parts = np.array_split(np.arange(self._streams_in_all), parts)
        self.streams = len(self._parts[0])
        self._text: tuple[int, np.ndarray] = (-1, np.zeros(0, np.int32))

    @override
    def num_batches(self, epoch: int = 0) -> int:
        return -(-self._longest // self._steps) * len(self._parts)

    @override
    def shapes(self, epoch: int = 0) -> np.ndarray:
        left = self._segment_lengths()
        shapes = [left.max(axis=2), np.zeros_like(left[:, :, 0]), (left >= 0).sum(axis=2)]
        return np.stack(shapes, axis=2).reshape(-1, 3)

    @override
    def tokens(self, epoch: int = 0) -> np.ndarray:
        found = np.maximum(self._segment_lengths(), 0).sum(axis=2).reshape(-1)
        return np.stack([np.zeros_like(found), found], axis=1)

    @override
    def epoch(self, epoch: int, start: int = 0) -> Iterator[Segment]:
        text, whole = self._stream(epoch), self._lengths()
        ends = np.cumsum(whole)
        for number in range(start, self.num_batches(epoch)):
            segment, part = divmod(number, len(self._parts))
            rows, done = self._parts[part], segment * self._steps
            lengths, first = whole[rows], (ends - whole)[rows]
            left = np.clip(lengths - done, 0, self._steps)
            at = first + done + np.arange(int(left.max()))[:, None]
            real = at < (first + done + left)
            at = np.minimum(at, self._length - 1)
            # text[0] is the EOS before the beginning: text[at] is the input, text[at + 1] the target.
            tgt_in, tgt_out = np.where(real, text[at], PAD_ID), np.where(real, text[at + 1], PAD_ID)
            tokens = tgt_in.astype(np.int32), tgt_out.astype(np.int32)
            yield Segment(*tokens, left.astype(np.int32), segment == 0, part)

    @property
    def _longest(self) -> int:
        return -(-self._length // self._streams_in_all)

    def _lengths(self) -> np.ndarray:
        """Return the number of tokens of each stream, longest first."""
        share, more = divmod(self._length, self._streams_in_all)
        return share + (np.arange(self._streams_in_all) < more)

    def _segment_lengths(self) -> np.ndarray:
        """Return the tokens of each stream in each segment, -1 for missing streams: int64 [segments, parts, B]."""
        starts = np.arange(0, self._longest, self._steps)
        whole = np.full((len(self._parts), self.streams), -1)
        for row, streams in zip(whole, self._parts, strict=True):
            row[: len(streams)] = self._lengths()[streams]
        left = np.clip(whole - starts[:, None, None], 0, self._steps)
        left[:, whole < 0] = -1
        return left

    def _stream(self, epoch: int) -> np.ndarray:
        """Return EOS and all tokens of the epoch in order, int32 [1 + tokens]."""
        if not self._shuffle:
            epoch = 0
        if self._text[0] != epoch:
            order = np.arange(len(self._lines))
            if self._shuffle:
                np.random.default_rng([self._seed, epoch]).shuffle(order)
            self._text = epoch, joined(self._lines, order)
        return self._text[1]


def joined(lines: TokenRows, order: np.ndarray) -> np.ndarray:
    """Return EOS and then the lines in the given order, each followed by EOS: int32 [1 + tokens]."""
    lengths = lines.lengths_of(order)
    starts = np.cumsum(lengths + 1) - lengths  # start of each line in the result
    text = np.full(1 + len(lines.tokens) + len(lines), EOS_ID, np.int32)
    within = np.arange(len(lines.tokens)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    text[np.repeat(starts, lengths) + within] = lines.tokens[np.repeat(lines.starts[order], lengths) + within]
    return text
