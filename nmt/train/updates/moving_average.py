"""An exponential moving average of the parameters, which is a steadier model than the last parameters (Polyak &
Juditsky 1992; with decay: Tarvainen & Valpola 2017, section 2)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from nmt.rnn.arrays.workspace import whole_of
from nmt.rnn.profile import operation

if TYPE_CHECKING:
    from nmt.model.network import Network


class MovingAverage:
    """The moving average of the parameters, kept next to those that updates change.

    After its update n the average is decay * average + (1 - decay) * parameters. The decay is at most (1 + n) / (10 +
    n), so that the first, poor parameters are soon forgotten.

    Args:
        model: The model whose parameters are averaged; the average starts with their values.
        decay: From 0 to less than 1.
    """

    def __init__(self, model: Network, decay: float) -> None:
        self._model, self._decay = model, decay
        self.arrays = model.gradient_group()
        self.restart()

    def restart(self) -> None:
        """Restart the average from the current parameters."""
        self.steps = 0
        for name, param in self._model.params.items():
            self.arrays[name][...] = param

    def update(self) -> None:
        """Update the average with the parameters after an update."""
        self.steps += 1
        decay = min(self._decay, (1.0 + self.steps) / (10.0 + self.steps))
        params, add = self._model.params, self._model.device.add_scaled
        average, whole = whole_of(self.arrays), whole_of(params)
        with operation("moving average"):
            if average is not None and whole is not None:
                add(average, whole, 1.0 - decay, decay)
                return
            for name, param in params.items():
                add(self.arrays[name].reshape(-1), param.reshape(-1), 1.0 - decay, decay)

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        """Replace the model's parameters by the average within the block."""
        params = self._model.params
        before = {name: param.copy() for name, param in params.items()}
        self._write(self.arrays)
        try:
            yield
        finally:
            self._write(before)

    def load(self, arrays: dict[str, Any], steps: int) -> None:
        """Load an average from host arrays, and its number of updates."""
        for name, array in self.arrays.items():
            array[...] = self._model.device.upload(arrays[name])
        self.steps = steps

    def _write(self, arrays: dict[str, Any]) -> None:
        for name, param in self._model.params.items():
            param[...] = arrays[name]
        self._model.changed()


@contextlib.contextmanager
def averaged(average: MovingAverage | None) -> Iterator[None]:
    """Replace the model's parameters by their average within the block, if there is one."""
    if average is None:
        yield
        return
    with average.in_place():
        yield
