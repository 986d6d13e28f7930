"""A person's half hour with the page of `nmt-serve --learn`, replayed in a browser with short pauses.

    python benchmarks/half_hour.py runs/captions data/house/stream -n 30 --pictures build/half_hour

translates N sentences of STREAM one after the other on the page, corrects each to its reference and confirms it. Checks
that the last confirmed sentence is translated otherwise than before, that later translations are better than the base
model's, that *Undo* brings back the former confidence to the last bit, and that the page says so when learning slows
down: in a second project all sentences of the model's validation text get one and the same translation until it does.
With --pictures the page is drawn at widths of 1,200 and 400 pixels.

Prints how long a person waits for an answer after confirming, and how often the model said what was confirmed. Needs
the extras [serve], [learn] and [browser], and Chromium; without them it says so and does nothing.
"""

import argparse
import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nmt import Translator, evaluate
from nmt.system.lines import read_lines

WIDTHS, MILLISECONDS = (1200, 400), 120_000


@contextmanager
def serving(model: Path) -> Iterator[str]:
    """The address of a server of the model."""
    command = [sys.executable, "-m", "nmt", "serve", str(model), "--learn", "--port", "0", "--threads", "1"]
    with subprocess.Popen([*command, "--no-split"], stderr=subprocess.PIPE, text=True) as server:
        try:
            for line in server.stderr or ():
                if found := re.search(r"http://[\w.]+:\d+", line):
                    yield found[0]
                    return
            sys.exit("half_hour.py: the server must start, it ended; see what nmt-serve says")
        finally:
            server.terminate()


class Person:
    """A person at work on the page.

    page: Playwright's. pause: Seconds between two actions.
    """

    def __init__(self, page: Any, address: str, langs: tuple[str, str], pause: float, pictures: Path | None) -> None:
        self.page, self.address, self.langs, self.pause, self.pictures = page, address, langs, pause, pictures
        page.goto(address)
        page.wait_for_selector("#source option", state="attached")
        page.click("#tab-learn")

    def waits_for(self, where: str, pattern: str) -> str:
        """Wait until an element's text matches; return the text."""
        self.page.wait_for_function(
            "([where, pattern]) => new RegExp(pattern).test(document.querySelector(where).textContent)",
            arg=[where, pattern],
            timeout=MILLISECONDS,
        )
        return str(self.page.text_content(where))

    def chooses(self, project: str) -> None:
        """Work on another project."""
        self.page.fill("#project", project)
        self.page.press("#project", "Tab")
        time.sleep(self.pause)

    def reads(self, source: str) -> str:
        """Write a sentence; return its translation when it is there."""
        self.page.fill("#text", source)
        self.page.wait_for_function(
            "text => document.querySelector('#learnsource').textContent.trim() === text"
            " && !document.querySelector('#confirm').disabled",
            arg=source,
            timeout=MILLISECONDS,
        )
        time.sleep(self.pause)
        return str(self.page.input_value("#correction"))

    def confirms(self, target: str) -> tuple[str, float]:
        """Correct the translation and confirm it; return what the page says then, and how many seconds later."""
        self.page.fill("#correction", target)
        time.sleep(self.pause)
        began = time.perf_counter()
        self.page.click("#confirm")
        said = self.waits_for("#learnt", "^Learnt in [\\d,]+ ms.*(says|yet)|^Remembered")
        return said, time.perf_counter() - began

    def draws(self, name: str) -> None:
        """Draw the page at each width."""
        if self.pictures is None:
            return
        for width in WIDTHS:
            self.page.set_viewport_size({"width": width, "height": 900})
            self.page.screenshot(path=self.pictures / f"{name}-{width}.png", full_page=True)
        self.page.set_viewport_size({"width": WIDTHS[0], "height": 900})

    def sure(self, source: str) -> Any:
        """The model's translation and confidence, from its route."""
        fields = {"q": source, "source": self.langs[0], "target": self.langs[1], "confidence": True}
        body = json.dumps(fields | {"model": self.page.input_value("#model")}).encode()
        request = urllib.request.Request(self.address + "/translate", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())


