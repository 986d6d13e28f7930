"""docs/many-machines.md: each engine's lines are run as they stand there, where the engine is installed."""

import importlib.util
import json
import os
import re
import shutil
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
    """A folder with the model and the corpus of the page."""
    folder = tmp_path_factory.mktemp("engines")
    write_folder(folder / "runs" / "de-en")
    (folder / "corpus").mkdir()
    for number in range(2):
        rows = [{"id": n, "text": text} for n, text in enumerate(LINES) if n % 2 == number]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / "corpus" / f"{number}.jsonl").write_text(text, encoding="utf-8")
    return folder


def code_of(title: str) -> str:
    found = re.search(rf"^{title}:\n\n```python\n(.*?)```", PAGE, re.M | re.S)
    assert found is not None, f"the page must have lines for {title}"
    assert len([line for line in found[1].splitlines() if line.strip()]) <= 10
    return found[1]


def works(engine: str) -> bool:
    if importlib.util.find_spec(engine) is None:
        return False
    return engine != "pyspark" or shutil.which("java") is not None


@pytest.mark.parametrize(
    ("title", "engine"), [("Ray", "ray"), ("Dask", "dask"), ("Spark", "pyspark"), ("Hugging Face datasets", "datasets")]
)
def test_the_lines_of_an_engine(place, title, engine):
    if not works(engine):
        pytest.skip(f"needs {engine}, and Java for Spark")
    shutil.rmtree(place / "translated", ignore_errors=True)
    for name in ("script.py", "translated.jsonl"):
        (place / name).unlink(missing_ok=True)
    code = code_of(title).replace("\n", "\n    ")
    (place / "script.py").write_text(f"if __name__ == '__main__':\n    {code}\n", encoding="utf-8")
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parents[1]),
        "PYSPARK_PYTHON": sys.executable,
        "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
        "HF_HOME": str(place / "cache"),
        "HF_HUB_OFFLINE": "1",
    }
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=place, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    files = [place / "translated.jsonl"] if (place / "translated.jsonl").exists() else []
    files += [path for path in (place / "translated").rglob("*") if path.is_file() and path.name[0] not in "._"]
    rows = [json.loads(line) for path in files for line in path.read_text(encoding="utf-8").splitlines()]
    expected = Translator.load(place / "runs" / "de-en", threads=1).translate(LINES)
    assert sorted(row["id"] for row in rows) == list(range(len(LINES)))
    for row in rows:
        assert (row["text"], row["translation"]) == (LINES[row["id"]], expected[row["id"]])
        assert row["translation_error"] == ""


def test_shards_by_xargs(place):
    found = re.search(r"^On one machine:\n\n```bash\n(.*?)```", PAGE, re.M | re.S)
    assert found is not None
    (place / "big.txt").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(["bash", "-ec", found[1]], cwd=place, env={**os.environ, "PATH": path}, check=True)
    expected = Translator.load(place / "runs" / "de-en", threads=1).translate(LINES)
    assert (place / "big.en").read_text(encoding="utf-8").splitlines() == expected
