"""Operations of devices: rules that change the numbers of arrays one by one, and what only one kind of device has."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from nmt.rnn.arrays.beam_state import BeamRules, BeamSettings, BeamState
from nmt.rnn.arrays.weights import Weights
from nmt.rnn.arrays.workspace import Allocate

Array = Any
"""An array of a device, of the type of its `xp`."""


@dataclass(frozen=True)
class OutputLayer:
    """outputs @ matrix + bias: two of `weights` by name, matrix [H, V], or [V, H] where it is `tied` to an embedding;
    `packed` is the type of the products (see weights.packed_dtype)."""

    weights: Weights
    matrix: str
    bias: str
    tied: bool
    packed: np.dtype


@dataclass(frozen=True)
class OutputGradients:
    """Arrays for the gradients of an output layer: h [R, H] is overwritten, matrix and bias are added to."""

    h: Array
    matrix: Array
    bias: Array


@dataclass(frozen=True)
class CandidateLists:
    """Lists of tokens that rows may choose among, and the list of each row. ids: int32 [U], the tokens that the columns
    of a narrowed output layer stand for, in rising order. places: int32, the columns of all lists one after another,
    each list rising; list n is places[starts[n] : starts[n + 1]]. bias: the bias of each place. row_lists: int64 [R].
    longest: entries of the longest list. All are host arrays."""

    ids: np.ndarray
    places: np.ndarray
    bias: np.ndarray
    starts: np.ndarray
    row_lists: np.ndarray
    longest: int


class SearchOperations(ABC):
    """A search on a GPU: see `Device.search`."""

    @abstractmethod
    def choose_tokens(
        self, log_probs: Array, rules: BeamRules, state: BeamState, places: int, allocate: Allocate
    ) -> tuple[Array, Array, Array]:
        """Return the `places` best tokens of each row of log-probabilities [R, V] under the rules. If the rules draw,
        the one token drawn (`places` is 1). The log-probabilities may be overwritten. Returns tokens [R, places], -1
        where there are no more; their scores; and their log-probabilities."""

    @abstractmethod
    def beam_step(
        self,
        tokens: Array,
        scores: Array,
        plain: Array,
        state: BeamState,
        settings: BeamSettings,
        rules: BeamRules | None = None,
    ) -> None:
        """Extend every live hypothesis by one token and keep the best, in place. tokens, scores and log-probabilities
        (`plain`) come from `best_tokens` or `choose_tokens`; `rules` are those given to `choose_tokens`, whose history
        of tokens is updated."""

    @abstractmethod
    def average_log_probs(self, arrays: Sequence[Array], kind: Literal["log_prob", "prob"]) -> Array:
        """Average several models' log-probabilities or probabilities into the first array."""

    @abstractmethod
    def trace_back(self, state: BeamState) -> Array:
        """Return the tokens of all ended hypotheses, int32 [N * K, T], including the last one. The entries after a
        hypothesis's end are arbitrary."""


@dataclass(frozen=True, eq=False)
class ElementRule:
    """A function of one number of each of `arrays` arrays and of factors; it returns the new numbers of those that it
    changes, by their places. exact: no product may be contracted with a sum."""

    function: Callable[..., Any]
    arrays: int
    changed: tuple[int, ...]
    exact: bool = False

    @property
    def factors(self) -> int:
        """Return the number of factors."""
        return self.function.__code__.co_argcount - self.arrays

    def loop(self, text: str, scope: Mapping[str, Any]) -> Callable[..., None]:
        """Return the function with this text, named like the rule, for kernels. In it `{arrays}` stands for the names
        of the arrays, a0 and so on, `{shares}` for their parts from `low` to `high`, `{factors}` for the names of the
        factors, `{numbers}` for them as a `number`, and `{element}` for what is done to the numbers at i."""
        arrays, factors = [f"a{n}" for n in range(self.arrays)], [f"f{n}" for n in range(self.factors)]
        at = [f"{name}[i]" for name in arrays]
        name, found = self.function.__name__.lstrip("_"), dict(scope)
        lists = {
            "arrays": arrays,
            "factors": factors,
            "shares": [f"{name}[low:high]" for name in arrays],
            "numbers": [f"number({name})" for name in factors],
        }
        element = f"{', '.join(at[n] for n in self.changed)} = rule({', '.join((*at, *factors))})"
        exec(text.format(name=name, element=element, **{k: ", ".join(v) for k, v in lists.items()}), found)  # noqa: S102
        made: Callable[..., None] = found[name]
        made.written_by = self.function  # type: ignore[attr-defined]  # its content is that of the rule
        return made


def _adam(g, m, v, p, step, keep, b1, c1, b2, c2, root, tiny, scale):  # type: ignore[no-untyped-def]
    """Do one step of Adam: gradients g times `scale`, moments m and v, parameters p; see `adam_factors`."""
    gradient = g * scale
    first = b1 * m + c1 * gradient
    second = b2 * v + c2 * gradient * gradient
    return first, second, keep * p - step * first / (math.sqrt(second) * root + tiny)


def adam_factors(
    rate: float, betas: tuple[float, float], eps: float, decay: float, number: int, scale: float
) -> tuple[float, ...]:
    """Return the factors of step `number`, counted from 1. Weight decay is decoupled: Kingma and Ba, Adam (2015),
    algorithm 1; Loshchilov and Hutter, Decoupled Weight Decay Regularization (2019), algorithm 2."""
    beta1, beta2 = betas
    step, root = rate / (1.0 - beta1**number), 1.0 / math.sqrt(1.0 - beta2**number)
    return step, 1.0 - rate * decay, beta1, 1.0 - beta1, beta2, 1.0 - beta2, root, eps, scale


def _descend(g, p, rate, keep, scale):  # type: ignore[no-untyped-def]
    """Do one step of gradient descent."""
    return keep * p - rate * (g * scale)


def _roll(velocity, g, p, rate, keep, scale, inertia):  # type: ignore[no-untyped-def]
    """Do one step of gradient descent with momentum."""
    speed = inertia * velocity + g * scale
    return speed, keep * p - rate * speed


def _add_scaled(other, total, factor, scale):  # type: ignore[no-untyped-def]
    """Compute total * scale + factor * other."""
    return total * scale + factor * other


ADAM, DESCEND, ROLL = ElementRule(_adam, 4, (1, 2, 3)), ElementRule(_descend, 2, (1,)), ElementRule(_roll, 3, (0, 2))
ADD_SCALED = ElementRule(_add_scaled, 2, (1,), exact=True)
RULES = ADAM, DESCEND, ROLL, ADD_SCALED
