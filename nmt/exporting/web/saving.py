"""Write `translator.html`, a page that translates by itself, or the same as a module for JavaScript. The page is the
server's (nmt/serve/protocols/page.*) with a worker in place of the server."""

from __future__ import annotations

import base64
import gzip
import re
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.exporting.web.package import make_package
from nmt.system.files import new_folder, replacing, write_bytes, writing
from nmt.system.paths import check_new_folder

if TYPE_CHECKING:
    from nmt.storage.saved_model import SavedModel

_HERE = Path(__file__).parent
_SERVER_PAGE = Path(__file__).parents[2] / "serve" / "protocols"
WORKER = ("engine.js", "confidence.js", "subwords.js", "translator.js", "worker.js")
_PAGE = ("client.js", "page_link.js")
PACKAGE_NAME = "model.nmtweb"
# The browser keeps the page from loading or sending anything.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'wasm-unsafe-eval' blob:; worker-src blob:; "
    "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
)
_NO_SCRIPT = '<noscript><div class="plain"><div class="card"><p>This page needs JavaScript.</p></div></div></noscript>'


def save_page(out: Path, saved: SavedModel, compressed: bytes) -> None:
    """Write a page with a compressed package; it appears only when it is complete."""
    with writing(out), replacing(out) as aside:
        write_bytes(aside, page_of(compressed, f"{saved.config.data.src.lang} - {saved.config.data.tgt.lang}").encode())


def save_module(out: Path, compressed: bytes) -> None:
    """Write a new folder with the module `translator.mjs`, its types, its worker and the compressed package."""
    check_new_folder(out)
    with writing(out), new_folder(out) as folder:
        write_bytes(folder / "translator.mjs", bundled(("client.js", "module.js"), exports=True).encode())
        write_bytes(folder / "worker.mjs", bundled(WORKER).encode())
        write_bytes(folder / "translator.d.mts", (_HERE / "translator.d.ts").read_bytes())
        write_bytes(folder / PACKAGE_NAME, compressed, sync=True)


def compressed_package(path: str, checkpoint: str | None, saved: SavedModel, compute_dtype: str) -> bytes:
    """Return the package of a model, compressed; the same model gives the same bytes."""
    return gzip.compress(make_package(path, checkpoint, saved.cells, compute_dtype), mtime=0)


def bundled(names: tuple[str, ...], *, exports: bool = False) -> str:
    """Return files of this folder as one script; `exports`: whether the last one keeps its exports, for a module."""
    parts = []
    for name in names:
        text = re.sub(r"^import .*\n", "", (_HERE / name).read_text("utf-8"), flags=re.MULTILINE)
        if not (exports and name == names[-1]):
            text = re.sub(r"^export ", "", text, flags=re.MULTILINE)
        parts.append(text)
    return "".join(parts)


def page_of(compressed: bytes, title: str) -> str:
    """Return the page: the server's, without what needs a server, and with everything in one file."""
    names = "page.html", "page.css", "page.js", "learn.js"
    page, style, *scripts_of_page = ((_SERVER_PAGE / name).read_text("utf-8") for name in names)
    package = base64.b64encode(compressed).decode()
    scripts = (
        f'<script type="text/plain" id="package">{package}</script>\n'
        f'<script type="text/plain" id="worker">{_inline(bundled(WORKER))}</script>\n'
        f"<script>(() => {{\n{_inline(bundled(_PAGE))}}})();\n</script>\n"
        + "".join(f"<script>\n{_inline(script)}</script>\n" for script in scripts_of_page)
    )
    changes = {
        '<link rel="stylesheet" href="page.css">\n': f"<style>\n{style}</style>\n",
        '<script src="page.js" defer></script>\n': f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n',
        '<script src="learn.js" defer></script>\n': "",
        "<title>Translate</title>": f"<title>Translate {title}</title>",
        "Type or paste a text, or drop files": "Type or paste a text",
        '    <a href="spec" class="quiet">API</a>\n': "",
        " data-server": " hidden",
        "</body>": f"{scripts}</body>",
    }
    page = re.sub(r"<noscript>.*?</noscript>", _NO_SCRIPT, page, flags=re.DOTALL)
    for old, new in changes.items():
        if old not in page:
            raise RuntimeError(f"the server's page lacks {old!r}")
        page = page.replace(old, new)
    return page


def _inline(script: str) -> str:
    """Return a script as it may stand in a page."""
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")
