"""Builds the documentation site: build/site/html/index.html. Run by `make site`; needs the extra [site], no network.

Documents are read in the repository's own layout, so that their links work in both places. Links
to source files lead to pages of those files, tables that ask for it get charts, and the Python reference is made of
docstrings. Any link within the site that leads nowhere, and any other warning, ends the build.
"""

import argparse
import html
import importlib
import inspect
import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import charts
import click
import source_pages

SITE = Path(__file__).resolve().parent
sys.path.insert(0, str(SITE.parent))

import tour  # noqa: E402 - a module of docs/

from nmt.cli.entry import COMMANDS  # noqa: E402
from nmt.cli.front import load_command  # noqa: E402
from nmt.config import config_schema  # noqa: E402
from nmt.config.complaints import describe, resolve  # noqa: E402

ROOT = SITE.parents[1]
OUT = ROOT / "build" / "site"
PAGES = ("*.md", "docs/*.md", "docs/tutorials/*.md", "docs/notebooks/*.ipynb")
PICTURES = ("docs/*.svg", "docs/pictures/*", "docs/tutorials/*.png")
REFERENCES = {
    "nmt": "Translating from Python",
    "nmt.rnn": "Cells, scans and layers",
    "nmt.decode": "Search",
}
"""Packages whose public names the Python reference lists."""
LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])+)\]\(([^)\s]+)\)")


def staged(text: Path) -> list[Path]:
    """Copies pages and pictures; returns the paths of the pages in the repository."""
    pages = [path for pattern in PAGES for path in sorted(ROOT.glob(pattern))]
    for path in [*pages, *(path for pattern in PICTURES for path in sorted(ROOT.glob(pattern)))]:
        copy = text / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    shutil.copyfile(SITE / "index.md", text / "index.md")
    return pages


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """The text with `change` made of all that is not a block of code."""
    parts = re.split(r"(^```.*?^```$)", text, flags=re.M | re.S)
    return "".join(part if part.startswith("```") else change(part) for part in parts)


def linked(text: str, page: Path, sources: set[str]) -> str:
    """A page whose links to files that are no pages lead to pages of those files, which `sources` collects."""
    up = "../" * len(page.relative_to(ROOT).parts[:-1])

    def follow(link: re.Match[str]) -> str:
        target, _, anchor = link[2].partition("#")
        path = (page.parent / target).resolve()
        if not target or re.match(r"[a-z]+:", target) or path.suffix in {".md", ".ipynb", ".svg", ".png"}:
            return link[0]
        if not path.is_relative_to(ROOT) or not path.exists():
            raise ValueError(f"{page.relative_to(ROOT)}: must link to what is there, got {link[2]}; correct the link")
        name = path.relative_to(ROOT).as_posix()
        sources.add(name)
        words = re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(link[1]))
        lines = tour.definitions(path) if path.suffix == ".py" else {}
        line = f"#L-{lines[anchor]}" if anchor in lines else ""
        return f'<a href="{up}source/{name}.html{line}">{words}</a>'

    return outside_code(text, lambda part: LINK.sub(follow, part))


def with_charts(text: str, name: str, folder: Path) -> str:
    """A page with the charts that it asks for, which are written into `folder`."""
    for count, (asked, table) in enumerate(charts.tables_with_charts(text)):
        file = f"{Path(name).stem}-{count}.svg"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / file).write_bytes(charts.drawn(asked, table))
        text = text.replace(asked[0], f"![{asked[2]}](pictures/charts/{file})", 1)
    return text


def settings_page() -> str:
    """Every setting under its own anchor, such as `#confval-training.batch_size`, from the schema."""
    schema = config_schema()
    lines = [
        "# Settings",
        "",
        "All settings of a configuration, by section. The same as one file to copy from: "
        "[configs/reference.yaml](../configs/reference.yaml). On the command line `--set KEY=VALUE` changes one "
        "setting. The names that other toolkits use are in [migration](migration.md).",
        "",
        "## Top level",
        "",
    ]
    return "\n".join([*lines, *section_entries(schema, schema, "")]) + "\n"


def section_entries(node: dict, schema: dict, prefix: str) -> list[str]:
    """The entries of a section, and below them its own sections, each with a heading."""
    lines, sections = [], []
    for key, raw in node["properties"].items():
        child = resolve(raw, schema)
        path = prefix + key
        if "properties" in child:
            level = "#" * min(2 + path.count("."), 4)
            sections += [f"{level} {path}", "", plain(child["description"]), ""]
            sections += section_entries(child, schema, f"{path}.")
            continue
        default = "required" if key in node.get("required", []) else json.dumps(child.get("default"))
        lines += [f"````{{confval}} {path}", f":type: {describe(child, schema)}", f":default: `{default}`", ""]
        lines += [plain(child["description"]), "````", ""]
    return lines + sections


