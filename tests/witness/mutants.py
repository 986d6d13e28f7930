"""Change one operator, number, call or statement of nmt at a time, and see whether a test notices.

    python -m tests.witness.mutants --count 60 --seed 1 build/mutants      # of each room

The tests of a room run once, and which lines each of them reaches is noted. A mutant is then tested by those that
reach its statement, the quickest ones; it is killed if one fails or takes far too long. For that a process that has
imported everything and collected the tests forks, and the fork exchanges the code of the function; a mutant outside of
functions, or in a default value, is written into a copy of the tree and tested by a new process. Of compiled code no
lines can be noted: all tests of the room are for it, and what contains it is compiled from its changed code. What
survives is a gap of the tests or a change without an effect: a person has to look. The same seed gives the same
mutants; the folder keeps what is done, so that a run can go on (DeMillo, Lipton and Sayward 1978).
"""

from __future__ import annotations

import argparse
import ast
import gc
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib import import_module
from itertools import accumulate
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, TextIO

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = {
    "ops": (["nmt/rnn/ops.py"], "tests/rnn ops operators operators_oracle interpreter random_cells compiler checking "
            "named_axes"),
    "compiler": (["nmt/rnn/compiler/*.py"], "tests/rnn compiler keep barriers asked named_axes "
                 "random_cells layered | tests own_cells"),
    "decode": (["nmt/decode/[a-ce-z]*.py", "nmt/decode/rules/*.py"],
               "tests/decode beam blocks brute_force fusion live_search options plain_search session shortlist"),
    "storage": (["nmt/storage/*.py"], "tests tensor_file saved_model quantised_model model_card "
                "trained_settings shortlist factors model_opened_once"),
    "search": (["nmt/rnn/kernels/search/*.py"], "tests/rnn/kernels search search_rules choose arrays | tests/decode "
               "plain_search beam brute_force shortlist"),
    "products": (["nmt/rnn/kernels/products/*.py"], "tests/rnn/kernels products bfloat16 int8 | tests/rnn "
                 "packed_weights"),
    "kernels": (["nmt/rnn/kernels/model/*.py", "nmt/rnn/kernels/memory/[ms]*.py", "nmt/rnn/kernels/memory/copies.py"],
                "tests/rnn/kernels output update copies runs arrays | tests/rnn stepper"),
    "loops": (["nmt/rnn/kernels/loops/*.py"], "tests/rnn/kernels loop_code activations | tests/rnn scan products "
              "operators layouts vectors random_cells"),
    "updates": (["nmt/train/updates/*.py"], "tests/train optimizer schedule methods moving_average dealing spikes "
                "accumulation start | tests factors"),
}  # fmt: skip
"""By room: its files, and the files of tests that are about it."""
_MOST_SECONDS = 12.0
"""Time on the processor that the tests of a mutant take, noting their lines."""
_TIMES, _GRACE = 3.0, 5.0
"""With a mutant a test may take so many times as long on the processor, and so many seconds more, since code that was
stored may have to be compiled."""

_OTHER = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
    ast.Pow: ast.Mult, ast.MatMult: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.And: ast.Or,
    ast.Or: ast.And, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip


_PYTEST = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist"]
_SYMMETRIC = {"max", "min", "maximum", "minimum", "array_equal", "logaddexp", "gcd"}


@dataclass(frozen=True)
class Mutant:
    """A change of a file: bytes from `start` to `end` become `text`; `function`: its function's first line, or 0;
    `first`, `last`: the lines of its statement without the statements inside."""

    path: str
    line: int
    function: int
    first: int
    last: int
    start: int
    end: int
    text: str
    former: str

    @property
    def name(self) -> str:  # also for a person to read
        return f"{self.path}:{self.line}: {' '.join(self.former.split())}  ->  {' '.join(self.text.split())}"

    @property
    def is_compiled(self) -> bool:
        """Return whether the change is in compiled code, or in what writes it."""
        return self.path.startswith("nmt/rnn/kernels/")

    def changed(self, source: bytes) -> bytes:
        """Return the text of the file with the change."""
        return source[: self.start] + self.text.encode() + source[self.end :]

    def changes_code(self, source: bytes) -> bool:
        """Return whether the file is compiled to other code."""
        return _text(_compiled(source, self.path)) != _text(_compiled(self.changed(source), self.path))


