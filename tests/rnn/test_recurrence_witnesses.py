"""The recurrences beside implementations by others: same outputs, final states and gradients with the same weights.

These need torch, transformers and fla-core (its files named naive.py), which are not among this project's dependencies:
`pip install torch transformers fla-core einops`.
"""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from nmt.rnn import BlockCell, LinearAttentionCell, MLSTMCell, RGLRUCell, RWKV7Cell, S6Cell, Scan, Weights
from tests.oracle import compare
from tests.rnn import scan_cases as cases

torch = pytest.importorskip("torch", reason="a witness by others needs torch")
pytest.importorskip("transformers", reason="a witness by others needs transformers")
if importlib.util.find_spec("fla") is None:
    pytest.skip("a witness by others needs fla-core", allow_module_level=True)

F = torch.nn.functional
D, H, HEADS, K, T, B = 5, 12, 2, 4, 9, 3
V = H // HEADS


def naive(path):
    """A file naive.py of fla, by itself: its package needs a GPU's compiler."""
    file = Path(importlib.util.find_spec("fla").origin).parent / "ops" / path / "naive.py"
    spec = importlib.util.spec_from_file_location("naive", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def heads(a, size):
    """[T, B, n] by heads: [B, T, h, n of a head]."""
    return a.reshape(T, B, -1, size).transpose(0, 1)


def read(y, p, x):
    """Norm, gate and output product after a recurrence, y [B, T, h, V]."""
    y = y * (y.pow(2).mean(-1, keepdim=True) + 1e-5).rsqrt() * p["gain"]
    return (y.transpose(0, 1).reshape(T, B, H) * F.silu(x @ p["W_g"])) @ p["W_o"]


def qkv(p, x):
    q, k, v = (x @ p["W_qkv"]).split([HEADS * K, HEADS * K, H], -1)
    return heads(q, K), heads(k, K), heads(v, V)


def head_decay(p, x):
    return -p["A"].exp() * F.softplus(x @ p["W_a"] + p["b_a"])


def key_decay(p, x):
    return F.logsigmoid((x @ p["W_a"]) @ p["U_a"] + p["b_a"]) / 16


def gated_delta(p, x):
    from transformers.models.qwen3_next.modeling_qwen3_next import torch_recurrent_gated_delta_rule as rule

    q, k, v = qkv(p, x)
    g, beta = head_decay(p, x).transpose(0, 1), (x @ p["W_b"]).sigmoid().transpose(0, 1)
    y, S = rule(q, k, v, g=g, beta=beta, output_final_state=True, use_qk_l2norm_in_kernel=True)
    return read(y, p, x), {"S": S}


def kda(p, x):
    q, k, v = qkv(p, x)
    q, k = (a * (a.pow(2).sum(-1, keepdim=True) + 1e-6).rsqrt() for a in (q, k))
    beta = (x @ p["W_b"]).sigmoid().transpose(0, 1)
    y, S = naive("kda").naive_recurrent_kda(q, k, v, heads(key_decay(p, x), K), beta, output_final_state=True)
    return read(y, p, x), {"S": S}


def gla(p, x):
    y, S = naive("gla").naive_recurrent_gla(*qkv(p, x), heads(key_decay(p, x), K), output_final_state=True)
    return read(y, p, x), {"S": S}


def retention(p, x):
    y = naive("retention").naive_retention(*(a.transpose(1, 2) for a in qkv(p, x)))
    return read(y.transpose(1, 2), p, x), {}


def mlstm(p, x):
    from transformers.models.xlstm.modeling_xlstm import mlstm_recurrent_sequence_native

    q, k = (heads(a, K).transpose(1, 2) for a in (x @ p["W_qk"]).split(HEADS * K, -1))
    v, o = (x @ p["W_vo"]).split(H, -1)
    i, f = (x @ p["W_if"]).split(HEADS, -1)
    gates = ((a + b).permute(1, 2, 0) for a, b in ((i, p["b_i"]), (f, p["b_f"])))
    # Queries are divided by sqrt(K) there, keys here, so that states differ by it, which is a power of two.
    y, (C, n, m) = mlstm_recurrent_sequence_native(
        q, k, heads(v, V).transpose(1, 2), *gates, return_last_states=True, eps=0.0
    )
    y = y.transpose(1, 2)
    y = y * (y.pow(2).mean(-1, keepdim=True) + 1e-5).rsqrt() * p["gain"]
    y = (y.transpose(0, 1).reshape(T, B, H) * o.sigmoid()) @ p["W_o"]
    return y, {"C": C / K**0.5, "n": n / K**0.5, "m": m[..., 0]}


def rg_lru(p, x):
    from transformers import RecurrentGemmaConfig
    from transformers.models.recurrent_gemma.modeling_recurrent_gemma import RecurrentGemmaRglru

    layer = RecurrentGemmaRglru(RecurrentGemmaConfig(num_attention_heads=1, lru_width=H, hidden_size=H))
    (w_r, w_i), (b_r, b_i) = p["W_ri"].split(H, -1), p["b_ri"].split(H, -1)
    values = {
        "recurrent_param": -p["decay"],
        "input_gate_weight": w_i[None],
        "input_gate_bias": b_i[None],
        "recurrent_gate_weight": w_r[None],
        "recurrent_gate_bias": b_r[None],
    }
    position = torch.ones(B, T, dtype=torch.long)  # none is a first one, which is not scaled there
    y = torch.func.functional_call(layer, values, (x.transpose(0, 1), position)).transpose(0, 1)
    return y, {"h": y[-1]}


def mamba(p, x):
    from transformers import MambaConfig
    from transformers.models.mamba.modeling_mamba import MambaMixer

    size, rank, inner = 3, 2, {k.removeprefix("cell."): v for k, v in p.items()}
    config = MambaConfig(
        hidden_size=H, state_size=size, time_step_rank=rank, expand=1, conv_kernel=4, num_hidden_layers=1
    )
    layer = MambaMixer(config, 0)
    B_C, low = inner["W_bcr"].split([2 * size, rank], -1)
    values = {
        "in_proj.weight": torch.cat([p["W_in"], p["W_gate"]], -1).T,
        "conv1d.weight": torch.stack([p[f"c_{k}"] for k in (3, 2, 1, 0)], -1)[:, None],
        "conv1d.bias": p["b"],
        "x_proj.weight": torch.cat([low, B_C], -1).T,
        "dt_proj.weight": inner["W_dt"].T,
        "dt_proj.bias": inner["b_dt"],
        "A_log": inner["A"].reshape(size, H).T,
        "D": inner["skip"],
        "out_proj.weight": p["W_out"].T,
    }
    return torch.func.functional_call(layer, values, (x.transpose(0, 1),)).transpose(0, 1), {}


def rwkv7(p, x):
    recurrence = naive("generalized_delta_rule/dplr").dplr_recurrence
    before = torch.cat([torch.zeros_like(x[:1]), x[:-1]])
    one = {name: x + p[f"mu_{name}"] * (before - x) for name in "rwkvag"}
    r, k, v = (one[name] @ p[f"W_{name}"] for name in "rkv")
    log_w = -np.exp(-0.5) * (p["w_0"] + torch.tanh(one["w"] @ p["W_w"]) @ p["U_w"]).sigmoid()
    a = (p["a_0"] + one["a"] @ p["W_a"] @ p["U_a"]).sigmoid()
    g = (one["g"] @ p["W_g"]).sigmoid() @ p["U_g"]
    kappa = heads(k * p["k_k"], V)
    kappa = kappa * (kappa.pow(2).sum(-1, keepdim=True) + 1e-6).rsqrt()
    k = k * (1 + (a - 1) * p["k_a"])
    bonus = heads(r * k * p["r_k"], V).sum(-1, keepdim=True) * heads(v, V)
    r, k, v, a, log_w = (heads(each, V) for each in (r, k, v, a, log_w))
    y, S = recurrence(*(each.transpose(1, 2) for each in (r * V**0.5, k, v, -kappa, kappa * a, log_w)))
    y = y.transpose(1, 2).reshape(B * T, H)
    y = F.group_norm(y, HEADS, p["gain"], p["bias"], eps=V * 1e-5).reshape(B, T, HEADS, V) + bonus
    return (y.transpose(0, 1).reshape(T, B, H) * g) @ p["W_o"], {"S": S, "x": x[-1]}


def attention(**options):
    return lambda: LinearAttentionCell(D, H, heads=HEADS, key_size=options.pop("key_size", K), rank=3, **options)


WITNESSES = {
    "Qwen3-Next's gated delta rule": (attention(decay="head", delta=True), gated_delta),
    "fla's KDA": (attention(decay="key", delta=True), kda),
    "fla's gated linear attention": (attention(decay="key"), gla),
    "fla's retention": (attention(decay="constant"), retention),
    "Transformers' mLSTM": (lambda: MLSTMCell(D, H, heads=HEADS, key_size=K), mlstm),
    "RecurrentGemma's RG-LRU": (lambda: RGLRUCell(H, H), rg_lru),
    "Transformers' Mamba": (lambda: BlockCell(H, S6Cell(H, H, size=3, rank=2)), mamba),
    "fla's DPLR recurrence, as RWKV-7 has it": (lambda: RWKV7Cell(D, H, heads=HEADS, rank=3), rwkv7),
}


@pytest.mark.parametrize("name", WITNESSES)
def test_same_outputs_states_and_gradients(name):
    make, witness = WITNESSES[name]
    case = cases.draw(make(), "float32", rows=B, steps=T)
    scan = Scan(case.cell, threads=1)
    result = scan.forward(Weights(case.params), case.x, training=True)
    p = {k: torch.tensor(v, requires_grad=True) for k, v in case.params.items()}
    x = torch.tensor(case.x, requires_grad=True)
    y, states = witness(p, x)
    d_final = {k: case.d_final[k] for k in states}
    shares = {k: np.zeros_like(v) for k, v in case.params.items()}
    found = scan.backward(result.tape, case.d_y, d_final, shares)
    loss = (y * torch.tensor(case.d_y)).sum()
    loss = loss + sum((states[k] * torch.tensor(d_final[k])).sum() for k in states)
    loss.backward()
    ours = (
        {"y": result.y, "d_x": found.x}
        | {k: result.final[k] for k in states}
        | {f"d_{k}": v for k, v in shares.items()}
    )
    theirs = {"y": y, "d_x": x.grad} | states | {f"d_{k}": v.grad for k, v in p.items()}
    for key, value in theirs.items():
        assert compare.norm_error(ours[key], value.detach().numpy()) < 1e-5, key
