"""What beam search does with the output layer's rows: the best tokens of each, and the best continuations of each
sentence."""

import numpy as np

from nmt.rnn.kernels.activations import exp, log
from nmt.rnn.kernels.jit import kernel

# Places whose largest entry is looked at first: few blocks of a vocabulary hold any of its best tokens.
_BLOCK = 64


@kernel
def _insert(x, v, count, tokens, scores):  # type: ignore[no-untyped-def]
    """Put token v with score x among the best so far, behind equal ones; returns how many there are."""
    room = tokens.shape[0]
    if count == room and not x > scores[room - 1]:
        return count
    place = min(count, room - 1)
    while place > 0 and x > scores[place - 1]:
        scores[place], tokens[place] = scores[place - 1], tokens[place - 1]
        place -= 1
    scores[place], tokens[place] = x, v
    return min(count + 1, room)


@kernel
def _best_of_row(row, first, tops, tokens, scores):  # type: ignore[no-untyped-def]
    """The largest entries of row[first:], best first; of equal ones the lower token. Returns how many there are."""
    count, room = 0, tokens.shape[0]
    for block in range(tops.shape[0]):
        if count == room and not tops[block] > scores[room - 1]:
            continue
        for v in range(max(first, block * _BLOCK), min(row.shape[0], (block + 1) * _BLOCK)):
            count = _insert(row[v], v, count, tokens, scores)
    return count


@kernel
def _add_bias(row, bias, tops):  # type: ignore[no-untyped-def]
    """row += bias; the largest entry of every block goes to `tops`."""
    for block in range(tops.shape[0]):
        low, high = block * _BLOCK, min(row.shape[0], (block + 1) * _BLOCK)
        part, share = row[low:high], bias[low:high]
        top = part[0] + share[0]
        for j in range(part.shape[0]):
            x = part[j] + share[j]
            part[j] = x
            top = max(top, x)
        tops[block] = top


@kernel
def best_tokens(part, parts, logits, bias, first, tokens, scores):  # type: ignore[no-untyped-def]
    """The K most probable tokens of each row and their log-probabilities.

    logits [R, V] without bias, which is added here; tokens [R, K] int32 and scores [R, K] receive them, best first.
    Tokens below `first` (padding and the like) count for the normalisation but are never chosen; unused places have
    token -1.
    """
    tops = np.empty((logits.shape[1] + _BLOCK - 1) // _BLOCK, logits.dtype)
    for r in range(logits.shape[0] * part // parts, logits.shape[0] * (part + 1) // parts):
        row = logits[r]
        _add_bias(row, bias, tops)
        top = tops.max()
        total = logits.dtype.type(0)
        for v in range(row.shape[0]):
            total += exp(row[v] - top)
        norm = top + log(total)
        count = _best_of_row(row, first, tops, tokens[r], scores[r])
        for k in range(count):
            scores[r, k] -= norm
        for k in range(count, tokens.shape[1]):
            tokens[r, k] = -1


@kernel
def best_continuations(tokens, scores, sums, sentence_rows, room, never, parents, chosen, totals):  # type: ignore[no-untyped-def]
    """For each sentence the best continuations of all its rows together.

    tokens, scores [R, K] from `best_tokens`; sums [R] float64 log-probability so far; sentence_rows [N + 1]: rows
    [sentence_rows[n], sentence_rows[n + 1]) belong to sentence n, which may take room[n] continuations; `never` is a
    token to
    pass over. Writes parents, chosen and totals [N, max room]; parent -1 where there are no more. Of equal sums the
    earlier row, then the better place within it, wins.
    """
    places = tokens.shape[1]
    for n in range(sentence_rows.shape[0] - 1):
        first, last = sentence_rows[n], sentence_rows[n + 1]
        count = 0
        for r in range(first, last):
            for k in range(places):
                token = tokens[r, k]
                if token < 0:
                    break
                if token == never:
                    continue
                total = sums[r] + scores[r, k]
                if count < room[n]:
                    place = count
                    count += 1
                elif total > totals[n, room[n] - 1]:
                    place = room[n] - 1
                else:
                    break  # the rest of this row is no better
                while place > 0 and total > totals[n, place - 1]:
                    totals[n, place] = totals[n, place - 1]
                    parents[n, place] = parents[n, place - 1]
                    chosen[n, place] = chosen[n, place - 1]
                    place -= 1
                totals[n, place], parents[n, place], chosen[n, place] = total, r, token
        for k in range(count, parents.shape[1]):
            parents[n, k] = -1
