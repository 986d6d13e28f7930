"""The child processes: one training at a time, and short jobs at the same time, at low priority. The standard input of
a training is held open: when it ends, by a button or because the studio was killed, the training saves and ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from nmt.studio.errors import Refused
from nmt.studio.projects import Project
from nmt.studio.rounds import Round
from nmt.system.terminal import reason

_logger = logging.getLogger("nmt.studio")

_NICENESS, _KEPT_JOBS, _AT_ONCE = 10, 20, 2
_MEMORY, _SECONDS = 4 * 2**30, 600.0
"""Bytes and seconds for a job that reads a file of a user."""
_LEAST_FINISH, _FINISH_SHARE = 30.0, 0.1
"""Seconds, and share of the time so far, in which a training that is stopped comes to its end."""


def start(arguments: list[str], folder: Path, log: Path | None = None, *, low: bool = True) -> subprocess.Popen[bytes]:
    """Start Python in a folder, whose modules cannot be imported, at low priority unless the user waits for it."""
    more: dict[str, Any] = {"start_new_session": True}  # so that a Ctrl-C for the studio is none for them
    if sys.platform == "win32":
        level = subprocess.BELOW_NORMAL_PRIORITY_CLASS if low else subprocess.NORMAL_PRIORITY_CLASS
        more = {"creationflags": level | subprocess.CREATE_NO_WINDOW | subprocess.CREATE_NEW_PROCESS_GROUP}
    command, environment = [sys.executable, "-P", *arguments], os.environ | {"PYTHONUTF8": "1"}
    with contextlib.nullcontext(subprocess.PIPE) if log is None else log.open("ab") as output:
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": output}
        child = subprocess.Popen(command, cwd=folder, env=environment, **pipes, **more)
    if low and hasattr(os, "setpriority"):
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, child.pid, _NICENESS)
    return child


@dataclass
class Training:
    """The training that runs. wish: what follows its end: pause, stop, longer; more: minutes, for longer."""

    project: Project
    round: Round
    child: subprocess.Popen[bytes] | None = None
    wish: str = ""
    more: float = 0.0


class Children:
    """All child processes of a studio. `before`: called before a round is prepared."""

    def __init__(self, before: Callable[[Project], None]) -> None:
        self._before = before
        self.training: Training | None = None
        self._ends = False
        self._jobs: dict[str, list[dict[str, Any]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._turn, self._ids = asyncio.Semaphore(_AT_ONCE), count(1)

    def of(self, project: Project) -> list[dict[str, Any]]:
        """Return the jobs of a project."""
        return self._jobs.get(project.id, [])

    def has(self, project: Project, **wanted: Any) -> bool:
        """Return whether such a job runs."""
        return any(job["state"] == "running" and wanted.items() <= job.items() for job in self.of(project))

    def run(self, project: Project, kind: str, work: Callable[[], Awaitable[None]], **about: int) -> dict[str, Any]:
        """Begin a job; return it as the page sees it."""
        job = {"id": next(self._ids), "kind": kind, "text": None, "round": None, "state": "running", "error": None}
        job |= about
        self._jobs[project.id] = [*self.of(project)[-_KEPT_JOBS:], job]

        async def run() -> None:
            async with self._turn:
                error = await self._attempt(work)
            job.update({"state": "failed" if error else "done", "error": error})

        self._begin(run())
        return job

    async def call(self, arguments: list[str], folder: Path, given: Any = None) -> None:
        """Run a child to its end, with limits if it is given something. Raises Refused if it fails or is slow."""
        child = start(arguments, folder, low=given is None)
        self._running.add(child)
        try:
            data, seconds = (b"", None) if given is None else (json.dumps(given).encode(), _SECONDS)
            _, told = await asyncio.to_thread(child.communicate, data, seconds)
        except subprocess.TimeoutExpired:
            raise Refused("too-slow", name=given["name"], seconds=_SECONDS, memory=_MEMORY) from None
        finally:
            child.kill()
            self._running.discard(child)
        if child.returncode:
            raise Refused("failed", why=reason(told, child.returncode))

    async def read(self, project: Project, given: dict[str, Any]) -> None:
        """Read a file of a user, within limits."""
        await self.call(["-m", "nmt.studio.reading"], project.folder, {**given, "memory": _MEMORY})

    # ------------------------------------------------------------ training

    def be_free(self) -> None:
        """Raise Refused if a round is trained."""
        if self.training is not None:
            raise Refused("running", project=self.training.project.values["name"])

    def train(self, project: Project, one: Round) -> None:
        """Begin or go on with a round. Raises Refused if another one is trained."""
        self.be_free()
        now = self.training = Training(project, one)

        async def run() -> None:
            error = await self._attempt(lambda: self._train(now))
            self.training = None
            if self._ends:
                return
            with contextlib.suppress(Refused):  # on a full disk nothing can be noted; see Round.view
                if error:
                    one.note(error=one.record.get("error") or error)
                elif one.has_ended or (now.wish == "stop" and one.has_model):
                    one.note(ended=True)
                    self.test(project, one)

        self._begin(run())

    def wish(self, wish: str, more: float = 0.0) -> None:
        """Ask the training to end, and say what follows; a second `stop` ends it at once."""
        if (now := self.training) is not None:
            again, now.wish, now.more = now.wish == wish == "stop", wish, more
            if now.child is not None and again:
                now.child.terminate()
            elif now.child is not None and now.child.stdin is not None:
                now.child.stdin.close()

    async def _train(self, now: Training) -> None:
        """Run the command of a round, again as long as a wish asks for it."""
        one = now.round
        while one.is_locked:  # a training that has outlived an earlier studio saves and ends
            await asyncio.sleep(0.2)
        if not one.record.get("prepared"):
            await asyncio.to_thread(self._before, now.project)
            folder = now.project.folder
            await self.call(["-m", "nmt.studio.preparing", str(folder), str(one.number)], folder)
        while now.wish in ("", "longer"):
            if now.wish == "longer":
                one.note(minutes=one.record["minutes"] + now.more, finishing=None)
            now.wish = ""
            now.child = await asyncio.to_thread(start, ["-m", "nmt", *one.arguments], now.project.folder, one.log)
            one.begin(now.child.pid)
            if now.wish:
                self.wish(now.wish, now.more)  # it came while the child was started
            code, now.child = await asyncio.to_thread(now.child.wait), None
            if code and not now.wish:
                raise Refused("failed", why=reason(one.log.read_bytes()[-4000:], code))
            if now.wish == "stop" and one.has_begun and not one.record.get("finishing"):
                one.note(finishing=one.elapsed * (1 + _FINISH_SHARE) + _LEAST_FINISH)
                now.wish = ""
            elif now.wish != "longer":
                return

    def test(self, project: Project, one: Round) -> None:
        """Begin the test of a round whose training has ended."""

        async def work() -> None:
            threads = ["1"] if self.training is not None else []
            arguments = ["-m", "nmt.studio.judging", str(project.folder), str(one.number), *threads]
            try:
                await self.call(arguments, project.folder)
            except Refused as error:
                if not self._ends:
                    one.note(error=error.to_dict())
                raise

        if not self.has(project, kind="test", round=one.number) and one.quality is None:
            self.run(project, "test", work, round=one.number)

    async def close(self) -> None:
        """Let the training save and end; end all other children."""
        self._ends = True
        for child in list(self._running):
            child.kill()
        self.wish("pause")
        while self.training is not None:
            await asyncio.sleep(0.05)
        for task in self._tasks:
            task.cancel()

    def _begin(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @staticmethod
    async def _attempt(work: Callable[[], Awaitable[None]]) -> dict[str, Any] | None:
        """Return why a piece of work has failed, or None. A bug is logged; it leaves nothing that seems to run."""
        try:
            await work()
        except Refused as error:
            return error.to_dict()
        except Exception as error:
            _logger.exception("a job of the studio has failed")
            return Refused("failed", why=str(error) or type(error).__name__).to_dict()
        return None
