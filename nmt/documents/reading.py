"""Conversion of texts to passages."""

from __future__ import annotations

from nmt.documents.passage import RULES, Markup, Passage, Rules
from nmt.documents.sentences import Splitter
from nmt.documents.tagged_text import html_passage, plain_passage, xml_passage


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
