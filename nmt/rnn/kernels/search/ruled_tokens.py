"""The output layer of a search with rules on single tokens: it stores the log-probabilities of all tokens, and chooses
the best ones that the rules allow, or draws one (see token_rules.py and `selectors.SamplingSelector`)."""

import math
from typing import Any

import numpy as np

from nmt.rnn.kernels.machine_code.jit import exact_kernel, inlined, inner_kernel, kernel, task
from nmt.rnn.kernels.machine_code.recipes import family
from nmt.rnn.kernels.memory.arrays import release, scratch
from nmt.rnn.kernels.memory.table_layout import arrays, constants
from nmt.rnn.kernels.search import search_rules
from nmt.rnn.kernels.search.beam_table import SEARCH
from nmt.rnn.kernels.search.best_tokens import OUTPUT, normalise, rows_to_multiply, store_chunks
from nmt.rnn.kernels.search.choose import BUCKETS, best_of_row, draw_token
from nmt.rnn.kernels.search.token_rules import TEMPERATURE, TOP_K, TOP_P, forbid, reweight
from nmt.rnn.kernels.threads.atomics import barrier_wait

RULED = OUTPUT.extended(
    "ruled_tokens",
    # The number of chunks; the address of the search's table.
    constants("chunks", "search"),
    arrays("Y", ("rows", "chunks"), "tops", "totals"),
    # By row: the log-probabilities of all tokens, and what the rules make of them; `plain`, as in SEARCH.
    arrays("Y", ("rows", "columns"), "log_probs", "changed"),
    arrays("Y", ("rows", "places"), "plain"),
)
RULED_OWN = ("rounded", "tops", "totals", "log_probs", "changed")

_may_come = inlined(search_rules.may_come)
_mix = inlined(search_rules.mix)


@inner_kernel
def _forced(search, s):  # type: ignore[no-untyped-def]
    """Return the next token of the prefix of the sentence in slot s, -1 if it has none."""
    if search.prefix_starts_address == 0:
        return np.int64(-1)
    n, steps = search.slots.sentence[s], search.slots.steps[s]
    at = search.prefix_starts[n] + steps
    return np.int64(search.prefixes[at]) if at < search.prefix_starts[n + 1] else np.int64(-1)


@exact_kernel
def _apply_rules(search, r, log_probs, scores):  # type: ignore[no-untyped-def]
    """Set the scores of the tokens that may follow row r."""
    s, history = search.rows.slot[r], search.history[search.parity, r]
    steps, forced = search.slots.steps[s], _forced(search, s)
    for v in range(scores.shape[0]):
        allowed = forced < 0 and _may_come(v, search.first_token, search.never)
        scores[v] = log_probs[v] if allowed else -math.inf
    if forced >= 0:
        scores[forced] = log_probs[forced]
        return
    reweight(scores, 0, history, 0, steps, search.rule_reals, 0, 1)
    forbid(scores, 0, history, 0, steps, search.rule_numbers, search.rule_lists, search.eos_id, 0, 1)


@inner_kernel
def _drawn(search, r, scores, ends, spare, sorted_scores):  # type: ignore[no-untyped-def]
    """Return a token drawn for row r."""
    s, numbers, reals = search.rows.slot[r], search.rule_numbers, search.rule_reals
    key = search.keys[search.slots.sentence[s]] + np.uint64(search.rows.sample[r])
    number = _mix(_mix(key) + np.uint64(search.slots.steps[s]))
    uniform = np.float64(number >> np.uint64(11)) * 2.0**-53
    return draw_token(scores, reals[TEMPERATURE], numbers[TOP_K], reals[TOP_P], uniform, ends, spare, sorted_scores)


