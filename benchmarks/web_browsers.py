"""How fast does a page of `nmt-export --to web` translate in browsers, compared with Python on the same core?

    python benchmarks/web_browsers.py MODEL TEXT [--lines 1000] [--compute-dtype float32|int8] [--pictures FOLDER]

Opens the page from the disk, without a network, in Chromium (by Playwright) and Firefox (by its Marionette protocol),
translates the lines of the text by `translator.translate` with a beam of 1 and of 5, and compares each with the same
model in Python at the level `generic`, with one thread. Prints, for each browser and beam, how many translations are
other ones, milliseconds of the processor a line (all processes of the browser), their ratio to Python's, the seconds by
the clock from the navigation to the first translation, and the size of the page. A browser that is not installed is
skipped, and so is Chromium without the extra [browser].
"""

from __future__ import annotations

import argparse
import base64
import gzip
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from _machine import describe
from web import in_python

_PREFERENCES = (
    'user_pref("marionette.port", %d);\nuser_pref("browser.shell.checkDefaultBrowser", false);\n'
    'user_pref("datareporting.policy.dataSubmissionEnabled", false);\n'
)
_WAIT = 600


class Browser(Protocol):
    """A browser with one page: the process, and what the benchmark asks of it."""

    process: int

    def go(self, address: str, width: int) -> None:
        """Open an address in a window of this width."""

    def run(self, function: str, *arguments: Any) -> Any:
        """Return the result of an asynchronous JavaScript function."""

    def picture(self) -> bytes:
        """Return a picture of the window, PNG."""


class Chromium:
    """Chromium, driven by Playwright."""

    def __init__(self, playwright: Any, folder: Path) -> None:
        path, arguments = shutil.which("chromium"), ["--no-sandbox"]
        browser = playwright.chromium.launch_persistent_context(
            folder, executable_path=path, args=arguments, offline=True, headless=True
        )
        self._page = browser.new_page()
        self.process = next(
            int(entry.name)
            for entry in Path("/proc").iterdir()
            if entry.name.isdecimal()
            and f"--user-data-dir={folder}" in _command(entry)
            and "--type=" not in _command(entry)
        )

    def go(self, address: str, width: int) -> None:
        """Open an address in a window of this width."""
        self._page.set_viewport_size({"width": width, "height": 900})
        self._page.goto(address)

    def run(self, function: str, *arguments: Any) -> Any:
        """Return the result of an asynchronous JavaScript function."""
        return self._page.evaluate(f"given => ({function})(...given)", list(arguments))

    def picture(self) -> bytes:
        """Return a picture of the window, PNG."""
        found: bytes = self._page.screenshot()
        return found


class Firefox:
    """Firefox, driven by Marionette, the protocol that it speaks itself: JSON texts with their lengths before them."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self.process, self._number = process.pid, 0
        end = time.monotonic() + 120
        while True:
            try:
                self._plug = socket.create_connection(("127.0.0.1", port), timeout=_WAIT)
                break
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)
        self._read()
        self._ask("WebDriver:NewSession", {})
        self._ask("WebDriver:SetTimeouts", {"script": 1000 * _WAIT, "pageLoad": 1000 * _WAIT})
        self._ask("Marionette:SetContext", {"value": "chrome"})
        self._ask("WebDriver:ExecuteScript", {"script": "Services.io.offline = true;", "args": []})
        self._ask("Marionette:SetContext", {"value": "content"})

    def go(self, address: str, width: int) -> None:
        """Open an address in a window of this width."""
        self._ask("WebDriver:SetWindowRect", {"width": width, "height": 1000})
        self._ask("WebDriver:Navigate", {"url": address})

    def run(self, function: str, *arguments: Any) -> Any:
        """Return the result of an asynchronous JavaScript function."""
        script = (
            f"const end = arguments[arguments.length - 1]; ({function})(...arguments).then(end, e => end(String(e)));"
        )
        return self._ask("WebDriver:ExecuteAsyncScript", {"script": script, "args": list(arguments)})["value"]

    def picture(self) -> bytes:
        """Return a picture of the window, PNG."""
        return base64.b64decode(self._ask("WebDriver:TakeScreenshot", {"full": False})["value"])

    def _ask(self, command: str, arguments: dict[str, Any]) -> Any:
        self._number += 1
        text = json.dumps([0, self._number, command, arguments]).encode()
        self._plug.sendall(b"%d:%s" % (len(text), text))
        _, _, error, found = self._read()
        if error:
            raise RuntimeError(f"{command}: {error}")
        return found

    def _read(self) -> Any:
        size = b""
        while not size.endswith(b":"):
            size += self._plug.recv(1)
        content = b""
        while len(content) < int(size[:-1]):
            content += self._plug.recv(int(size[:-1]) - len(content))
        return json.loads(content)


def _command(process: Path) -> str:
    try:
        return (process / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""


@contextmanager
def chromium() -> Iterator[Browser]:
    """Yield Chromium."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name, sync_playwright() as running:
        yield Chromium(running, Path(name))


