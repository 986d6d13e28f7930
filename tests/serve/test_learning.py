"""A server that learns: confirmed pairs are known at the next request, apart for each project, and survive a kill."""

import json
import signal
import threading
from types import SimpleNamespace

import pytest

from nmt.serve.models import check_room
from nmt.serve.settings import RequestError
from tests.refusals import refused
from tests.saved_models import sentences
from tests.serve.servers import Server, model_folder, running
from tests.waiting import beside

pytest.importorskip("rapidfuzz", reason="needs the extra [learn]")

PAIR = {"source": "en", "target": "de"}
LINES = sentences(40, seed=8, longest=5)


@pytest.fixture(scope="module")
def taught(tmp_path_factory):
    return model_folder(tmp_path_factory.mktemp("learns") / "model")


@pytest.fixture(scope="module")
def learns(taught, tmp_path_factory):
    back = model_folder(tmp_path_factory.mktemp("learns") / "back", "de", "fr", "back", seed=5)
    with running(taught, back, "--learn", "--no-split", "--threads", 2) as one:
        yield one


def confirm(server, source, translation, **more):
    return server.json("/api/learn", PAIR | {"q": source, "translation": translation} | more)


def sure(server, source, **more):
    """The model's confidence in its translation, which learning changes."""
    return server.json("/translate", PAIR | {"q": source, "confidence": True} | more)


def test_a_confirmed_pair_changes_the_next_answer(learns):
    first = sure(learns, LINES[0])
    found = confirm(learns, LINES[0], LINES[1], who="Ada")
    assert (found["state"], found["model"], found["who"]) == ("learnt", "small", "Ada")
    known = sure(learns, LINES[0])
    assert known["translatedText"] == LINES[1] and known["confidence"] > first["confidence"]
    state = learns.json("/api/learning?source=en&target=de")
    assert state["state"] == "learning" and state["recent"][0]["number"] == found["number"]
    (match,) = learns.json("/api/matches", PAIR | {"q": LINES[0]})["matches"]
    assert match["target"] == LINES[1] and match["similarity"] == 1.0
    assert learns.json("/api/undo", PAIR | {"number": found["number"]})["state"] == "undone"
    assert sure(learns, LINES[0]) == first


def test_projects_are_models_of_their_own(learns):
    plain = sure(learns, LINES[2])
    assert confirm(learns, LINES[2], LINES[3], project="A & B")["model"] == "small@A & B"
    assert sure(learns, LINES[2]) == plain
    assert sure(learns, LINES[2], model="small@A & B") != plain
    names = [one["name"] for one in learns.json("/api/models")["models"]]
    assert names[:2] == ["small", "back"] and "small@A & B" in names
    assert learns.json("/api/models")["learns"] is True
    # By the name of its model a project learns, too.
    again = confirm(learns, LINES[4], LINES[5], model="small@A & B")
    assert again["project"] == "A & B"
    assert learns.json("/api/learning?source=en&target=de&project=A+%26+B")["pairs"] == 2
    status, message = learns.refused("/api/undo", PAIR | {"number": again["number"]})
    assert status == 400 and "this project" in message


def test_a_model_in_a_row_uses_what_its_parts_have_learnt(learns):
    before = learns.json("/translate", {"q": LINES[6], "source": "en", "target": "fr", "confidence": True})
    confirm(learns, LINES[6], LINES[7])
    after = learns.json("/translate", {"q": LINES[6], "source": "en", "target": "fr", "confidence": True})
    assert before != after
    status, message = learns.refused("/api/learn", {"q": "a", "translation": "b", "source": "en", "target": "fr"})
    assert status == 400 and "two in a row" in message


def test_projects_are_limited_in_number():
    full = SimpleNamespace(projects=[str(number) for number in range(50)])
    check_room(full, "7")
    refused(RequestError, "must be one of 50", check_room, full, "new")


def test_suggest_of_libretranslate(learns):
    assert learns.json("/frontend/settings")["suggestions"] is True
    assert learns.json("/suggest", {"q": LINES[8], "s": LINES[9], **PAIR}) == {"success": True}
    recent = learns.json("/api/learning?source=en&target=de")["recent"][0]
    assert (recent["source"], recent["target"]) == (LINES[8], LINES[9])
    assert recent["who"] == ""  # no address, and nothing of a key
    assert b"innerHTML" not in learns.ask("/learn.js")[2]


def test_a_server_without_it_refuses(server):
    assert server.json("/frontend/settings")["suggestions"] is False
    learn = "/api/learn", {"q": "a", "translation": "b", **PAIR}
    for path, body in (("/suggest", {"q": "a", "s": "b", **PAIR}), learn, ("/api/learning?source=en&target=de", None)):
        status, message = server.refused(path, body)
        assert status == 403 and "--learn" in message


@pytest.mark.parametrize(
    "body",
    [
        {"q": "", "translation": "x"},
        {"q": "x", "translation": " "},
        {"q": "x", "translation": 3},
        {"q": "x"},
        {"q": "x" * 6000, "translation": "x"},
        {"q": "x", "translation": "x", "project": "x" * 61},
        {"q": "x", "translation": "x", "project": "a@b"},
        {"q": "x", "translation": "x", "project": "a\nb"},
        {"q": "x", "translation": "x", "model": "other"},
    ],
)
def test_mistakes_are_one_line(learns, body):
    assert learns.refused("/api/learn", PAIR | body)[0] == 400


def test_requests_under_way_are_not_disturbed(learns):
    failed, stop, count = [], threading.Event(), [0]

    def translate():
        while not stop.is_set():
            status, _, content = learns.ask("/translate", PAIR | {"q": LINES[:12]})
            count[0] += 1
            if status != 200 or len(json.loads(content)["translatedText"]) != 12:
                failed.append(content)

    with beside(*[translate] * 4):
        for number in range(15):
            confirm(learns, LINES[10 + number], LINES[11 + number], project="busy")
            confirm(learns, LINES[10 + number], LINES[11 + number])
        stop.set()
    assert not failed and count[0]


def test_a_killed_server_knows_what_it_confirmed(tmp_path):
    folder = model_folder(tmp_path / "model")
    server = Server(folder, "--learn", "--no-split")
    numbers = [confirm(server, LINES[n], LINES[n + 1])["number"] for n in range(5)]
    answers = sure(server, LINES[:5])
    server.process.kill()
    server.process.wait()
    with running(folder, "--learn", "--no-split") as again:
        assert sure(again, LINES[:5]) == answers
        recent = again.json("/api/learning?source=en&target=de")["recent"]
        assert [one["number"] for one in recent] == numbers[::-1]
        again.process.send_signal(signal.SIGHUP)  # refused, and nothing ends
        assert sure(again, LINES[:5]) == answers
        # A second server of the same model would write to the same memory.
        other = Server.__new__(Server)
        with pytest.raises(AssertionError, match="end the other process"):
            other.__init__(folder, "--learn")
