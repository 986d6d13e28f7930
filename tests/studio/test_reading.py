"""Files as people have them: each is read, or answered in words; findings name the rows of the user's file."""

import csv
import io
import json

import pytest

from nmt.studio.reading import answer
from nmt.studio.state import State
from nmt.studio.texts import reading
from tests.data import people_tables
from tests.data.people_tables import workbook
from tests.studio.studios import pairs, read_here, rows_of, shown, table

ROWS = pairs(40)
TMX = people_tables.tmx(("de", "en"), list(zip(*ROWS, strict=True)))


def written(rows, **dialect):
    text = io.StringIO()
    csv.writer(text, **dialect).writerows(rows)
    return text.getvalue()


HEADED = [("Deutsch", "English"), *ROWS]
NOTED = [("No", "Deutsch", "English", "Note"), *((n, a, b, "JS 2024") for n, (a, b) in enumerate(ROWS, 1))]
BROKEN_LINES = [(f"{a}\nzwei", f"{b}\ntwo") for a, b in ROWS]
READ = {
    "plain.tsv": table(ROWS),
    "headed.tsv": table(HEADED),
    "comma.csv": written(HEADED).encode(),
    "semicolon.csv": written(HEADED, delimiter=";").encode(),
    "sep.csv": b"sep=;\r\n" + written(ROWS, delimiter=";").encode(),
    "noted.csv": written(NOTED).encode(),
    "quoted.csv": written(BROKEN_LINES, quoting=csv.QUOTE_ALL).encode(),
    "marked.csv": b"\xef\xbb\xbf" + written(HEADED).encode(),
    "excel16.csv": written(HEADED, delimiter="\t").encode("utf-16"),
    "ansi.csv": written(HEADED, delimiter=";").replace("Der", "Für").encode("cp1252"),
    "book.xlsx": workbook({"S1": HEADED}),
    "notes.xlsx": workbook({"S1": [[str(cell) for cell in row] for row in NOTED]}),
    "pasted.txt": table(ROWS),
    "memory.tmx": TMX.encode(),
    "words.db": people_tables.sfm(ROWS).encode(),
    "words.lift": people_tables.lift(ROWS, lang="de").encode(),
    "texts.flextext": people_tables.flextext(ROWS, lang="de").encode(),
    "rows.jsonl": "".join(json.dumps({"de": a, "en": b}) + "\n" for a, b in ROWS).encode(),
}
REFUSED = {
    "photo.jpg": (b"\xff\xd8\xff\xe0" + bytes(range(256)) * 9, "binary"),
    "empty.csv": (b" \n", "empty-file"),
    "locked.xlsx": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "unreadable"),
    "torn.xlsx": (workbook({"S1": HEADED})[:700], "unreadable"),
    "bad.tmx": (TMX.encode()[:900], "unreadable"),
    "program.tsv": (b"\x7fELF" + bytes(500), "binary"),
}


@pytest.mark.parametrize("name", READ)
def test_a_file_is_read(tmp_path, name):
    project = read_here(tmp_path, name, READ[name], ("de", "en"))
    assert (shown(project)["state"], shown(project)["rows"]) == ("ready", 40), shown(project)
    wanted = [(f"{a} zwei", f"{b} two") for a, b in ROWS] if name == "quoted.csv" else ROWS
    wanted = [(a.replace("Der", "Für"), b) for a, b in wanted] if name == "ansi.csv" else wanted
    assert [(row.source, row.target) for row in rows_of(project)] == wanted


@pytest.mark.parametrize("name", REFUSED)
def test_another_file_is_answered_in_words(tmp_path, name):
    content, code = REFUSED[name]
    text = shown(read_here(tmp_path, name, content))
    assert text["state"] == "failed" and text["error"]["code"] == code
    assert name in text["error"]["message"] and "/" not in text["error"]["message"].split(";")[0]


