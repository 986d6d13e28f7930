"""Compare the settings that a checkpoint was trained with to the present ones, where these give parameters a meaning.
Many change no shape: embeddings that are scaled now and were not in training would give garbage without an error."""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt.errors import CheckpointError

if TYPE_CHECKING:
    from nmt.config import Config

MEANING = ("model.*", "data.*.lowercase", "data.*.normalize", "data.*factor*", "data.subwords.joint")
"""Settings that must be as in training, or parameters mean something else. Subwords are compared by their bytes."""
TRAINING_ONLY = ("model.*dropout", "model.initializer", "model.init_weight", "model.forget_bias")
"""Exceptions: settings that only training reads."""


@dataclass(frozen=True)
class Difference:
    """A setting whose value differs from the one in training."""

    key: str
    before: Any
    now: Any

    def matches(self, *patterns: str) -> bool:
        """Return whether its key matches one of the patterns."""
        return any(fnmatch.fnmatchcase(self.key, pattern) for pattern in patterns)

    @property
    def changes_meaning(self) -> bool:
        """Return whether it changes the meaning of the trained parameters."""
        return self.matches(*MEANING) and not self.matches(*TRAINING_ONLY) and not self.moved

    @property
    def moved(self) -> bool:
        """Return whether it is a custom cell whose module has another name or place now."""
        names = [value for value in (self.before, self.now) if isinstance(value, str) and "." in value]
        return self.matches("model.*.rnn_type") and len(names) == 2 and len({n.rpartition(".")[2] for n in names}) == 1

    @property
    def shown(self) -> tuple[str, str]:
        """Return the former and the present value, as YAML shows them."""
        return _shown(self.before), _shown(self.now)


def differences(saved: Any, wanted: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield the settings that differ, by key; one that only one version of nmt knows has no counterpart. `saved`: the
    settings in a checkpoint, which may be anything; `wanted`: the settings as `Config.to_dict` returns them."""
    for key, now in sorted(flat_settings(wanted)):
        section = saved
        *outer, last = key.split(".")
        for name in outer:
            section = section.get(name) if isinstance(section, Mapping) else None
        if isinstance(section, Mapping) and last in section and section[last] != now:
            yield Difference(key, section[last], now)


def check_settings(
    settings_path: Path,
    config: Config,
    checkpoint: Path,
    content: Mapping[str, Any],
    allowed: Callable[[Difference], bool] = lambda difference: False,
) -> None:
    """Compare the settings of a file next to a checkpoint with those it was trained with; one without settings passes.
    `allowed`: returns whether the caller can handle a difference. Raises CheckpointError, which names all others."""
    found = [
        one for one in differences(content.get("config"), config.to_dict()) if one.changes_meaning and not allowed(one)
    ]
    if not found:
        return
    (before, now), others = found[0].shown, [(one.key, *one.shown) for one in found[1:]]
    name = checkpoint.name if checkpoint.parent == settings_path.parent else checkpoint
    more = "".join(f", and {key} {wanted}, got {got}" for key, wanted, got in others)
    raise CheckpointError(
        f"{settings_path}: {found[0].key} must be {before}, which {name} was trained with, got {now}{more}; "
        f"set {'them' if others else 'it'} back, or train a new model with {'them' if others else 'it'}"
    )


def flat_settings(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield settings as `("model.encoder.num_layers", 1)`; tuples become lists, as in JSON."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from flat_settings(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", list(value) if isinstance(value, tuple) else value


def _shown(value: Any) -> str:
    """Return a value for an error message: plain text as it is, everything else as JSON, shortened."""
    if isinstance(value, str) and value.isprintable() and len(value) <= 60:
        return value
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."
