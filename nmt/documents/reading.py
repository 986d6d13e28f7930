"""Conversion of texts to passages and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nmt.documents.passage import RULES, Markup, Passage, Rules
from nmt.documents.sentences import Splitter
from nmt.documents.tagged_text import html_passage, plain_passage, xml_passage
from nmt.inference.translation import Translation


def read_passage(
    text: str,
    markup: Markup = "text",
    splitter: Splitter | None = None,
    ignored: frozenset[str] = frozenset(),
    rules: Rules = RULES,
) -> Passage:
    """Split a text into sentences. markup: the kind of tags and entities in it; splitter: splits paragraphs into
    sentences, if None each paragraph is one sentence; ignored: names of elements whose content is not translated;
    rules: of all sentences."""
    if markup == "text":
        return plain_passage(text, splitter).ruled(rules)
    return (html_passage if markup == "html" else xml_passage)(text, splitter, ignored).ruled(rules)


def translate_passages(
    passages: Sequence[Passage], translate: Callable[[list[str], bool], Sequence[Translation]]
) -> list[str]:
    """Translate passages and return their texts. `translate(sentences, details)` is called once for the sentences that
    need no details and once for those that do."""
    sentences = [one for passage in passages for one in passage.sentences]
    found: dict[int, Translation] = {}
    for detailed in (False, True):
        chosen = [n for n, one in enumerate(sentences) if one.needs_detail == detailed]
        if chosen:
            found |= zip(chosen, translate([sentences[n].asked for n in chosen], detailed), strict=True)
    ordered = iter([found[n] for n in range(len(sentences))])
    return [passage.joined([next(ordered) for _ in passage.sentences]) for passage in passages]
