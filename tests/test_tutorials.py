"""start.md and the tutorials are followed: their files are written and their commands run, in order, as they stand.

Only sizes are smaller: a few updates of training, fewer lines held out. Commands that set up an environment or serve
are left out; tests of the server have those.
"""

import contextlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "docs" / "start.md", *sorted((ROOT / "docs" / "tutorials").glob("*.md"))]
NOT_RUN = ("make ", "source ", "nmt-serve ", "curl ")
SMALLER = [
    # What is held out of the corpus.
    ("-n 500 ", "-n 20 "),
    ("501,1000p", "21,40p"),
    ("+1001 ", "+41 "),
    ("--seeds 3", "--seeds 2"),
]
SETTINGS = [
    "training.updates=20",
    "training.validation_freq=20",
    "training.learning_rate_warmup=5",
    "training.batch_size=100",
    "threads=1",
]
TRAINS = re.compile(r"^(nmt-train|nmt-sweep|python recipes/run\.py) [^|>]*")
# A few words stand for a corpus that the script would fetch.
WORDS = ("abby", "été", "bonjour", "lune", "nuit", "jour", "sel", "eau") * 6


def blocks(page):
    return re.findall(r"^```(\w+)\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)


def smaller(line, copy):
    """A command of a page with less to do."""
    for old, new in SMALLER:
        line = line.replace(old, new)
    if "sigmorphon2020_g2p.py" in line:
        return f"{line} --from {copy}"
    if TRAINS.match(line) and "--check-data" not in line:
        return line.rstrip() + "".join(f" --set {setting}" for setting in SETTINGS)
    return line


def shell(line, folder):
    """Run one line in bash. The commands are those of this environment."""
    names = ("PATH", "HOME", "LANG", "XDG_CACHE_HOME", "NMT_CACHE_DIR")
    kept = {name: os.environ[name] for name in names if name in os.environ}
    path = f"{Path(sys.executable).parent}:{kept.get('PATH', '')}"
    environment = {**kept, "PATH": path, "PYTHONPATH": str(ROOT)}
    command = ["bash", "-ec", f"set -o pipefail; {line}"]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_can_be_followed(page, tmp_path):
    for name in ("configs", "data_scripts", "recipes"):
        (tmp_path / name).symlink_to(ROOT / name)
    copy = tmp_path / "copy"
    copy.mkdir()
    for part in ("train", "dev", "test"):
        (copy / f"fre_{part}.tsv").write_text("".join(f"{word}\t{' '.join(word)}\n" for word in WORDS), "utf-8")
    names, done = {}, 0
    for language, text in blocks(page):
        file = re.match(r"# (\S+\.(?:py|yaml))\n", text)
        if file:
            (tmp_path / file[1]).write_text(text, "utf-8")
        elif language == "python":
            with contextlib.chdir(tmp_path):
                exec(compile(text, page.name, "exec"), names)
            done += 1
        elif language == "bash":
            for line in text.replace("\\\n", " ").splitlines():
                if line.startswith(NOT_RUN):
                    continue
                result = shell(smaller(line, copy), tmp_path)
                assert result.returncode == 0, f"{line}\n{result.stdout[-1500:]}\n{result.stderr[-1500:]}"
                if "number_words.py" in line:
                    shorten(tmp_path / "data" / "demo")
                done += 1
        else:
            assert language in {"text", "yaml"}, f"{page.name}: nothing runs a block of {language}"
    assert done >= 3


def shorten(folder):
    """Most of a corpus is enough to follow a page by."""
    for path in folder.iterdir():
        most = 3000 if path.stem == "train" else 40
        path.write_text("".join(f"{line}\n" for line in path.read_text("utf-8").splitlines()[:most]), "utf-8")


def test_no_block_of_these_pages_is_left_out_by_its_kind():
    """Yaml and text blocks are files, or what a command prints; a block of text must be shown by no command here."""
    for page in PAGES:
        for language, text in blocks(page):
            assert language in {"bash", "python", "yaml"}, page.name
            assert language != "yaml" or re.match(r"# \S+\.yaml\n", text), page.name
