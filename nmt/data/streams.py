"""One long text to batches: streams side by side, cut into segments that follow one another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nmt.data.rows import TokenRows
from nmt.special_tokens import EOS_ID, PAD_ID


@dataclass(frozen=True)
class Segment:
    """The same steps of all streams, [T, B], C-contiguous int32, padded with PAD_ID.

    Row b of `tgt_out` is what stream b says, `tgt_in` the tokens before those; lengths [B] int32, longest first. Each
    row goes on where the segment before it ended, but for `starts`: there all streams begin.
    """

    tgt_in: np.ndarray
    tgt_out: np.ndarray
    tgt_lengths: np.ndarray
    starts: bool

    num_src_tokens = 0
    """There is no source."""

    @property
    def num_tgt_tokens(self) -> int:
        """Real tokens: padding not counted."""
        return int(self.tgt_lengths.sum())

    def __len__(self) -> int:
        """Return the number of streams, B."""
        return len(self.tgt_lengths)


class StreamBatches:
    """The lines of a text, each ended by EOS, one after another, dealt to streams of equal length and cut into
    segments of `steps` tokens (Mikolov et al. 2010; truncated backpropagation through time, Williams and Peng 1990).

    The text begins as if after an EOS. Stream b + 1 begins where stream b ends, maybe within a line. An epoch is a
    function of (seed, epoch) alone: with `shuffle` the lines stand in another order in each, without it in that of the
    text, so that what is carried from segment to segment spans lines.
    """

    def __init__(self, lines: TokenRows, streams: int, steps: int, seed: int = 42, shuffle: bool = False) -> None:
        """At most `streams` of them: each has a token at least."""
        self._lines, self._steps, self._seed, self._shuffle = lines, steps, seed, shuffle
        self._length = len(lines.tokens) + len(lines)
        self.streams = min(streams, self._length)
        self._text: tuple[int, np.ndarray] = (-1, np.zeros(0, np.int32))

    def num_batches(self, epoch: int = 0) -> int:
        """Segments in an epoch."""
        return -(-self._longest // self._steps)

    def shapes(self, epoch: int = 0) -> np.ndarray:
        """Target steps, source steps (there are none) and rows of every segment, T, S and B: int64 [segments, 3]."""
        starts = np.arange(0, self._longest, self._steps)
        steps = np.minimum(self._steps, self._longest - starts)
        return np.stack([steps, np.zeros_like(steps), np.full_like(steps, self.streams)], axis=1)

    def batch(self, epoch: int, number: int) -> Segment:
        """One segment of an epoch, counted from 0."""
        return next(self.epoch(epoch, start=number))

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Segment]:
        """The segments of an epoch in order, from number `start` on."""
        text = self._stream(epoch)
        share, more = divmod(self._length, self.streams)
        lengths = share + (np.arange(self.streams) < more)
        first = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        for number in range(start, self.num_batches(epoch)):
            done = number * self._steps
            left = np.clip(lengths - done, 0, self._steps)
            at = first + done + np.arange(int(left.max()))[:, None]
            real = at < (first + done + left)
            at = np.minimum(at, self._length - 1)
            # text[0] is the EOS before the beginning: text[at] is read, text[at + 1] said.
            tgt_in, tgt_out = np.where(real, text[at], PAD_ID), np.where(real, text[at + 1], PAD_ID)
            yield Segment(tgt_in.astype(np.int32), tgt_out.astype(np.int32), left.astype(np.int32), number == 0)

    @property
    def _longest(self) -> int:
        return -(-self._length // self.streams)

    def _stream(self, epoch: int) -> np.ndarray:
        """EOS and all tokens of the epoch in order, int32 [1 + tokens]."""
        if not self._shuffle:
            epoch = 0
        if self._text[0] != epoch:
            order = np.arange(len(self._lines))
            if self._shuffle:
                np.random.default_rng([self._seed, epoch]).shuffle(order)
            self._text = epoch, joined(self._lines, order)
        return self._text[1]


def joined(lines: TokenRows, order: np.ndarray) -> np.ndarray:
    """EOS, and the lines in an order, each with EOS behind it: int32 [1 + tokens]."""
    lengths = lines.lengths_of(order)
    starts = np.cumsum(lengths + 1) - lengths  # of each line in the result
    text = np.full(1 + len(lines.tokens) + len(lines), EOS_ID, np.int32)
    within = np.arange(len(lines.tokens)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    text[np.repeat(starts, lengths) + within] = lines.tokens[np.repeat(lines.starts[order], lengths) + within]
    return text
