"""Language models in the layouts of transformers and fla: folders with numbers drawn, and NumPy after their code
(models/mamba of transformers 5, models/rwkv7, gla and gated_deltanet of flash-linear-attention 0.6), in float64."""

import json

import numpy as np
from safetensors.numpy import save_file

from nmt.data.tokens.byte_tokens import as_letters
from tests.importing.witness import drawn, log_prob, sigmoid

H, ROWS, LAYERS = 6, 300, 2


def norm(x, w, prefix, *, mean=False, epsilon=1e-5):
    """The root mean square norm, or that of mean and variance."""
    x = x - x.mean() if mean else x
    x = x / np.sqrt((x * x).mean() + epsilon) * w[f"{prefix}.weight"]
    return x + w[f"{prefix}.bias"] if mean else x


def softplus(x):
    return np.log1p(np.exp(x))


# ------------------------------------------------------------ Mamba

INNER, SIZE, RANK, WINDOW = 10, 3, 2, 4


def mamba_shapes(*, tied=True):
    found = {"backbone.embeddings.weight": (ROWS, H), "backbone.norm_f.weight": (H,)}
    found |= {} if tied else {"lm_head.weight": (ROWS, H)}
    for n in range(LAYERS):
        one = {"in_proj.weight": (2 * INNER, H), "conv1d.weight": (INNER, 1, WINDOW), "conv1d.bias": (INNER,)}
        one |= {"x_proj.weight": (RANK + 2 * SIZE, INNER), "dt_proj.weight": (INNER, RANK), "dt_proj.bias": (INNER,)}
        one |= {"A_log": (INNER, SIZE), "D": (INNER,), "out_proj.weight": (H, INNER)}
        found |= {f"backbone.layers.{n}.mixer.{name}": shape for name, shape in one.items()}
        found[f"backbone.layers.{n}.norm.weight"] = (H,)
    return found


def mamba(w, tokens):
    """The log-probabilities of tokens, each after those before it and the end."""
    before = [np.zeros((LAYERS, INNER)) for _ in range(WINDOW - 1)]
    states, found = np.zeros((LAYERS, INNER, SIZE)), []
    for read, said in zip([0, *tokens][:-1], tokens, strict=True):
        x, inputs = w["backbone.embeddings.weight"][read], np.zeros((LAYERS, INNER))
        for n in range(LAYERS):
            own = {k.removeprefix(f"backbone.layers.{n}.mixer."): v for k, v in w.items()}
            u, z = np.split(own["in_proj.weight"] @ norm(x, w, f"backbone.layers.{n}.norm"), 2)
            inputs[n] = u
            past = np.stack([*(one[n] for one in before), u], -1)
            u = (past * own["conv1d.weight"][:, 0]).sum(-1) + own["conv1d.bias"]
            u = u * sigmoid(u)
            step, B, C = np.split(own["x_proj.weight"] @ u, [RANK, RANK + SIZE])
            step = softplus(own["dt_proj.weight"] @ step + own["dt_proj.bias"])[:, None]
            states[n] = np.exp(-np.exp(own["A_log"]) * step) * states[n] + step * u[:, None] * B
            y = (states[n] * C).sum(-1) + own["D"] * u
            x = x + own["out_proj.weight"] @ (y * z * sigmoid(z))
        before = [*before[1:], inputs]
        output = w.get("lm_head.weight", w["backbone.embeddings.weight"])
        found.append(log_prob(output @ norm(x, w, "backbone.norm_f"), said))
    return found


# ------------------------------------------------------------ RWKV-7

HEADS, CHANNELS, RANKS = 2, 8, {"w": 3, "a": 2, "g": 5, "v": 4}


