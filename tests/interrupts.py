"""Ctrl-C at random moments, each in a process of its own: the next call must be right, and nothing may hang.

A process is forked from one in which everything has run already, calls again and again, is interrupted, and then
compares the next answer with that of the process before. `compiling` begins with nothing compiled. Then four children
at once, forked after use, must give the same answers.
"""

from __future__ import annotations

import faulthandler
import os
import random
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from nmt import Translator
from nmt.rnn import Scan, Weights, initial_params
from nmt.rnn.cells import LSTMCell
from nmt.rnn.kernels.machine_code.recipes import generated_loop
from nmt.rnn.kernels.machine_code.store import store
from nmt.rnn.scan import scan_setup
from nmt.rnn.stepping import prepared_step
from tests.callers import Training, kinds, random_model
from tests.saved_models import sentences

_SECONDS = 600.0
"""After which a process hangs."""

_AGAIN = 5.0
"""Between one Ctrl-C and the next, far longer than an interrupted call takes to end."""

Work = Callable[[], Any]


class Interrupts:
    """What is interrupted, with the answers there must be, and for how long an interruption may be waited for."""

    def __init__(self, folder: Path, size: int) -> None:
        model = random_model(folder, size)
        self._scratch = folder
        self.translator = Translator.load(model, threads=2)
        self.lines = list(dict.fromkeys(sentences(40, seed=3)))[:12]
        self.training = Training(self.translator, self.lines, updates=2)
        self.asked = kinds("kara")
        self.works: dict[str, tuple[Work, float]] = {
            "searching": (self.search, 0.4),
            "scoring": (lambda: self.asked["scores"](self.translator, self.lines), 0.3),
            "training": (lambda: self.training.run(2), 0.3),
            "compiling": (self.compile, 4.0),
        }
        self.answers = {name: work() for name, (work, _) in self.works.items()}

    def search(self) -> Any:
        """All kinds of search, one after another, for one line and for some."""
        kinds = [self.asked[name] for name in ("beam", "greedy", "n best", "sampling", "rules", "prefix")]
        return [ask(self.translator, self.lines[:count]) for ask in kinds for count in (1, 5)]

    def compile(self) -> Any:
        """A layer forward and back, whose program has to be compiled where the caches are empty."""
        cell = LSTMCell(5, 7)
        scan, weights = Scan(cell, threads=2, division="units"), Weights(initial_params(cell, 1))
        x = np.random.default_rng(2).standard_normal((6, 3, 5)).astype(np.float32)
        result = scan.forward(weights, x, training=True)
        gradients = {name: np.zeros_like(array) for name, array in weights.items()}
        found = scan.backward(result.tape, np.ones_like(result.y), gradients=gradients)
        return result.y.tobytes(), found.x.tobytes(), [array.tobytes() for array in gradients.values()]

    def interrupt(self, name: str, seed: int) -> str:
        """Interrupt this kind of work in a forked process; what came of it, `right` if all is well."""
        child = os.fork()
        if not child:
            self._live(name, seed)
        end = time.monotonic() + _SECONDS
        while time.monotonic() < end:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return {0: "right", 1: "wrong", 2: "an error"}.get(os.waitstatus_to_exitcode(status), f"died: {status}")
            time.sleep(0.01)
        os.kill(child, signal.SIGABRT)  # tells where all threads are
        os.waitpid(child, 0)
        return "hangs"

    def _live(self, name: str, seed: int) -> None:
        """The forked process."""
        code = 2
        try:
            faulthandler.enable()
            signal.signal(signal.SIGINT, signal.default_int_handler)
            work, longest = self.works[name]
            if name == "compiling":
                self._forget_programs(seed)
            draw = random.Random(seed)
            heeded = threading.Event()
            presses = threading.Thread(target=_press, args=(draw.uniform(0, longest), heeded), daemon=True)
            try:
                presses.start()
                while True:
                    work()
            except KeyboardInterrupt:
                heeded.set()
            code = 0 if work() == self.answers[name] else 1
        except BaseException:  # noqa: BLE001 - shown, and told by the exit code
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(code)

    def children(self, count: int = 4) -> bool:
        """Whether so many children at once, forked now, all find what their parent did."""
        forked = []
        for _ in range(count):
            child = os.fork()
            if not child:
                signal.alarm(int(_SECONDS))
                code = 1
                try:
                    works = self.works["searching"][0], self.works["scoring"][0], self.works["training"][0]
                    code = int([work() for work in works] != [self.answers[n] for n in list(self.answers)[:3]])
                finally:
                    os._exit(code)
            forked.append(child)
        return all(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0 for child in forked)

    def _forget_programs(self, seed: int) -> None:
        """Nothing generated is compiled any more, neither in memory nor on disk."""
        folder = self._scratch / f"cache-{seed}"
        folder.mkdir()
        store.cache_clear()
        os.environ["NMT_CACHE_DIR"] = str(folder)
        generated_loop.cache_clear()
        scan_setup.compile_step.cache_clear()
        prepared_step.compile_step.cache_clear()


def _press(after: float, heeded: threading.Event) -> None:
    """Ctrl-C after so many seconds, and again every few seconds, as people do, until it is heeded: Python shows and
    drops what is raised where it cannot be passed on, in the callback of a weak reference and in `__del__`."""
    time.sleep(after)
    while not heeded.is_set():
        os.kill(os.getpid(), signal.SIGINT)
        heeded.wait(_AGAIN)
