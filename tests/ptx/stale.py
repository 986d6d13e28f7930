"""Reused memory of the stand-in that holds nothing usable, so that what is read before it is written shows."""

from __future__ import annotations

import numpy as np

from nmt.rnn.arrays.workspace import Workspace


def poison_workspaces() -> None:
    """Let `reset` leave numbers that are finite, as the workspace says, and huge: indices of nothing."""
    reset = Workspace.reset

    def reset_and_poison(self: Workspace) -> None:
        reset(self)
        for chunk in self.chunks:
            if not isinstance(chunk, np.ndarray):
                chunk.host[...] = 0x7F

    Workspace.reset = reset_and_poison  # type: ignore[method-assign]
