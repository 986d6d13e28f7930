"""Settings of Sphinx for the documentation site, `make site`: the pages are read where they lie, so that their links
work in both places; links to other files of the repository become downloads."""

import re

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

import nmt
import nmt.rnn

project = "nmt"
author = "the nmt authors"
copyright = author  # noqa: A001
version = release = nmt.__version__
html_title = f"nmt {version}"
# Names that are loaded when first used are members, too.
for module in (nmt, nmt.rnn):
    vars(module)["__dir__"] = lambda names=module.__all__: names
include_patterns = ["*.md", "docs/*.md", "docs/tutorials/*.md", "docs/notebooks/*.ipynb", "results/*.md"]

# myst_nb reads pages and notebooks; autodoc and napoleon make the Python reference of docstrings.
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_theme_options = {"navigation_with_keys": True}
# Furo needs no other host; neither may anything else, as Sphinx' own renderer of formulas does.
html_math_renderer = "mathml"

# The anchors of headings are those that the repository's host gives them.
myst_heading_anchors = 4
myst_enable_extensions = ["dollarmath"]
# Notebooks are run by tests/test_tutorials.py, and shown with the outputs that they were committed with.
nb_execution_mode = "off"
# Texts of commands are of no language that could be coloured.
highlight_language = "text"
# Two hyphens are those of an option.
smartquotes = False

# A name between single backticks in a docstring is code.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True, "show-inheritance": False}
python_use_unqualified_type_names = True
napoleon_google_docstring = True
napoleon_use_rtype = False
# Docstrings are Markdown to the eye: where they look like odd reStructuredText they are shown as they are.
suppress_warnings = ["docutils", "ref.python", "myst.header", "config.cache"]
nitpicky = False


def formula(self: HTML5Translator, node: nodes.Element) -> None:
    """Write a formula as MathML, which browsers typeset by themselves."""
    text = convert(node.astext(), display="block" if isinstance(node, nodes.math_block) else "inline")
    # Some browsers know the alignment of columns as a style alone.
    self.body.append(re.sub(r'<mtd columnalign="(\w+)"', r'<mtd style="text-align: \1"', text))
    raise nodes.SkipNode


def links_below_headings(app: Sphinx, page: str, text: list[str]) -> None:
    """Move links to files from headings into a line below them: the list of headings cannot hold downloads."""
    text[0] = re.sub(r"^(#+ .*)\[(`[^`]+`)\]\((\S+\.py\S*)\)(.*)$", r"\1\2\4\n\n[source](\3)", text[0], flags=re.M)


def setup(app: Sphinx) -> None:
    """Register what is above."""
    app.connect("source-read", links_below_headings)
    app.add_html_math_renderer("mathml", inline_renderers=(formula, None), block_renderers=(formula, None))
