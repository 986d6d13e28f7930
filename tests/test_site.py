"""The documentation site: links into the code lead to its lines, charts show their tables, Sphinx has no complaint."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "docs" / "site"
needs_sphinx = pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in ("sphinx", "myst_nb", "furo", "matplotlib", "latex2mathml")),
    reason="the site needs the extra [site]",
)


@pytest.fixture(scope="module")
def modules():
    """build and charts, which import one another by bare name as a script's modules do."""
    pytest.importorskip("pygments", reason="the site needs the extra [site]")
    sys.path.insert(0, str(SITE))
    try:
        specs = {
            name: importlib.util.spec_from_file_location(name, SITE / f"{name}.py") for name in ("charts", "build")
        }
        found = {name: importlib.util.module_from_spec(spec) for name, spec in specs.items()}
        for name, spec in specs.items():
            spec.loader.exec_module(found[name])
        yield found
    finally:
        sys.path.remove(str(SITE))


def test_links_into_the_code_lead_to_pages_of_it(modules):
    sources = set()
    page = ROOT / "docs" / "tour.md"
    text = modules["build"].linked(
        "[`train`](../nmt/cli/commands/train.py#train), [a](scan.md), [b](https://x.org/y.py)", page, sources
    )
    line = next(
        n for n, line in enumerate((ROOT / "nmt/cli/commands/train.py").open(), 1) if line.startswith("def train(")
    )
    link = f'<a href="../source/nmt/cli/commands/train.py.html#L-{line}"><code>train</code></a>'
    assert text == f"{link}, [a](scan.md), [b](https://x.org/y.py)"
    assert sources == {"nmt/cli/commands/train.py"}
    code = "```text\n[x](../nmt/none.py)\n```\n"
    assert modules["build"].linked(code, page, sources) == code
    with pytest.raises(ValueError, match="docs/tour.md: must link to what is there"):
        modules["build"].linked("[x](../nmt/none.py)", page, sources)


def test_every_setting_and_option_has_an_anchor(modules):
    from nmt.cli.front import load_command

    page = modules["build"].settings_page()
    entries = set(re.findall(r"^````\{confval\} (\S+)$", page, re.M))
    assert {"seed", "data.src.lowercase", "model.encoder.embeddings.dropout", "training.batch_size"} <= entries
    assert "### model.encoder" in page and "#### model.encoder.embeddings" in page
    reference = (ROOT / "configs" / "reference.yaml").read_text("utf-8")
    assert len(entries) == len(re.findall(r"^ *[a-z_]+: \S", reference, re.M))
    commands = modules["build"].commands_page((ROOT / "docs" / "commands.md").read_text("utf-8"))
    given = set(re.findall(r"^````\{option\} (.+)$", commands, re.M))
    named = {part.split()[0] for names in given for part in names.split(", ")}
    options = {name for param in load_command("translate").params for name in param.opts if name.startswith("--")}
    assert options <= named and "[presets.md](presets.md)" in page


def test_columns_of_figures_name_no_row(modules):
    charts = modules["charts"]
    ((asked, table),) = charts.tables_with_charts(
        "| cell | ms | left | x |\n|---|---|---|---|\n| LSTM | 281 | 95 % | 1.1x |\n| GRU | 12 | - | 2x |\n\n"
        "<!-- chart: x | Times -->\n"
    )
    pytest.importorskip("matplotlib", reason="charts need the extra [site]")
    shown = re.sub("<[^>]*>", "", charts.drawn(asked, table).decode())
    assert "LSTM" in shown and "281" not in shown and "95 %" not in shown


TABLE = """| | tokens/s | of peak |
|---|---|---|
| `ours`, float32 | 3,061 | 71.5 % |
| [theirs](https://x.org) | **747** | - |

<!-- chart: tokens/s; of peak | Training -->
"""


def test_a_chart_is_drawn_of_the_table_above_it(modules):
    charts = modules["charts"]
    ((asked, table),) = charts.tables_with_charts(TABLE)
    assert table[1:] == [["`ours`, float32", "3,061", "71.5 %"], ["[theirs](https://x.org)", "**747**", "-"]]
    assert [charts.number(cell) for cell in ("3,061", "**747**", "71.5 %", "1.06x", "-", "")] == [
        3061,
        747,
        71.5,
        1.06,
        None,
        None,
    ]
    with pytest.raises(ValueError, match="must stand below a table"):
        charts.tables_with_charts("<!-- chart: a | b -->")
    pytest.importorskip("matplotlib", reason="charts need the extra [site]")
    picture = charts.drawn(asked, table).decode()
    assert picture == charts.drawn(asked, table).decode()
    for text in ("ours, float32", "theirs", "3061", "Training", "of peak"):
        assert f">{text}<" in picture or text in re.sub("<[^>]*>", "", picture)
    (wrong,) = charts.tables_with_charts(TABLE.replace("chart: tokens/s", "chart: sentences/s"))
    with pytest.raises(ValueError, match="must name columns of the table, got sentences/s"):
        charts.drawn(*wrong)


@needs_sphinx
def test_the_site_is_built_without_a_warning_and_asks_no_other_host(tmp_path):
    """A link within the site that leads nowhere, or a page that no list names, is a warning of Sphinx, and ends it."""
    done = subprocess.run(
        [sys.executable, SITE / "build.py", "-o", tmp_path], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    pages = {path.relative_to(tmp_path / "html").as_posix(): path for path in (tmp_path / "html").rglob("*.html")}
    assert {"index.html", "docs/tutorials/own-corpus.html", "docs/python-nmt-rnn.html", "search.html"} <= pages.keys()
    for name, path in pages.items():
        text = path.read_text("utf-8")
        loaded = re.findall(r'<(?:script|img|iframe)[^>]* src="([^"]+)"|<link[^>]* href="([^"]+)"', text)
        assert not [one for pair in loaded for one in pair if one.startswith(("http", "//"))], name
        for target, anchor in re.findall(r'href="(?:\.\./)*(source/[^"#]+)(?:#([^"]*))?"', text):
            assert target in pages, f"{name}: {target}"
            assert not anchor or f'name="{anchor}"' in pages[target].read_text("utf-8"), f"{name}: {target}#{anchor}"
    assert len(json.loads((tmp_path / "text" / "sources.json").read_text())) > 50
    assert (tmp_path / "html" / "searchindex.js").stat().st_size > 100_000
    assert len(list((tmp_path / "html" / "_images").glob("benchmarks-*.svg"))) >= 3
