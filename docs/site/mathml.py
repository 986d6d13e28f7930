"""Formulas as MathML, which browsers typeset by themselves: Sphinx' default loads a script from another host."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator


def inline(self: HTML5Translator, node: nodes.math) -> None:
    """Write a formula within a line."""
    self.body.append(convert(node.astext()))
    raise nodes.SkipNode


def block(self: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula between paragraphs."""
    # Some browsers know the alignment of columns as a style alone.
    text = convert(node.astext(), display="block")
    self.body.append(re.sub(r'<mtd columnalign="(\w+)"', r'<mtd style="text-align: \1"', text))
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer."""
    app.add_html_math_renderer("mathml", inline_renderers=(inline, None), block_renderers=(block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
