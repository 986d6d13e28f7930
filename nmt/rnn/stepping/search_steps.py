"""Objects that successive searches share: prepared steps, and the compiled search around them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nmt.rnn.stepping.stepper import Stepper

if TYPE_CHECKING:
    from nmt.rnn.stepping.compiled_beam import CompiledBeam


@dataclass
class SearchSteps:
    """Steps for one search at a time; `loop` is set once a search with them has been compiled."""

    stepper: Stepper
    loop: CompiledBeam | None = None

    def rest(self) -> None:
        """Free the memory of many rows and of sentences after a search; preparations for few rows are kept."""
        self.stepper.rest()
        if self.loop is not None and not self.loop.is_small:
            self.loop = None
