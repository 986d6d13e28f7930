"""Terms of a glossary that a translation has not followed."""

from nmt.serve.protocols.own_routes import note_terms


def missed(source, translation, *glossary):
    part = {"source": source, "translation": translation}
    note_terms([{"text": "\n"}, part], glossary)
    return part["not_followed"]


def test_terms_that_stand_in_the_text_alone():
    train, week = ("train", "Bahn"), ("next week", "kommende Woche")
    assert missed("The train leaves.", "Der Zug fährt.", train, week) == [train]
    assert missed("The Train, leaves", "Die BAHN. fährt", train) == []
    assert missed("Next week!", "kommende, Woche", week) == [] and missed("week next", "Woche", week) == []
    assert missed("trains", "Züge", train) == []  # another word
    assert missed("The train", "Die Bahnen", train) == [train]
    assert missed("", "", train) == [] and missed("a . b", "c", (".", "x")) == []


def test_it_looks_at_terms_of_the_sentence_alone():
    """What it does for a sentence does not grow with the glossary: each look into a term is counted."""

    class Counted(str):
        looks = 0

        def casefold(self):
            Counted.looks += 1
            return str(self).casefold()

    for size in (10, 1000):
        Counted.looks = 0
        parts = [{"source": "a b", "translation": "c"} for _ in range(50)]
        note_terms(parts, tuple((Counted(f"w{n}"), Counted("x")) for n in range(size)))
        assert Counted.looks == 2 * size