def test_two_texts_become_one_and_unequal_ones_are_told(studio):
    project = studio.make("Two", **{"a.txt": "\n".join(a for a, _ in ROWS).encode()})
    assert studio("GET", f"projects/{project}/texts/1")["asks"] == "other"
    studio.add(project, "b.txt", "\n".join(b for _, b in ROWS).encode())
    first, last = studio.rest(project)["texts"]
    assert (first["state"], first["rows"], first["with"], last["part_of"]) == ("ready", 40, 2, 1)
    studio.add(project, "c.txt", "\n".join(a for a, _ in ROWS[:30]).encode())
    studio.add(project, "d.txt", "\n".join(b for _, b in ROWS).encode())
    studio("POST", f"projects/{project}/texts/3", {"with": 4})
    error = studio.rest(project)["texts"][2]["error"]
    assert error["code"] == "unequal" and error["words"]["lines"] == 30


def test_texts_with_different_numbers_of_lines_are_paired_by_lengths(studio):
    more = [n * n % 13 for n in range(200)]
    rows = [(f"{a}{' und mehr' * n}", f"{b}{' and more' * n}") for (a, b), n in zip(pairs(200), more, strict=True)]
    one, other = [a for a, _ in rows], [b for _, b in rows]
    del one[150], other[60]  # the first loses row 151, the other row 61, and joins rows 101 and 102
    other[99:101] = [" ".join(other[99:101])]
    project = studio.make("Lengths", **{"a.txt": "\n".join(one).encode()})
    studio.add(project, "b.txt", "\n".join(other).encode())
    studio("POST", f"projects/{project}/texts/1", {"with": 2})
    text = studio.rest(project)["texts"][0]
    assert text["state"] == "ready", text
    found = text["findings"][0]
    assert found["name"] == "aligned" and found["words"].items() >= {"lines": 199, "others": 198}.items()
    assert found["count"] == len(found["rows"]) <= 5
    got = studio("GET", f"projects/{project}/texts/1/rows?count=500")["rows"]
    assert len({(row["source"], row["target"]) for row in got} & set(rows)) >= 190


def test_a_job_that_ends_while_a_project_is_shown_still_runs_there(tmp_path):
    """The page asks no more when no job runs: jobs are shown as they were before what they write was read."""
    state = State(tmp_path, lambda: None)
    project, job = state.projects.make("A"), {"state": "running"}
    state.children.of = lambda project: [job]
    state.brief = lambda project: job.update(state="done") or State.brief(state, project)
    assert state.whole(project)["jobs"] == [{"state": "running"}]


def test_two_texts_name_the_languages(studio):
    """The languages of two plain texts were found, and forgotten when they were joined."""
    texts = {"dev.chr.txt": ("ᎠᎴ ᎾᏍᎩ ᎨᏒ\n" * 40).encode(), "dev.en.txt": b"and that is so\n" * 40}
    sides = studio.rest(studio.make("Named", **texts))["sides"]
    assert sides == [{"lang": "chr", "name": "Cherokee"}, {"lang": "en", "name": "English"}]


def subtitles(*cues):
    return "".join(f"{n}\n00:00:{a:02},100 --> 00:00:{b:02},000\n{text}\n\n" for n, (a, b, text) in enumerate(cues, 1))


def test_subtitles_are_paired_by_their_times(studio):
    """As many subtitles, or sentences, had been taken for the same ones; others were refused."""
    one = subtitles((1, 4, "Guten Tag. Wir"), (4, 6, "fangen an."), (7, 9, "<i>Bitte</i>"), (12, 14, "Ende"))
    end = (8, 9, "please."), (10, 11, "[Noise]"), (12, 14, "End")
    two = subtitles((1, 6, "Hello. We begin."), (7, 8, "If you"), *end)
    project = studio.make("Film", **{"a.de.srt": one.encode(), "a.en.srt": two.encode()})
    (text, _), sides = studio.rest(project)["texts"], studio.rest(project)["sides"]
    assert text["state"] == "ready" and [side["lang"] for side in sides] == ["de", "en"]
    assert text["other_name"] == "a.en.srt" and text["preview"][1] == {"row": 3, "cells": ["Bitte", "If you please."]}
    rows = studio("GET", f"projects/{project}/texts/1/rows")["rows"]
    first = 1, "Guten Tag. Wir fangen an.", "Hello. We begin."
    found = [(row["row"], row["source"], row["target"]) for row in rows]
    assert found == [first, (3, "Bitte", "If you please."), (4, "Ende", "End")]


