"""The worker of `update.py`: updates of a model in one process, with one thread. Answers requests of `_peer.py`."""

import time
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import count
from typing import Any

import numpy as np
from _worker import Bench, serve

from nmt.config import load_config
from nmt.rnn.kernels.machine_code.native import Native
from nmt.train.planning.dry_run import DryRun
from nmt.train.updates.schedule import TrainingState
from nmt.train.updates.update import Updater

Arrays = dict[str, np.ndarray]

_THREADS = 1
"""A second one would measure who else is at work."""


class LaunchClock:
    """Processor seconds inside compiled functions, while `running`; Python reaches all of them by `Native.call`."""

    def __init__(self) -> None:
        self.running = False
        self.seconds = 0.0
        self.launches = 0
        plain: Callable[[Native], Callable[..., int]] = Native.__dict__["call"].func

        def timed(native: Native) -> Callable[..., int]:
            call = plain(native)

            def launch(*arguments: int) -> int:
                if not self.running:
                    return call(*arguments)
                began = time.thread_time()
                result = call(*arguments)
                self.seconds += time.thread_time() - began
                self.launches += 1
                return result

            return launch

        Native.call = cached_property(timed)  # type: ignore[method-assign,assignment]
        Native.call.__set_name__(Native, "call")


CLOCK = LaunchClock()


class Updates(Bench):  # type: ignore[misc]
    """Updates one after another, of the epochs as training has them, their batches made as it makes them.

    Made with `updates`, it has done so many, and `results` are the parameters then; with `shares` as well, they are
    what the launches of as many further updates took.
    """

    def __init__(self, config: str, settings: list[str], updates: int, shares: bool) -> None:
        loaded = load_config(config, settings)
        self._run = DryRun(loaded, _THREADS, lambda line: None)
        self._updater = Updater(loaded, self._run.model, self._run.optimizer, _THREADS)
        self._batches = self._endless()
        self._number, self._tokens = 0, 0
        for _ in range(updates):
            self.run(True)
        self._found = self._shares(updates) if shares else {k: v.copy() for k, v in self._run.model.params.items()}

    def _endless(self) -> Iterator[Any]:
        for epoch in count(1):
            yield from self._run.dealing.left(TrainingState(epoch=epoch))

    def run(self, training: bool) -> None:
        """One update."""
        batches = next(self._batches)
        self._number += 1
        self._tokens += batches.num_tgt_tokens
        self._updater.update(batches, self._number, self._run.schedule.learning_rate(self._number))

    def results(self) -> Arrays:
        """See above."""
        return self._found

    def _shares(self, updates: int) -> Arrays:
        """For each of so many updates: processor seconds, those in launches, launches, target tokens."""
        rows = []
        CLOCK.running = True
        for _ in range(updates):
            before = CLOCK.seconds, CLOCK.launches, self._tokens
            began = time.thread_time()
            self.run(True)
            took = time.thread_time() - began
            rows.append((took, CLOCK.seconds - before[0], CLOCK.launches - before[1], self._tokens - before[2]))
        CLOCK.running = False
        return {"updates": np.array(rows)}


def make(request: dict[str, Any], arrays: Arrays) -> Updates:
    """What a request names, with all that it runs compiled."""
    return Updates(request["config"], request["settings"], request["updates"], request["shares"])


if __name__ == "__main__":
    serve("nmt", make)
