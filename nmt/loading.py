"""What `load` of a translator or generator is given besides the model, checked before anything is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nmt.errors import ConfigError
from nmt.translation import checked_count

if TYPE_CHECKING:
    from nmt.config import Config


def check_loading(threads: int | None, checkpoint: str | None, compute_dtype: str | None, device: str | None) -> None:
    """Raises ConfigError: An argument of `load` is given and none of what it may be."""
    from nmt.config import checked_value

    for name, value in {"threads": threads, "compute_dtype": compute_dtype, "device": device}.items():
        if value is not None:
            checked_value(name, value)
    if checkpoint not in (None, "best", "last"):
        raise ConfigError(f"checkpoint must be best or last, or None, got {checkpoint!r}")


def resolve_threads(threads: int | None, config: Config) -> int:
    """Return the number of threads asked for, or configured, or that of the cores. Raises ConfigError."""
    from nmt.rnn.kernels.threads import default_threads

    if threads is not None:
        threads = checked_count("threads", threads, "threads")
    return threads or config.threads or default_threads()
