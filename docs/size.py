"""Print the number of lines of each folder of nmt, and its BUDGET, which tests/test_sizes.py enforces; `make size`."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

BUDGET = {
    "cli": 5000,  # 50 for texts in a sweep, 150 for names of other toolkits and --quiet
    "config": 3050,  # 150 are the table of names in other toolkits
    "data": 4600,
    "decode": 2600,
    "doctor": 800,
    "documents": 3650,  # 500 for attributes of HTML, WebVTT, PPTX, OpenDocument, EPUB and Markdown
    "evaluate": 680,  # 60 for the sets of sacrebleu, 20 to check the arguments of nmt.evaluate
    "exporting": 820,  # 20 for text instead of subwords in run_onnx.py
    "importing": 2300,
    "inference": 1650,  # 140 are Pivot, two models in a row; 30 streams and saving
    "model": 2600,
    "precompile": 400,
    "report": 600,
    "rnn": 25950,
    "serve": 4850,  # 100 are pairs of models and the cache of sentences
    "storage": 1400,
    "system": 1300,
    "train": 7400,  # 50 for nmt.train and the loggers, 100 to notice that a run would go on with another text
    "(top)": 650,  # the table of search settings, which config, decode, inference and cli shared out before
}
"""Most lines of each folder of nmt, comments, docstrings and blank lines counted. Raise one only with its reason."""


def lines_by_room() -> dict[str, int]:
    """Return the lines of Python in each folder of nmt; files outside the folders are `(top)`."""
    found: dict[str, int] = {}
    for path in sorted((ROOT / "nmt").rglob("*.py")):
        parts = path.relative_to(ROOT / "nmt").parts
        room = parts[0] if len(parts) > 1 else "(top)"
        found[room] = found.get(room, 0) + path.read_bytes().count(b"\n")
    return found


def main() -> None:
    """Print the table."""
    found = lines_by_room()
    for room, count in sorted(found.items(), key=lambda one: -one[1]):
        print(f"{room:12}{count:8,} of {BUDGET.get(room, 0):7,}")
    print(f"{'nmt':12}{sum(found.values()):8,} of {sum(BUDGET.values()):7,}")


if __name__ == "__main__":
    main()
