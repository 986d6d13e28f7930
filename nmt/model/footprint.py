"""Estimate the memory that training takes, by purpose, before anything has run."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from nmt.rnn.kernels.products.packing import packed_size
from nmt.rnn.scan.memory_forecast import PassMemory, packed_bytes, peak_bytes, piece_bytes, scan_phases

if TYPE_CHECKING:
    from nmt.model.network import Network


def workspace_bytes(model: Network, T: int, S: int, B: int) -> Counter[str]:
    """Return the bytes that an update takes from the model's workspace, by operation and purpose.

    Args:
        model: The model; only its settings are used, not its parameters.
        T, S, B: Target steps, source steps and rows of the batch, padding included.
    """
    config, dtype, hidden = model.config, model.dtype, model.config.decoder.output_size
    rows_of_embeddings = piece_bytes(dtype, T, B, config.decoder.embeddings.embedding_dim)
    if "src" in model.vocab_sizes:
        rows_of_embeddings += piece_bytes(dtype, S, B, config.encoder.embeddings.embedding_dim)
        if config.decoder.lexical:  # in the decoder's order, and joined to the encoder's outputs
            joined = config.encoder.input_size + config.encoder.output_size
            rows_of_embeddings += piece_bytes(dtype, S, B, config.encoder.input_size) + piece_bytes(dtype, S, B, joined)
        elif config.decoder.edit_actions:
            rows_of_embeddings += piece_bytes(dtype, S, B, config.encoder.output_size + 2)
    there = [PassMemory(Counter({"embeddings": rows_of_embeddings}))]
    back: list[PassMemory] = []
    for label, scan, steps, positions in model.runs(T, S):
        forward, its_way_back = scan_phases(scan, steps, B, positions)
        there += _labelled(label, forward)
        back = _labelled(label, its_way_back) + back
    rows_of_output = piece_bytes(dtype, T, B, hidden)
    outputs = PassMemory(Counter({"decoder: gradients of outputs": rows_of_output}), block=2 * rows_of_output)
    copies = PassMemory(Counter({"encoder: joined and ordered outputs": _encoder_copies(model, S, B)}))
    return peak_bytes([*there, copies, outputs, copies, *back])


def _encoder_copies(model: Network, S: int, B: int) -> int:
    """Return the bytes of the concatenated directions of every layer, and of the last layer's outputs in the decoder's
    row order; the backward pass needs as many."""
    encoder = model.config.encoder
    if "src" not in model.vocab_sizes:
        return 0
    joined = encoder.num_layers if encoder.bidirectional else 0
    return (joined + 1) * piece_bytes(model.dtype, S, B, encoder.output_size)


def logits_bytes(model: Network, T: int, B: int) -> Counter[str]:
    """Return the bytes of the logits of an update, which are not part of the workspace; arguments are as in
    `workspace_bytes`."""
    vocab, size = model.vocab_sizes["tgt"], model.dtype.itemsize
    rows = min(model.device.output_rows(vocab, size, model.decoder.packed), T * B)
    return Counter({"logits": rows * vocab * size})


def packed_weights_bytes(model: Network) -> int:
    """Return the bytes of the packed forms of all weights that training uses."""
    total = sum(packed_bytes(scan) for _, scan, *_ in model.runs(1, 1))
    hidden, vocab = model.config.decoder.output_size, model.vocab_sizes["tgt"]
    packed = model.decoder.packed
    output = packed_size(hidden, vocab, packed) + packed_size(vocab, hidden, packed)
    return total + output * packed.itemsize


def _labelled(label: str, phases: list[PassMemory]) -> list[PassMemory]:
    return [PassMemory(Counter({f"{label}: {k}": n for k, n in phase.kept.items()}), phase.block) for phase in phases]
