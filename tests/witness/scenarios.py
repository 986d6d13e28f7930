"""The commands that tests/witness/faults.py lets fail, each in a folder with small files, and the processes of their
runs."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import re
import signal
import threading
import time
import traceback
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

SECONDS = 60.0
"""Time after which a command hangs."""


class Child:
    """The process of a run, in which the k-th call fails once faults are armed; `notes` gets how many calls there were
    until they were disarmed, which of them failed, and which files were left open."""

    def __init__(self, log: Path, notes: Path, k: int, kind: int) -> None:
        self._shim, self._notes, self._fault = ctypes.CDLL(None), notes, (ctypes.c_long(k), kind)
        self._shim.last_fault.restype = ctypes.c_char_p
        os.dup2(os.open(log, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644), 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        self._found = (0, "")

    def arm(self) -> None:
        """Let faults begin."""
        self._shim.arm(*self._fault)

    def disarm(self) -> None:
        """End faults, if they are not over."""
        if not self._found[0]:
            self._found = self._shim.calls(), self._shim.last_fault().decode(errors="replace")
        self._shim.arm(ctypes.c_long(0), 0)

    def note(self) -> None:
        """End faults and write the notes."""
        self.disarm()
        self._notes.write_text("\n".join([*map(str, self._found), " ".join(self.open_files())]))

    def open_files(self) -> list[str]:
        """Return the names of open files and folders below the folder of faults, without those of the check itself."""
        gc.collect()
        names = []
        for name in os.listdir("/proc/self/fd"):
            try:
                names.append(os.readlink(f"/proc/self/fd/{name}"))
            except OSError:  # that of the listing
                continue
        base = os.environ["FAULT_FOLDER"]
        return sorted(name for name in names if name.startswith(base) and not name.endswith(("/stderr", "/notes")))

    def said(self, pattern: str, times: int = 1) -> str:
        """Return what the group of a pattern stands for in the log, as soon as a whole line matches the n-th time."""
        until = time.monotonic() + SECONDS / 2
        while time.monotonic() < until:
            log = os.pread(2, 60_000, 0).decode(errors="replace")  # not counted: a copy of a file's number, and small
            found = re.findall(pattern, log.rpartition("\n")[0])
            if len(found) >= times:
                return found[times - 1]
            time.sleep(0.005)
        raise TimeoutError(f"the log must say {pattern!r}")


def _command(words: list[str], at: Path, child: Child) -> None:
    """Run a command."""
    from nmt.cli.front import front

    child.arm()
    front(words, prog_name="nmt")


@dataclass(frozen=True)
class Scenario:
    """A command in a folder: what is there before, its words, and the results that are compared, as patterns of files.
    run: Runs the words in a process of its own, and arms the faults. fake: Whether the model is that of
    tests.train.fake_model, which learns and translates in no time. slow: Whether a run takes so long that the check
    makes only a few."""

    prepare: Callable[[Path], None]
    words: Callable[[Path], list[str]]
    results: tuple[str, ...]
    run: Callable[[list[str], Path, Child], None] = _command
    fake: bool = False
    slow: bool = False


# ------------------------------------------------------------ files


def _texts(folder: Path) -> None:
    from tests.train import fake_model

    for prefix, lines, seed in (("train", 60, 1), ("dev", 10, 2)):
        fake_model.write_corpus(folder, prefix, lines, seed)


def _trained(folder: Path) -> None:
    from tests.witness.faults import forked

    _texts(folder)
    assert forked(SCENARIOS["train"], _train(folder, 6), folder).code == 0


def _model(folder: Path) -> None:
    from tests.saved_models import sentences, write_folder

    write_folder(folder / "model")
    (folder / "in").write_text("\n".join(sentences(6)) + "\n")


def _small_library(folder: Path) -> None:
    from nmt.exporting.c import building

    _model(folder)
    for levels in building.LEVELS.values():  # one stands for all, as each takes ten seconds of a core
        for name in list(levels)[:-1]:
            del levels[name]


def _learning(folder: Path) -> None:
    _model(folder)
    for path in folder.glob("model/*.*"):
        if path.suffix in (".xx", ".yy"):  # texts that cannot be read are told, and learning goes on without them
            path.unlink()


def _foreign(folder: Path) -> None:
    from tests.importing.marian_files import Marian

    Marian("gru").save(folder)


def _served(folder: Path) -> None:
    import nmt.serve.models
    import nmt.serve.server  # noqa: F401 - imported once for all runs

    _model(folder)
    nmt.serve.models._warm_up = lambda translator: None  # its calls come at any time


# ------------------------------------------------------------ runs


def _train(folder: Path, updates: int = 10) -> list[str]:
    sides = [str(folder / f"train.{side}") for side in ("xx", "yy")]
    training = {"updates": updates, "validation_freq": 3, "keep_last_ckpts": 2, "metric": "loss"}
    settings = {"data.subwords.vocab_size": "auto", "threads": 1}
    settings |= {f"training.{name}": value for name, value in training.items()}
    changes = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    return ["train", *sides, "-o", str(folder / "model"), "--preset", "tiny", *changes]


def _serve(words: list[str], at: Path, child: Child) -> None:
    """Start a server, which a client asks once; faults are those of the start."""
    threading.Thread(target=_ask_and_end, args=(at, child, 0), daemon=True).start()
    _command(words, at, child)


def _reload(words: list[str], at: Path, child: Child) -> None:
    """Start a server, which a client lets load its models again, first with faults, then without."""
    from nmt.cli.front import front

    threading.Thread(target=_ask_and_end, args=(at, child, 2), daemon=True).start()
    front(words, prog_name="nmt")


def _ask_and_end(at: Path, child: Child, reloads: int) -> None:
    """Ask the server of this process before and after each reload, write the answers to a file, and end the server."""

    def ask() -> str:
        body = json.dumps({"q": (at / "in").read_text().splitlines(), "source": "xx", "target": "yy"}).encode()
        request = urllib.request.Request(f"{place}/translate", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=SECONDS / 2) as answer:
            return answer.read().decode()

    try:
        place = child.said('"event": "listening on (.*?)"')
        if not reloads:
            child.disarm()
        answers, files = {ask()}, child.open_files()
        for turn in range(1, reloads + 1):
            if turn == 1:
                child.arm()
            os.kill(os.getpid(), signal.SIGHUP)
            how = child.said('"event": ".*(are reloaded"|reloading the models failed)', turn)
            child.disarm()
            assert turn == 1 or how == 'are reloaded"', "a reload without faults must succeed"
            answers.add(ask())
        assert child.open_files() == files, f"open after reloads: {child.open_files()}, before: {files}"
        child.note()
        (at / "answers").write_text("\n".join(sorted(answers)))
        os.kill(os.getpid(), signal.SIGTERM)
    except BaseException:
        child.note()
        os.write(2, traceback.format_exc().encode())
        os._exit(70)


def _learn(words: list[str], at: Path, child: Child) -> None:
    """Learn the pairs that are not learnt yet; the memory and the parameters become the file `learnt`."""
    import hashlib

    from nmt import LearningTranslator

    sides = (at / "in").read_text().splitlines()
    pairs = list(zip(sides[:3], sides[3:], strict=True))
    child.arm()
    with LearningTranslator.load(at / "model", memory=at / "memory") as one:
        for source, target in pairs[one.progress().pairs :]:
            one.learn(source, target)
        found = [[pair.source, pair.target, pair.state] for pair in one.memory.pairs("")]
        arrays = one.translator().model.params
        digest = hashlib.sha256(b"".join(np.asarray(arrays[name]).tobytes() for name in sorted(arrays))).hexdigest()
        one.wait()
    child.disarm()
    (at / "learnt").write_text(json.dumps([found, digest]))


def _on(name: str, *words: str) -> Callable[[Path], list[str]]:
    """Return the words of a command on the folder `model`; AT stands for the folder around it."""
    return lambda at: [name, f"{at}/model", *(word.replace("AT", str(at)) for word in words)]


def _export(form: str, *results: str, slow: bool = False) -> Scenario:
    return Scenario(_model, _on("export", "--to", form, "-o", "AT/out"), results, slow=slow)


_SERVE = _on("serve", "--port", "0", "--threads", "1")
_BEST = ("model/best.safetensors",)
SCENARIOS = {
    "train": Scenario(_texts, _train, _BEST, fake=True),
    "resume": Scenario(_trained, _train, _BEST, fake=True),
    "translate": Scenario(_model, _on("translate", "AT/in", "-o", "AT/out"), ("out",)),
    "quantize": Scenario(_model, _on("quantize", "-o", "AT/int8"), ("int8/*",)),
    "bundle": Scenario(_model, _on("bundle", "-o", "AT/m.nmt"), ("m.nmt",)),
    "average": Scenario(_model, _on("average", "--checkpoint", "best", "-o", "AT/mean"), ("mean/*",)),
    "shortlist": Scenario(_model, _on("shortlist"), ("model/shortlist*", "model/lengths*")),
    "export-numpy": _export("numpy", "out/*"),
    "export-onnx": _export("onnx", "out/*"),
    "export-c": Scenario(_small_library, _on("export", "--to", "c", "-o", "AT/out"), ("out/*",), slow=True),
    "export-web": _export("web", "out", slow=True),
    "export-web-module": _export("web-module", "out/*", slow=True),
    "import": Scenario(_foreign, lambda at: ["import", f"{at}/model.npz", "-o", f"{at}/out"], ("out/*",)),
    "serve": Scenario(_served, _SERVE, ("answers",), _serve),
    "reload": Scenario(_served, _SERVE, ("answers",), _reload),
    "learn": Scenario(_learning, _on("learn"), ("learnt",), _learn),
}
