"""Models in the shapes of the packages g2p-en and e2k, described by YAML, beside NumPy after their
own code."""

import numpy as np
from safetensors.numpy import save_file

from nmt.config.yaml_text import format_yaml
from tests.importing.witness import cell_shapes, doubles, drawn, gru, layers, log_prob, softmax

LETTERS = list("abcdefghijklmnopqrstuvwxyz")
_VOWELS = ("AA", "AE", "AH", "AO", "AW", "AY", "EH", "ER", "EY", "IH", "IY", "OW", "OY", "UH")
_CONSONANTS = "B CH D DH F G HH JH K L M N NG P R S SH T TH V W Y Z ZH".split()
# Phonemes of CMUdict in ASCII order, each vowel with each stress; UW is also listed without one.
_STRESSED = [f"{vowel}{stress}" for vowel in (*_VOWELS, "UW") for stress in "012"]
PHONEMES = sorted([*_STRESSED, "UW", *_CONSONANTS])

E, H = 5, 6


def g2p_en_arrays(seed=1):
    shapes = {"enc_emb": (29, E), "dec_emb": (74, E), "fc_w": (74, H), "fc_b": (74,)}
    for side in ("enc", "dec"):
        shapes |= cell_shapes(f"{side}_", "gru", E, H)
    found = drawn(np.random.default_rng(seed), shapes, 0.9)
    short = {"weight_": "w_", "bias_": "b_"}
    return {next((k.replace(a, b) for a, b in short.items() if a in k), k): v for k, v in found.items()}


class G2pEn:
    """What `G2p.predict` computes, and its log-probabilities."""

    def __init__(self, w):
        self.w = doubles({k.replace("w_", "weight_").replace("b_", "bias_"): v for k, v in w.items()})
        self.w |= doubles({k: w[k] for k in ("enc_emb", "dec_emb", "fc_w", "fc_b")})

    def read(self, word):
        h = np.zeros(H)
        for i in [*(3 + LETTERS.index(c) if c in LETTERS else 1 for c in word), 2]:
            (h,) = gru(self.w, "enc_", self.w["enc_emb"][i], h)
        return h

    def logits(self, token, h):
        (h,) = gru(self.w, "dec_", self.w["dec_emb"][token], h)
        return self.w["fc_w"] @ h + self.w["fc_b"], h

    def predict(self, word):
        h, token, said = self.read(word), 2, []
        for _ in range(20):
            logits, h = self.logits(token, h)
            token = int(logits.argmax())
            if token == 3:
                break
            said.append(token)
        return " ".join(PHONEMES[i - 4] for i in said if i > 3)

    def score(self, word, phonemes):
        h, token, scores = self.read(word), 2, []
        for said in [*(4 + PHONEMES.index(p) for p in phonemes.split()), 3]:
            logits, h = self.logits(token, h)
            scores.append(log_prob(logits, said))
            token = said
        return scores


GRU = {"rnn_type": "gru", "hidden_size": H, "embeddings": {"embedding_dim": E}}


def g2p_en_description():
    cells = {}
    for ours, theirs in (("encoder.0.forward", "enc"), ("decoder.cell.0", "dec")):
        cells |= {f"{ours}.W_x": f"{theirs}_w_ih.T", f"{ours}.W_h": f"{theirs}_w_hh.T"}
        cells |= {f"{ours}.b": f"{theirs}_b_ih", f"{ours}.b_h": f"{theirs}_b_hh"}
    return {
        "file": "weights.npz",
        "model": {
            "encoder": GRU | {"bidirectional": False},
            "decoder": GRU | {"attention": "none", "input_feeding": False, "init_hidden": "last"},
        },
        "decoding": {"beam_size": 1, "max_length_ratio": 1e-6, "max_length_extra": 20},
        "source": {
            "units": ["<pad>", "<unk>", "</s>", *LETTERS],
            "split": "characters",
            "lowercase": True,
            "special": {"pad": 0, "unk": 1, "eos": 2},
        },
        "target": {"units": "phonemes.txt", "special": {"pad": 0, "unk": 1, "bos": 2, "eos": 3}},
        "tensors": cells
        | {"src_embeddings": "enc_emb", "tgt_embeddings": "dec_emb", "output.W": "fc_w.T", "output.b": "fc_b"},
    }


def save_g2p_en(folder, **changes):
    np.savez(folder / "weights.npz", **g2p_en_arrays())
    (folder / "phonemes.txt").write_text("\n".join(["<pad>", "<unk>", "<s>", "</s>", *PHONEMES]) + "\n")
    (folder / "model.yaml").write_text(format_yaml(g2p_en_description() | changes))
    return folder / "model.yaml"


D, A, HEADS = 8, 8, 4
SPECIAL = ["<pad>", "<sos>", "<eos>"]
SPELLING, KANA = [*SPECIAL, *"abcd'"], [*SPECIAL, *"アイウエオー"]


