"""The data that a forward pass through layers keeps for its backward pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nmt.errors import NMTError
from nmt.rnn.arrays.device_operations import Array
from nmt.rnn.arrays.workspace import Workspace
from nmt.rnn.layers.row_ends import RowEnds
from nmt.rnn.scan.tape import Tape


@dataclass(frozen=True)
class KeptLayer:
    """A tape per direction, and the dropout mask of the layer's input."""

    tapes: list[Tape]
    mask: Array | None


@dataclass
class KeptPass:
    """The data that a forward pass through all layers keeps."""

    layers: list[KeptLayer]
    ends: RowEnds | None
    is_split: bool = False
    """Whether `backward_data` has run."""


class Reserve:
    """The data that one forward pass keeps for its backward pass, and the memory for it (cuDNN's reserve space).

    The next forward with the same reserve reuses the memory, and forgets the pass before. Layers have one by default;
    with several, made by their `reserve()`, several forward passes can wait for their backward at a time.
    """

    def __init__(self, xp: Any = np) -> None:
        """Create an empty reserve. `xp`: of the device whose memory it uses."""
        self.memory = Workspace(xp)
        self._kept: KeptPass | None = None

    @property
    def nbytes(self) -> int:
        """Return the bytes of the memory, in use or not."""
        return self.memory.nbytes

    def release(self) -> None:
        """Forget the pass, and free the memory."""
        self.begin()
        self.memory.release()

    def begin(self) -> None:
        """Forget the last pass."""
        self._kept = None
        self.memory.reset()

    def keep(self, kept: KeptPass) -> None:
        """Keep a pass for its backward."""
        self._kept = kept

    def waiting(self, where: str, *, after_data: bool = False) -> KeptPass:
        """Return the pass that waits for its backward, or for its gradients of weights. Raises NMTError: there is
        none."""
        if self._kept is None:
            raise NMTError(f"{where}: must follow a forward, got none; call forward")
        if after_data and not self._kept.is_split:
            raise NMTError(f"{where}: must follow backward_data, got a forward alone; call backward_data first")
        if self._kept.is_split and not after_data:
            raise NMTError(f"{where}: must come once for each forward, got backward_data before; call forward again")
        return self._kept

    def done(self) -> None:
        """Mark the backward pass as done; it cannot run again."""
        self._kept = None
