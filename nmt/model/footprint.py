"""How much memory training takes, by purpose, before anything has run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from nmt.model.cells import memory_size
from nmt.rnn.footprint import packed_bytes, piece_bytes, scan_bytes
from nmt.rnn.kernels.products import packed_size

if TYPE_CHECKING:
    from nmt.model.translation import TranslationModel


def workspace_bytes(model: TranslationModel, T: int, S: int, B: int) -> Counter[str]:
    """Bytes that an update takes from the model's workspace, by operation and purpose.

    Args:
        model: Its settings count, not its parameters.
        T, S, B: Target steps, source steps and rows of the batch, padding included.
    """
    config, dtype, hidden = model.config, model.dtype, model.config.decoder.hidden_size
    sizes: Counter[str] = Counter()
    for layer, scan in enumerate(model.encoder.scans):
        _add(sizes, f"encoder.{layer}", scan_bytes(scan, S, B), len(model.encoder.directions))
    if config.decoder.init_hidden == "bridge":
        _add(sizes, "bridge", scan_bytes(model.bridge.scan, 1, B), len(model.bridge.routes))
    _add(sizes, "decoder", scan_bytes(model.decoder, T, B, S))
    sizes["embeddings"] = piece_bytes(dtype, S, B, config.encoder.embeddings.embedding_dim)
    sizes["embeddings"] += piece_bytes(dtype, T, B, config.decoder.embeddings.embedding_dim)
    sizes["decoder: gradients of outputs"] = piece_bytes(dtype, T, B, hidden)
    return sizes


def copies_bytes(model: TranslationModel, T: int, S: int, B: int) -> Counter[str]:
    """Bytes of an update's arrays outside the workspace, at the moment when they are most; arguments as above."""
    memory = S * B * memory_size(model.config) * model.dtype.itemsize
    rows = T * B
    hidden, vocab = model.config.decoder.hidden_size, model.vocab_sizes["tgt"]
    logits = min(model.device.output_rows(vocab, model.dtype.itemsize), rows) * vocab * model.dtype.itemsize
    output = 2 * rows * hidden * model.dtype.itemsize
    # Joined directions of every layer, and the last one's in the decoder's order of rows.
    kept = memory * (len(model.encoder.scans) + 1)
    # The output layer's are gone when the way back through the encoder has its own: the gradient of the memory in
    # two orders, of a direction's share of it, of a layer's input.
    back = 4 * memory
    return Counter({"encoder outputs": kept, "logits": logits, "gathered rows": max(output, back - logits)})


def packed_weights_bytes(model: TranslationModel) -> int:
    """Bytes of the packed forms of all weights that training uses."""
    total = sum(packed_bytes(scan) for scan in model.encoder.scans) * len(model.encoder.directions)
    if model.config.decoder.init_hidden == "bridge":
        total += packed_bytes(model.bridge.scan) * len(model.bridge.routes)
    hidden, vocab = model.config.decoder.hidden_size, model.vocab_sizes["tgt"]
    output = packed_size(hidden, vocab, model.dtype) + packed_size(vocab, hidden, model.dtype)
    return total + packed_bytes(model.decoder) + output * model.dtype.itemsize


def _add(sizes: Counter[str], label: str, found: Mapping[str, int], times: int = 1) -> None:
    for purpose, size in found.items():
        sizes[f"{label}: {purpose}"] += size * times
