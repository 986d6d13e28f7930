"""Predict the time of an update with several ranks from compute time, bytes sent and network speeds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nmt.train.distributed.reduction import PIECE_BYTES, SPARSE_SHARE
from nmt.train.updates.dealing import Dealing
from nmt.train.updates.state import TrainingState

if TYPE_CHECKING:
    from nmt.model.network import Network
    from nmt.train.planning.dry_run import DryRun, Timing

NETWORKS = (1.0, 10.0, 100.0)
"""Network speeds of each machine, in Gbit/s."""
LATENCY = 30e-6
"""Seconds per message regardless of its size, between machines in one room over Ethernet."""
AFTER_OUTPUT = 0.57
"""Fraction of an update's compute time that remains when the gradient of the output layer is ready: the backward pass
of decoder and encoder. Measured with configs/quickstart.yaml by 12995ccb:benchmarks/scaling_out.py."""
_SAMPLE = 4


@dataclass(frozen=True)
class Bytes:
    """Bytes of an update's gradients as sent: `early` are sent while others are computed, `late` are ready only at the
    end, with the encoder's; `dense` is the total if all rows of embeddings were sent."""

    early: float
    late: float
    dense: float


def bytes_of(model: Network, dealing: Dealing, wire_dtype: str) -> Bytes:
    """Return the bytes of gradients per update, measured on the first updates of an epoch."""
    width = 2 if wire_dtype == "bfloat16" else 4
    rows: dict[str, list[int]] = {}
    for batches, _ in zip(dealing.left(TrainingState()), range(_SAMPLE), strict=False):
        of_update = [dealing.batches.batch(1, number) for number in batches.numbers]
        for name, touched in model.touched_rows(of_update).items():
            rows.setdefault(name, []).append(int(touched.sum()))
    early = late = dense = 0.0
    for name, array in model.params.items():
        size = float(array.size * width)
        dense += size
        if name in rows:
            share = float(np.mean(rows[name])) / array.shape[0]
            size *= share if share <= SPARSE_SHARE else 1.0
        if name.partition(".")[0] in ("output", "decoder", "bridge"):
            early += size
        else:
            late += size
    return Bytes(early, late, dense)


def network_seconds(size: float, ranks: int, bytes_per_second: float) -> float:
    """Return the seconds to sum `size` bytes over all ranks, each of which sends and receives 2 (N - 1) / N of them."""
    if ranks == 1:
        return 0.0
    messages = 2 * (ranks - 1) * max(1.0, size / PIECE_BYTES)
    return 2 * (ranks - 1) / ranks * size / bytes_per_second + messages * LATENCY


def update_seconds(
    compute: float, sizes: Bytes, ranks: int, bytes_per_second: float, *, hidden: float = AFTER_OUTPUT
) -> float:
    """Return the seconds of an update; early gradients are sent in the last `hidden` fraction of the compute time."""
    waited = max(0.0, network_seconds(sizes.early, ranks, bytes_per_second) - compute * hidden)
    return compute + waited + network_seconds(sizes.late, ranks, bytes_per_second)


def ranks_page(dry_run: DryRun, timing: Timing, ranks: int) -> str:
    """Return a table of predictions for 1 rank and `ranks` ranks, with the assumptions."""
    multiplier, wire = dry_run.config.training.batch_multiplier, dry_run.config.training.gradient_dtype
    size = ranks * multiplier
    dealing = Dealing(dry_run.task.batches(dry_run.batch_size, size), size, dry_run.config.seed)
    sizes = bytes_of(dry_run.model, dealing, wire)
    compute, tokens = timing.seconds / timing.updates, timing.tgt_tokens / timing.updates
    lines = [
        f"{ranks} ranks, each on its own {dry_run.num_threads} cores, {size} batches an update",
        f"  {'bytes of gradients an update':34}{sizes.early + sizes.late:>14,.0f}  ({wire}; {sizes.dense:,.0f} with "
        "all rows of embeddings)",
        f"  {'seconds of compute an update':34}{compute:>14.3f}",
        "  network      seconds an update   target tokens/s   of that of so many times one",
    ]
    lines += [_row(speed, compute, tokens, sizes, ranks) for speed in NETWORKS]
    return "\n".join(
        [
            *lines,
            f"  assumed: {LATENCY * 1e6:.0f} microseconds a message, {AFTER_OUTPUT:.0%} of the compute after the "
            "output layer's gradient, ranks alike",
        ]
    )


def _row(speed: float, compute: float, tokens: float, sizes: Bytes, ranks: int) -> str:
    seconds = update_seconds(compute, sizes, ranks, speed * 1e9 / 8)
    return f"  {speed:>3.0f} Gbit/s  {seconds:>18.3f}  {ranks * tokens / seconds:>16,.0f}   {compute / seconds:.0%}"
