"""The rule by which learning slows, goes back and stops when the general text suffers."""

from __future__ import annotations

from dataclasses import dataclass

EVERY = 10
"""Pairs learnt between two scores of the held-out text."""
HELD_OUT = 100
"""Pairs of the validation text that are scored."""
SLOWS, STOPS = 0.02, 0.1
"""The rise of the held-out loss above the base model's, in nats a token, from which learning is slowed, and from which
it goes back and stops."""
_LEAST_RATE = 1 / 16


@dataclass(frozen=True)
class Decision:
    """The factor of the learning rate from now on, what is done, in words, and whether the model goes back to its last
    state that was within SLOWS."""

    rate: float
    action: str
    goes_back: bool = False


def decide(rise: float, rate: float) -> Decision:
    """Return what follows from a rise of the held-out loss, at the present rate."""
    if rate == 0:
        return Decision(0.0, "stopped")
    if not rise <= STOPS:  # also if it is no number
        return Decision(
            0.0, f"stopped: {rise:.2f} above the base model; went back to where it was within {SLOWS}", True
        )
    if rise > SLOWS:
        slower = max(_LEAST_RATE, rate / 2)
        return Decision(slower, f"slowed to 1/{round(1 / slower)}: {rise:.2f} above the base model")
    if rate < 1 and rise <= SLOWS / 2:
        return Decision(min(1.0, 2 * rate), "faster again")
    return Decision(rate, "")