@contextmanager
def firefox() -> Iterator[Browser]:
    """Yield Firefox."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        (Path(name) / "user.js").write_text(_PREFERENCES % port)
        command = [
            _firefox() or "",
            "--headless",
            "--marionette",
            "-remote-allow-system-access",
            "--no-remote",
            "--profile",
            name,
        ]
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ | {"HOME": name}
        )
        try:
            yield Firefox(process, port)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def _firefox() -> str | None:
    return shutil.which("firefox") or shutil.which("firefox-esr")


def seconds_of(process: int) -> float:
    """Return the seconds of the processor that a process and all its descendants have taken."""
    found, ticks = 0.0, os.sysconf("SC_CLK_TCK")
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        found = (int(fields[11]) + int(fields[12])) / ticks
        for children in Path(f"/proc/{process}/task").glob("*/children"):
            found += sum(seconds_of(int(child)) for child in children.read_text().split())
    except OSError:  # it has ended
        pass
    return found


_TRANSLATE = """async (lines, beam) => {
  const found = await translator.translate(lines, { beam_size: beam });
  return found.map(one => one[0].text);
}"""
_READY = """async line => {
  await translator.translate([line], { beam_size: 5 });
  return performance.now();
}"""


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("text", type=Path)
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--compute-dtype", choices=["float32", "int8"], default="int8")
    parser.add_argument("--pictures", type=Path, help="folder for pictures of the page at widths of 1,200 and 400")
    options = parser.parse_args()
    lines = options.text.read_text("utf-8").split("\n")[: options.lines]
    print(describe(1))
    with tempfile.TemporaryDirectory() as name:
        page = Path(name) / "translator.html"
        command = [sys.executable, "-m", "nmt", "export", options.model, "--to", "web", "-o", str(page)]
        subprocess.run([*command, "--compute-dtype", options.compute_dtype, "--quiet"], check=True)
        content = page.read_bytes()
        print(f"{options.compute_dtype}, page {len(content):,} bytes, {len(gzip.compress(content)):,} compressed")
        python: dict[int, float] = {}
        expected: dict[int, list[str]] = {}
        for beam in (1, 5):
            turns = [in_python(options.model, lines, beam, options.compute_dtype) for _ in range(options.turns)]
            python[beam], expected[beam] = min(one["milliseconds"] for one in turns), turns[0]["texts"]
        for kind, path, started in (
            ("Chromium", shutil.which("chromium") if find_spec("playwright") else None, chromium),
            ("Firefox", _firefox(), firefox),
        ):
            if path is None:
                print(f"{kind}: skipped, it is not installed")
                continue
            with started() as browser:
                browser.go(page.as_uri(), 1200)
                ready = [browser.run(_READY, lines[0])]
                for _ in range(options.turns):
                    browser.go("about:blank", 1200)
                    browser.go(page.as_uri(), 1200)
                    ready.append(browser.run(_READY, lines[0]))
                print(f"{kind}: first translation {min(ready) / 1000:.2f} s after the navigation")
                for beam in (1, 5):
                    times = []
                    for _ in range(options.turns):
                        before = seconds_of(browser.process)
                        found = browser.run(_TRANSLATE, lines, beam)
                        times.append(1000 * (seconds_of(browser.process) - before) / len(lines))
                    differ = sum(one != other for one, other in zip(found, expected[beam], strict=True))
                    ratio = f"Python {python[beam]:.2f} ms, ratio {min(times) / python[beam]:.2f}"
                    print(
                        f"{kind}, beam {beam}: {differ} lines differ, {min(times):.2f} ms a line, {ratio}", flush=True
                    )
                if options.pictures:
                    options.pictures.mkdir(parents=True, exist_ok=True)
                    for width in (1200, 400):
                        browser.go(page.as_uri(), width)
                        browser.run(_TYPE, "\n".join(lines[:6]))
                        (options.pictures / f"{kind.lower()}-{width}.png").write_bytes(browser.picture())


_TYPE = """async text => {
  const field = document.getElementById("text");
  field.value = text;
  field.dispatchEvent(new Event("input", { bubbles: true }));
  while (document.querySelectorAll("#result .w").length < 20) await new Promise(done => setTimeout(done, 200));
}"""


if __name__ == "__main__":
    main()