def _compiled(source: bytes, path: str) -> CodeType:
    found: CodeType = compile(source, path, "exec", dont_inherit=True)  # not the `__future__` of this module
    return found


def mutants_of(path: str, source: bytes) -> list[Mutant]:
    """Return all mutants of a file, in order."""
    starts = [0]
    for line in source.split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)
    found = []
    for node, function, (first, last) in _nodes(ast.parse(source), 0, (1, 1)):
        for other in _others(node):
            start = starts[node.lineno - 1] + node.col_offset
            end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
            text = f"({ast.unparse(other)})" if isinstance(other, ast.expr) else ast.unparse(other)
            former = source[start:end].decode()
            found.append(Mutant(path, node.lineno, function, first, last, start, end, text, former))
    return found


def _nodes(node: ast.AST, function: int, lines: tuple[int, int]) -> Iterator[tuple[Any, int, tuple[int, int]]]:
    """Yield the nodes that may change, with the first lines of their functions and the lines of their statements; no
    types, messages, decorators, and checks of equal lengths in `zip`."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        function = min([node.lineno, *(one.lineno for one in node.decorator_list)])
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_comment"):
            continue
        for child in value if isinstance(value, list) else [value]:
            typing = isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"
            check = isinstance(child, ast.keyword) and child.arg in ("strict", "stacklevel")
            if not isinstance(child, ast.AST) or isinstance(child, ast.JoinedStr) or typing or check:
                continue
            inner = lines
            if isinstance(child, ast.stmt):
                inside = getattr(child, "body", None)
                inner = child.lineno, inside[0].lineno - 1 if inside else child.end_lineno or 0
                inner = inner[0], max(inner)
            yield child, function, inner
            if not isinstance(child, ast.Raise):
                yield from _nodes(child, function, inner)


def _others(node: Any) -> Iterator[ast.AST]:
    """Yield what may stand in the place of a node."""
    match node:
        case ast.BinOp(left, op, right) if type(op) in _OTHER:
            yield ast.BinOp(left, _OTHER[type(op)](), right)
        case ast.BoolOp(op, values):
            yield ast.BoolOp(_OTHER[type(op)](), values)
        case ast.Compare(left, [op], right):
            yield ast.Compare(left, [_OTHER[type(op)]()], right)
        case ast.UnaryOp(ast.Not() | ast.USub(), operand) if not isinstance(operand, ast.Constant):
            yield operand
        case ast.IfExp(test, body, orelse):
            yield ast.IfExp(test, orelse, body)
        case ast.Constant(bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(int() | float() as value):
            yield ast.Constant(value + 1)
        case ast.Call(function, args, keywords) if ast.unparse(function).rpartition(".")[2] not in _SYMMETRIC:
            for n, (one, two) in enumerate(zip(args, args[1:], strict=False)):
                if ast.dump(one) != ast.dump(two) and not isinstance(two, ast.Starred):
                    yield ast.Call(function, [*args[:n], two, one, *args[n + 2 :]], keywords)
        case ast.Raise(ast.Name("NotImplementedError")):
            return
        case ast.Expr(ast.Call()) | ast.Raise() | ast.AugAssign() | ast.Continue() | ast.Break():
            yield ast.Pass()
        case ast.Assign([ast.Attribute() | ast.Subscript()]):
            yield ast.Pass()


# ------------------------------------------------------------ this module as a plugin of pytest

_called: dict[str, dict[str, Any]] = {}
_now: set[tuple[str, int]] = set()
_files = set(os.environ.get("MUTANTS_FILES", "").split(os.pathsep))


def _used() -> float:
    """Return the seconds that this process and those that it started have taken on the processor."""
    return sum(os.times()[:4])


def _trace(frame: Any, event: str, argument: object) -> Any:
    if frame.f_code.co_filename not in _files:
        return None
    _now.add((frame.f_code.co_filename, frame.f_lineno))
    return _trace


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Note the lines that a test reaches, unless mutants are tested."""
    if "MUTANTS_CALLED" not in os.environ:
        yield
        return
    _now.clear()
    began = _used()
    threading.settrace(_trace)
    sys.settrace(_trace)
    yield
    sys.settrace(None)
    lines: dict[str, list[int]] = {}
    for name, line in sorted(_now):
        lines.setdefault(f"nmt/{name.rpartition('/nmt/')[2]}", []).append(line)
    _called[item.nodeid] = {"seconds": _used() - began, "lines": lines}


