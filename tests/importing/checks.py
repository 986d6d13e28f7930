"""What every imported model is asked."""

from pathlib import Path

import numpy as np

from nmt import Translator
from nmt.importing.sources import import_model
from nmt.importing.writing import MAPPING_NAME, save_imported


def imported(source, out, **options):
    """A translator of what lies at `source`, by way of a folder."""
    found = import_model(Path(source), **options)
    save_imported(Path(out), found)
    assert (Path(out) / MAPPING_NAME).read_text() == "".join(f"{line}\n" for line in found.lines)
    return Translator.load(out, threads=1)


def check_search(translator, model, sources, unknown, **options):
    """What a search finds scores as the witness says, too, whether it has ended or was cut."""
    translations = translator.translate_nbest(sources, n_best=1, details=True, **options)
    for src, (found,) in zip(sources, translations, strict=True):
        tokens = found.detail.tokens
        if not any(token.startswith(unknown) for token in tokens):
            want = model.scores(src, found.text)[: len(tokens)]
            np.testing.assert_allclose(found.detail.log_probs, want, atol=1e-5, rtol=0)


def check_scores(translator, pairs, expected):
    """Every token's log-probability is the witness's. float32 against float64: a few units in the sixth digit."""
    details = translator.score([src for src, _ in pairs], [tgt for _, tgt in pairs])
    for detail, want in zip(details, expected, strict=True):
        np.testing.assert_allclose(detail.log_probs, want, atol=1e-5, rtol=0)
