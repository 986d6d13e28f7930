"""From texts to passages and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nmt.documents.passage import Markup, Passage, text_passage
from nmt.documents.sentences import Splitter
from nmt.documents.tagged_text import html_passage, xml_passage
from nmt.inference.translation import Translation


def read_passage(
    text: str, markup: Markup = "text", splitter: Splitter | None = None, ignored: frozenset[str] = frozenset()
) -> Passage:
    """Cut a text into sentences. markup: what tags and entities in it mean; splitter: where sentences of a paragraph
    end, each paragraph is one where None; ignored: names of elements whose content stays as it is."""
    if markup == "text":
        return text_passage(text, splitter)
    return (html_passage if markup == "html" else xml_passage)(text, splitter, ignored)


def translate_passages(
    passages: Sequence[Passage], translate: Callable[[list[str], bool], Sequence[Translation]]
) -> list[str]:
    """Translate passages by `translate(sentences, details)`, which is called for those that need no details, and for
    those that do."""
    sentences = [one for passage in passages for one in passage.sentences]
    found: dict[int, Translation] = {}
    for detailed in (False, True):
        chosen = [n for n, one in enumerate(sentences) if one.needs_detail == detailed]
        if chosen:
            found |= zip(chosen, translate([sentences[n].asked for n in chosen], detailed), strict=True)
    ordered = iter([found[n] for n in range(len(sentences))])
    return [passage.joined([next(ordered) for _ in passage.sentences]) for passage in passages]
