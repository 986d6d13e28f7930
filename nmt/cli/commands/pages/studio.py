"""nmt-studio: from a table to a translator in the browser."""

from __future__ import annotations

from pathlib import Path

import click

from nmt.cli.lines.streams import tell
from nmt.cli.options.command import Command, flag, require_extra
from nmt.cli.options.path_types import OUTPUT_FOLDER


@click.command(cls=Command)
@click.argument("folder", metavar="[FOLDER]", required=False, type=OUTPUT_FOLDER)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port to listen on; 0 for any free one.")
@flag("--no-browser", text="Only print the address.")
def studio(folder: str | None, port: int, no_browser: bool) -> None:
    """Make translators in the browser, from a spreadsheet on.

    FOLDER has the projects, each an ordinary folder; without it, it is Documents/Translators of the user. The page
    reads tables and texts, trains, says honestly how good the result is, learns from corrections, and makes files to
    give away. It is served to this machine alone; the address that is printed has the key to it.

    \b
    Examples:
        nmt-studio
        nmt-studio ~/translators --port 8000 --no-browser
    """
    require_extra("studio", "langcodes", "starlette", "uvicorn")
    from nmt.studio.server import serve

    documents = Path.home() / "Documents"
    default = (documents if documents.is_dir() else Path.home()) / "Translators"
    serve(Path(folder) if folder else default, port, tell, browser=not no_browser)
