"""`batch_size: auto`: the largest batch whose predicted peak memory fits."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nmt.errors import ConfigError
from nmt.train.log.memory import format_bytes, free_bytes, resident_bytes
from nmt.train.updates.methods import largest_shape

if TYPE_CHECKING:
    from nmt.config import Config
    from nmt.data.batching.epochs import Batches
    from nmt.model.network import Network
    from nmt.train.tasks.task import Corpus, Task
    from nmt.train.updates.optimizer import Optimizer
    from nmt.train.updates.state import TrainingState

SIZES = (512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192)
"""Candidate batch sizes in target tokens. Loops and matrix products work on blocks of 2,048 rows, the output layer on
256: a batch of more than 8,192 gains no parallelism, takes proportionally longer, and updates the model less often."""

MIN_UPDATES = 64
"""The least number of updates per epoch: small corpora get smaller batches."""

MARGIN = 1.1
"""Safety factor on the predicted bytes of an update: every epoch has different batches."""


@dataclass(frozen=True)
class Forecast:
    """Predicted peak memory of a run, in bytes by purpose."""

    fixed: dict[str, int]
    """Memory that does not depend on the batch."""
    workspace: Counter[str]
    """Workspace of the largest batch, by operation and purpose."""
    logits: Counter[str]
    """Memory of the largest batch outside the workspace."""
    shape: tuple[int, int, int]
    """Shape of the largest batch: T, S, B."""

    @property
    def update(self) -> int:
        """Return the bytes of the largest batch's update."""
        return self.workspace.total() + self.logits.total()

    @property
    def peak(self) -> int:
        """Return the total of all bytes."""
        return sum(self.fixed.values()) + self.update


def forecast(
    config: Config, model: Network, optimizer: Optimizer, corpus: Corpus, batches: Batches, *, accumulates: bool = False
) -> Forecast:
    """Predict the peak memory of training with these batches, from the plans and the shapes of one epoch. `accumulates`
    says that one process sums the gradients of several batches.

    The model must have run once, on a batch of any size (see `warm_up`), so that the other memory of the process is
    known.
    """
    from nmt.model.footprint import logits_bytes, packed_weights_bytes, workspace_bytes

    def of_batch(shape: tuple[int, int, int]) -> tuple[Counter[str], Counter[str]]:
        T, S, B = largest_shape(config, shape)
        return workspace_bytes(model, T, S, B), logits_bytes(model, T, B)

    def size(shape: tuple[int, int, int]) -> int:
        return sum(counts.total() for counts in of_batch(shape))

    shapes = {(int(T), int(S), int(B)) for T, S, B in batches.shapes(1)}
    largest = max(shapes, key=size)
    parameters = sum(array.nbytes for array in model.params.values())
    packed = packed_weights_bytes(model)
    on_gpu = model.device.memory is not None
    held, data = (0, 0) if on_gpu else (resident_bytes(), corpus.nbytes)
    fixed = {
        "parameters": parameters,
        "gradients": parameters,
        **({"gradients of a batch": parameters} if accumulates else {}),
        "optimizer state": sum(array.nbytes for array in optimizer.state.values()),
        **({"moving average": parameters} if optimizer.settings.ema_decay else {}),
        "packed weights": packed,
        "training text": data,
    }
    fixed["Python, libraries, compiled code"] = max(0, held - parameters - packed - data)
    return Forecast(fixed, *of_batch(largest), largest)


def warm_up(model: Network, task: Task, num_threads: int) -> None:
    """Load or compile everything that an update needs, with the smallest possible batch. No parameter changes."""
    model.loss_and_gradients(task.smallest_batch(), seed=0, threads=num_threads)
    model.carry({})


def choose_batch_size(
    config: Config,
    state: TrainingState,
    model: Network,
    optimizer: Optimizer,
    task: Task,
    num_threads: int,
    *,
    ranks: int = 1,
    ranks_here: int = 1,
) -> tuple[int, str]:
    """Return the number of target tokens per batch, and in words how it was chosen. Raises ConfigError if not even the
    smallest batch fits. `ranks`: processes that each compute batches of an update; `ranks_here`: ranks that share the
    memory of this machine."""
    if state.batch_size:
        return state.batch_size, "as in the run so far"
    warm_up(model, task, num_threads)
    training = config.training
    limit, whose = training.memory_limit_bytes, "training.memory_limit"
    if limit is None and model.device.memory is not None:
        limit, whose = model.device.memory // 2, "half of the GPU's memory"
    elif limit is None:
        limit, whose = (free_bytes() // ranks_here + resident_bytes()) // 2, "half of the memory that is free"
        whose += f", for {ranks_here} ranks on a machine" if ranks_here > 1 else ""
    most = max(SIZES[0], task.corpus.num_tgt_tokens // (MIN_UPDATES * training.batch_multiplier * ranks))
    useful = [size for size in SIZES if size <= most]
    for size in reversed(useful):
        found = forecast(
            config, model, optimizer, task.corpus, task.batches(size), accumulates=training.batch_multiplier > 1
        )
        needed = found.peak + round((MARGIN - 1) * found.update)
        if needed <= limit:
            return size, f"{_reason(size, useful)}; predicted peak {_of(needed, limit)} ({whose})"
    raise ConfigError(
        f"training.batch_size: auto must have room for {SIZES[0]} target tokens a batch, {format_bytes(needed)} in "
        f"all, got {format_bytes(limit)} ({whose}); raise training.memory_limit or make the model smaller"
    )


def _of(needed: int, limit: int) -> str:
    return f"{format_bytes(needed)} of {format_bytes(limit)}"


def _reason(size: int, useful: list[int]) -> str:
    """Return in words why this size was chosen among the candidates, for the log."""
    if size < useful[-1]:
        return "the largest that fits"
    if size == SIZES[-1]:
        return "larger ones would only learn less often"
    return f"larger ones would leave an epoch fewer than {MIN_UPDATES} updates"
