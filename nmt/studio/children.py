"""The child processes: one training at a time, and short jobs beside it, at low priority. The standard input of a
training is held open: when it ends, by a button or because the studio was killed, the training saves and ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nmt.studio.errors import Refused
from nmt.studio.projects import Project
from nmt.studio.rounds import Round

_NICENESS = 10
_KEPT_JOBS = 20
_MEMORY, _SECONDS = 4 * 2**30, 600.0
"""Bytes and seconds for a job that reads a file of a user."""
_LEAST_FINISH, _FINISH_SHARE = 30.0, 0.1
"""Seconds, and share of the time so far, in which a training that is stopped comes to its end."""


def start(
    arguments: list[str], folder: Path, log: Path | None = None, *, waited_for: bool = False
) -> subprocess.Popen[bytes]:
    """Start Python with these arguments in a folder, at low priority unless the user waits for it. Modules of the
    folder are not importable."""
    more: dict[str, Any] = {}
    if sys.platform == "win32":
        low = subprocess.NORMAL_PRIORITY_CLASS if waited_for else subprocess.BELOW_NORMAL_PRIORITY_CLASS
        more["creationflags"] = low | subprocess.CREATE_NO_WINDOW
    with contextlib.ExitStack() as stack:
        output: Any = subprocess.PIPE if log is None else stack.enter_context(log.open("ab"))
        child = subprocess.Popen(
            [sys.executable, "-P", *arguments],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=output,
            env=os.environ | {"PYTHONUTF8": "1"},
            **more,
        )
    if hasattr(os, "setpriority") and not waited_for:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, child.pid, _NICENESS)
    return child


@dataclass
class Job:
    """A short piece of work for a project, as the page sees it."""

    id: int
    kind: str
    text: int | None = None
    round: int | None = None
    state: str = "running"
    error: dict[str, Any] | None = None

    def view(self) -> dict[str, Any]:
        """Return it for JSON."""
        return dict(vars(self))


@dataclass
class _Training:
    """The training that runs. wish: what follows its end: pause, stop, longer."""

    project: Project
    round: Round
    child: subprocess.Popen[bytes] | None = None
    wish: str = ""
    seconds: float | None = None


@dataclass
class Children:
    """All child processes of a studio. `loaded`: called before a round is prepared, to save what was confirmed."""

    before: Callable[[Project], None]
    jobs: dict[str, list[Job]] = field(default_factory=dict)
    training: _Training | None = None
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _running: set[subprocess.Popen[bytes]] = field(default_factory=set)
    _turn: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(2))
    _count: int = 0

    def of(self, project: Project) -> list[dict[str, Any]]:
        """Return the jobs of a project."""
        return [job.view() for job in self.jobs.get(project.id, ())]

    def has(self, project: Project, **wanted: Any) -> bool:
        """Return whether such a job runs."""
        jobs = (job.view() for job in self.jobs.get(project.id, ()))
        return any(job["state"] == "running" and wanted.items() <= job.items() for job in jobs)

    def run(self, project: Project, kind: str, work: Callable[[], Awaitable[None]], **about: Any) -> Job:
        """Begin a job."""
        self._count += 1
        job = Job(self._count, kind, **about)
        self.jobs[project.id] = [*self.jobs.get(project.id, [])[-_KEPT_JOBS:], job]

        async def run() -> None:
            try:
                async with self._turn:
                    await work()
                job.state = "done"
            except Refused as error:
                job.state, job.error = "failed", error.to_dict()
            except asyncio.CancelledError:
                job.state = "failed"
                raise

        self._begin(run())
        return job

    async def call(self, arguments: list[str], folder: Path, given: Any = None, seconds: float | None = None) -> None:
        """Run a child to its end. Raises Refused with its last line if it fails, or takes too long."""
        child = start(arguments, folder, waited_for=given is not None)
        self._running.add(child)
        data = b"" if given is None else json.dumps(given).encode()
        try:
            _, told = await asyncio.to_thread(child.communicate, data, seconds)
        except subprocess.TimeoutExpired:
            child.kill()
            await asyncio.to_thread(child.communicate)
            raise Refused("too-slow", name=folder.name, seconds=seconds, memory=_MEMORY) from None
        except BaseException:
            child.kill()
            raise
        finally:
            self._running.discard(child)
        if child.returncode:
            raise Refused("failed", why=last_line(told.decode("utf-8", "replace"), child.returncode))

    async def read(self, project: Project, given: dict[str, Any]) -> None:
        """Read a file of a user, within limits."""
        await self.call(["-m", "nmt.studio.reading"], project.folder, {**given, "memory": _MEMORY}, _SECONDS)

    # ------------------------------------------------------------ training

    def train(self, project: Project, one: Round) -> None:
        """Begin or go on with a round. Raises Refused if another one is trained."""
        if self.training is not None:
            raise Refused("running", project=self.training.project.values["name"], round=self.training.round.number)
        self.training = _Training(project, one)
        self._begin(self._train(self.training))

    def wish(self, project: Project, number: int, wish: str, seconds: float | None = None) -> bool:
        """Ask a training to end and say what follows; a second `stop` ends it at once. Return False if it does not
        run."""
        now = self.training
        if now is None or (now.project.id, now.round.number) != (project.id, number):
            return False
        again = now.wish == wish == "stop"
        now.wish, now.seconds = wish, seconds
        if now.child is not None:
            if again:
                now.child.terminate()
            elif now.child.stdin is not None:
                now.child.stdin.close()
        return True

    async def _train(self, now: _Training) -> None:
        one = now.round
        try:
            if not one.record.get("prepared"):
                self.before(now.project)
                await self.call(
                    ["-m", "nmt.studio.preparing", str(now.project.folder), str(one.number)], now.project.folder
                )
            while one.is_locked:  # a training that has outlived an earlier studio saves and ends
                await asyncio.sleep(0.2)
            while True:
                again = False
                await self._step(now)
                if now.wish == "longer":
                    again = True
                elif now.wish == "stop" and not one.finishing and one.has_begun:
                    one.note(finishing=max(_LEAST_FINISH, one.elapsed * (1 + _FINISH_SHARE) + _LEAST_FINISH))
                    again, now.wish = True, ""
                if not again:
                    break
                now.wish = ""
        except Refused as error:
            if one.error is None:
                one.note(error=error.to_dict())
        finally:
            self.training = None
        if one.has_ended or (now.wish == "stop" and one.has_model):
            one.note(ended=True)
            self.test(now.project, one)

    async def _step(self, now: _Training) -> None:
        """Run the command of a round once, to its end."""
        one = now.round
        if now.wish == "longer" and now.seconds is not None:
            one.note(minutes=one.record["minutes"] + now.seconds / 60, finishing=None)
        if now.wish in ("pause", "stop") and not one.has_begun:
            return
        now.child = start(["-m", "nmt", *one.arguments], now.project.folder, one.log)
        one.note(child=now.child.pid, started=time.time(), error=None)
        if now.wish and now.child.stdin is not None:
            now.child.stdin.close()  # the wish came while it was started
        code = await asyncio.to_thread(now.child.wait)
        now.child = None
        if code and not now.wish:
            told = one.log.read_text(encoding="utf-8", errors="replace")[-4000:]
            raise Refused("failed", why=last_line(told, code))

    def test(self, project: Project, one: Round) -> None:
        """Begin the test of a round whose training has ended."""
        if self.has(project, kind="test", round=one.number) or one.report is not None:
            return

        async def work() -> None:
            threads = ["1"] if self.training is not None else []
            arguments = ["-m", "nmt.studio.judging", str(project.folder), str(one.number), *threads]
            try:
                await self.call(arguments, project.folder)
            except Refused as error:
                one.note(error=error.to_dict())
                raise

        self.run(project, "test", work, round=one.number)

    async def close(self) -> None:
        """Let the training save and end; end all other children."""
        if self.training is not None:
            self.wish(self.training.project, self.training.round.number, "pause")
        for child in list(self._running):
            child.kill()
        until = time.monotonic() + 60
        while self.training is not None and time.monotonic() < until:
            await asyncio.sleep(0.05)
        for task in list(self._tasks):
            task.cancel()

    def _begin(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def last_line(told: str, code: int) -> str:
    """Return the last line of a child's messages that says why it has ended."""
    lines = [line.strip() for line in told.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("Error: ")]
    return (errors or lines or [f"it ended with code {code}"])[-1].removeprefix("Error: ")[:500]
