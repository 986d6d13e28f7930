"""Documents: paragraphs of sentences, markup, placeholders and file formats around the text that a model reads.

A `Passage` is a piece of text whose sentences are translated and put together again; a document is a file of passages.
"""

from nmt.documents.passage import MENDED, Passage, Rules
from nmt.documents.reading import read_passage, translate_passages
from nmt.documents.sentences import Splitter, sentence_splitter

__all__ = ["MENDED", "Passage", "Rules", "Splitter", "read_passage", "sentence_splitter", "translate_passages"]
