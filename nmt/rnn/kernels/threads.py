"""Run one compiled function on several cores: plain Python threads, for compiled code releases the
interpreter lock."""

import os
from collections.abc import Callable
from functools import cache
from queue import SimpleQueue
from threading import Thread, local
from typing import Any

Task = tuple[Callable[..., Any], int, int, tuple[Any, ...], "SimpleQueue[BaseException | None]"]


def default_threads() -> int:
    """The number of cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return max(1, os.cpu_count() or 1)


_here = local()


def _work(tasks: "SimpleQueue[Task]") -> None:
    while True:
        _work_once(tasks)


def _work_once(tasks: "SimpleQueue[Task]") -> None:
    function, part, parts, args, done = tasks.get()
    _here.is_worker = True
    error: BaseException | None = None
    try:
        function(part, parts, *args)
    except BaseException as e:  # noqa: BLE001 - it is raised again where the work was asked for
        error = e
    done.put(error)


@cache
def _worker(process_id: int, index: int) -> "SimpleQueue[Task]":
    """The inbox of a thread that lives as long as the process. Handing over a task costs a tenth of what an
    executor's future does; a step of a decoder hands over several."""
    # Keyed by process: a forked child inherits the object but not its thread.
    tasks: SimpleQueue[Task] = SimpleQueue()
    Thread(target=_work, args=(tasks,), name=f"nmt-{index}", daemon=True).start()
    return tasks


def _inbox(part: int) -> "SimpleQueue[Task]":
    """Where to put a part. A worker that asks for help itself must not wait for its own inbox."""
    if getattr(_here, "is_worker", False):
        tasks: SimpleQueue[Task] = SimpleQueue()
        Thread(target=_work_once, args=(tasks,), daemon=True).start()
        return tasks
    return _worker(os.getpid(), part)


def run_parallel(function: Callable[..., Any], num_threads: int, *args: Any) -> None:
    """Call `function(part, num_threads, *args)` for every part below `num_threads` and wait for
    all.

    The last part runs on the calling thread. The first error is raised again once all parts have
    ended, so that no thread still writes to the arrays when the caller continues.
    """
    if num_threads <= 1:
        function(0, 1, *args)
        return
    done: SimpleQueue[BaseException | None] = SimpleQueue()
    for part in range(num_threads - 1):
        _inbox(part).put((function, part, num_threads, args, done))
    try:
        function(num_threads - 1, num_threads, *args)
    finally:
        errors = [done.get() for _ in range(num_threads - 1)]
    for error in errors:
        if error is not None:
            raise error
