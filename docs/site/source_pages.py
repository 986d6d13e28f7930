"""Pages of source files, for links from documents into the code: `source/nmt/rnn/cell.py.html#L-7`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import TextLexer, get_lexer_for_filename
from pygments.util import ClassNotFound
from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[2]
LIST_NAME = "sources.json"
"""Which files and folders the documents lead to; docs/site/build.py writes it next to the texts."""


def pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Name, context and template of each page, as Sphinx asks for them."""
    for name in json.loads((Path(app.srcdir) / LIST_NAME).read_text("utf-8")):
        path = ROOT / name
        body = folder_body(path) if path.is_dir() else file_body(path)
        yield f"source/{name}", {"title": name, "body": f"<h1>{escape(name)}</h1>{body}"}, "page.html"


def file_body(path: Path) -> str:
    """The file in colours, each line with a number that can be linked to."""
    try:
        lexer = get_lexer_for_filename(path.name)
    except ClassNotFound:
        lexer = TextLexer()
    formatter = HtmlFormatter(linenos="inline", lineanchors="L", anchorlinenos=True, wrapcode=True)
    return str(highlight(path.read_text("utf-8"), lexer, formatter))


def folder_body(path: Path) -> str:
    """What lies in a folder."""
    names = sorted(one.name + "/" * one.is_dir() for one in path.iterdir() if one.name[0] not in "._")
    return "<ul>" + "".join(f"<li><code>{escape(name)}</code></li>" for name in names) + "</ul>"


def share_contents(app: Sphinx, name: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Make the contents at the side of these pages once for each depth of folders, on which alone their links depend:
    to make them for each page took a quarter of the whole build."""
    if doctree is None and name.startswith("source/"):
        make, made, depth = context["toctree"], _contents, name.count("/")

        def contents(**options: Any) -> str:
            key = depth, tuple(sorted(options.items()))
            if key not in made:
                made[key] = make(**options)
            return made[key]

        context["toctree"] = contents


_contents: dict[tuple[int, tuple[tuple[str, Any], ...]], str] = {}


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    _contents.clear()
    app.connect("html-collect-pages", pages)
    app.connect("html-page-context", share_contents, priority=400)  # before the theme, which asks for the contents
    return {"parallel_read_safe": True, "parallel_write_safe": True}
