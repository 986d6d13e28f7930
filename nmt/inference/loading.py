"""Checks of the arguments of `load`, before anything is read."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NoReturn, Self

from nmt.errors import ConfigError
from nmt.inference.translation import checked_count

if TYPE_CHECKING:
    from nmt.config import Config

_logger = logging.getLogger("nmt")


def check_loading(threads: int | None, checkpoint: str | None, compute_dtype: str | None, device: str | None) -> None:
    """Raise ConfigError if an argument of `load` is invalid."""
    from nmt.config import checked_value

    for name, value in {"threads": threads, "compute_dtype": compute_dtype, "device": device}.items():
        if value is not None:
            checked_value(name, value)
    if checkpoint is not None and not isinstance(checkpoint, str):
        raise ConfigError(f"checkpoint must be a name such as best, last or best-600, or None, got {checkpoint!r}")


def resolve_threads(threads: int | None, config: Config) -> int:
    """Return the number of threads: the argument, the configured number, or the number of cores. More threads than
    cores are reduced to the cores, with a warning to the logger `nmt`. Raises ConfigError."""
    from nmt.rnn.cores import usable_threads

    wanted = config.threads if threads is None else checked_count("threads", threads, "threads")
    usable = usable_threads(wanted)
    if wanted is not None and wanted > usable:
        _logger.warning(
            "warning: threads: %d were asked for, got %d, one for each core; more would only take turns", wanted, usable
        )
    return usable


class NotPickled:
    """A model in use: its memory and locks belong to this process. Shallow copies share them."""

    def __copy__(self) -> Self:
        """Return a copy that shares the model, with its own attributes."""
        found = object.__new__(type(self))
        vars(found).update(vars(self))
        return found

    def __reduce__(self) -> NoReturn:
        """Raise TypeError: it cannot be pickled or deep-copied."""
        raise TypeError(
            f"{type(self).__name__}: must be made in the process that uses it, got asked for a pickle or a deep copy; "
            "give processes the path of the model (docs/threads.md)"
        )
