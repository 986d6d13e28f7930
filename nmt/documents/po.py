"""Gettext's PO files, by the translate-toolkit: texts that have no translation get one, and are marked fuzzy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nmt.documents.document import Document
from nmt.documents.passage import text_passage
from nmt.documents.sentences import Splitter
from nmt.errors import DataError, NMTError


def read(content: bytes, name: str, splitter: Splitter | None) -> Document:
    """A PO file. What is translated already stays; plural forms all get the translation of the plural. Raises
    DataError; NMTError without the library."""
    try:
        from translate.storage.pypo import pofile
    except ImportError:
        raise NMTError(
            "po: must be read by the library translate-toolkit, got none; pip install 'recurrent-nmt[documents]'"
        ) from None
    try:
        store = pofile.parsestring(content)
    except Exception as error:  # the library raises what it likes
        raise DataError(
            f"{name}: must be a PO file, got a broken one ({str(error).splitlines()[0]}); mend it"
        ) from None
    units = [unit for unit in store.units if _is_open(unit)]
    if not store.units and content.strip():
        raise DataError(f"{name}: must be a PO file with entries, got none")
    texts = [list(unit.source.strings) if unit.hasplural() else [str(unit.source)] for unit in units]
    passages = [text_passage(text, splitter) for forms in texts for text in forms]

    def write(found: Sequence[str]) -> bytes:
        rest = iter(found)
        for unit, forms in zip(units, texts, strict=True):
            new = [next(rest) for _ in forms]
            unit.target = new if unit.hasplural() else new[0]
            unit.markfuzzy()
        return bytes(store) if units else content

    return Document(passages, write)


def _is_open(unit: Any) -> bool:
    """Whether an entry is to be translated: it has a text, and nobody has translated it."""
    return not unit.isheader() and not unit.isobsolete() and bool(str(unit.source).strip()) and not unit.istranslated()