def pytest_sessionfinish(exitstatus: int) -> None:
    """Write what was noted, if all tests have passed."""
    if exitstatus == 0 and "MUTANTS_CALLED" in os.environ:
        Path(os.environ["MUTANTS_CALLED"]).write_text(json.dumps(_called))


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Test mutants in forks of this process, as `Room.forked` asks: a line of JSON each way."""
    if "MUTANTS_ANSWERS" not in os.environ:
        return None
    items = {item.nodeid: item for item in session.items}
    answers = os.fdopen(int(os.environ["MUTANTS_ANSWERS"]), "w")
    for path in os.environ["MUTANTS_FILES"].split(os.pathsep):  # once, and not in each fork
        import_module(path.removesuffix(".py").replace("/", "."))
    import_module("numba").njit("int64(int64)")(lambda n: n)
    for path in os.environ["MUTANTS_FILES"].split(os.pathsep):
        _functions(str(ROOT / path))
    for line in os.fdopen(int(os.environ["MUTANTS_ASKED"])):
        fields, tests = json.loads(line)
        timed = [(items[name], seconds) for name, seconds in tests]
        answers.write(json.dumps(_fails(session, Mutant(**fields), timed)) + "\n")
        answers.flush()
    return True


def _fails(session: pytest.Session, mutant: Mutant, tests: list[tuple[pytest.Item, float]]) -> bool | None:
    """Return whether a test fails, or takes too long, with a mutant; None if its code cannot be exchanged. With each
    test comes the time that it takes."""
    child = os.fork()
    if not child:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        code = 2
        with suppress(BaseException):  # of this module, or an interruption: the mutant gets a process of its own
            code = int(_any_fails(session, tests, mutant)) if exchange(mutant) else 2
        os._exit(code)
    until = time.monotonic() + _most_time(seconds for _, seconds in tests)
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return {0: False, 2: None}.get(os.waitstatus_to_exitcode(status), True)
        time.sleep(0.005)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


def _any_fails(session: pytest.Session, tests: list[tuple[pytest.Item, float]], mutant: Mutant) -> bool:
    """Run tests until one fails; one that takes too long ends the process."""
    for (item, seconds), (after, _) in zip(tests, [*tests[1:], (None, 0)], strict=True):
        most = _used() + _TIMES * seconds + _GRACE * (3 if mutant.is_compiled else 1)
        resource.setrlimit(resource.RLIMIT_CPU, (int(most) + 1, resource.RLIM_INFINITY))
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
        if session.testsfailed:
            return True
    return False


def _most_time(seconds: Iterable[float]) -> float:
    """Return the seconds that tests may take on a busy machine, from those that they take on the processor."""
    return 10 * _TIMES * sum(seconds) + 20 * _GRACE


def exchange(mutant: Mutant) -> bool:
    """Exchange the code of a mutant's function in this process; return whether the mutant is in its code alone."""
    former, new = _codes(mutant)
    if new is None:
        return False
    found = [one for one in _functions(str(ROOT / mutant.path)) if one.__code__ == former]
    for function in found:
        function.__code__ = new
    if found and mutant.is_compiled:
        _compile_again(found)
    return bool(found)


def _codes(mutant: Mutant) -> tuple[CodeType | None, CodeType | None]:
    """Return the code of a mutant's function as it is and as it becomes; None if the mutant is not in it alone."""
    source = (ROOT / mutant.path).read_bytes()
    texts = source, mutant.changed(source)
    former, new = (_function(_compiled(text, str(ROOT / mutant.path)), mutant.function) for text in texts)
    if former is None or new is None or _text(former) == _text(new) or former.co_freevars != new.co_freevars:
        return None, None
    return former, new


@lru_cache
def _functions(path: str) -> list[FunctionType]:
    """Return the functions of a file in this process."""
    gc.unfreeze()  # conftest.py keeps from searches what the collection has made
    return [one for one in gc.get_objects() if type(one) is FunctionType and one.__code__.co_filename == path]


def _compile_again(changed: list[FunctionType]) -> None:
    """Let no stored machine code be used that contains these functions or was written by them, and store none."""
    native = import_module("nmt.rnn.kernels.machine_code.native")
    store = import_module("nmt.rnn.kernels.machine_code.store")
    writes = any("_code.py" in one.__code__.co_filename for one in changed)
    stored, seen = native.Native._stored, {id(one) for one in changed}

    def fresh(self: Any) -> Any:
        function = getattr(self, "function", None)
        again = writes if function is None else _reaches(function, seen, set())
        return None if again else stored(self)

    native.Native._stored = fresh
    store.Store.write = lambda *_: None


