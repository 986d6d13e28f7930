"""Documents in many file formats: the text to translate, and the file with the translations in its place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module

from nmt.documents.forms import FORMATS, Limits
from nmt.documents.passage import Passage, Rules, Splitter


@dataclass(frozen=True)
class File:
    """A file to read. name: its name in messages; splitter: splits paragraphs into sentences, if there is one;
    languages: codes of source and target, for formats that name them; limits: of its contents; form: one of FORMATS."""

    content: bytes
    name: str = "document"
    splitter: Splitter | None = None
    languages: tuple[str, str] | None = None
    limits: Limits = field(default_factory=Limits)
    form: str = "text"


@dataclass(frozen=True)
class Document:
    """A document. passages: the text; write: returns the file, given their new texts; unread: as `left` counts it."""

    passages: list[Passage]
    write: Callable[[Sequence[str]], bytes]
    unread: Mapping[str, int] = field(default_factory=dict)

    @property
    def left(self) -> dict[str, int]:
        """Return what should be translated but is left as it is: the number of each kind."""
        messages = sum(one.unread for one in self.passages)
        return dict(Counter({"ICU messages that cannot be read": messages}) + Counter(self.unread))


def left_text(left: Mapping[str, int]) -> str:
    """Return the contents of `Document.left` as words."""
    return ", ".join(f"{count:,} {what}" for what, count in left.items())


def read_document(
    content: bytes,
    form: str,
    name: str = "document",
    splitter: Splitter | None = None,
    languages: tuple[str, str] | None = None,
    limits: Limits | None = None,
    *,
    numbers: bool = True,
) -> Document:
    """Read a document; arguments as in `File`. `numbers`: whether provably wrong numbers of its translation are
    corrected. Raises DataError for another format or beyond the limits, and NMTError without a library."""
    file = File(content, name, splitter, languages, limits or Limits(), form)
    if not FORMATS[form].is_packed:
        file.limits.check_content(len(content), name)
    found: Document = import_module(FORMATS[form].module).read(file)
    source, target = languages or ("", "")
    for passage in found.passages:
        passage.ruled(Rules(source, target, numbers))
    return found
