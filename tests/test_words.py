"""Docstrings are in plain words: none begins as a riddle, and words coined for standard things stay out."""

import ast
import re
from pathlib import Path

import nmt

ROOT = Path(nmt.__file__).parent
# Sections of settings are left out: their docstrings are descriptions in configs/schema.json.
FILES = sorted(path for path in ROOT.rglob("*.py") if path.relative_to(ROOT).parts[0] != "config")
RIDDLES = re.compile(r"(?:What|Who|Where|Which|How|Of|The same)\b|See `")
COINED = re.compile(r"\b(?:look_away|begin_meetings|SELFISH_LOOKS|PATIENT_LOOKS|arrived?\(|whoever|somebody)\b")


def docstrings(tree):
    """Yield the name and docstring of each module, class and function, and the docstrings of attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield f"line {node.lineno}", node.value.value
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield getattr(node, "name", "module"), ast.get_docstring(node) or ""


def test_docstrings_begin_with_a_verb_or_a_noun():
    found = [
        f"{path.relative_to(ROOT)}: {name}: {text[:60]}"
        for path in FILES
        for name, text in docstrings(ast.parse(path.read_text("utf-8")))
        if RIDDLES.match(text)
    ]
    assert not found


def test_coined_words_stay_out_of_docstrings():
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in FILES
        for name, text in docstrings(ast.parse(path.read_text("utf-8")))
        if COINED.search(text)
    ]
    assert not found
