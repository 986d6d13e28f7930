"""A loaded model of which some parameters were learnt later, so that saving it saves what was learnt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nmt.overriding import override
from nmt.rnn.arrays.quantised import quantise
from nmt.storage.model_folder import PARAMS_PREFIX, SCALES_SUFFIX, quantised_tensors
from nmt.storage.saved_model import LoadedModel, SavedModel

if TYPE_CHECKING:
    from nmt.model.network import Network


@dataclass(frozen=True, kw_only=True)
class LearntModel(LoadedModel):
    """`own`: the parameters that differ from those in its file, in float32; they are never written to."""

    own: Mapping[str, np.ndarray]

    @override
    def reopened(self, **changes: Any) -> SavedModel:
        saved = super().reopened(**changes)
        params = dict(saved.params)
        for name, array in self.own.items():
            key = PARAMS_PREFIX + name
            if key + SCALES_SUFFIX in params:
                params |= quantised_tensors(name, quantise(array, by_rows=self.network.channels_are_rows(name)))
            else:
                params[key] = array
        return replace(saved, params=params)


def learnt_model(loaded: LoadedModel, network: Network, own: Mapping[str, np.ndarray]) -> LearntModel:
    """Return `network` as a loaded model: `loaded`, but with the parameters `own`."""
    facts = {one.name: getattr(loaded, one.name) for one in fields(LoadedModel)}
    return LearntModel(**facts | {"network": network}, own=own)
