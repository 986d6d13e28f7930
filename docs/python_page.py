"""Write the table of search options at the end of docs/python.md, from the table in nmt/search_settings.py. Run by
`make docs`; tests/test_docs.py fails when it is outdated."""

from pathlib import Path

from nmt.cli.front import load_command
from nmt.search_settings import ROWS, Place, Row
from nmt.system.files import write_bytes

PAGE = Path(__file__).resolve().parent / "python.md"
HEADING = "| Python | command | setting, also for `nmt-serve` | default | meaning |\n|---|---|---|---|---|\n"
WHERE = {Place.GPU: "a GPU", Place.SESSION: "sessions"}
"""Places that the page names where an option cannot be used."""
OTHER_CALLS = {"n_best": "`translate_nbest`, `complete`"}
"""The calls that have the settings which are no search settings of a call."""


def line(row: Row) -> str:
    """Return the row of the page for a setting."""
    options = {one.name: [*one.opts, *one.secondary_opts] for one in load_command("translate").params}
    name = f"`{row.name}`" + (f" of {OTHER_CALLS[row.name]}" if Place.CALL in row.lacks else "")
    places = [text for place, text in WHERE.items() if place in row.lacks]
    text = row.text + (f" Not for {', '.join(places)}." if places else "")
    option = ", ".join(f"`{one}`" for one in options[row.name])
    cells = [name, option, f"`decoding.{row.name}`", f"`{row.default!r}`", text]
    return "| " + " | ".join(cells) + " |\n"


def table() -> str:
    """Return the table of all settings."""
    return HEADING + "".join(line(row) for row in ROWS.values())


def renew() -> None:
    """Write the page with the current table."""
    text = PAGE.read_text("utf-8").partition(HEADING)[0]
    write_bytes(PAGE, (text + table()).encode())
