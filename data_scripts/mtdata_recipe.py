"""Brings a recipe of mtdata (corpora of OPUS, WMT and many others) to data/RECIPE/{train,dev,test}.{LANG,LANG}.

    python data_scripts/mtdata_recipe.py RECIPE                  calls mtdata, which downloads
    python data_scripts/mtdata_recipe.py RECIPE --from FOLDER    takes a folder that mtdata wrote

mtdata must be installed: pip install mtdata, best in an environment of its own, whose folder bin is then put on PATH.
`mtdata list-recipe` lists recipes; your own are a few lines in mtdata.recipes.yml in the current folder (see mtdata's
README). Languages keep mtdata's codes of three letters, such as deu and eng. The first test set is test, further ones
are test2, test3 and so on. What mtdata writes stays in OUT/mtdata, from which an interrupted download goes on.

Each corpus has a licence of its own: `mtdata list --full` shows where it is from, and references.bib what to cite.
"""

import argparse
import codecs
import difflib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from text_files import fail

TRAIN, DEV, TESTS = "train", "dev", re.compile(r"test(\d+)")
ENDING = re.compile(r"[a-z]{3}(?:[-_][A-Za-z]+)*")
CHUNK = 1 << 20


def find_parts(folder: Path) -> dict[str, dict[str, Path]]:
    """Returns the files that mtdata wrote, by our name of a part and by language."""
    parts: dict[str, dict[str, Path]] = {}
    for path in sorted(folder.iterdir()):
        part, _, ending = path.name.partition(".")
        number = TESTS.fullmatch(part)
        if not ENDING.fullmatch(ending) or not (part in (TRAIN, DEV) or number):
            continue
        ours = part if not number else "test" if number[1] == "1" else f"test{number[1]}"
        # train has whole tags, such as eng_US, where the others have the language alone.
        parts.setdefault(ours, {})[re.split("[-_]", ending)[0]] = path
    if TRAIN not in parts:
        fail(
            f"{folder}: must contain train.LANG of two languages, got none; let mtdata get a recipe, or use get --merge"
        )
    for part, sides in parts.items():
        if len(sides) != 2 or sides.keys() != parts[TRAIN].keys():
            expected = " and ".join(f"{part}.{language}" for language in parts[TRAIN])
            fail(f"{folder}: must contain {expected}, got {', '.join(path.name for path in sides.values())}")
    return parts


def copy_text(source: Path, target: Path) -> int:
    """Copies a text of any size; returns its number of lines. Refuses what is not UTF-8."""
    decoder, lines, last = codecs.getincrementaldecoder("utf-8")(), 0, b"\n"
    try:
        with source.open("rb") as read, target.open("wb") as written:
            while chunk := read.read(CHUNK):
                decoder.decode(chunk)
                lines, last = lines + chunk.count(b"\n"), chunk[-1:]
                written.write(chunk)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        fail(f"{source}: must be UTF-8, got other bytes after line {lines}; remove this corpus from the recipe")
    except OSError as error:
        fail(f"{source}, {target}: must be readable and writable, got {error.strerror}; check the paths")
    return lines + (last != b"\n")


def write_parts(parts: dict[str, dict[str, Path]], out: Path) -> None:
    """Writes every part in both languages, or nothing where sides have unequal lengths."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fail(f"{out}: must be a folder that can be written, got {error.strerror}; choose another --out")
    with tempfile.TemporaryDirectory(dir=out, prefix=".") as name:
        sizes = {}
        for part, sides in parts.items():
            counts = {language: copy_text(path, Path(name, f"{part}.{language}")) for language, path in sides.items()}
            if len(set(counts.values())) != 1 or 0 in counts.values():
                found = ", ".join(f"{language} {count}" for language, count in counts.items())
                fail(f"{part}: both languages must have the same number of lines, got {found}; fetch it again")
            sizes[part] = next(iter(counts.values()))
        for part, sides in parts.items():
            for language in sides:
                os.replace(Path(name, f"{part}.{language}"), out / f"{part}.{language}")
    counted = ", ".join(f"{size} {part}" for part, size in sizes.items())
    print(f"{out}: {counted} lines each in {', '.join(parts[TRAIN])}")


def fetch_recipe(recipe: str, folder: Path) -> None:
    """Calls mtdata, which downloads a recipe into a folder."""
    command = shutil.which("mtdata")
    if command is None:
        fail("mtdata: must be installed, got no such command; pip install mtdata, or give its folder with --from")
    listed = subprocess.run([command, "list-recipe", "--id"], capture_output=True, text=True)
    if listed.returncode:
        last = (listed.stderr.strip().splitlines() or [f"exit code {listed.returncode}"])[-1]
        fail(f"mtdata list-recipe: must list the recipes, got {last}; check the installation of mtdata")
    known = listed.stdout.split()
    if recipe not in known:
        near = difflib.get_close_matches(recipe, known, n=3, cutoff=0.3) or known[:3]
        fail(f"{recipe}: must be a recipe of mtdata, got an unknown name; near it are {', '.join(near)}")
    getting = [command, "get-recipe", "--recipe-id", recipe, "--fail-on-error", "--out", str(folder)]
    done = subprocess.run(getting, stdout=sys.stderr)
    if done.returncode:
        fail(f"mtdata get-recipe: must fetch {recipe}, got exit code {done.returncode}; see its lines above")


def main() -> None:
    """Fetches a recipe or takes a folder, checks and writes."""
    parser = argparse.ArgumentParser(description="Bring a recipe of mtdata to plain text, one sentence a line.")
    parser.add_argument("recipe", metavar="RECIPE", help="name of a recipe; mtdata list-recipe lists them")
    parser.add_argument("--from", dest="folder", type=Path, help="folder that mtdata wrote; without it, download")
    parser.add_argument("--out", type=Path, help="folder to write (default: data/RECIPE)")
    options = parser.parse_args()
    out = options.out or Path("data") / options.recipe
    folder = options.folder
    if folder is None:
        folder = out / "mtdata"
        fetch_recipe(options.recipe, folder)
    elif not folder.is_dir():
        fail(f"--from {folder}: must be a folder, got none there; check the path")
    write_parts(find_parts(folder), out)
    references = folder / "references.bib"
    if references.is_file():
        shutil.copyfile(references, out / references.name)
        print(f"what to cite: {out / references.name}", file=sys.stderr)


if __name__ == "__main__":
    main()