def half_hour(person: Person, base: Translator, pairs: list[tuple[str, str]]) -> None:
    """Confirm all pairs, then take the last one back."""
    person.chooses("letters")
    found, waited, before = [], [], None
    for place, (source, target) in enumerate(pairs):
        found.append(person.reads(source))
        if place == len(pairs) - 1:
            before = person.sure(source)
        said, seconds = person.confirms(target)
        assert said.startswith("Learnt"), said
        waited.append(seconds)
        if place == len(pairs) // 2:
            person.draws("learnt")
    person.waits_for("#learnstate", f"^The model is learning.* {len(pairs)} pairs learnt of {len(pairs)} ")
    after = person.sure(pairs[-1][0])
    assert after != before
    print(f"{len(pairs)} sentences confirmed; from the click to the new translation {ms(waited)}")
    half, plain = len(pairs) // 2, base.translate([source for source, _ in pairs])
    for name, some in (("first", slice(0, half)), ("second", slice(half, None))):
        wanted = [target for _, target in pairs[some]]
        scores = [evaluate(one[some], wanted, metrics=("chrf",))["chrf"].score for one in (plain, found)]
        print(
            f"chrF of the {name} half, before each was confirmed: base model {scores[0]:.1f}, learning {scores[1]:.1f}"
        )
    again = [person.reads(source) for source, _ in pairs]
    known, wanted = sum(a == b for a, (_, b) in zip(again, pairs, strict=True)), [target for _, target in pairs]
    scores = [evaluate(one, wanted, metrics=("chrf",))["chrf"].score for one in (plain, again)]
    print(f"of {len(pairs)} confirmed ones {known} are said letter by letter; chrF {scores[0]:.1f} to {scores[1]:.1f}")
    assert scores[1] > scores[0]
    person.reads(pairs[-1][0])
    person.page.click("#memory button >> nth=0")
    person.waits_for("#learnt", "^Taken back")
    person.waits_for("#learnstate", f" {len(pairs) - 1} pairs learnt of {len(pairs) - 1} ")
    assert person.sure(pairs[-1][0]) == before
    person.draws("undone")
    print("undo: the translation and its confidence are those from before")


def careless(person: Person, sources: list[str], target: str) -> None:
    """Confirm one translation for all sentences until the page says that learning slows down."""
    person.chooses("careless")
    state = ""
    for source in sources:
        person.reads(source)
        person.confirms(target)
        state = str(person.page.text_content("#learnstate"))
        if "slowly" in state or "not learning" in state:
            break
    person.draws("slowed")
    assert "slowly" in state or "not learning" in state, state
    print(f"after wrong translations: {state}")
    person.page.click("#resume")
    person.waits_for("#learnstate", "^The model is learning\\.")


def ms(seconds: list[float]) -> str:
    """Median and maximum."""
    return f"{1e3 * statistics.median(seconds):.0f} ms in the median, {1e3 * max(seconds):.0f} at most"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="folder of a model; the memory is begun in a copy of it")
    parser.add_argument("stream", help="prefix of the two files of sentences")
    parser.add_argument("-n", "--count", type=int, default=30)
    parser.add_argument("--pause", type=float, default=0.2, help="seconds between two actions of the person")
    parser.add_argument("--pictures", type=Path, help="folder of the pictures")
    arguments = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        sys.exit("half_hour.py: must have playwright, of the extra [browser]; nothing was done")
    if chromium is None:
        sys.exit("half_hour.py: must have Chromium on the path; nothing was done")
    if arguments.pictures:
        arguments.pictures.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        model = Path(shutil.copytree(arguments.model, Path(place) / "model"))
        base = Translator.load(model, threads=1)
        langs = base.config.data.src.lang, base.config.data.tgt.lang
        rows = zip(*(read_lines(f"{arguments.stream}.{lang}") for lang in langs), strict=True)
        pairs = [(" ".join(src.split()), " ".join(tgt.split())) for src, tgt in rows][: arguments.count]
        with serving(model) as address, sync_playwright() as started:
            browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": WIDTHS[0], "height": 900})
            person = Person(page, address, langs, arguments.pause, arguments.pictures)
            half_hour(person, base, pairs)
            general = [" ".join(line.split()) for line in read_lines(f"{base.config.data.dev}.{langs[0]}")]
            careless(person, general[:200], pairs[0][1])
            browser.close()


if __name__ == "__main__":
    main()
