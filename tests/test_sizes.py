"""Files that can be read in one go, and functions that can be seen at once; what is longer says why."""

import ast
from pathlib import Path

import pytest

import nmt
from docs import size

MOST_OF_FILE, MOST_OF_FUNCTION, MOST_OF_FOLDER = 600, 60, 16
ROOT = Path(nmt.__file__).parent

# A file that is being cut; no other may be added.
TEMPORARY: set[str] = set()

LONG_FUNCTIONS = {
    "cli/commands/train.py: train": "half of it is its options and what it promises",
    "inference/translator.py: Translator.translate_nbest": "half of it is its arguments and what it promises",
    "train/run/training.py: train": "half of it is its arguments and what it promises",
    "rnn/scan/scan.py: Scan.forward": "half of it is its arguments and what it promises",
    "rnn/kernels/cuda/search/choose_tokens.py: draw_kernel.draw_tokens": "one kernel",
    "rnn/kernels/cuda/search/choose_tokens.py: draw_kernel": "one kernel",
    "rnn/kernels/cuda/persistent/time_loop.py: backward_kernel": "one kernel: its registers must last",
    "rnn/kernels/cuda/persistent/time_loop.py: forward_kernel": "one kernel",
    "rnn/kernels/cuda/persistent/time_loop.py: backward_kernel.backward": "one kernel",
    "rnn/kernels/cuda/persistent/time_loop.py: forward_kernel.forward": "one kernel",
    "rnn/kernels/cuda/search/beam_step.py: beam_step_kernel": "one kernel",
    "rnn/kernels/cuda/search/beam_step.py: beam_step_kernel.beam_step": "one kernel",
}
"""Functions of more lines than they may have, each with why it is not cut."""


def functions(path):
    """The lines of each function of a file, by its name below those around it."""
    found = {}

    def look(node, around):
        for inner in ast.iter_child_nodes(node):
            if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                found[around + inner.name] = inner.end_lineno - inner.lineno + 1
            name = f"{around}{inner.name}." if hasattr(inner, "name") and hasattr(inner, "body") else around
            look(inner, name if isinstance(inner, ast.stmt) else around)

    look(ast.parse(path.read_text("utf-8")), "")
    return found


FILES = {str(path.relative_to(ROOT)): path for path in sorted(ROOT.rglob("*.py"))}


def test_files_can_be_read_in_one_go():
    long = {name for name, path in FILES.items() if len(path.read_text("utf-8").splitlines()) > MOST_OF_FILE}
    assert len(FILES) > 200
    assert long <= TEMPORARY


def test_functions_can_be_seen_at_once():
    sizes = {f"{file}: {name}": n for file, path in FILES.items() for name, n in functions(path).items()}
    assert len(sizes) > 2000
    assert {name for name, size in sizes.items() if size > MOST_OF_FUNCTION} == LONG_FUNCTIONS.keys()


@pytest.mark.parametrize("folder", size.EXTENTS)
def test_the_project_does_not_grow(folder):
    count, extent = sum(size.lines_below(folder).values()), size.EXTENTS[folder]
    assert extent.goal <= extent.bound
    assert count <= extent.bound, f"{folder} has {count:,} lines of {extent.bound:,}; take something out"


def test_no_folder_has_too_many_modules():
    folders = {path.parent for path in FILES.values()}
    counts = {str(one.relative_to(ROOT)): len([p for p in one.glob("*.py") if p.stem != "__init__"]) for one in folders}
    many = [f"nmt/{name} has {count} modules of {MOST_OF_FOLDER}" for name, count in counts.items()
            if count > MOST_OF_FOLDER]  # fmt: skip
    assert not many, f"{'; '.join(many)}; find a folder for some of them"


def test_functions_are_found_wherever_they_stand(tmp_path):
    path = tmp_path / "some.py"
    path.write_text(
        "class A:\n    def f(self):\n        if self:\n            def g():\n                pass\n\n\ndef h(): ...\n"
    )
    assert functions(path) == {"A.f": 4, "A.f.g": 2, "h": 1}
