import asyncio
import gc
import inspect
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.devices import ON_GPU, ON_PTX, wait_for_gpu
from tests.long import is_long

# Tests start hundreds of processes. Without stored byte code each of them would compile all modules from source, which
# takes half as long again as importing them. Some containers set this variable.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# What tests write need not outlive a loss of power: waiting for the disk took a quarter of the time of what trains.
os.fsync = lambda handle: None

# What a shell starts in its background ignores Ctrl-C, what nohup starts a hang-up, and so does all that they start;
# tests send these signals and look what happens.
_DEFAULTS = {signal.SIGINT: signal.default_int_handler}
if hasattr(signal, "SIGHUP"):
    _DEFAULTS[signal.SIGHUP] = signal.SIG_DFL
for number, handler in _DEFAULTS.items():
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)


@pytest.fixture(scope="module")  # its event loop stands in the way of others
def browser() -> Iterator[Any]:
    """Return Chromium, which Playwright drives."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs the extra [browser]")
    places = filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome")))
    if (place := next(places, None)) is None:
        pytest.skip("needs Chromium")
    with playwright.sync_playwright() as started:
        found = started.chromium.launch(executable_path=place, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a model folder, which tests only read."""
    from tests.saved_models import write_folder

    return write_folder(tmp_path_factory.mktemp("small") / "model")


@pytest.fixture(scope="session")
def translator(folder: Path) -> Any:
    """Return a translator, which tests leave as it is."""
    from nmt import Translator

    return Translator.load(folder, threads=1)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a model, `model`, and a text of three lines, `text`."""
    from tests.saved_models import sentences, write_folder

    place = write_folder(tmp_path_factory.mktemp("place") / "model").parent
    (place / "text").write_text("".join(f"{line}\n" for line in sentences(3)))
    return place


@pytest.fixture(scope="session")
def pivots(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return folders of models of several languages, by these; `silent` attends to nothing."""
    from tests.saved_models import write_pair

    place, silent = tmp_path_factory.mktemp("pivots"), {"attention": "none", "input_feeding": False}
    return {
        "de-en": write_pair(place / "de-en", "de", "en", seed=6),
        "en-fr": write_pair(place / "en-fr", "en-US", "fr", seed=3, joint=False, subwords="bpe"),
        "fr-it": write_pair(place / "fr-it", "fr", "it", seed=5),
        "silent": write_pair(place / "silent", "en", "fr", decoder=silent, seed=5),
    }


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_xdist_auto_num_workers() -> int:
    """Return the number of processes of `-n auto`: one more than cores, since tests wait for servers and processes."""
    return len(os.sched_getaffinity(0)) + 1 if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1) + 1


@pytest.hookimpl(tryfirst=True)  # before pytest selects by marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the cases of tests that take long."""
    for item in items:
        if is_long(item):
            item.add_marker("long")
    if sys.platform == "win32":
        from tests.windows.omitted import skip_on_windows

        skip_on_windows(items)


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine; ten minutes are enough on any machine."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    given = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    asyncio.run(asyncio.wait_for(pyfuncitem.obj(**given), 600))
    return True


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[Any]:
    """Collect the tests, and leave what that has made out of all later searches for garbage: it stays to the end, and
    searches that went through it took a tenth of the time of all tests."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


# NMT_FENCE=end or begin: the system ends a process that reads or writes beyond an array; see tests/witness/fence.py.
if side := os.environ.get("NMT_FENCE"):
    from tests.witness.fence import Side, raise_fences

    raise_fences(Side(side))


if ON_PTX:
    from tests.ptx.stale import poison_workspaces

    poison_workspaces()

if ON_GPU:

    @pytest.fixture(autouse=True)
    def ends_on_the_gpu() -> Iterator[None]:
        """A test ends when its work on the GPU has ended."""
        yield
        wait_for_gpu()
