"""Terms of a glossary that a translation has not followed, as the page tells them."""

from types import SimpleNamespace

from nmt.serve.protocols.own_routes import note_terms


def translator(source="en", target="de", lowercase=False):
    """What terms are looked up by."""
    sides = {"src": SimpleNamespace(lang=source), "tgt": SimpleNamespace(lang=target, lowercase=lowercase)}
    return SimpleNamespace(
        config=SimpleNamespace(data=SimpleNamespace(**sides)), src_subwords=SimpleNamespace(bare=lambda text: text)
    )


def missed(text, translation, *glossary, **more):
    part = {"source": text, "translation": translation}
    note_terms(translator(**more), [{"text": "\n"}, part], [text], glossary)
    return part["not_followed"]


def test_terms_that_stand_in_the_text_alone():
    train, week = ("train", "Bahn"), ("next week", "kommende Woche")
    assert missed("The train leaves.", "Der Zug fährt.", train, week) == [train]
    assert missed("The Train, leaves", "Die BAHN. fährt", train) == []
    assert missed("Next week!", "Kommende Woche.", week) == [] and missed("week next", "Woche", week) == []
    assert missed("Next week!", "kommende, Woche", week) == [week]  # not next to each other
    assert missed("restrain", "Zwang", train) == []  # another word
    assert missed("The train", "Die S-Bahn", train) == []
    assert missed("", "", train) == [] and missed("a . b", "c", (".", "x")) == []
    assert missed("He and she", "Er & sie", ("and", "&")) == [] and missed("He and she", "Er, sie", ("and", "&"))


def test_the_languages_have_their_own_rules():
    assert missed("去上海", "nach Schanghai", ("上海", "Shanghai"), source="zh") == [("上海", "Shanghai")]
    assert missed("to Shanghai.", "去上海", ("Shanghai", "上海"), target="zh") == []
    assert missed("the US army", "die us-armee", ("US", "US"), lowercase=True) == []  # all that the model can write


def test_terms_within_longer_terms_were_never_asked_for():
    station, train = ("train station", "Bahnhof"), ("train", "Zug")
    assert missed("the train station", "der Bahnhof", train, station) == []
    assert missed("the train station", "der Zug", train, station) == [station]