@inner_kernel
def _choose(search, given, part, parts):  # type: ignore[no-untyped-def]
    """Choose the tokens of this part's rows."""
    rows, columns = given.changed.shape
    ends, spare, row_scores = scratch(BUCKETS, np.int64), scratch(columns, np.int32), scratch(columns, given.bias.dtype)
    for r in range(rows * part // parts, rows * (part + 1) // parts):
        log_probs, scores, tokens = given.log_probs[r], given.changed[r], given.tokens[r]
        _apply_rules(search, r, log_probs, scores)
        count = np.int64(0)
        if search.sampling == 0:
            count = best_of_row(scores, tokens, given.scores[r])
        else:
            token = _drawn(search, r, scores, ends, spare, row_scores)
            if token >= 0:
                tokens[0], given.scores[r, 0], count = token, scores[token], np.int64(1)
        for k in range(count):
            given.plain[r, k] = log_probs[tokens[k]]
        for k in range(count, tokens.shape[0]):
            tokens[k] = -1
    release(ends)
    release(spare)
    release(row_scores)


@family
def ruled_task(number: np.dtype, packed: np.dtype) -> Any:
    """Return the task for y and bias of dtype `number` and weights packed as `packed`."""
    ruled_at, search_at = RULED.reader(Y=number, W=packed), SEARCH.reader(F=number)
    multiplied = rows_to_multiply(number, packed)

    def ruled_tokens(part, parts, table):  # type: ignore[no-untyped-def]
        given = ruled_at(table)
        found, tops, totals = given.log_probs, given.tops, given.totals
        left, goal = multiplied(table, part, parts, given.y, given.weights, given.rounded)
        store_chunks(part, parts, left, given.weights, given.bias, found, tops, totals)
        barrier_wait(table, part, parts, goal)
        normalise(part, parts, found, tops, totals)
        _choose(search_at(given.search), given, part, parts)

    return task(ruled_tokens)


# ---------------------------------------------------------------- random numbers


_START = np.array(
    [
        *(0x6A09E667F3BCC908, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1),
        *(0x510E527FADE682D1, 0x9B05688C2B3E6C1F, 0x1F83D9ABFB41BD6B, 0x5BE0CD19137E2179),
    ],
    np.uint64,
)
_ORDERS = np.array(
    [
        *(0xFEDCBA9876543210, 0x357B20C16DF984AE, 0x491763EADF250C8B, 0x8F04A562EBCD1397, 0xD386CB1EFA427509),
        *(0x91EF57D438B0A6C2, 0xB8293670A4DEF15C, 0xA2684F05931CE7BD, 0x5A417D2C803B9EF6, 0x0DC3E9BF5167482A),
    ],
    np.uint64,
)
"""The start of BLAKE2b, and the orders in which its rounds read a block, 4 bits for each word (RFC 7693, 2.6, 2.7)."""


@inner_kernel
def _turned(x, count):  # type: ignore[no-untyped-def]
    return (x >> np.uint64(count)) | (x << np.uint64(64 - count))


@inner_kernel
def _stir(v, a, b, c, d, x, y):  # type: ignore[no-untyped-def]
    v[a] = v[a] + v[b] + x
    v[d] = _turned(v[d] ^ v[a], 32)
    v[c] = v[c] + v[d]
    v[b] = _turned(v[b] ^ v[c], 24)
    v[a] = v[a] + v[b] + y
    v[d] = _turned(v[d] ^ v[a], 16)
    v[c] = v[c] + v[d]
    v[b] = _turned(v[b] ^ v[c], 63)


@kernel
def sample_keys(keys, sizes, ids, seed):  # type: ignore[no-untyped-def]
    """Set the keys of the random numbers of as many sentences as there are keys: see `selectors.sample_keys`, which
    hashes the ids, as bytes, to 8 bytes by BLAKE2b."""
    state, v, block = scratch(8, np.uint64), scratch(16, np.uint64), scratch(16, np.uint64)
    first = 0
    for n in range(keys.shape[0]):
        size, done = sizes[n], 0
        for k in range(8):
            state[k] = _START[k] ^ np.uint64(0x01010008 if k == 0 else 0)
        while True:
            for k in range(16):
                low = np.uint64(ids[first + done + 2 * k]) if done + 2 * k < size else np.uint64(0)
                high = np.uint64(ids[first + done + 2 * k + 1]) if done + 2 * k + 1 < size else np.uint64(0)
                block[k] = low | (high << np.uint64(32))
            done += 32
            for k in range(8):
                v[k], v[k + 8] = state[k], _START[k]
            v[12] ^= np.uint64(4 * min(done, size))
            if done >= size:
                v[14] = ~v[14]
            for turn in range(12):
                order = _ORDERS[turn % 10]
                for k in range(8):
                    a, turned = k & 3, k >> 2
                    b = 4 + ((a + turned) & 3)
                    c, d = 8 + ((a + 2 * turned) & 3), 12 + ((a + 3 * turned) & 3)
                    x = block[np.int64(order >> np.uint64(8 * k)) & 15]
                    y = block[np.int64(order >> np.uint64(8 * k + 4)) & 15]
                    _stir(v, a, b, c, d, x, y)
            for k in range(8):
                state[k] ^= v[k] ^ v[k + 8]
            if done >= size:
                break
        first += size
        keys[n] = _mix(state[0] ^ np.uint64(seed))
    release(state)
    release(v)
    release(block)
