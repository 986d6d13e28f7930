"""Take the picture of the server's page that README shows: a sentence, its translation, and where a word comes from.

    python docs/page_picture.py runs/quickstart

Writes docs/pictures/page-alignment.png. Needs the extras [serve] and [browser], and Chromium.
"""

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

PICTURE = Path(__file__).resolve().parent / "pictures" / "page-alignment.png"
SIZE = {"width": 900, "height": 600}


def take(address: str, text: str, picture: Path) -> None:
    """Type a text, open the table of its words, point at the translation's last word, and save what the page shows."""
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE)
        page.goto(address)
        page.wait_for_selector("#source option", state="attached")
        page.fill("#text", text)
        page.wait_for_selector("#result .w")
        page.click("#tab-look")
        page.wait_for_selector("#attention table, #attention svg", state="attached")
        page.locator("#result .w").last.hover()
        page.screenshot(path=picture, full_page=True)
        browser.close()


def main() -> None:
    """Serve the model on a free port while the picture is taken."""
    parser = argparse.ArgumentParser(description="Take the picture of the server's page for README.")
    parser.add_argument("model", help="folder or bundle of a model")
    parser.add_argument("--text", default="the train leaves at quarter to nine")
    parser.add_argument("-o", "--output", type=Path, default=PICTURE, help="default: docs/pictures/page-alignment.png")
    options = parser.parse_args()
    command = [sys.executable, "-m", "nmt", "serve", options.model, "--port", "0", "--threads", "1"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            for line in server.stderr or ():
                if found := re.search(r"http://[\w.]+:\d+", line):
                    take(found[0], options.text, options.output)
                    return
            sys.exit("page_picture.py: the server must start, it ended; see what nmt-serve says")
        finally:
            server.terminate()


if __name__ == "__main__":
    main()
