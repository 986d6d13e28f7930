"""Texts are in plain words: docstrings do not begin as riddles, and words coined for standard things stay out of
docstrings, comments, messages and documents."""

import ast
import io
import re
import tokenize
from pathlib import Path

import nmt

ROOT = Path(nmt.__file__).parent
REPOSITORY = ROOT.parent
# Sections of settings are exempt: their docstrings are descriptions in configs/schema.json.
FILES = sorted(path for path in ROOT.rglob("*.py") if path.relative_to(ROOT).parts[0] != "config")
RIDDLES = re.compile(r"(?:What|Who|Where|Which|How|Of|The same)\b|See `")

FOLDERS = ("nmt", "benchmarks", "configs", "data_scripts", "deploy", "docs", "recipes", "results")
KINDS = (".py", ".md", ".yaml", ".toml", ".service")
# The front page and the first steps have a style of their own.
EXEMPT = {"README.md", "docs/start.md"}
PLAIN = {
    r"told|is heard|are heard": "printed, reported, given, distinguished",
    r"whoever": "any thread (process, user) that",
    r"nobody|somebody": "no thread (user); another user; or a sentence about the code itself",
    r"anew": "again",
    r"mend(?:s|ed|ing)?": "fix, correct",
    r"beside": "next to, compared with, in addition to",
    r"left out|leaves? out": "skipped, removed, omitted",
    r"(?:is|are) cut into": "is split into, is tokenized into",
    r"at rest|of today": "idle; current",
    r"the door": "on entry; the entry point",
    r"have never heard of": "do not depend on",
    r"asks? nobody": "does not ask",
    r"look whether": "check whether",
    r"put back a": "restore a",
}
"""Words that readers have stumbled over, and plain ones for them."""
STRANGE = re.compile("|".join(rf"\b({words})\b" for words in PLAIN), re.I)
# Names of arguments, functions and constants in docstrings.
LEGITIMATE = re.compile(r"^beside: |`beside`|\bNOBODY\b")


def docstrings(tree):
    """Yield the name and docstring of each module, class and function, and the docstrings of attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield f"line {node.lineno}", node.value.value
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield getattr(node, "name", "module"), ast.get_docstring(node) or ""


def test_arguments_have_a_line_each():
    """A reformatting had joined the entries of a list into one paragraph."""
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in FILES
        for name, text in docstrings(ast.parse(path.read_text("utf-8")))
        for block in re.findall(r"^\s*(?:Args|Attributes):\n((?:.+\n?)+)", text, re.M)
        if re.search(r"^\s+\w+: .*\. [a-z_]+: ?(?:[A-Z].*)?$", block, re.M)
    ]
    assert not found


def test_docstrings_begin_with_a_verb_or_a_noun():
    for path in FILES:
        for name, text in docstrings(ast.parse(path.read_text("utf-8"))):
            assert not RIDDLES.match(text), f"{path.relative_to(ROOT)}: {name}: {text[:60]}"


def prose(name, text):
    """Yield the number and text of the lines that people read: of documents all but code, of Python strings and
    comments, of other files comments."""
    if name.endswith(".md"):
        text = re.sub(r"^```.*?^```", lambda block: "\n" * block[0].count("\n"), text, flags=re.M | re.S)
        yield from enumerate(re.sub(r"`[^`\n]*`", "", text).split("\n"), 1)
    elif name.endswith(".py"):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
                yield from enumerate(node.value.split("\n"), node.lineno)
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string
    else:
        yield from ((n, line[line.index("#") :]) for n, line in enumerate(text.split("\n"), 1) if "#" in line)


def strange(name, text):
    """The lines of a text with words that have a plain one, and what to write."""
    return [
        f"{name}:{n}: {line.strip()[:100]!r}: instead of {found[0]!r}: {list(PLAIN.values())[found.lastindex - 1]}"
        for n, line in prose(name, text)
        if (found := STRANGE.search(line)) and not LEGITIMATE.search(line.strip())
    ]


def test_texts_use_plain_words():
    files = [path for folder in FOLDERS for path in (REPOSITORY / folder).rglob("*") if path.suffix in KINDS]
    files += [*REPOSITORY.glob("*.md"), REPOSITORY / "pyproject.toml", REPOSITORY / "Makefile"]
    names = {path.relative_to(REPOSITORY).as_posix(): path for path in files}
    assert len(names) > 590
    found = [line for name in sorted(names.keys() - EXEMPT) for line in strange(name, names[name].read_text("utf-8"))]
    assert not found, "\n".join(found)
