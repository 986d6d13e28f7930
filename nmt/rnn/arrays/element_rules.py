"""Rules that change the numbers of arrays one by one, such as the step of an optimizer: each is written once, as a
plain function of numbers. The kernel of the processor and that of a GPU are loops around it. It consists of arithmetic
and functions of `math`; a comparison may be a factor, but no term, since NumPy does not subtract booleans."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


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