def rwkv7_shapes(layers=LAYERS):
    found = {"model.embeddings.weight": (ROWS, H), "lm_head.weight": (ROWS, H)}
    norms = ["model.layers.0.pre_norm", "model.norm"]
    for n in range(layers):
        at = f"model.layers.{n}."
        norms += [f"{at}attn_norm", f"{at}ffn_norm", f"{at}attn.g_norm"]
        found |= {f"{at}attn.x_{name}": (1, 1, H) for name in "rwkvag"}
        found |= {f"{at}attn.{name}_proj.weight": (H, H) for name in "rkvo"}
        for name in "wagv" if n else "wag":
            found[f"{at}attn.{name}_lora.lora.0.weight"] = (RANKS[name], H)
            found[f"{at}attn.{name}_lora.lora.2.weight"] = (H, RANKS[name])
            found |= {f"{at}attn.{name}_lora.lora.2.bias": (H,)} if name != "g" else {}
        found |= {f"{at}attn.k_k": (H,), f"{at}attn.k_a": (H,), f"{at}attn.r_k": (HEADS, H // HEADS)}
        found |= {f"{at}ffn.x_k": (H,), f"{at}ffn.key.weight": (CHANNELS, H), f"{at}ffn.value.weight": (H, CHANNELS)}
    return found | {f"{one}.{end}": (H,) for one in norms for end in ("weight", "bias")}


def rwkv7(w, tokens):
    """The log-probabilities of tokens, each after those before it and the end."""
    layers = sum(name.endswith("attn.r_k") for name in w)
    size, first, found = H // HEADS, None, []
    states, shown = np.zeros((layers, HEADS, size, size)), np.zeros((2, layers, H))
    for read, said in zip([0, *tokens][:-1], tokens, strict=True):
        x = norm(w["model.embeddings.weight"][read], w, "model.layers.0.pre_norm", mean=True)
        for n in range(layers):
            own = {k.removeprefix(f"model.layers.{n}.attn."): v for k, v in w.items()}
            now = norm(x, w, f"model.layers.{n}.attn_norm", mean=True)
            mixed = {name: now + own[f"x_{name}"][0, 0] * (shown[0, n] - now) for name in "rwkvag"}
            shown[0, n] = now
            r, k, v = (own[f"{name}_proj.weight"] @ mixed[name] for name in "rkv")
            low = {}
            for name, between in (("w", np.tanh), ("a", np.array), ("g", sigmoid), ("v", np.array)):
                if name != "v" or n:
                    inner = between(own[f"{name}_lora.lora.0.weight"] @ mixed[name])
                    bias = own.get(f"{name}_lora.lora.2.bias", 0)
                    low[name] = own[f"{name}_lora.lora.2.weight"] @ inner + bias
            decay, a = np.exp(-np.exp(-0.5) * sigmoid(low["w"])), sigmoid(low["a"])
            if n:
                v = v + (first - v) * sigmoid(low["v"])
            else:
                first = v
            kappa = (k * own["k_k"]).reshape(HEADS, size)
            kappa = kappa / np.linalg.norm(kappa, axis=-1, keepdims=True)
            k = k * (1 + (a - 1) * own["k_a"])
            r, decay, k, v, a = (one.reshape(HEADS, size) for one in (r, decay, k, v, a))
            for h in range(HEADS):
                gone = np.outer(a[h] * kappa[h], kappa[h] @ states[n, h])
                states[n, h] = decay[h][:, None] * states[n, h] - gone + np.outer(k[h], v[h])
            y = np.einsum("hk,hkv->hv", r, states[n])
            y = y - y.mean(-1, keepdims=True)
            y = (y / np.sqrt((y * y).mean(-1, keepdims=True) + size * 1e-5)).reshape(-1)
            y = y * own["g_norm.weight"] + own["g_norm.bias"]
            y = y + ((r * k * own["r_k"]).sum(-1, keepdims=True) * v).reshape(-1)
            x = x + own["o_proj.weight"] @ (y * low["g"])
            at = f"model.layers.{n}.ffn"
            now = norm(x, w, f"{at}_norm", mean=True)
            inner = w[f"{at}.key.weight"] @ (now + w[f"{at}.x_k"] * (shown[1, n] - now))
            shown[1, n] = now
            x = x + w[f"{at}.value.weight"] @ np.maximum(inner, 0) ** 2
        found.append(log_prob(w["lm_head.weight"] @ norm(x, w, "model.norm", mean=True), said))
    return found


# ------------------------------------------------------------ linear attention

KEYS, VALUES, UNITS, LOW = 4, 10, 7, 3
"""Of both heads together, of the gated units, and the rank of GLA's decay."""


def attention_shapes(kind):
    found = {"model.embeddings.weight": (ROWS, H), "model.norm.weight": (H,), "lm_head.weight": (ROWS, H)}
    for n in range(LAYERS):
        one = {"q_proj.weight": (KEYS, H), "k_proj.weight": (KEYS, H), "v_proj.weight": (VALUES, H)}
        one |= {"g_proj.weight": (VALUES, H), "o_proj.weight": (H, VALUES)}
        if kind == "gla":
            one |= {"gk_proj.0.weight": (LOW, H), "gk_proj.1.weight": (KEYS, LOW), "gk_proj.1.bias": (KEYS,)}
            one["g_norm_swish_gate.weight"] = (VALUES // HEADS,)
        else:
            one |= {"a_proj.weight": (HEADS, H), "b_proj.weight": (HEADS, H), "A_log": (HEADS,), "dt_bias": (HEADS,)}
            one |= {
                f"{name}_conv1d.weight": (size, 1, WINDOW)
                for name, size in zip("qkv", (KEYS, KEYS, VALUES), strict=True)
            }
            one["o_norm.weight"] = (VALUES // HEADS,)
        found |= {f"model.layers.{n}.attn.{name}": shape for name, shape in one.items()}
        found |= {f"model.layers.{n}.{name}_norm.weight": (H,) for name in ("attn", "mlp")}
        found |= {f"model.layers.{n}.mlp.{name}_proj.weight": (UNITS, H) for name in ("gate", "up")}
        found[f"model.layers.{n}.mlp.down_proj.weight"] = (H, UNITS)
    return found


def silu(x):
    return x * sigmoid(x)


def attention(w, tokens):
    """The log-probabilities of tokens, each after those before it and the end."""
    before = [np.zeros((LAYERS, 2 * KEYS + VALUES)) for _ in range(WINDOW - 1)]
    states, found = np.zeros((LAYERS, HEADS, KEYS // HEADS, VALUES // HEADS)), []
    for read, said in zip([0, *tokens][:-1], tokens, strict=True):
        x, inputs = w["model.embeddings.weight"][read], np.zeros_like(before[0])
        for n in range(LAYERS):
            own = {k.removeprefix(f"model.layers.{n}.attn."): v for k, v in w.items()}
            now = norm(x, w, f"model.layers.{n}.attn_norm", epsilon=1e-6)
            u = inputs[n] = np.concatenate([own[f"{name}_proj.weight"] @ now for name in "qkv"])
            if "A_log" in own:
                filters = np.concatenate([own[f"{name}_conv1d.weight"][:, 0] for name in "qkv"])
                u = silu((np.stack([*(one[n] for one in before), u], -1) * filters).sum(-1))
            q, k, v = np.split(u, [KEYS, 2 * KEYS])
            q, k, v = (one.reshape(HEADS, -1) for one in (q, k, v))
            if "A_log" in own:
                q, k = (one / np.sqrt((one * one).sum(-1, keepdims=True) + 1e-6) for one in (q, k))
                decay = np.exp(-np.exp(own["A_log"]) * softplus(own["a_proj.weight"] @ now + own["dt_bias"]))
                states[n] *= decay[:, None, None]
                held = np.einsum("hk,hkv->hv", k, states[n])
                v = sigmoid(own["b_proj.weight"] @ now)[:, None] * (v - held)
            else:
                gate = own["gk_proj.1.weight"] @ (own["gk_proj.0.weight"] @ now) + own["gk_proj.1.bias"]
                states[n] *= (sigmoid(gate) ** (1 / 16)).reshape(HEADS, -1, 1)
            states[n] += np.einsum("hk,hv->hkv", k, v)
            y = np.einsum("hk,hkv->hv", q * q.shape[-1] ** -0.5, states[n])
            gain = "o_norm" if "A_log" in own else "g_norm_swish_gate"
            y = np.stack([norm(one, own, gain, epsilon=1e-6) for one in y]).reshape(-1)
            x = x + own["o_proj.weight"] @ (y * silu(own["g_proj.weight"] @ now))
            now, at = norm(x, w, f"model.layers.{n}.mlp_norm", epsilon=1e-6), f"model.layers.{n}.mlp."
            units = silu(w[f"{at}gate_proj.weight"] @ now) * (w[f"{at}up_proj.weight"] @ now)
            x = x + w[f"{at}down_proj.weight"] @ units
        before = [*before[1:], inputs]
        found.append(log_prob(w["lm_head.weight"] @ norm(x, w, "model.norm", epsilon=1e-6), said))
    return found


# ------------------------------------------------------------ folders

MERGES = [("t", "h"), ("th", "e"), ("Ġ", "the"), ("c", "a"), ("ca", "t"), ("Ġ", "cat"), ("1", "2"), ("Ã", "¯")]


def byte_level(**changes):
    """The file of a small byte-level BPE, in the layout of the library tokenizers 0.23."""
    units = ["<|end|>", *map(as_letters, (bytes([n]) for n in range(256))), *(a + b for a, b in MERGES)]
    plain = {"single_word": False, "lstrip": False, "rstrip": False}
    added = [
        {"id": 0, "content": "<|end|>", "normalized": False, "special": True, **plain},
        {"id": len(units), "content": "mat", "normalized": True, "special": False, **plain},
    ]
    before = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    model = {"type": "BPE", "ignore_merges": False, "vocab": {unit: n for n, unit in enumerate(units)}}
    model["merges"] = [list(pair) for pair in MERGES]
    return {"added_tokens": added, "normalizer": {"type": "NFC"}, "pre_tokenizer": before, "model": model} | changes


def world():
    """Lines of RWKV's list: all bytes, and some longer ones."""
    tokens = [*(bytes([n]) for n in range(256)), b"the", b" cat", b" cats", "ï".encode(), "ω".encode()[:1] + b"x"]
    shown = [one.decode() if one.isascii() else one for one in tokens]
    return "".join(f"{n} {text!r} {len(one)}\n" for n, (text, one) in enumerate(zip(shown, tokens, strict=True), 1))


class Model:
    """A folder in the layout of a kind, with numbers drawn."""

    def __init__(self, kind, shapes, log_probs, **config):
        self.state = drawn(np.random.default_rng(3), shapes)
        self.log_probs_of, self.config = log_probs, {"model_type": kind, "eos_token_id": 0, **config}

    def save(self, folder):
        folder.mkdir(exist_ok=True)
        save_file(self.state, folder / "model.safetensors")
        (folder / "config.json").write_text(json.dumps(self.config))
        if self.config["model_type"] == "rwkv7":
            (folder / "rwkv_vocab_v20230424.txt").write_text(world())
        else:
            (folder / "tokenizer.json").write_text(json.dumps(byte_level()))
        return folder


MODELS = {
    "mamba": lambda: Model("mamba", mamba_shapes(), mamba, hidden_act="silu", expand=2),
    "mamba with an output layer": lambda: Model("mamba", mamba_shapes(tied=False), mamba, tie_word_embeddings=False),
    "rwkv7": lambda: Model("rwkv7", rwkv7_shapes(), rwkv7, head_dim=H // HEADS, value_dim=[H, H]),
    "rwkv7 of one layer": lambda: Model("rwkv7", rwkv7_shapes(1), rwkv7),
    "gla": lambda: Model("gla", attention_shapes("gla"), attention, num_heads=HEADS, norm_eps=1e-6),
    "gated deltanet": lambda: Model("gated_deltanet", attention_shapes("gated_deltanet"), attention, expand_v=2.5),
}
