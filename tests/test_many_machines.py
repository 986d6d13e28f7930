"""docs/many-machines.md: the lines for shards are run as they stand there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from nmt import Translator
from tests.saved_models import sentences, write_folder

PAGE = (Path(__file__).parents[1] / "docs" / "many-machines.md").read_text(encoding="utf-8")
LINES = [*sentences(40, seed=8), ""]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with the model of the page."""
    folder = tmp_path_factory.mktemp("engines")
    write_folder(folder / "runs" / "de-en")
    return folder


def test_shards_by_xargs(place):
    found = re.search(r"^On one machine:\n\n```bash\n(.*?)```", PAGE, re.M | re.S)
    assert found is not None
    (place / "big.txt").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(["bash", "-ec", found[1]], cwd=place, env={**os.environ, "PATH": path}, check=True)
    expected = Translator.load(place / "runs" / "de-en", threads=1).translate(LINES)
    assert (place / "big.en").read_text(encoding="utf-8").splitlines() == expected


class Frame(dict):
    """What the page needs of a DataFrame."""

    def assign(self, **columns):
        return Frame({**self, **columns})


def test_the_function_for_engines(place, monkeypatch):
    monkeypatch.chdir(place)
    found = {}
    exec(re.search(r"```python\n(.*?)```", PAGE, re.S)[1], found)  # noqa: S102 - our own page
    expected = Translator.load(place / "runs" / "de-en", threads=1).translate(LINES)
    assert found["translated"](Frame(text=LINES)) == {"text": LINES, "translation": expected}
