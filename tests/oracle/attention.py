"""Attention for ONE query, and a decoder with input feeding, by loops over rows and time. `memory` is [S, M]: the
encoder's outputs of one sentence, of which the first `length` rows are real."""

import numpy as np

from tests.oracle import layers


def score(kind, query, key, p):
    """How well one key [M] answers one query [H]; a number. additive: v . tanh(query W_query + key W_key + b) (Bahdanau
    et al., 2015); dot, general: query . key and query W . key (Luong et al., 2015); scaled_dot: query . key / sqrt(M)
    (Vaswani et al., 2017)."""
    if kind in ("additive", "bahdanau"):
        a = query @ p["W_query"] + key @ p["W_key"]
        if "b" in p:
            a = a + p["b"]
        return np.tanh(a) @ p["v"]
    if kind == "dot":
        return query @ key
    if kind in ("general", "luong"):
        return (query @ p["W"]) @ key
    if kind == "scaled_dot":
        return (query @ key) / np.sqrt(key.shape[0])
    raise ValueError(f"no such attention: {kind}")


def softmax(scores):
    """Softmax of a vector; the largest real part is subtracted first."""
    exps = np.exp(scores - np.max(np.real(scores)))
    return exps / np.sum(exps)


def attend(kind, query, memory, length, p):
    """(context [M], weights [S]); beyond `length` weights are 0, whatever the memory holds."""
    scores = np.array([score(kind, query, memory[s], p) for s in range(length)])
    weights = np.zeros(memory.shape[0], scores.dtype)
    weights[:length] = softmax(scores)
    context = np.zeros(memory.shape[1], np.result_type(weights, memory))
    for s in range(length):
        context = context + weights[s] * memory[s]
    return context, weights


def decode_row(kind, attention, p, embedded, h, c, fed, memory, src_length, tgt_length, *, input_feeding):
    """One sentence: embedded [T, E], states [L, H], fed [A] -> vectors [T, A], h, c, weights. Luong et al. (2015),
    sections 3.1 and 3.3: the cell reads [embedding; fed]; the attentional vector is h~ = tanh([context; h] W_c + b_c);
    with input feeding it is what the next step is fed."""
    num_layers = len(h)
    outputs, all_weights = [], []
    for t in range(tgt_length):
        x = np.concatenate([embedded[t], fed]) if input_feeding else embedded[t]
        y, h_new, c_new = layers.run(kind, p["cell"], x[None, None], h[:, None], c[:, None], num_layers=num_layers)
        h, c = h_new[:, 0], c_new[:, 0]
        context, weights = attend(attention, y[0, 0], memory, src_length, p["attention"])
        a = np.concatenate([context, y[0, 0]]) @ p["W_c"]
        fed = np.tanh(a + p["b_c"] if "b_c" in p else a)
        outputs.append(fed)
        all_weights.append(weights)
    return np.stack(outputs), h, c, np.stack(all_weights)


def decode(
    kind, attention, p, embedded, hx, cx, memory, src_lengths, tgt_lengths=None, *, input_feeding=True, fed=None
):
    """A batch; returns the attentional vectors [T, B, A], h, c [L, B, H] and weights [T, B, S]. Takes embedded [T, B,
    E], states hx and cx [L, B, H], memory [S, B, M]. Rows beyond their target's length are 0; the first step is fed
    zeros unless `fed` [B, A] says otherwise."""
    T, B, _ = embedded.shape
    S, A = memory.shape[0], p["W_c"].shape[1]
    tgt_lengths = [T] * B if tgt_lengths is None else tgt_lengths
    fed = np.zeros((B, A)) if fed is None else fed
    trees = (*p["cell"].values(), *p["attention"].values(), p["W_c"])
    dtype = np.result_type(embedded, memory, hx, cx, *trees, np.float64)
    out, weights = np.zeros((T, B, A), dtype), np.zeros((T, B, S), dtype)
    h_last, c_last = np.zeros(hx.shape, dtype), np.zeros(cx.shape, dtype)
    for row in range(B):
        n = int(tgt_lengths[row])
        out[:n, row], h_last[:, row], c_last[:, row], weights[:n, row] = decode_row(
            kind, attention, p, embedded[:, row], hx[:, row], cx[:, row], fed[row], memory[:, row],
            int(src_lengths[row]), n, input_feeding=input_feeding,
        )  # fmt: skip
    return out, h_last, c_last, weights
