"""A column is translated, and each value that is no text is an error of its row alone."""

from nmt.inference import rows
from nmt.inference.rows import translate_rows
from tests.saved_models import sentences


def test_rows_that_are_no_text_are_told_of_and_the_others_translated_a_piece_at_a_time(translator, monkeypatch):
    monkeypatch.setattr(rows, "_CHUNK_BATCHES", 1)
    texts = [*sentences(3), ""]
    found = translate_rows(translator, [*texts, None, 7, float("nan"), *texts], batch_size=2)
    assert found.texts == [*translator.translate(texts), "", "", "", *translator.translate(texts)]
    nothing = "must be text, got nothing"
    assert found.errors == [*[""] * 4, nothing, "must be text, got int", nothing, *[""] * 4]
