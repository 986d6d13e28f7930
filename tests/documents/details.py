"""Documents translated by translators that are known, and details of translations whose alignment is."""

import numpy as np

from nmt.documents.document import read_document
from nmt.inference.translation import Detail, Translation


def detail_of(source, target, alignment=None):
    """Return the details of a translation by its subwords and those of its source: each attends to the one in
    `alignment`, or without it to the one at its own place."""
    attention = np.eye(len(target) + 1, len(source) + 1)
    if alignment is not None:
        attention[:] = 0
        attention[range(len(target) + 1), [*alignment, len(source)]] = 1
    return Detail([*target, "</s>"], [0.0] * (len(target) + 1), source, attention, [], [])


def changed(content, form, change, splitter=None, languages=None):
    """Return a document whose sentences `change` has translated, each to a text or a translation."""

    def answer(asked):
        found = change(asked)
        return found if isinstance(found, Translation) else Translation(found, 0.0, 0.0)

    document = read_document(content, form, "some", splitter, languages)
    return document.write([p.joined([answer(s.asked) for s in p.sentences]) for p in document.passages])
