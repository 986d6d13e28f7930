"""What beam search does with the output layer's rows: the best tokens of each, and the best continuations of each
sentence."""

from nmt.rnn.kernels.activations import exp, log
from nmt.rnn.kernels.jit import kernel


@kernel
def _best_of_row(row, first, tokens, scores):  # type: ignore[no-untyped-def]
    """The largest entries of row[first:], best first; of equal ones the lower token. Returns how many there are."""
    room, count = tokens.shape[0], 0
    for v in range(first, row.shape[0]):
        x = row[v]
        if count < room:
            place = count
            count += 1
        elif x > scores[room - 1]:
            place = room - 1
        else:
            continue
        while place > 0 and x > scores[place - 1]:
            scores[place] = scores[place - 1]
            tokens[place] = tokens[place - 1]
            place -= 1
        scores[place] = x
        tokens[place] = v
    return count


@kernel
def best_tokens(part, parts, logits, bias, first, tokens, scores):  # type: ignore[no-untyped-def]
    """The K most probable tokens of each row and their log-probabilities.

    logits [R, V] without bias, which is added here; tokens [R, K] int32 and scores [R, K] receive them, best first.
    Tokens
    below `first` (padding and the like) count for the normalisation but are never chosen; unused places have token -1.
    """
    V = logits.shape[1]
    for r in range(logits.shape[0] * part // parts, logits.shape[0] * (part + 1) // parts):
        row = logits[r]
        top = row[0] + bias[0]
        for v in range(V):
            row[v] += bias[v]
        for v in range(V):
            top = max(top, row[v])
        total = logits.dtype.type(0)
        for v in range(V):
            total += exp(row[v] - top)
        norm = top + log(total)
        count = _best_of_row(row, first, tokens[r], scores[r])
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