def plain(text: str) -> str:
    """A text in which nothing is a mark of Markdown, and pages that it names are links."""
    return re.sub(r"\bdocs/([\w-]+\.md)", r"[\1](\1)", re.sub(r"([*_<>\[\]])", r"\\\1", text))


def commands_page(page: str) -> str:
    """The page of commands, with an anchor for each option, such as `#cmdoption-nmt-train-seed`.

    Args:
        page: docs/commands.md, whose beginning is kept.
    """
    lines = [page.split("\n## ")[0], ""]
    for name in COMMANDS:
        program, command = f"nmt-{name}", load_command(name)
        context = click.Context(command, info_name=program, help_option_names=["-h", "--help"])
        lines += [
            f"## {program}",
            "",
            "```text",
            " ".join([program, *command.collect_usage_pieces(context)]),
            "```",
            "",
        ]
        for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(command.help or "")):
            if paragraph.startswith("\b\n"):
                first, _, rest = paragraph.removeprefix("\b\n").partition("\n")
                shown = inspect.cleandoc(rest) if first.endswith(":") else f"{first}\n{rest}"
                lines += [*([first, ""] if first.endswith(":") else []), "```text", shown, "```", ""]
            else:
                lines += [plain(" ".join(paragraph.split())), ""]
        lines += [f"```{{program}} {program}", "```", ""]
        for parameter in command.get_params(context):
            record = parameter.get_help_record(context)
            if isinstance(parameter, click.Option) and record is not None:
                names = [one.strip() for one in re.split(r", | / ", record[0])]
                lines += [f"````{{option}} {', '.join(names)}", "", plain(record[1]), "````", ""]
    return "\n".join(lines) + "\n"


def reference_page(package: str, title: str) -> str:
    """All public names of a package, for autodoc."""
    module = importlib.import_module(package)
    lines = [f"# {title}: `{package}`", "", (inspect.getdoc(module) or "").split("\n")[0], ""]
    for name in sorted(name for name in module.__all__ if not name.startswith("__")):
        value, place = getattr(module, name), f"{package}.{name}"
        if inspect.ismodule(value):  # a package that can be called
            value = inspect.unwrap(value)
            place = f"{value.__module__}.{value.__qualname__}"
        kind = "class" if inspect.isclass(value) else "function" if callable(value) else "data"
        if kind == "data":
            continue
        lines += [f"## {name}", "", "```{eval-rst}", f".. auto{kind}:: {place}", "```", ""]
    return "\n".join(lines)


def write_texts(text: Path) -> None:
    """Makes the folder that Sphinx reads."""
    shutil.rmtree(text, ignore_errors=True)
    sources: set[str] = set()
    for page in staged(text):
        if page.suffix == ".md":
            copy = text / page.relative_to(ROOT)
            content = linked(page.read_text("utf-8"), page, sources)
            copy.write_text(with_charts(content, page.name, text / "docs" / "pictures" / "charts"), "utf-8")
    for name, content in (
        ("settings", settings_page()),
        ("commands", commands_page((ROOT / "docs" / "commands.md").read_text("utf-8"))),
    ):
        page = ROOT / "docs" / f"{name}.md"
        (text / "docs" / page.name).write_text(linked(content, page, sources), "utf-8")
    for package, title in REFERENCES.items():
        (text / "docs" / f"python-{package.replace('.', '-')}.md").write_text(reference_page(package, title), "utf-8")
    (text / source_pages.LIST_NAME).write_text(json.dumps(sorted(sources)), "utf-8")


def main() -> None:
    """Builds, or with --check-links asks every address of other hosts as well."""
    parser = argparse.ArgumentParser(description="Build the documentation site into build/site/html.")
    parser.add_argument("--check-links", action="store_true", help="also follow links to other hosts (needs a network)")
    parser.add_argument("--texts-only", action="store_true", help="write what Sphinx reads, and stop")
    parser.add_argument("-o", "--output", type=Path, default=OUT, help="folder to write (default: build/site)")
    options = parser.parse_args()
    text = options.output / "text"
    write_texts(text)
    if options.texts_only:
        return
    try:
        from sphinx.cmd.build import main as sphinx
    except ImportError:
        sys.exit("build.py: Sphinx must be installed, it is not; pip install -e '.[site]'")
    sys.path.insert(0, str(SITE))
    common = ["-W", "--keep-going", "-q", "-c", str(SITE), "-d", str(options.output / "cache"), str(text)]
    status = sphinx(["-b", "html", *common, str(options.output / "html")])
    if options.check_links and not status:
        status = sphinx(["-b", "linkcheck", *common, str(options.output / "links")])
    if status:
        sys.exit(status)
    print(options.output / "html" / "index.html")


if __name__ == "__main__":
    main()
