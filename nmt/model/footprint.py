"""How much memory training takes, by purpose, before anything has run."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from nmt.rnn.kernels.products import packed_size
from nmt.rnn.scan.memory_forecast import Phase, packed_bytes, peak_bytes, piece_bytes, scan_phases

if TYPE_CHECKING:
    from nmt.model.network import Network


def workspace_bytes(model: Network, T: int, S: int, B: int) -> Counter[str]:
    """Bytes that an update takes from the model's workspace, by operation and purpose.

    Args:
        model: Its settings count, not its parameters.
        T, S, B: Target steps, source steps and rows of the batch, padding included.
    """
    config, dtype, hidden = model.config, model.dtype, model.config.decoder.output_size
    rows_of_embeddings = piece_bytes(dtype, T, B, config.decoder.embeddings.embedding_dim)
    if "src" in model.vocab_sizes:
        rows_of_embeddings += piece_bytes(dtype, S, B, config.encoder.embeddings.embedding_dim)
        if config.encoder.factors:
            rows_of_embeddings += piece_bytes(dtype, S, B, config.encoder.input_size)
    there = [Phase(Counter({"embeddings": rows_of_embeddings}))]
    back: list[Phase] = []
    for label, scan, steps, positions, late in model.runs(T, S):
        forward, its_way_back = scan_phases(scan, steps, B, positions, late=late)
        there += _labelled(label, forward)
        back = _labelled(label, its_way_back) + back
    outputs = Phase(Counter({"decoder: gradients of outputs": piece_bytes(dtype, T, B, hidden)}))
    return peak_bytes([*there, outputs, *back])


def copies_bytes(model: Network, T: int, S: int, B: int) -> Counter[str]:
    """Bytes of an update's arrays outside the workspace, at the moment when they are most; arguments as above."""
    layers = len({id(scan) for label, scan, *_ in model.runs(T, S) if label.startswith("encoder")})
    memory = S * B * model.config.encoder.output_size * model.dtype.itemsize if layers else 0
    rows = T * B
    hidden, vocab = model.config.decoder.output_size, model.vocab_sizes["tgt"]
    logits = (
        min(model.device.output_rows(vocab, model.dtype.itemsize, model.decoder.packed), rows)
        * vocab
        * model.dtype.itemsize
    )
    output = 2 * rows * hidden * model.dtype.itemsize
    # Joined directions of every layer, and the last one's in the decoder's order of rows.
    kept = memory * (layers + 1)
    # The output layer's are gone when the way back through the encoder has its own: the gradient of the memory in
    # two orders, of a direction's share of it, of a layer's input.
    back = 4 * memory
    return +Counter({"encoder outputs": kept, "logits": logits, "gathered rows": max(output, back - logits)})


def packed_weights_bytes(model: Network) -> int:
    """Bytes of the packed forms of all weights that training uses."""
    total = sum(packed_bytes(scan) for _, scan, *_ in model.runs(1, 1))
    hidden, vocab = model.config.decoder.output_size, model.vocab_sizes["tgt"]
    packed = model.decoder.packed
    output = packed_size(hidden, vocab, packed) + packed_size(vocab, hidden, packed)
    return total + output * packed.itemsize


def _labelled(label: str, phases: list[Phase]) -> list[Phase]:
    return [Phase(Counter({f"{label}: {k}": n for k, n in phase.kept.items()}), phase.block) for phase in phases]
