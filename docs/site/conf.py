"""Settings of Sphinx for the documentation site; docs/site/build.py makes the texts that it reads."""

from nmt import __version__

project = "nmt"
author = "the nmt authors"
copyright = author  # noqa: A001
version = release = __version__
html_title = f"nmt {version}"

# myst_nb reads pages and notebooks; autodoc and napoleon make the Python reference of docstrings.
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "source_pages", "mathml"]
html_theme = "furo"
# Furo needs no other host; neither may anything else.
html_math_renderer = "mathml"
html_static_path: list[str] = []
html_theme_options = {"navigation_with_keys": True}

# The anchors of headings are those that the repository's host gives them.
myst_heading_anchors = 4
myst_enable_extensions = ["dollarmath"]
# Notebooks are run by tests/test_notebooks.py, and shown with the outputs that they were committed with.
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
