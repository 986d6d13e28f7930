"""Adam, AdamW and SGD over named arrays; the device does the work (rnn.device).

Adam: Kingma & Ba 2015, algorithm 1. AdamW: Loshchilov & Hutter 2019, algorithm 2 (decoupled decay, scaled by the
learning rate). SGD: heavy-ball momentum, Polyak 1964.
"""

from __future__ import annotations

import contextlib
import fnmatch
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nmt.errors import ConfigError
from nmt.rnn.arrays.device_operations import ADAM, DESCEND, ROLL, adam_factors
from nmt.rnn.arrays.workspace import pieces_of, whole_of
from nmt.rnn.device import Device
from nmt.rnn.devices import cpu

if TYPE_CHECKING:
    from nmt.config import TrainingConfig
    from nmt.model.network import Network


Arrays = dict[str, np.ndarray]


def _together(alike: Sequence[Arrays], names: Sequence[str]) -> Iterator[list[Any]]:
    """Yield flat views of parameters and what belongs to them: all in one if `names` are all of them and they are
    contiguous, or one per name."""
    wholes = [whole_of(arrays) for arrays in alike]
    if len(names) == len(alike[0]) and all(whole is not None for whole in wholes):
        yield wholes
        return
    for name in names:
        yield [arrays[name].reshape(-1) for arrays in alike]


class Optimizer:
    """Base class of all optimizers: state arrays named after the parameters, and a step count. `params`: the model's
    parameters, C-contiguous; `step` changes them in place; `num_threads`: cores to use. The result does not depend on
    it; `device`: the device that holds parameters and gradients; None for the CPU. Checkpoints contain host arrays."""

    slots: tuple[str, ...] = ()
    """Names of the state arrays that every parameter has."""
    decouples = False
    """Whether the step applies `weight_decay`; else it is added to the gradient after clipping (L2 regularization)."""

    def __init__(
        self, params: Arrays, settings: TrainingConfig, num_threads: int = 1, device: Device | None = None
    ) -> None:
        self.settings = settings
        self.num_threads = num_threads
        self.device = device or cpu()
        self.steps = 0
        self.frozen = frozen_names(settings.freeze, params)
        """Names of the parameters that are not changed."""
        trained = {name: param for name, param in params.items() if name not in self.frozen}
        dtype = next((param.dtype for param in params.values()), np.float32)
        shapes = {name: param.shape for name, param in trained.items()}
        self._groups = {slot: self.device.group(shapes, dtype) for slot in self.slots}
        self.state: Arrays = {
            f"{name}/{slot}": array for slot, group in self._groups.items() for name, array in group.items()
        }

    def step(self, params: Arrays, grads: Arrays, learning_rate: float, gradient_scale: float = 1.0) -> None:
        """Change `params`, with which the optimizer was created, in place by one step along `grads * gradient_scale`
        (see `clip_scale`). `grads` have the same names and shapes and may be overwritten."""
        self.steps += 1
        added, scale = 0.0 if self.decouples else self.settings.weight_decay, gradient_scale
        trained = [name for name in params if name not in self.frozen]
        for param, grad, *state in _together([params, grads, *self._groups.values()], trained):
            if added:
                self.device.add_scaled(grad, param, added, gradient_scale)
                scale = 1.0
            self._update(param, grad, state, learning_rate, scale)

    def state_dict(self) -> tuple[Arrays, dict[str, Any]]:
        """Return the arrays, on the host, and the plain numbers that a checkpoint must contain."""
        return {name: self.device.download(array) for name, array in self.state.items()}, {"steps": self.steps}

    def load_state_dict(self, arrays: Arrays, numbers: dict[str, Any]) -> None:
        """Restore the state that `state_dict` returned, as read from a checkpoint."""
        for name, array in self.state.items():
            array[...] = self.device.upload(arrays[name])
        self.steps = int(numbers["steps"])

    def _update(self, param: Any, grad: Any, state: list[Any], rate: float, scale: float) -> None:
        """Change one piece that `_together` yielded."""
        raise NotImplementedError


class Adam(Optimizer):
    """Adam."""

    slots = ("m", "v")

    def _update(self, param: Any, grad: Any, state: list[Any], rate: float, scale: float) -> None:
        settings, decay = self.settings, self.settings.weight_decay if self.decouples else 0.0
        factors = adam_factors(rate, settings.adam_betas, settings.adam_eps, decay, self.steps, scale)
        self.device.change(ADAM, (grad, *state, param), factors, self.num_threads)


class AdamW(Adam):
    """Adam with decoupled weight decay: `param -= learning_rate * weight_decay * param`."""

    decouples = True


class SGD(Optimizer):
    """Gradient descent with heavy-ball momentum."""

    @property
    def slots(self) -> tuple[str, ...]:  # type: ignore[override]
        """Return the names of the state arrays; there are none without momentum."""
        return ("velocity",) if self.settings.momentum else ()

    def _update(self, param: Any, grad: Any, state: list[Any], rate: float, scale: float) -> None:
        rule, factors = (ROLL, (rate, 1.0, scale, self.settings.momentum)) if state else (DESCEND, (rate, 1.0, scale))
        self.device.change(rule, (*state, grad, param), factors, self.num_threads)


OPTIMIZERS: dict[str, type[Optimizer]] = {"adam": Adam, "adamw": AdamW, "sgd": SGD}


def make_optimizer(
    settings: TrainingConfig, params: Arrays, num_threads: int = 1, device: Device | None = None
) -> Optimizer:
    """Return the optimizer that `settings.optimizer` names, with zero state."""
    return OPTIMIZERS[settings.optimizer](params, settings, num_threads, device)


def frozen_names(patterns: Sequence[str], names: Iterable[str]) -> frozenset[str]:
    """Return the names that `training.freeze` matches. Raises ConfigError: A pattern matches none, or all match all."""
    every = list(names)
    found: set[str] = set()
    for pattern in patterns:
        if not (matched := fnmatch.filter(every, pattern)):
            raise ConfigError(
                f"training.freeze: must match parameters, got {pattern}, which matches none of {', '.join(every)}"
            )
        found.update(matched)
    if found and len(found) == len(every):
        raise ConfigError("training.freeze: must leave something to learn, got patterns that match all parameters")
    return frozenset(found)


def gradient_norm(grads: Arrays, num_threads: int = 1, device: Device | None = None) -> float:
    """Return the Euclidean norm of all gradients, summed in float64; NaN and infinity are kept."""
    total = (device or cpu()).square_norm(pieces_of(grads), num_threads)
    return math.sqrt(total) if total >= 0 else math.nan


def clip_scale(norm: float, limit: float | None) -> float:
    """Return the factor for the gradients that limits their norm to `limit`. Pascanu et al. 2013, algorithm 1."""
    return 1.0 if limit is None or norm <= limit else limit / norm


class MovingAverage:
    """The moving average of the parameters, kept next to those that updates change.

    After its update n the average is decay * average + (1 - decay) * parameters. The decay is at most (1 + n) / (10 +
    n), so that the first, poor parameters are soon forgotten.

    `model`: the model whose parameters are averaged; the average starts with their values; `decay`: from 0 to less than
    1.
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
        params = self._model.params
        for average, param in _together([self.arrays, params], list(params)):
            self._model.device.add_scaled(average, param, 1.0 - decay, decay)

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


def averaged(average: MovingAverage | None) -> contextlib.AbstractContextManager[None]:
    """Replace the model's parameters by their average within the block, if there is one."""
    return contextlib.nullcontext() if average is None else average.in_place()
