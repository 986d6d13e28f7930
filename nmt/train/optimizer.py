"""Adam, AdamW and SGD over named arrays; the inner loops are compiled (rnn.kernels.update).

Adam: Kingma & Ba 2015, algorithm 1. AdamW: Loshchilov & Hutter 2019, algorithm 2 (decay beside the
gradient, scaled by the learning rate). SGD: heavy-ball momentum, Polyak 1964.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from nmt.rnn.profile import operation

if TYPE_CHECKING:
    from nmt.config import TrainingConfig

Arrays = dict[str, np.ndarray]

_SMALL = 1 << 15
"""Arrays with fewer numbers are not worth waking a second thread for."""


class Optimizer:
    """What all rules share: state arrays named after the parameters, and a count of steps.

    Args:
        params: The model's parameters, C-contiguous; `step` changes them in place.
        settings: The training section.
        num_threads: Cores to use. The result does not depend on it.
    """

    slots: tuple[str, ...] = ()
    """Names of the state arrays every parameter has."""

    def __init__(self, params: Arrays, settings: TrainingConfig, num_threads: int = 1) -> None:
        self.settings = settings
        self.num_threads = num_threads
        self.steps = 0
        self.state: Arrays = {
            f"{name}/{slot}": np.zeros_like(param) for slot in self.slots for name, param in params.items()
        }

    def step(self, params: Arrays, grads: Arrays, learning_rate: float, gradient_scale: float = 1.0) -> None:
        """Change `params` in place by one step along `grads * gradient_scale`.

        Args:
            params: The arrays this optimizer was made for.
            grads: Their gradients, same names and shapes; may be overwritten.
            learning_rate: Of this step.
            gradient_scale: What clipping asks for (see `clip_scale`).
        """
        self.steps += 1
        for name, param in params.items():
            flat_param, flat_grad = param.reshape(-1), grads[name].reshape(-1)
            state = [self.state[f"{name}/{slot}"].reshape(-1) for slot in self.slots]
            threads = self.num_threads if flat_param.size >= _SMALL else 1
            with operation("optimizer: ", self.settings.optimizer):
                self._update(threads, flat_param, flat_grad, state, learning_rate, gradient_scale)

    def state_dict(self) -> tuple[Arrays, dict[str, Any]]:
        """Return the arrays and the plain numbers a checkpoint must hold."""
        return self.state, {"steps": self.steps}

    def load_state_dict(self, arrays: Arrays, numbers: dict[str, Any]) -> None:
        """Go on from what `state_dict` returned, as a checkpoint gave it back."""
        for name, array in self.state.items():
            np.copyto(array, arrays[name])
        self.steps = int(numbers["steps"])

    def _update(
        self,
        num_threads: int,
        param: np.ndarray,
        grad: np.ndarray,
        state: list[np.ndarray],
        learning_rate: float,
        gradient_scale: float,
    ) -> None:
        raise NotImplementedError


class Adam(Optimizer):
    """Adam; `weight_decay` times the parameter is added to the gradient, after clipping."""

    slots = ("m", "v")
    decoupled = False

    def _update(
        self,
        num_threads: int,
        param: np.ndarray,
        grad: np.ndarray,
        state: list[np.ndarray],
        learning_rate: float,
        gradient_scale: float,
    ) -> None:
        from nmt.rnn.kernels.threads import run_parallel
        from nmt.rnn.kernels.update import adam_step

        beta1, beta2 = self.settings.adam_betas
        decay = self.settings.weight_decay
        if decay and not self.decoupled:
            gradient_scale = _add_decay(grad, param, decay, gradient_scale)
            decay = 0.0
        run_parallel(
            adam_step,
            num_threads,
            param,
            grad,
            state[0],
            state[1],
            learning_rate,
            beta1,
            beta2,
            self.settings.adam_eps,
            decay,
            1.0 - beta1**self.steps,
            1.0 - beta2**self.steps,
            gradient_scale,
        )


class AdamW(Adam):
    """Adam with decay beside the gradient: `param -= learning_rate * weight_decay * param`."""

    decoupled = True


class SGD(Optimizer):
    """Gradient descent with heavy-ball momentum; `weight_decay` is added to the gradient."""

    def __init__(self, params: Arrays, settings: TrainingConfig, num_threads: int = 1) -> None:
        self.slots = ("velocity",) if settings.momentum else ()
        super().__init__(params, settings, num_threads)

    def _update(
        self,
        num_threads: int,
        param: np.ndarray,
        grad: np.ndarray,
        state: list[np.ndarray],
        learning_rate: float,
        gradient_scale: float,
    ) -> None:
        from nmt.rnn.kernels.threads import run_parallel
        from nmt.rnn.kernels.update import sgd_step

        if self.settings.weight_decay:
            decay = self.settings.weight_decay
            gradient_scale = _add_decay(grad, param, decay, gradient_scale)
        run_parallel(
            sgd_step,
            num_threads,
            param,
            grad,
            state[0] if state else grad[:0],
            learning_rate,
            self.settings.momentum,
            0.0,
            gradient_scale,
        )


OPTIMIZERS: dict[str, type[Optimizer]] = {"adam": Adam, "adamw": AdamW, "sgd": SGD}


def make_optimizer(settings: TrainingConfig, params: Arrays, num_threads: int = 1) -> Optimizer:
    """Return the optimizer that `settings.optimizer` names, its state zero."""
    return OPTIMIZERS[settings.optimizer](params, settings, num_threads)


def gradient_norm(grads: Arrays, num_threads: int = 1) -> float:
    """Return the Euclidean norm of all gradients, summed in float64; NaN and infinity stay."""
    from nmt.rnn.kernels.threads import run_parallel
    from nmt.rnn.kernels.update import square_norm

    total = 0.0
    for grad in grads.values():
        threads = num_threads if grad.size >= _SMALL else 1
        parts = np.zeros(threads, dtype=np.float64)
        with operation("gradient norm"):
            run_parallel(square_norm, threads, grad.reshape(-1), parts)
        total += float(parts.sum())
    return math.sqrt(total) if total >= 0 else math.nan


def clip_scale(norm: float, limit: float | None) -> float:
    """Return what gradients must be multiplied by so that their norm is at most `limit`.

    Pascanu et al. 2013, algorithm 1.
    """
    if limit is None or norm <= limit:
        return 1.0
    return limit / norm


def _add_decay(grad: np.ndarray, param: np.ndarray, decay: float, gradient_scale: float) -> float:
    """Clip `grad` in place, then add the decay, unclipped; return the scale left to apply."""
    np.multiply(grad, grad.dtype.type(gradient_scale), out=grad)
    grad += param.dtype.type(decay) * param
    return 1.0
