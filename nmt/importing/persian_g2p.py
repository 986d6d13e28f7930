"""The network of PersianG2p (https://pypi.org/project/PersianG2p/, MIT): g2p-en's shape for Persian letters and sounds.

An npy file with a dictionary of PyTorch's names (G2P.py of 0.3.2); units are those of its hparams.py, each a character.
"""

from __future__ import annotations

from nmt.data.vocabulary import Vocabulary
from nmt.importing import g2p_en
from nmt.importing.imported import Imported, Tensors

KIND = "persiang2p"
_PARTS = {"w_ih": "weight_ih_l0", "w_hh": "weight_hh_l0", "b_ih": "bias_ih_l0", "b_hh": "bias_hh_l0"}
_NAMES = {
    **{f"{side}_emb": f"{whole}.emb.weight" for side, whole in (("enc", "encoder"), ("dec", "decoder"))},
    **{
        f"{side}_{ours}": f"{whole}.rnn.{theirs}"
        for side, whole in (("enc", "encoder"), ("dec", "decoder"))
        for ours, theirs in _PARTS.items()
    },
    "fc_w": "decoder.fc.weight",
    "fc_b": "decoder.fc.bias",
}
NAMES = tuple(_NAMES.values())
"""By these a file is known."""

# A space, short vowels as marks (a, e, o, then the same with n), then the alphabet in the package's order.
_MARKS = "\u064e\u0650\u064f\u064b\u064d\u064c"
_ALPHABET = (
    "\u0622\u0626\u0627\u0628\u062a\u062b\u062c\u062d\u062e\u062f\u0630\u0631\u0632\u0633\u0634\u0635\u0636\u0637\u0638"
    "\u0639\u063a\u0641\u0642\u0644\u0645\u0646\u0647\u0648\u067e\u0686\u0698\u06a9\u06af\u06cc"
)
LETTERS = [" ", *_MARKS, *_ALPHABET]
SOUNDS = list("?ACSZ^_abdefghijklmnopqrstuvxyz")


def from_tensors(tensors: Tensors) -> Imported:
    """The model of these arrays. Raises CheckpointError: they are others."""
    return g2p_en.in_its_shape(KIND, tensors, _NAMES, LETTERS, Vocabulary(SOUNDS, split="characters"))