def _reaches(function: Any, changed: set[int], seen: set[int]) -> bool:
    """Return whether compiled code of a function may contain that of one of the changed functions."""
    function = getattr(function, "function", function)
    function = getattr(function, "written_by", function)
    if id(function) in changed or not isinstance(function, FunctionType) or id(function) in seen:
        return id(function) in changed
    seen.add(id(function))
    values = [cell.cell_contents for cell in function.__closure__ or ()]
    values += [function.__globals__.get(name) for name in _names(function.__code__)]
    return any(_reaches(one, changed, seen) for one in values)


def _names(code: CodeType) -> list[str]:
    return [*code.co_names, *(name for part in code.co_consts if isinstance(part, CodeType) for name in _names(part))]


def _function(code: CodeType, line: int) -> CodeType | None:
    """Return the outermost function around the one that begins in a line."""
    inside = [part for part in code.co_consts if isinstance(part, CodeType)]
    for part in inside:
        is_class = part.co_name == part.co_qualname.rpartition(".")[2] and "__module__" in part.co_names
        found = _function(part, line) if is_class else part if _contains(part, line) else None
        if found is not None:
            return found
    return None


def _text(code: CodeType) -> str:
    """Return all that code computes, without its lines."""
    constants = [_text(part) if isinstance(part, CodeType) else repr(part) for part in code.co_consts]
    return repr((code.co_code, code.co_names, code.co_varnames, code.co_freevars, constants))


def _contains(code: CodeType, line: int) -> bool:
    parts = (part for part in code.co_consts if isinstance(part, CodeType))
    return code.co_firstlineno == line or any(_contains(part, line) for part in parts)


# ------------------------------------------------------------ rooms


class Room:
    """A room in a copy of the tree: its tests with what they call, and its mutants."""

    def __init__(self, name: str, work: Path) -> None:
        self.tree, self._work = work / "tree", work
        self._server: tuple[TextIO, TextIO] | None = None
        patterns, tests = ROOMS[name]
        self.files = sorted(str(path.relative_to(ROOT)) for one in patterns for path in ROOT.glob(one))
        called = work / f"{name}.json"
        if not called.exists():
            files = [f"{part.split()[0]}/test_{one}.py" for part in tests.split("|") for one in part.split()[1:]]
            words, traced = ["-p", "tests.witness.mutants", *files], map(str, map(self.tree.joinpath, self.files))
            more = {"MUTANTS_CALLED": str(called), "MUTANTS_FILES": os.pathsep.join(traced)}
            failed = self.run(words, 3600.0, work / "cache", **more)
            assert not failed, f"the tests of {name} must pass without a mutant"
        self.called = json.loads(called.read_text())
        assert not self.run(["--collect-only", *self.called], 600.0, work / "cache"), "tests must run by their names"

    def run(self, words: list[str], seconds: float, cache: Path, **more: str) -> bool:
        """Run tests until one fails; return whether one has failed, or taken too long."""
        words = [*_PYTEST, *words]
        env = os.environ | {"PYTHONPATH": str(self.tree), "NMT_CACHE_DIR": str(cache)} | more
        with (self._work / "log").open("w") as log:
            process = subprocess.Popen(words, cwd=self.tree, env=env, stdout=log, stderr=log, start_new_session=True)
            try:
                return process.wait(seconds) != 0
            except subprocess.TimeoutExpired:
                return True
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, 9)
                    process.wait()

    def kills(self, mutant: Mutant) -> bool | None:
        """Return whether the tests of a mutant's function notice it; None if none of the room's tests calls it."""
        seconds = {test: one["seconds"] for test, one in self.called.items()}
        lines = {test: set(one["lines"].get(mutant.path, [])) for test, one in self.called.items()}
        inside = set(range(mutant.first, mutant.last + 1))
        tests = sorted(seconds, key=lambda test: (not lines[test] & inside, seconds[test]))
        if not mutant.function:  # runs at an import
            tests = [test for test in tests if lines[test]] or tests
        elif not mutant.is_compiled:
            tests = [test for test in tests if lines[test] & inside]
        sums = accumulate(seconds[test] for test in tests)
        tests = [test for test, total in zip(tests, sums, strict=True) if total <= _MOST_SECONDS] or tests[:1]
        if not tests:
            return None
        timed = [(test, seconds[test]) for test in tests]
        failed = self.forked(mutant, timed) if mutant.function else None
        return self._alone(mutant, timed) if failed is None else failed

    def forked(self, mutant: Mutant, tests: list[tuple[str, float]]) -> bool | None:
        """Return whether one of the tests fails in a fork of the process that has collected them; None if the mutant
        needs a process of its own."""
        if self._server is None:
            (asked, ask), (answered, answer) = os.pipe(), os.pipe()
            words = [*_PYTEST, "-p", "tests.witness.mutants", *self.called]
            env = os.environ | {"PYTHONPATH": str(ROOT), "NMT_CACHE_DIR": str(self._work / "cache")}
            env |= {
                "MUTANTS_ASKED": str(asked),
                "MUTANTS_ANSWERS": str(answer),
                "MUTANTS_FILES": os.pathsep.join(self.files),
            }
            with (self._work / "log").open("w") as log:
                subprocess.Popen(words, cwd=ROOT, env=env, stdout=log, stderr=log, pass_fds=(asked, answer))
            os.close(asked)
            os.close(answer)
            self._server = os.fdopen(ask, "w"), os.fdopen(answered)
        self._server[0].write(json.dumps([asdict(mutant), tests]) + "\n")
        self._server[0].flush()
        failed: bool | None = json.loads(self._server[1].readline())
        return failed

    def _alone(self, mutant: Mutant, tests: list[tuple[str, float]]) -> bool:
        """Return whether one of the tests fails in a process of its own, with the mutant in its file."""
        path, cache = self.tree / mutant.path, self._work / "cache-of-mutant"
        source = (ROOT / mutant.path).read_bytes()
        shutil.rmtree(cache, ignore_errors=True)
        shutil.copytree(self._work / "cache", cache, copy_function=os.link)
        _replace(path, mutant.changed(source))
        try:
            return self.run([test for test, _ in tests], _most_time(seconds for _, seconds in tests), cache)
        finally:
            _replace(path, source)


