"""Layers of linear recurrences in PyTorch, each in the forms that its authors give: a loop over time and chunks of
steps as matrix products. Eager code, float32 states; `p` are the parameters of our cell under its own names."""

from collections.abc import Callable

import torch

F = torch.nn.functional

Params = dict[str, torch.Tensor]


def norm(p: Params, x: torch.Tensor) -> torch.Tensor:
    """The root mean square norm before the layer."""
    return x * (x.pow(2).mean(-1, keepdim=True) + 1e-5).rsqrt() * p["norm_gain"]


def lstm(p: Params, x: torch.Tensor, form: str) -> torch.Tensor:
    """torch.nn.LSTM's own operator."""
    H = p["W_h"].shape[0]
    zero = x.new_zeros(1, x.shape[1], H)
    weights = [p["W_x"].T.contiguous(), p["W_h"].T.contiguous(), p["b"], torch.zeros_like(p["b"])]
    return torch.lstm(x, (zero, zero), weights, True, 1, 0.0, False, False, False)[0]


def convolved(p: Params, z: torch.Tensor, prefix: str = "") -> torch.Tensor:
    """The short convolution over time of z [T, B, n]."""
    window = len([name for name in p if name.startswith(f"{prefix}c_")])
    weight = torch.stack([p[f"{prefix}c_{k}"] for k in reversed(range(window))], -1)[:, None]
    z = F.pad(z.permute(1, 2, 0), (window - 1, 0))
    return F.conv1d(z, weight, groups=z.shape[1]).permute(2, 0, 1)


def hawk(p: Params, x: torch.Tensor, form: str) -> torch.Tensor:
    """Griffin's recurrent block; its recurrence is a loop, as in Transformers."""
    x = norm(p, x)
    u = convolved(p, x @ p["W_in"]) + p["b"]
    r, i = (u @ p["cell.W_ri"] + p["cell.b_ri"]).sigmoid().chunk(2, -1)
    log_a = -8 * F.softplus(-p["cell.decay"]) * r
    a, b = log_a.exp(), (1 - (2 * log_a).exp()).clamp_min(1e-6).sqrt() * (i * u)
    h, states = torch.zeros_like(b[0]), []
    for a_t, b_t in zip(a.unbind(0), b.unbind(0), strict=True):
        h = a_t * h + b_t
        states.append(h)
    return (torch.stack(states) * F.gelu(x @ p["W_gate"], approximate="tanh")) @ p["W_out"]


def loop(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
    """S = exp(g) S + k v^T, y = q^T S, step by step; all [B, h, T, n]."""
    S, y = q.new_zeros(*q.shape[:2], q.shape[-1], v.shape[-1]), []
    for t in range(q.shape[2]):
        S = g[:, :, t, :, None].exp() * S + k[:, :, t, :, None] * v[:, :, t, None]
        y.append((q[:, :, t, None] @ S)[:, :, 0])
    return torch.stack(y, 2)


def chunks(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, g: torch.Tensor, size: int) -> torch.Tensor:
    """The same by chunks of steps (Yang et al. 2024, section 4.3): within a chunk a masked product, between chunks a
    loop over their states."""
    T = q.shape[2]
    q, k, v, g = (F.pad(a, (0, 0, 0, -T % size)).unflatten(2, (-1, size)) for a in (q, k, v, g))
    b = g.cumsum(3)
    last = b[:, :, :, -1:]
    queries = q * b.exp()
    y = (queries @ (k * (-b).exp()).mT).tril() @ v
    writes = (k * (last - b).exp()).mT @ v
    S, before = torch.zeros_like(writes[:, :, 0]), []
    for n in range(writes.shape[2]):
        before.append(S)
        S = last[:, :, n].exp().mT * S + writes[:, :, n]
    return (y + queries @ torch.stack(before, 2)).flatten(2, 3)[:, :, :T]


def attention(kind: str) -> Callable[[Params, torch.Tensor, str], torch.Tensor]:
    """A layer of linear attention with a decay of this kind."""

    def layer(p: Params, x: torch.Tensor, form: str) -> torch.Tensor:
        x = norm(p, x)
        H, V, (T, B, _) = p["W_o"].shape[0], p["gain"].shape[0], x.shape
        h = H // V
        keys = (p["W_qkv"].shape[1] - H) // 2
        z = x @ p["W_qkv"]
        if "c_0" in p:
            z = F.silu(convolved(p, z))
        parts = z.split([keys, keys, H], -1)
        q, k, v = (a.float().reshape(T, B, h, -1).permute(1, 2, 0, 3) for a in parts)
        if kind == "delta":
            y = delta(p, x, q, k, v, form)
        else:
            if kind == "key":
                g = (F.logsigmoid((x @ p["W_a"]) @ p["U_a"] + p["b_a"]) / 16).float()
                g = g.reshape(T, B, h, -1).permute(1, 2, 0, 3)
            else:
                g = torch.log(1 - 2.0 ** (-5 - torch.arange(h)))[:, None, None].expand_as(k)
            q = q * q.shape[-1] ** -0.5
            y = loop(q, k, v, g) if form == "loop" else chunks(q, k, v, g, int(form))
        y = y * (y.pow(2).mean(-1, keepdim=True) + 1e-5).rsqrt() * p["gain"].float()
        y = y.permute(2, 0, 1, 3).reshape(T, B, H).to(x.dtype)
        return (y * F.silu(x @ p["W_g"])) @ p["W_o"]

    return layer


def delta(p: Params, x: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, form: str) -> torch.Tensor:
    """The gated delta rule of Transformers."""
    from transformers.models.qwen3_next import modeling_qwen3_next as theirs

    g = (-p["A"].exp() * F.softplus(x @ p["W_a"] + p["b_a"])).float().transpose(0, 1)
    beta = (x @ p["W_b"]).sigmoid().float().transpose(0, 1)
    q, k, v = (a.transpose(1, 2) for a in (q, k, v))
    options = {"g": g, "beta": beta, "use_qk_l2norm_in_kernel": True}
    if form == "loop":
        return theirs.torch_recurrent_gated_delta_rule(q, k, v, **options)[0].transpose(1, 2)
    return theirs.torch_chunk_gated_delta_rule(q, k, v, chunk_size=int(form), **options)[0].transpose(1, 2)


LAYERS = {
    "lstm": (lstm, ("own",)),
    "hawk": (hawk, ("loop",)),
    "retnet": (attention("constant"), ("loop", "16", "32", "64")),
    "gla": (attention("key"), ("loop", "16", "32")),
    "gated_delta_net": (attention("delta"), ("loop", "16", "64")),
}
"""Layers by our names, and their forms: "loop", or the steps of a chunk."""
