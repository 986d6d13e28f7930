"""Map the tensors of RWKV-7 (models/rwkv7 of flash-linear-attention 0.6; published as fla-hub/rwkv7-191M-world and
larger)."""

from __future__ import annotations

import numpy as np

from nmt.importing.imported import Params

STACK = "rwkv7"
TABLE, LAYER = "model.embeddings.weight", "model.layers.{}.attn_norm.weight"
MUST = {
    "hidden_act": ("sqrelu",),
    "norm_first": (True,),
    "norm_bias": (True,),
    "norm_eps": (1e-5,),
    "attn": (None,),
    "tie_word_embeddings": (False,),
}
KNOWN = (
    "a_low_rank_dim attn_mode decay_low_rank_dim fuse_cross_entropy fuse_linear_cross_entropy fuse_norm "
    "gate_low_rank_dim head_dim hidden_ratio num_heads use_l2warp v_low_rank_dim value_dim"
).split()
_RANKS = {"decay_rank": "w", "rate_rank": "a", "gate_rank": "g", "value_rank": "v"}
_EPSILON = 1e-5


def embedded(params: Params, rows: int, hidden: int) -> np.ndarray:
    """Return the embeddings [rows, hidden], with the norm that the first layer has before all others."""
    table = params.tensors.take(TABLE, rows, hidden).astype(np.float64)
    gain, bias = (params.tensors.take(f"model.layers.0.pre_norm.{name}", hidden) for name in ("weight", "bias"))
    centred = table - table.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + _EPSILON) * gain + bias


def read(params: Params, layers: int, hidden: int) -> dict[str, int]:
    """Add the parameters of all layers, and return the sizes of the stack."""
    tensors = params.tensors
    heads = tensors.matrix_shape("model.layers.0.attn.r_k")[0]
    inner = tensors.matrix_shape("model.layers.0.ffn.key.weight")[0]
    ranks = {
        name: tensors.matrix_shape(f"model.layers.{int(of == 'v')}.attn.{of}_lora.lora.0.weight")[0]
        for name, of in _RANKS.items()
        if layers > 1 or of != "v"
    }
    for n in range(layers):
        theirs, ours = f"model.layers.{n}.", f"decoder.{2 * n}."
        _norm(params, f"{ours}{{}}_norm", f"{theirs}attn_norm", hidden)
        theirs += "attn."
        for name in "rwkvag":
            mixed = tensors.take(f"{theirs}x_{name}", 1, 1, hidden)
            params.give(f"{ours}mu_{name}", mixed[0, 0], f"{theirs}x_{name}")
        for ours_name, name in (("W_r", "r"), ("W_k", "k"), ("W_v", "v"), ("W_o", "o")):
            params.matrix(ours + ours_name, f"{theirs}{name}_proj.weight", hidden, hidden)
        for size, name in _RANKS.items():
            if n == 0 and name == "v":
                continue
            letter = "n" if name == "v" else name
            params.matrix(f"{ours}W_{letter}", f"{theirs}{name}_lora.lora.0.weight", ranks[size], hidden)
            params.matrix(f"{ours}U_{letter}", f"{theirs}{name}_lora.lora.2.weight", hidden, ranks[size])
            if name != "g":
                params.vector(f"{ours}{name}_0", f"{theirs}{name}_lora.lora.2.bias", hidden)
        for name in ("k_k", "k_a"):
            params.vector(ours + name, theirs + name, hidden)
        r_k = tensors.take(f"{theirs}r_k", heads, hidden // heads)
        params.give(f"{ours}r_k", r_k.reshape(-1), f"{theirs}r_k")
        _norm(params, f"{ours}{{}}", f"{theirs}g_norm", hidden)
        theirs, ours = f"model.layers.{n}.", f"decoder.{2 * n + 1}."
        _norm(params, f"{ours}{{}}_norm", f"{theirs}ffn_norm", hidden)
        params.vector(f"{ours}mu", f"{theirs}ffn.x_k", hidden)
        params.matrix(f"{ours}W_k", f"{theirs}ffn.key.weight", inner, hidden)
        params.matrix(f"{ours}W_v", f"{theirs}ffn.value.weight", hidden, inner)
    _norm(params, f"decoder.{2 * layers - 1}.{{}}_end", "model.norm", hidden)
    return {"inner": inner, "heads": heads} | ranks


def _norm(params: Params, ours: str, theirs: str, hidden: int) -> None:
    """Add gain and bias of a norm; `ours` has a place for which of them it is."""
    params.vector(ours.format("gain"), f"{theirs}.weight", hidden)
    params.vector(ours.format("bias"), f"{theirs}.bias", hidden)