@pytest.mark.parametrize("heading", [None, "lemma,features,form"])
@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1)])
def test_a_list_of_inflections_keeps_its_features(tmp_path, heading, order):
    """They had been skipped: of one word several forms were to be learnt, and nothing said which."""
    names = heading and ",".join(heading.split(",")[place] for place in order)
    rows = [[(f"go{n}", f"V;PST{';3' * (n % 2)}", f"went{n}")[place] for place in order] for n in range(40)]
    project = read_here(tmp_path, "words.csv", table(rows, ",", names))
    text, first = shown(project), rows_of(project)[0]
    assert (first.source, first.target) == ("go0 +V +PST", "went0") and text["features"] == order.index(1) + 1
    with project.changing_text(1) as entry:
        entry["columns"] = [1, text["features"]]
    answer(reading(project, 1))
    assert rows_of(project)[0].target == "V;PST" and shown(project)["features"] is None


def test_an_inflection_list_of_another_script_has_sides_with_names(studio):
    """Its features are in Latin letters, which is no fault; both sides were called by the language."""
    words = [f"գնալ{chr(0x561 + n % 38)}{chr(0x561 + n // 38)}" for n in range(700)]
    rows = [(word, "V;PST" + ";SG;3" * (n % 2), f"գնաց{n}") for n, word in enumerate(words)]
    project = studio.make("Forms", **{"forms.csv": table(rows, ",", "lemma,features,form")})
    whole = studio("GET", f"projects/{project}")
    assert [(side["lang"], side["name"]) for side in whole["sides"]] == [("hy", "lemma"), ("hy", "form")]
    assert whole["texts"][0]["findings"] == [] == studio("GET", f"projects/{project}/forecast")["warnings"]


def test_too_little_is_not_enough_for_anything(studio):
    project = studio.make("None", **{"only.txt": b"Ein Satz\n" * 40})
    for path in ("", "/forecast"):
        assert studio("GET", f"projects/{project}{path}")["enough"] is None


def test_a_file_that_comes_twice_counts_once(studio):
    project = studio.make("Twice", **{"a.tsv": table(ROWS), "b.tsv": table([*ROWS[5:], ("Ja", "Yes")])})
    found = studio("GET", f"projects/{project}")
    assert (found["pairs"], found["twice"]) == (41, 35)
    for row in (1, 36):
        studio("POST", f"projects/{project}/texts/2/rows", {"row": row, "out": True})
    found = studio("GET", f"projects/{project}")
    assert (found["pairs"], found["twice"]) == (40, 34)


@pytest.mark.parametrize(("name", "value"), [("numbers", str), ("constant", lambda number: "see above")])
def test_a_side_without_a_text_is_said(tmp_path, name, value):
    rows = [(value(number), b) for number, (_, b) in enumerate(pairs(60))]
    project = read_here(tmp_path, "a.tsv", table(rows), columns=[1, 2])
    assert [one["name"] for one in shown(project)["findings"]][0] == name


@pytest.mark.parametrize("by", [0, 1, -2])
def test_rows_that_are_shifted_are_said(tmp_path, by):
    """By lengths: in files of real texts, both sides of a row are long or short together."""
    more = [number * 7 % 11 for number in range(90)]
    rows = [(f"{a}{' und mehr' * n}", f"{b}{' and more' * n}") for (a, b), n in zip(pairs(90), more, strict=True)]
    shifted = [(rows[number][0], rows[(number + by) % 90][1]) for number in range(90)]
    project = read_here(tmp_path, "a.tsv", table(shifted), columns=[1, 2])
    assert ("shifted" in [one["name"] for one in shown(project)["findings"]]) == bool(by)


