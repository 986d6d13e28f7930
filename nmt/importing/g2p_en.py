"""Import g2p-en (https://pypi.org/project/g2p-en/, Apache 2.0) and models trained by its recipe: a GRU reads letters
and `</s>`, and a second one continues from its last state without attention.

Its arrays (g2p.py of 2.1.0): {enc,dec}_emb, {enc,dec}_{w,b}_{ih,hh} with PyTorch's gates r, z, n, fc_w, fc_b.
"""

from __future__ import annotations

from nmt.data.tokens.vocabulary import Vocabulary
from nmt.importing.imported import Imported, Params, Tensors, our_order

KIND = "g2p-en"
NAMES = {"enc_emb", "dec_emb", "enc_w_ih", "enc_w_hh", "dec_w_ih", "dec_w_hh", "fc_w", "fc_b"}
"""The array names by which a file is recognised."""

_VOWELS = ("AA", "AE", "AH", "AO", "AW", "AY", "EH", "ER", "EY", "IH", "IY", "OW", "OY", "UH")
_CONSONANTS = "B CH D DH F G HH JH K L M N NG P R S SH T TH V W Y Z ZH".split()
# Phonemes of CMUdict in ASCII order, each vowel with each stress; UW is also listed without one.
_STRESSED = [f"{vowel}{stress}" for vowel in (*_VOWELS, "UW") for stress in "012"]
PHONEMES = sorted([*_STRESSED, "UW", *_CONSONANTS])
LETTERS = list("abcdefghijklmnopqrstuvwxyz")
_MOST_STEPS = 20
"""The maximum number of phonemes (`predict`)."""


def from_tensors(tensors: Tensors) -> Imported:
    """Return the model of these arrays. Raises CheckpointError if they do not have g2p-en's shapes."""
    src_order, src_units = our_order(tensors.place, ["<pad>", "<unk>", "</s>", *LETTERS], 0, 1, -1, 2)
    tgt_order, tgt_units = our_order(tensors.place, ["<pad>", "<unk>", "<s>", "</s>", *PHONEMES], 0, 1, 2, 3)
    src_size, hidden = tensors.shape("enc_emb")[-1], tensors.shape("enc_w_hh")[-1]
    tgt_size = tensors.shape("dec_emb")[-1]
    params = Params(tensors)
    params.table("src_embeddings", "enc_emb", src_order, src_size)
    params.table("tgt_embeddings", "dec_emb", tgt_order, tgt_size)
    for ours, theirs, size in (("encoder.0.forward", "enc", src_size), ("decoder.cell.0", "dec", tgt_size)):
        names = [f"{theirs}_{name}" for name in ("w_ih", "w_hh", "b_ih", "b_hh")]
        params.torch_gru(ours, names, size, hidden)
    params.output("fc_w", "fc_b", tgt_order, hidden)
    tensors.finish()
    settings = {
        "data": {"src": {"lowercase": True}},
        "model": {
            "encoder": {
                "rnn_type": "gru",
                "embeddings": {"embedding_dim": src_size},
                "hidden_size": hidden,
                "bidirectional": False,
            },
            "decoder": {
                "rnn_type": "gru",
                "embeddings": {"embedding_dim": tgt_size},
                "hidden_size": hidden,
                "init_hidden": "last",
                "attention": "none",
                "input_feeding": False,
            },
        },
        "decoding": {"beam_size": 1, "max_length_ratio": 1e-6, "max_length_extra": _MOST_STEPS, "generate_unk": True},
    }
    src = Vocabulary(src_units, split="characters")
    return Imported(KIND, settings, params.arrays, src, Vocabulary(tgt_units), params.lines)
