"""Map the tensors of GLA and gated DeltaNet (models/gla and models/gated_deltanet of flash-linear-attention 0.6;
published as fla-hub/gla-340M-15B and others)."""

from __future__ import annotations

from typing import Any

import numpy as np

from nmt.errors import CheckpointError
from nmt.importing.imported import Params

_COMMON: dict[str, tuple[Any, ...]] = {
    "hidden_act": ("swish",),
    "norm_eps": (1e-6,),
    "attn": (None,),
    "attnres_block_size": (None,),
}
_KNOWN = (
    "attn_mode expand_v fuse_cross_entropy fuse_linear_cross_entropy fuse_norm fuse_swiglu hidden_ratio num_heads "
    "use_l2warp"
).split()


class GLA:
    """The layout of GLA."""

    STACK = "gla"
    TABLE, LAYER = "model.embeddings.weight", "model.layers.{}.attn_norm.weight"
    NORM = "g_norm_swish_gate"
    MUST = _COMMON | {
        "num_kv_heads": (None,),
        "feature_map": (None,),
        "use_short_conv": (False,),
        "use_output_gate": (True,),
        "clamp_min": (None,),
        "elementwise_affine": (True,),
        "use_gk": (True,),
        "use_gv": (False,),
        "fuse_norm": (True,),
    }
    KNOWN = (*_KNOWN, "conv_size", "expand_k")

    def embedded(self, params: Params, rows: int, hidden: int) -> np.ndarray:
        """Return the embeddings [rows, hidden]."""
        return params.tensors.take(self.TABLE, rows, hidden)

    def read(self, params: Params, layers: int, hidden: int) -> dict[str, int]:
        """Add the parameters of all layers, and return the sizes of the stack."""
        shape = params.tensors.matrix_shape
        keys, values = (shape(f"model.layers.0.attn.{name}_proj.weight")[0] for name in "qv")
        size, heads = self._heads(params, keys, values)
        inner = shape("model.layers.0.mlp.gate_proj.weight")[0]
        more: dict[str, int] = {}
        for n in range(layers):
            theirs, ours = f"model.layers.{n}.", f"decoder.{2 * n}."
            params.vector(f"{ours}norm_gain", f"{theirs}attn_norm.weight", hidden)
            theirs += "attn."
            sizes = (("q", keys), ("k", keys), ("v", values))
            three = [params.tensors.take(f"{theirs}{name}_proj.weight", rows, hidden) for name, rows in sizes]
            params.give(f"{ours}W_qkv", np.concatenate(three).T, f"{theirs}q_proj, k_proj, v_proj, transposed")
            params.matrix(f"{ours}W_g", f"{theirs}g_proj.weight", values, hidden)
            params.vector(f"{ours}gain", f"{theirs}{self.NORM}.weight", size)
            params.matrix(f"{ours}W_o", f"{theirs}o_proj.weight", hidden, values)
            more = self._decay(params, ours, theirs, hidden, keys, values, heads)
            theirs, ours = f"model.layers.{n}.", f"decoder.{2 * n + 1}."
            params.vector(f"{ours}norm_gain", f"{theirs}mlp_norm.weight", hidden)
            params.matrix(f"{ours}W_gate", f"{theirs}mlp.gate_proj.weight", inner, hidden)
            params.matrix(f"{ours}W_in", f"{theirs}mlp.up_proj.weight", inner, hidden)
            params.matrix(f"{ours}W_out", f"{theirs}mlp.down_proj.weight", hidden, inner)
        params.vector(f"decoder.{2 * layers - 1}.gain_end", "model.norm.weight", hidden)
        return {"inner": inner, "heads": heads, "key_size": keys // heads, "value_size": size} | more

    def _heads(self, params: Params, keys: int, values: int) -> tuple[int, int]:
        """Return the units and the number of heads. Raises CheckpointError if keys and values have no such number."""
        name = f"model.layers.0.attn.{self.NORM}.weight"
        size = params.tensors.shape(name)
        heads = values // size[0] if len(size) == 1 and 0 < size[0] <= values else 0
        if not heads or values % heads or keys % heads:
            raise CheckpointError(
                f"{params.tensors.place}: {name} must have the size of a head, which {keys} keys and {values} values "
                f"consist of, got {list(size)}; this is another kind of model"
            )
        return values // heads, heads

    def _decay(
        self, params: Params, ours: str, theirs: str, hidden: int, keys: int, values: int, heads: int
    ) -> dict[str, int]:
        """Add what decides the decay of a layer, and return sizes that only this stack has."""
        rank = params.tensors.matrix_shape(f"{theirs}gk_proj.0.weight")[0]
        params.matrix(f"{ours}W_a", f"{theirs}gk_proj.0.weight", rank, hidden)
        params.matrix(f"{ours}U_a", f"{theirs}gk_proj.1.weight", keys, rank)
        params.vector(f"{ours}b_a", f"{theirs}gk_proj.1.bias", keys)
        return {"rank": rank}


class GatedDeltaNet(GLA):
    """The layout of gated DeltaNet."""

    STACK = "gated_delta_net"
    NORM = "o_norm"
    MUST = _COMMON | {
        "num_v_heads": (None,),
        "use_gate": (True,),
        "use_short_conv": (True,),
        "allow_neg_eigval": (False,),
        "output_gate_activation": ("swish", "silu"),
    }
    KNOWN = (*_KNOWN, "conv_size", "head_dim")

    def _decay(
        self, params: Params, ours: str, theirs: str, hidden: int, keys: int, values: int, heads: int
    ) -> dict[str, int]:
        params.matrix(f"{ours}W_a", f"{theirs}a_proj.weight", heads, hidden)
        params.matrix(f"{ours}W_b", f"{theirs}b_proj.weight", heads, hidden)
        params.vector(f"{ours}A", f"{theirs}A_log", heads)
        params.vector(f"{ours}b_a", f"{theirs}dt_bias", heads)
        *_, window = (0, *params.tensors.shape(f"{theirs}q_conv1d.weight"))
        sizes = (("q", keys), ("k", keys), ("v", values))
        filters = [params.tensors.take(f"{theirs}{name}_conv1d.weight", rows, 1, window) for name, rows in sizes]
        for k in range(window):
            newest = np.concatenate(filters)[:, 0, window - 1 - k]
            params.give(f"{ours}c_{k}", newest, f"{theirs}q_conv1d, k_conv1d, v_conv1d, {k} steps ago")
        return {"window": window}
