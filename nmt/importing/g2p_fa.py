"""The models of g2p-fa (https://pypi.org/project/g2p-fa/, MIT): LSTMs read a Persian word, others go on from their last
states without attention and say its sounds.

A file of torch.save (model.py and utils.py of 1.1.0). A word is read between a begin and an end, filled up to 30 tokens
with one that is read like any other; a letter that is not listed is read as the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nmt.data.vocabulary import Frame, Vocabulary
from nmt.errors import CheckpointError
from nmt.importing.imported import CELL_PARTS, Imported, Params, Tensors, our_order

KIND = "g2p-fa"
NAMES = {"encoder.embedding.weight", "decoder.embedding.weight", "encoder.rnn.weight_hh_l0", "decoder.fc_out.weight"}
"""By these a file is known."""
FILE_NAME = "weights"
"""What the package calls it."""

# Letters and sounds in the package's order.
LETTERS = list(
    "\u0621\u0622\u0626\u0627\u0628\u062a\u062b\u062c\u062d\u062e\u062f\u0630\u0631\u0632\u0633\u0634\u0635\u0636\u0637"
    "\u0638\u0639\u063a\u0641\u0642\u0644\u0645\u0646\u0647\u0648\u064f\u0650\u067e\u0686\u0698\u06a9\u06af\u06cc"
)
SOUNDS = list("bdefhijklmnopqstuvxz\u00e6\u0252\u0261\u027e\u0283\u0292\u0294\u02b0\u02d0")
_FILL, _BEGIN, _END = "<fill>", "<begin>", "<end>"
_UNUSED = "<unused>"
"""The tables of the package have a row more than it has letters and sounds."""
_LENGTH = 30
_PAD, _START, _STOP, _FIRST = 0, 1, 2, 3


def from_tensors(tensors: Tensors) -> Imported:
    """The model of these arrays. Raises CheckpointError: they are others."""
    place = tensors.place
    letters, sounds = [*LETTERS, _UNUSED], [*SOUNDS, _UNUSED]
    rows = [tensors.shape(f"{side}.embedding.weight")[0] for side in ("encoder", "decoder")]
    known = [len(letters) + _FIRST, len(sounds) + _FIRST]
    if rows != known:
        raise CheckpointError(
            f"{place}: must be a model of g2p-fa, with embeddings of {known[0]} letters and {known[1]} sounds, got "
            f"{rows[0]} and {rows[1]}; docs/import.md says how another is described"
        )
    # Padding, begin and end of ours never stand in a source; those of the package are units.
    src_order = [-1, _STOP, -1, -1, _PAD, _START, _STOP, *range(_FIRST, rows[0])]
    tgt_order, _ = our_order(place, ["<pad>", "<s>", "</s>", *sounds], _PAD, -1, _START, _STOP)
    params = Params(tensors)
    sizes = [tensors.shape(f"{side}.embedding.weight")[-1] for side in ("encoder", "decoder")]
    hidden, layers = tensors.shape("encoder.rnn.weight_hh_l0")[-1], 1
    while f"encoder.rnn.weight_hh_l{layers}" in tensors:
        layers += 1
    params.table("src_embeddings", "encoder.embedding.weight", src_order, sizes[0])
    params.table("tgt_embeddings", "decoder.embedding.weight", tgt_order, sizes[1])
    params.torch_layers("lstm", "encoder.rnn", (sizes[0], hidden, layers), bidirectional=False)
    for n in range(layers):
        names = [f"decoder.rnn.{part}_l{n}" for part in CELL_PARTS]
        params.torch_lstm(f"decoder.cell.{n}", names, hidden if n else sizes[1], hidden)
    params.output("decoder.fc_out.weight", "decoder.fc_out.bias", tgt_order, hidden)
    tensors.finish()
    frame = Frame((_BEGIN,), (_END,), _FILL, _LENGTH)
    src = Vocabulary([_FILL, _BEGIN, _END, *letters], split="characters", frame=frame)
    settings = last_state_settings(sizes, hidden, layers, _LENGTH - 2)
    return Imported(KIND, settings, params.arrays, src, Vocabulary(sounds, split="characters"), params.lines)


def last_state_settings(sizes: Sequence[int], hidden: int, layers: int, most: int) -> dict[str, Any]:
    """Settings of LSTMs that go on from the last states of others, and say at most so many tokens. sizes: of source and
    target embeddings."""
    both = {"rnn_type": "lstm", "hidden_size": hidden, "num_layers": layers}
    own = {"init_hidden": "last", "attention": "none", "input_feeding": False}
    return {
        "model": {
            "encoder": both | {"embeddings": {"embedding_dim": sizes[0]}, "bidirectional": False, "boundaries": "none"},
            "decoder": both | {"embeddings": {"embedding_dim": sizes[1]}} | own,
        },
        "decoding": {"beam_size": 1, "max_length_ratio": 1e-6, "max_length_extra": most, "generate_unk": True},
    }
