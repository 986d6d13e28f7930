"""The four tokens every vocabulary begins with; text, models and search agree on their numbers here."""

PAD_ID, UNK_ID, BOS_ID, EOS_ID = 0, 1, 2, 3
UNKNOWN_FEATURE_ID = BOS_ID
"""A feature that training never had, in the sources of models that write edits, which have no other use of it."""

SPACE = "▁"
"""Stands for a space in the units of sentencepiece: a unit that starts with it begins a word."""

_BOUNDARIES: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "eos": ((), (EOS_ID,)),
    "bos_eos": ((BOS_ID,), (EOS_ID,)),
    "none": ((), ()),
}


def boundary_ids(boundaries: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return what an encoder reads before and behind a sentence's own tokens: by `model.encoder.boundaries`."""
    return _BOUNDARIES[boundaries]
