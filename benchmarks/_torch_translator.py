"""The translation model in PyTorch, eager, as a peer of `gpu_model.py`: packed nn.LSTM in the encoder, an LSTM decoder
with Bahdanau attention and input feeding a step at a time, and a batched beam search of fixed size.

It takes the parameters of ours by their names; `check` holds both losses together before anything is timed.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch.nn import functional


def _lstm(layer, suffix, arrays):
    """Ours are [in, 4 H] with gates i f g o; PyTorch's the transpose, and two biases."""
    for ours, theirs in (("W_x", "weight_ih"), ("W_h", "weight_hh"), ("b", "bias_ih")):
        getattr(layer, theirs + suffix).data.copy_(torch.from_numpy(np.ascontiguousarray(arrays[ours].T)))
    getattr(layer, "bias_hh" + suffix).data.zero_()


class TorchTranslator(nn.Module):
    """`config`: the model section; `params`: host arrays of a TranslationModel of it."""

    def __init__(self, config, params, device):
        super().__init__()
        self.config, encoder, decoder = config, config.encoder, config.decoder
        tied = config.tied_embeddings
        tables = {"src": params.get("src_embeddings", params.get("embeddings"))}
        tables["tgt"] = params.get("tgt_embeddings", params.get("embeddings"))
        V, E = tables["src"].shape
        self.src_table = nn.Embedding(V, E)
        self.tgt_table = self.src_table if tied == "all" else nn.Embedding(*tables["tgt"].shape)
        hidden, memory = decoder.hidden_size, encoder.hidden_size * (2 if encoder.bidirectional else 1)
        self.encoder = nn.LSTM(
            E, encoder.hidden_size, encoder.num_layers, bidirectional=encoder.bidirectional, dropout=encoder.dropout
        )
        below = [decoder.embeddings.embedding_dim + hidden] + [hidden] * (decoder.num_layers - 1)
        self.cells = nn.ModuleList(nn.LSTMCell(size, hidden) for size in below)
        self.bridge = nn.ModuleDict(
            {f"{layer}{s}": nn.Linear(memory, hidden) for layer in range(decoder.num_layers) for s in "hc"}
        )
        self.keys, self.query = nn.Linear(memory, hidden, bias=False), nn.Linear(hidden, hidden, bias=False)
        self.v, self.combine = nn.Linear(hidden, 1, bias=False), nn.Linear(memory + hidden, hidden)
        self.output = nn.Linear(hidden, tables["tgt"].shape[0])
        if tied != "none":
            self.output.weight = self.tgt_table.weight
        self._load(params, tables)
        self.to(device)

    def _load(self, params, tables):
        def put(target, array):
            target.data.copy_(torch.from_numpy(np.ascontiguousarray(array)))

        put(self.src_table.weight, tables["src"])
        put(self.tgt_table.weight, tables["tgt"])
        directions = ("forward", "backward") if self.config.encoder.bidirectional else ("forward",)
        for layer in range(self.config.encoder.num_layers):
            for name, end in zip(directions, ("", "_reverse"), strict=False):
                own = {k: params[f"encoder.{layer}.{name}.{k}"] for k in ("W_x", "W_h", "b")}
                _lstm(self.encoder, f"_l{layer}{end}", own)
        for layer, cell in enumerate(self.cells):
            _lstm(cell, "", {k: params[f"decoder.cell.{layer}.{k}"] for k in ("W_x", "W_h", "b")})
        for name, linear in self.bridge.items():
            put(linear.weight, params[f"bridge.{name[:-1]}.{name[-1]}.W"].T)
            put(linear.bias, params[f"bridge.{name[:-1]}.{name[-1]}.b"])
        for linear, name in ((self.keys, "W_k"), (self.query, "W_q"), (self.combine, "W_c")):
            put(linear.weight, params[f"decoder.{name}"].T)
        put(self.v.weight, params["decoder.v"][None])
        put(self.combine.bias, params["decoder.b_c"])
        put(self.output.bias, params["output.b"])
        if "output.W" in params:
            put(self.output.weight, params["output.W"].T)

    def _embed(self, table, ids, settings):
        x = table(ids)
        x = x * settings.embedding_dim**0.5 if settings.scale else x
        return functional.dropout(x, settings.dropout, self.training)

    def encode(self, src, lengths):
        """src [S, B]; lengths [B] on the host -> memory [B, S, M], keys, mask [B, S] and the decoder's states."""
        x = self._embed(self.src_table, src, self.config.encoder.embeddings)
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
        y, (h, c) = self.encoder(packed)
        memory = nn.utils.rnn.pad_packed_sequence(y)[0].transpose(0, 1).contiguous()
        mask = torch.arange(memory.shape[1], device=src.device)[None] < lengths.to(src.device)[:, None]
        directions = 2 if self.config.encoder.bidirectional else 1
        states = []
        for layer in range(len(self.cells)):
            at = min(layer, self.config.encoder.num_layers - 1) * directions
            last = [torch.cat([s[at + d] for d in range(directions)], -1) for s in (h, c)]
            states.append(tuple(torch.tanh(self.bridge[f"{layer}{s}"](x)) for s, x in zip("hc", last, strict=True)))
        feed = x.new_zeros(len(lengths), self.config.decoder.hidden_size)
        return (memory, self.keys(memory), mask), states, feed

    def step(self, x, source, states, feed):
        """One step of the decoder for x [B, E]."""
        memory, keys, mask = source
        x, after = torch.cat([x, feed], -1), []
        for layer, cell in enumerate(self.cells):
            x = functional.dropout(x, self.config.decoder.dropout, self.training) if layer else x
            after.append(cell(x, states[layer]))
            x = after[-1][0]
        scores = self.v(torch.tanh(keys + self.query(x)[:, None])).squeeze(-1)
        weights = torch.softmax(scores.masked_fill(~mask, float("-inf")), -1)
        context = torch.bmm(weights[:, None], memory).squeeze(1)
        y = torch.tanh(self.combine(torch.cat([context, x], -1)))
        y = functional.dropout(y, self.config.decoder.hidden_dropout, self.training)
        return y, after

    def loss(self, src, src_lengths, tgt_in, tgt_out, label_smoothing):
        """Mean smoothed loss of the real target tokens; padding is token 0."""
        source, states, feed = self.encode(src, src_lengths)
        outputs = []
        for x in self._embed(self.tgt_table, tgt_in, self.config.decoder.embeddings):
            feed, states = self.step(x, source, states, feed)
            outputs.append(feed)
        real = tgt_out != 0
        logits = self.output(torch.stack(outputs)[real])
        return functional.cross_entropy(logits.float(), tgt_out[real], label_smoothing=label_smoothing)

    @torch.inference_mode()
    def beam_search(self, src, lengths, K, steps, eos, bos):
        """N sentences with K rows each, `steps` at most; the ids of each sentence's best hypothesis [N, steps]."""
        N = len(lengths)
        source, states, feed = self.encode(src, lengths)
        source = tuple(a.repeat_interleave(K, 0) for a in source)
        states = [tuple(s.repeat_interleave(K, 0) for s in layer) for layer in states]
        feed = feed.repeat_interleave(K, 0)
        scores = torch.full((N, K), float("-inf"), device=src.device)
        scores[:, 0] = 0
        tokens = torch.full((N * K,), bos, device=src.device)
        done = torch.zeros(N, K, dtype=torch.bool, device=src.device)
        words = torch.zeros(N, K, steps, dtype=torch.long, device=src.device)
        first = torch.arange(N, device=src.device)[:, None] * K
        for step in range(steps):
            x = self._embed(self.tgt_table, tokens, self.config.decoder.embeddings)
            feed, states = self.step(x, source, states, feed)
            log_probs = torch.log_softmax(self.output(feed).float(), -1).view(N, K, -1)
            frozen = torch.full_like(log_probs[0, 0], float("-inf"))
            frozen[eos] = 0  # what has ended goes on as it is
            log_probs = torch.where(done[..., None], frozen, log_probs)
            best, index = (scores[..., None] + log_probs).view(N, -1).topk(K)
            parent, token = index // log_probs.shape[-1], index % log_probs.shape[-1]
            rows = (first + parent).view(-1)
            states = [tuple(s[rows] for s in layer) for layer in states]
            feed, scores, tokens = feed[rows], best, token.view(-1)
            words = words.gather(1, parent[..., None].expand_as(words))
            words[:, :, step] = token
            done = done.gather(1, parent) | (token == eos)
            if step % 8 == 7 and bool(done.all()):
                break
        return words[:, 0]