def test_questions_are_asked_and_answered(studio):
    project = studio.make("Questions", **{"book.xlsx": workbook({"S1": HEADED, "S2": [("x", "y")]})})
    text = studio("GET", f"projects/{project}/texts/1")
    assert text["asks"] == "sheet" and text["sheets"] == ["S1", "S2"]
    studio("POST", f"projects/{project}/texts/1", {"sheet": "S1"})
    assert studio.rest(project)["texts"][0]["rows"] == 40
    three = studio.add(project, "three.tsv", table([(a, b, a[::-1]) for a, b in ROWS]))
    assert three["asks"] == "columns" and len(three["columns"]) == 3 and three["preview"][0]["cells"][0] == ROWS[0][0]
    assert studio("GET", f"projects/{project}/forecast")["stops"]
    studio("POST", f"projects/{project}/texts/2", {"columns": [2, 1]})
    assert studio.rest(project)["texts"][1]["state"] == "ready"
    assert studio("GET", f"projects/{project}/texts/2/rows?count=1")["rows"][0]["source"] == ROWS[0][1]
    mended = {"row": 3, "source": "Neu", "target": "New", "out": True}
    assert studio("POST", f"projects/{project}/texts/2/rows", mended).items() >= mended.items()
    rows = studio("GET", f"projects/{project}/texts/2/rows?from=1&count=2")["rows"]
    assert [row["out"] for row in rows] == [False, True]
    studio("POST", f"projects/{project}/texts/2/decide", {"finding": "none", "do": "keep"}, status=400)
    assert len(studio("DELETE", f"projects/{project}/texts/1")["texts"]) == 1
    (folder,) = (one for one in studio.folder.iterdir() if one.name == "Questions")
    assert len(list((folder / "texts" / "removed").iterdir())) == 3


PLANTED = {
    "empty": lambda a, b: ("", b),
    "encoding": lambda a, b: (a + " schÃ¶n", b),
    "markup": lambda a, b: (a, f"<b>{b}</b>"),
    "script": lambda a, b: ("Дом стоит далеко отсюда у реки", b),
    "mixed": lambda a, b: (a + " Cтрана", b),
    "same": lambda a, b: (a, a),
    "ratio": lambda a, b: (a, " ".join([b] * 8)),
    "control": lambda a, b: (a + "\x02x", b),
    "duplicates": lambda a, b: ROWS[3],
    "bpe": lambda a, b: (a.replace("weit", "we@@ it"), b),
    "joiners": lambda a, b: (a + " ￭.", b),
    "pieces": lambda a, b: (a + " ▁ge ht", b),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_seven_rows_of_a_fault_are_found_and_only_they_are_left_out(tmp_path, fault):
    rows, places = pairs(400), [50 + 40 * number for number in range(7)]
    for number, place in enumerate(places):
        a, b = PLANTED[fault](*rows[place])
        rows[place] = (a, b) if fault == "duplicates" else (a and f"{a} {'' if fault == 'same' else number}".strip(), b)
    if fault == "same":
        rows = [(a, a) if place in places else (a, b) for place, (a, b) in enumerate(rows)]
    project = read_here(tmp_path, "t.tsv", table(rows, heading="Deutsch\tEnglish"))
    (found,) = (one for one in shown(project)["findings"] if one["name"] == fault)
    wanted = [place + 2 for place in places]
    assert (found["count"], found["rows"]) == (7, wanted)
    for action in found["actions"]:
        with project.changing_text(1) as entry:
            entry["decided"][fault] = action
        now = rows_of(project)
        assert [row.row for row in now if row.out] == (wanted if action == "leave_out" else [])
        if action == "mend":
            texts = "".join(row.source + row.target for row in now if row.row in wanted)
            assert not set(texts) & set("Ã<\x02@￭▁")
