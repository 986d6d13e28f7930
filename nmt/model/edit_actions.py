"""Edit actions: a decoder that writes its target by edits of the source (neural transducer, Makarov and Clematide
2018, "Neural Transition-based String Transduction for Limited-Resource Setting in Morphology", section 2).

An action writes a target token or nothing, and then moves the pointer to the next source token or does not. Both sides
share a vocabulary of V tokens. The action t writes the token t before the pointer (insertion), and V + t writes t and
moves (replacement); V + PAD writes nothing and moves (deletion). The model also predicts V + UNK, copying: its
probability is added to that of the replacement by the source token itself, so that the search and the decoder's input
know nothing of it, and actions can be read without the source. A target ends at the end token of the source.

A token that was never seen is copied like any other (see `means_of_unseen`), and the text of a translation has what the
source has in the place of the copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nmt.errors import DeviceError
from nmt.rnn.device import Device
from nmt.special_tokens import BOS_ID, EOS_ID, PAD_ID, UNK_ID

if TYPE_CHECKING:
    from nmt.config import ModelConfig


@dataclass(frozen=True)
class EditActions:
    """The actions over a vocabulary of `tokens` tokens."""

    tokens: int

    @property
    def count(self) -> int:
        """Return the number of actions."""
        return 2 * self.tokens

    def ids(self, written: np.ndarray, moves: np.ndarray) -> np.ndarray:
        """Return actions, given what they write, PAD for nothing, and whether they move."""
        return written + moves.astype(written.dtype) * written.dtype.type(self.tokens)

    def written(self, ids: Sequence[int]) -> list[int]:
        """Return the tokens that actions write; -1 - n for a copy of an unknown token at source position n."""
        found, place = [], 0
        for action in ids:
            if (token := action % self.tokens) != PAD_ID:
                found.append(token if token != UNK_ID else -1 - place)
            place += action >= self.tokens
        return found

    def moves(self) -> np.ndarray:
        """Return 1 for each action that moves and -1 for the others [count], the last feature of their embeddings."""
        return np.where(np.arange(self.count) < self.tokens, -1.0, 1.0)

    def targets(self, actions: np.ndarray, source: np.ndarray) -> np.ndarray:
        """Return what is to be predicted for actions, given the source token at the pointer, in the same shape: copying
        for a replacement by the same token."""
        copies = actions == self.tokens + source
        return np.where(copies, actions.dtype.type(self.tokens + UNK_ID), actions)

    def possible(self, log_probs: np.ndarray, source: np.ndarray) -> np.ndarray:
        """Return the log-probabilities [R, count] of rows whose pointers are at the source tokens [R], in the same
        array: copying is added to its replacement, an unknown token is written by copying only, a target ends at the
        end of the source only, and there it does not move."""
        row, copy = np.arange(len(source)), self.tokens + UNK_ID
        same = self.tokens + source
        log_probs[row, same] = np.where(
            source == UNK_ID, log_probs[:, copy], np.logaddexp(log_probs[row, same], log_probs[:, copy])
        )
        log_probs[source != UNK_ID, copy] = -np.inf
        log_probs[:, UNK_ID] = -np.inf
        log_probs[:, self.tokens + BOS_ID : self.tokens + EOS_ID + 1] = -np.inf
        at_end = source == EOS_ID
        log_probs[at_end, self.tokens :] = -np.inf
        log_probs[~at_end, EOS_ID] = -np.inf
        return log_probs


def check_actions(config: ModelConfig, device: Device) -> None:
    """Raise DeviceError if a decoder is to write edit actions on a GPU."""
    if config.decoder.edit_actions and not device.is_cpu:
        raise DeviceError(
            f"model.decoder.edit_actions: must be false on a GPU, got true on the device {device.name}; use --device "
            "cpu"
        )