def _replace(path: Path, content: bytes) -> None:
    """Write a file anew; the byte code of the former one goes."""
    for stale in path.parent.glob(f"__pycache__/{path.stem}.*"):
        stale.unlink()
    path.unlink()
    path.write_bytes(content)


def main() -> None:
    """Test mutants of the rooms in turn; print those that survive, and how many were killed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("work", type=Path, help="folder for the copy of the tree and for results")
    parser.add_argument("--count", type=int, default=20, help="mutants of each room")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=ROOMS, nargs="*", default=list(ROOMS), help="rooms")
    given = parser.parse_args()
    work: Path = given.work.resolve()
    shutil.rmtree(work / "tree", ignore_errors=True)
    (work / "cache").mkdir(parents=True, exist_ok=True)
    for file in subprocess.check_output(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, text=True).split():
        (work / "tree" / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / file, work / "tree" / file, follow_symlinks=False)
    results = work / "results.jsonl"
    done = dict(map(json.loads, results.read_text().splitlines())) if results.exists() else {}
    for name in given.only:
        room = Room(name, work)
        everything = [one for path in room.files for one in mutants_of(path, (ROOT / path).read_bytes())]
        random.Random(given.seed).shuffle(everything)
        sources = {path: (ROOT / path).read_bytes() for path in room.files}
        chosen: list[Mutant] = []
        for mutant in everything:
            if len(chosen) == given.count or not mutant.changes_code(sources[mutant.path]):
                continue
            if mutant.is_compiled and not all(_codes(mutant)):  # all kernels would be compiled again
                continue
            chosen.append(mutant)
            if mutant.name not in done:
                done[mutant.name] = room.kills(mutant)
                with results.open("a") as file:
                    file.write(json.dumps([mutant.name, done[mutant.name]]) + "\n")
            if not done[mutant.name]:
                how = "survived" if done[mutant.name] is False else "not reached"
                print(f"{how}: {mutant.name}", flush=True)
        found = [done[one.name] for one in chosen]
        killed, uncalled = found.count(True), found.count(None)
        print(f"{name}: {killed} of {len(found)} mutants of {len(everything)} killed, {uncalled} in statements that no "
              "test of the room reaches")  # fmt: skip


if __name__ == "__main__":
    main()
