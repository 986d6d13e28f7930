"""Data exchanged by runs of a scan: results, what the backward pass needs, gradients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nmt.rnn.arrays.array_names import Arrays
from nmt.rnn.arrays.weights import Weights
from nmt.rnn.arrays.workspace import Allocate
from nmt.rnn.kernels.loops.run_cpu import Launch
from nmt.rnn.rows import Rows
from nmt.rnn.scan.array_checks import Packing
from nmt.rnn.scan.scan_setup import CompiledScan


@dataclass
class Gradients:
    """Gradients of a scan: of the input [T, B, D], of the initial states, of the captured arrays and of the further
    sequences, by name; those that are not needed are missing."""

    x: np.ndarray | None
    initial: Arrays
    captured: Arrays
    sequences: Arrays = field(default_factory=dict)


@dataclass
class Result:
    """Outputs of a scan.

    `y` [T, B, n] is zero where a row takes no step; `final` holds each row's state after its last step; `tape`, after
    training, is the input of the backward pass: a `Tape`, or that of several layers; `recorded` are the recorded
    values, [T, B, n] or [T, S, B, n]; lengths, int64 [B], the number of steps of each row; stopped, bool [B], whether
    its stop condition was met.
    """

    y: np.ndarray
    final: Arrays
    tape: Any
    recorded: Arrays
    lengths: np.ndarray
    stopped: np.ndarray


@dataclass
class Tape:
    """The data that the backward pass needs from the forward pass."""

    compiled: CompiledScan
    arrays: Arrays
    constant_arrays: Arrays
    rows: Rows
    weights: Weights
    allocate: Allocate
    packing: Packing | None
    learned: Mapping[str, str]  # states that started at parameters
    d_learned: Arrays = field(default_factory=dict)  # of those parameters, after `backward`


@dataclass(frozen=True)
class Prepared:
    """A run in separate memory, see `Scan.prepare`: write x and `initial` [B, n] by name, call the launches in order,
    read `y` and `final`."""

    launches: list[Launch]
    initial: Arrays
    final: Arrays
    y: np.ndarray
