"""Import recurrent models that Nematus wrote with Theano: an npz file, its settings in FILE.json, and vocabularies next
to it.

The encoder and the decoder have one GRU layer each, conditional in the decoder (Sennrich et al. 2017, Nematus: a
toolkit for neural machine translation). Names and layout are those that Marian reads as `amun` (src/models/amun.h of
1.12).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nmt.errors import CheckpointError
from nmt.importing.imported import Imported
from nmt.importing.marian import IDLE, NEMATUS_NAMES, build, renamed
from nmt.importing.settings_text import check_settings, read_settings
from nmt.importing.unit_lists import next_to, read_units

KIND = "nematus"
NAMES = ("Wemb", "decoder_U_nl", "ff_logit_prev_W", "encoder_r_Ux")
"""The array names by which a file is recognised."""
_MUST: dict[str, tuple[Any, ...]] = {
    "encoder": ("gru",),
    "decoder": ("gru_cond",),
    "factors": (1,),
    "enc_depth": (1,),
    "dec_depth": (1,),
    "enc_recurrence_transition_depth": (1,),
    "dec_base_recurrence_transition_depth": (2,),
    "layer_normalisation": (False,),
    "weight_normalisation": (False,),
    "dec_deep_context": (False,),
    "output_hidden_activation": ("tanh",),
    "deep_fusion_lm": (None, ""),
}
_STATISTICS = ("uidx", "history_errs", "zipped_params", "uncoverages", "bad_counter")
"""Arrays with statistics of the training."""
_MOST_WORDS = 200


def read(path: Path, arrays: Mapping[str, Any]) -> Imported:
    """Return the model of such a file and the files next to it. Raises CheckpointError if something is missing,
    damaged, or cannot be represented exactly."""
    where = path.parent / f"{path.name}.json"
    options = read_settings(where)
    check_settings(where, options, _MUST)
    names = options.get("dictionaries")
    if not isinstance(names, list) or len(names) != 2 or not all(isinstance(name, str) for name in names):
        raise CheckpointError(f"{where}: dictionaries must be two files, of source and target, got {names!r:.80}")
    files = [next_to(path.parent, name) for name in names]
    kept = {name: array for name, array in arrays.items() if not name.startswith("adam")}
    tensors = renamed(path, kept, NEMATUS_NAMES)
    tensors.leave(*_STATISTICS, *IDLE)
    imported = build(KIND, tensors, [(read_units(file), file) for file in files], residual=False)
    imported.settings["decoding"] |= {
        "length_penalty": "none",
        "max_length_ratio": 1e-6,
        "max_length_extra": _MOST_WORDS,
        "generate_unk": True,
    }
    return imported
