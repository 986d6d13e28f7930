"""Where a run stands: everything a resumed run needs beside the arrays, as plain numbers."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

_MASK = (1 << 64) - 1


@dataclass
class TrainingState:
    """The position of a run. An epoch and an update are counted from 1, so 0 means none yet."""

    update: int = 0
    """Changes of the parameters, skipped ones included."""
    epoch: int = 1
    """The epoch under way."""
    position: int = 0
    """Batches of this epoch already used."""
    elapsed: float = 0.0
    """Seconds by the clock up to the last save, former runs included."""
    src_tokens: int = 0
    tgt_tokens: int = 0
    """Real tokens trained on, padding not counted."""
    skipped: int = 0
    """Updates left out because a loss or gradient was not finite."""
    validated_update: int = 0
    """The update of the last validation."""
    best_update: int = 0
    """The update of the best validation; 0 before the first."""
    best_scores: dict[str, float] = field(default_factory=dict)
    """All scores of that validation."""
    without_improvement: int = 0
    """Validations since then."""
    stalled: dict[str, int] = field(default_factory=dict)
    """The same by each of early_stopping_metrics."""
    best_by_metric: dict[str, float] = field(default_factory=dict)
    """The best score by each of those."""
    known_losses: int = 0
    """Updates whose losses the next two are of (see spikes.py)."""
    loss_mean: float = 0.0
    loss_variance: float = 0.0
    kept: list[tuple[float, int]] = field(default_factory=list)
    """Score and update of the numbered best checkpoints (keep_best_ckpts)."""
    batch_size: int = 0
    """What batch_size: auto chose for this run; 0 where a number is set."""
    batches_an_update: int = 1
    """Batches whose gradients make an update: training.batch_multiplier times the ranks."""
    dealt: list[tuple[int, int]] = field(default_factory=list)
    """How former runs dealt the beginning of this epoch: batches an update, and how many batches were used so."""
    corpus: list[int] = field(default_factory=list)
    """Pairs and target tokens of the training corpus: has it changed since?"""

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON can hold."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> TrainingState:
        """Return the state that `to_dict` described; keys of a later version are dropped."""
        names = {entry.name for entry in dataclasses.fields(cls)}
        state = cls(**{name: value for name, value in values.items() if name in names})
        state.kept = [(float(score), int(update)) for score, update in state.kept]
        state.dealt = [(int(size), int(count)) for size, count in state.dealt]
        return state


def update_seed(seed: int, update: int) -> int:
    """Return the seed of the dropout masks of one update's first batch, in [0, 2**62).

    A function of the two numbers and nothing else, so that a resumed run draws the masks it would
    have drawn. The mixing is splitmix64's (Steele, Lea & Flood 2014, figure 17).
    """
    return _mix(_mix(seed & _MASK) + update) >> 2


def batch_seed(seed: int, update: int, place: int) -> int:
    """Return the seed of the dropout masks of one of the batches of an update, counted from 0: the first one's is the
    update's."""
    found = update_seed(seed, update)
    return update_seed(found, place) if place else found


def _mix(value: int) -> int:
    """Return a number of 64 bits scattered by the finaliser of SplitMix64."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)
