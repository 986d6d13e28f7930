"""The documentation site: Sphinx has no complaint, which it would have of any link within it, and no page asks another
host."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LOADED = re.compile(r'<(?:script|img|iframe)[^>]* src="([^"]+)"|<link[^>]* href="([^"]+)"')


@pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in ("sphinx", "myst_nb", "furo", "latex2mathml")),
    reason="the site needs the extra [site]",
)
def test_the_site_is_built_without_a_warning_and_asks_no_other_host(tmp_path):
    """A link within the site that leads nowhere, or a page that no list names, is a warning of Sphinx, and ends it."""
    made = tmp_path / "html"
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-c", "docs", "-d", tmp_path / "cache", "."]
    done = subprocess.run([*command, made], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    pages = {path.relative_to(made).as_posix(): path.read_text("utf-8") for path in made.rglob("*.html")}
    assert {"index.html", "docs/tutorials/lesson.html", "docs/tour.html", "search.html"} <= pages.keys()
    for name, text in pages.items():
        assert not [one for pair in LOADED.findall(text) for one in pair if one.startswith(("http", "//"))], name
        for target in re.findall(r'href="(?:\.\./)*(_downloads/[^"#]+)"', text):
            assert (made / target).is_file(), f"{name}: {target}"
    assert pages["docs/model.html"].count("<math") > 30 and "$" not in re.sub("<[^>]*>", "", pages["docs/model.html"])
    assert 'class="cell_output' in pages["docs/notebooks/inside-a-cell.html"]
    assert {"nmt.train.run.training.train", "nmt.Translator.load", "nmt.rnn.LSTMCell"} <= set(
        re.findall(r' id="(nmt\.[\w.]+)"', pages["docs/names.html"])
    )
    assert "batch_multiplier" in pages["docs/settings.html"]
    assert (made / "searchindex.js").stat().st_size > 100_000
