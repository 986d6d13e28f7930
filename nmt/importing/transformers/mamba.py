"""Map the tensors of Mamba (models/mamba of transformers 5; published as state-spaces/mamba-130m-hf and larger)."""

from __future__ import annotations

import numpy as np

from nmt.importing.imported import Params

STACK = "mamba"
TABLE, LAYER = "backbone.embeddings.weight", "backbone.layers.{}.norm.weight"
MUST = {
    "hidden_act": ("silu",),
    "use_bias": (False,),
    "use_conv_bias": (True,),
    "layer_norm_epsilon": (1e-5,),
    "rms_norm": (True,),
}
KNOWN = (
    "conv_kernel d_inner d_model expand fused_add_norm n_layer pad_vocab_size_multiple rescale_prenorm_residual "
    "residual_in_fp32 ssm_cfg state_size time_step_floor time_step_init_scheme time_step_max time_step_min "
    "time_step_rank time_step_scale use_associative_scan use_mambapy"
).split()


def embedded(params: Params, rows: int, hidden: int) -> np.ndarray:
    """Return the embeddings [rows, hidden]."""
    return params.tensors.take(TABLE, rows, hidden)


def read(params: Params, layers: int, hidden: int) -> dict[str, int]:
    """Add the parameters of all layers, and return the sizes of the stack."""
    take = params.tensors.take
    mixer = "backbone.layers.0.mixer."
    inner, size = params.tensors.matrix_shape(f"{mixer}A_log")
    rank = params.tensors.matrix_shape(f"{mixer}dt_proj.weight")[1]
    *_, window = (0, *params.tensors.shape(f"{mixer}conv1d.weight"))
    for n in range(layers):
        theirs, ours = f"backbone.layers.{n}.", f"decoder.{n}."
        params.vector(f"{ours}norm_gain", f"{theirs}norm.weight", hidden)
        theirs += "mixer."
        both = take(f"{theirs}in_proj.weight", 2 * inner, hidden)
        for name, half in (("W_in", both[:inner]), ("W_gate", both[inner:])):
            params.give(ours + name, half.T, f"{theirs}in_proj.weight, half, transposed")
        filters = take(f"{theirs}conv1d.weight", inner, 1, window)
        for k in range(window):
            params.give(f"{ours}c_{k}", filters[:, 0, window - 1 - k], f"{theirs}conv1d.weight, {k} steps ago")
        params.vector(f"{ours}b", f"{theirs}conv1d.bias", inner)
        steps, rest = np.split(take(f"{theirs}x_proj.weight", rank + 2 * size, inner), [rank])
        params.give(
            f"{ours}cell.W_bcr", np.concatenate([rest, steps]).T, f"{theirs}x_proj.weight, B, C, steps, transposed"
        )
        params.matrix(f"{ours}cell.W_dt", f"{theirs}dt_proj.weight", inner, rank)
        params.vector(f"{ours}cell.b_dt", f"{theirs}dt_proj.bias", inner)
        params.give(f"{ours}cell.A", take(f"{theirs}A_log", inner, size).T.reshape(-1), f"{theirs}A_log transposed")
        params.vector(f"{ours}cell.skip", f"{theirs}D", inner)
        params.matrix(f"{ours}W_out", f"{theirs}out_proj.weight", hidden, inner)
    params.vector(f"decoder.{layers - 1}.gain_end", "backbone.norm_f.weight", hidden)
    return {"inner": inner, "size": size, "rank": rank, "window": window}