def e2k_arrays():
    shapes = {"e_emb.weight": (len(SPELLING), D), "k_emb.weight": (len(KANA), A), "fc.weight": (len(KANA), A)}
    shapes |= {"fc.bias": (len(KANA),), "encoder_fc.0.weight": (A, 2 * D), "encoder_fc.0.bias": (A,)}
    shapes |= {"attn.in_proj_weight": (3 * A, A), "attn.in_proj_bias": (3 * A,)}
    shapes |= {"attn.out_proj.weight": (A, A), "attn.out_proj.bias": (A,)}
    shapes |= cell_shapes("encoder.", "gru", D, D, "_l0") | cell_shapes("encoder.", "gru", D, D, "_l0_reverse")
    shapes |= cell_shapes("pre_decoder.", "gru", A, A, "_l0") | cell_shapes("post_decoder.", "gru", 2 * A, A, "_l0")
    return {k: v.astype(np.float16) for k, v in drawn(np.random.default_rng(4), shapes, 0.8).items()}


def e2k_logits(w, word, said):
    """The logits after <sos> and `said`, ids of the package."""
    ids = [1, *(SPELLING.index(c) for c in word if c in SPELLING), 2]
    read = layers(w, "encoder.", "gru", w["e_emb.weight"][ids])[0]
    memory = np.tanh(read @ w["encoder_fc.0.weight"].T + w["encoder_fc.0.bias"])
    W, b = np.split(w["attn.in_proj_weight"], 3), np.split(w["attn.in_proj_bias"], 3)
    keys, values = memory @ W[1].T + b[1], memory @ W[2].T + b[2]
    h1 = h2 = np.zeros(A)
    for token in [1, *said]:
        (h1,) = gru(w, "pre_decoder.", w["k_emb.weight"][token], h1, end="_l0")
        query, contexts = h1 @ W[0].T + b[0], []
        for head in np.split(np.arange(A), HEADS):
            weights = softmax(keys[:, head] @ query[head] / np.sqrt(A // HEADS))
            contexts.append(weights @ values[:, head])
        context = np.concatenate(contexts) @ w["attn.out_proj.weight"].T + w["attn.out_proj.bias"]
        (h2,) = gru(w, "post_decoder.", np.concatenate([h1, context]), h2, end="_l0")
    return w["fc.weight"] @ h2 + w["fc.bias"]


def e2k_predict(w, word):
    said = []
    for _ in range(16):
        said.append(int(e2k_logits(w, word, said).argmax()))
        if said[-1] == 2:
            break
    return "".join(KANA[i] for i in said if i > 2)


def e2k_description():
    def of_gru(ours, theirs, end="_l0"):
        parts = {"W_x": "weight_ih", "W_h": "weight_hh", "b": "bias_ih", "b_h": "bias_hh"}
        return {f"{ours}.{a}": f"{theirs}.{b}{end}{'.T' if a[0] == 'W' else ''}" for a, b in parts.items()}

    tensors = {"src_embeddings": "e_emb.weight", "tgt_embeddings": "k_emb.weight"}
    tensors |= of_gru("encoder.0.forward", "encoder") | of_gru("encoder.0.backward", "encoder", "_l0_reverse")
    tensors |= of_gru("decoder.cell.0", "pre_decoder") | of_gru("decoder.readout", "post_decoder")
    tensors |= {"decoder.W_m": "encoder_fc.0.weight.T", "decoder.b_m": "encoder_fc.0.bias"}
    for n, name in enumerate("qkv"):
        rows = f"[{n * A}:{(n + 1) * A}]"
        tensors[f"decoder.W_{name}"] = f"attn.in_proj_weight{rows}.T"
        tensors[f"decoder.b_{name}"] = f"attn.in_proj_bias{rows}"
    tensors |= {"decoder.W_o": "attn.out_proj.weight.T", "decoder.b_o": "attn.out_proj.bias"}
    tensors |= {"output.W": "fc.weight.T", "output.b": "fc.bias"}
    encoder = {"rnn_type": "gru", "embeddings": {"embedding_dim": D}, "hidden_size": D}
    decoder = {"rnn_type": "gru", "embeddings": {"embedding_dim": A}, "hidden_size": A, "init_hidden": "zero"}
    decoder |= {"attention": "multi_head", "attention_heads": HEADS, "readout": "recurrent", "input_feeding": False}
    side = {"split": "characters", "special": {"pad": 0, "bos": 1, "eos": 2}}
    return {
        "file": "model.safetensors",
        "model": {"encoder": encoder | {"boundaries": "bos_eos", "projection": A}, "decoder": decoder},
        "decoding": {"beam_size": 1, "max_length_ratio": 1e-6, "max_length_extra": 16},
        "source": side | {"units": SPELLING, "unknown": "left_out", "lowercase": True},
        "target": side | {"units": KANA},
        "tensors": tensors,
    }


def save_e2k(folder):
    save_file(e2k_arrays(), folder / "model.safetensors")
    (folder / "e2k.yaml").write_text(format_yaml(e2k_description()))
    return folder / "e2k.yaml"


WORDS = ["a", "abcd", "d'ac", "Bad!", "cabbac"]
"""Words for models in the shape of e2k."""
