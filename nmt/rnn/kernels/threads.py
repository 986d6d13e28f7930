"""Run one compiled function on several cores: plain Python threads, for compiled code releases the
interpreter lock."""

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any


def default_threads() -> int:
    """The number of cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return max(1, os.cpu_count() or 1)


@cache
def _pool(process_id: int, num_workers: int) -> ThreadPoolExecutor:
    # Keyed by process: a forked child inherits the object but not its threads.
    return ThreadPoolExecutor(num_workers, thread_name_prefix="nmt")


def run_parallel(function: Callable[..., Any], num_threads: int, *args: Any) -> None:
    """Call `function(part, num_threads, *args)` for every part below `num_threads` and wait for
    all.

    The last part runs on the calling thread. The first error is raised again once all parts have
    ended, so that no thread still writes to the arrays when the caller continues.
    """
    if num_threads <= 1:
        function(0, 1, *args)
        return
    submit = _pool(os.getpid(), num_threads - 1).submit
    futures: list[Future[Any]] = [submit(function, part, num_threads, *args) for part in range(num_threads - 1)]
    try:
        function(num_threads - 1, num_threads, *args)
    finally:
        errors = [future.exception() for future in futures]
    for error in errors:
        if error is not None:
            raise error
