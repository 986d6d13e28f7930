"""Pages in a browser that note what goes wrong, and what of them is not for everybody."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest


@contextmanager
def page_in(browser: Any, expected: tuple[str, ...] = ("404",), **options: Any) -> Iterator[Any]:
    """Yield a page in a context of its own. It notes `errors` of its scripts and those that it writes on its console,
    except about answers with an `expected` status, and the `hosts` that it asks."""
    context = browser.new_context(**options)
    page = context.new_page()
    page.errors, page.hosts = [], set()

    def note(message: Any) -> None:
        if message.type == "error" and not any(f"status of {one}" in message.text for one in expected):
            page.errors.append(message.text)

    page.on("pageerror", lambda error: page.errors.append(str(error)))
    page.on("console", note)
    page.on("request", lambda request: page.hosts.add(urlsplit(request.url).netloc or urlsplit(request.url).scheme))
    yield page
    context.close()


def mistakes(page: Any) -> list[tuple[str, str, str]]:
    """Return what axe finds in a page: rule, impact, and the first element."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs the extra [browser]")
    found = axe.Axe().run(page).response["violations"]
    return [(one["id"], one["impact"], one["nodes"][0]["html"]) for one in found]
