"""Blocks of sentences that are encoded together."""

from collections.abc import Iterator, Sequence

_TOKENS_PER_SENTENCE = 200
"""A block contains at most batch_size times this many source subwords, so that long lines come in smaller blocks and
memory stays bounded."""


def length_blocks(ids: Sequence[Sequence[int]], batch_size: int) -> Iterator[list[int]]:
    """Yield blocks of row indices of similar lengths, the longest first.

    With the longest first, a lack of memory shows at once and not at the end; and at the end, when nothing follows that
    could fill the batch, the sentences are short.
    """
    order = sorted(range(len(ids)), key=lambda i: -len(ids[i]))
    start = 0
    while start < len(order):
        longest = max(1, len(ids[order[start]]))
        size = max(1, min(batch_size, batch_size * _TOKENS_PER_SENTENCE // longest))
        yield order[start : start + size]
        start += size
