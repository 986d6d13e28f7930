"""What a report says: the numbers are those of nmt-evaluate, and a bad result has its reason first."""

import asyncio
import errno
import json
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from nmt.cli.commands.evaluate import evaluate
from nmt.errors import PathError
from nmt.studio import trying
from nmt.studio.app import make_app
from nmt.studio.errors import Refused
from nmt.studio.judging import judge
from nmt.studio.preparing import prepare
from nmt.studio.projects import Projects, write_json
from nmt.studio.quality import Facts, bucket, compared, groups, judged, quality_of, sentences, short_and_long, wilson
from nmt.studio.rounds import Round, best_round
from nmt.studio.server import serve
from tests.refusals import refused
from tests.saved_models import sentences as lines
from tests.serve.servers import model_folder
from tests.studio.studios import pairs

EVENTS = [{"event": "train", "update": 500, "epoch": 40, "elapsed": 60.0, "time": 1}] + [
    {"event": "validation", "update": 100 * n, "epoch": 8 * n, "chrf": 20.0, "elapsed": 12.0 * n, "best": n == 1}
    for n in range(1, 6)
]


def project(folder, rows, text=None):
    """A project whose texts were read, and its first round with a model that has learnt nothing."""
    made = Projects(folder).make("A")
    with made.changing() as values:
        values["sides"] = [{"lang": "en", "name": ""}, {"lang": "el", "name": ""}]
        entry = {"id": 1, "name": "a", "file": "a", "with": None, "part_of": None, "decided": {}, "rows_out": {}}
        values["texts"] = [entry | {"mended": {}}]
    table = made.text_file(1, ".tsv")
    table.parent.mkdir()
    table.write_text("".join(f"{a}\t{b}\t{n}\n" for n, (a, b) in enumerate(rows, 1)), "utf-8")
    write_json(table.with_suffix(".json"), {"state": "ready", "rows": len(rows), "findings": text or []})
    return made, Round.make(made, minutes=1, direction=[0, 1], on=None, preset=None)


def reported(made, one, changes=None):
    """The report of a round whose texts were prepared, perhaps changed since."""
    one.note(**prepare(made.folder, one.number))
    if changes:
        changes(made, one)
    model_folder(one.folder, "en", "el")
    (one.folder / "metrics.jsonl").write_text("".join(json.dumps(event) + "\n" for event in EVENTS))
    found = judge(made.folder, one.number, 1)
    write_json(made.round_file(one.number, ".report.json"), found)
    return found


def test_numbers_are_those_of_nmt_evaluate(tmp_path):
    made, one = project(tmp_path, list(zip(lines(900), lines(900, seed=9), strict=True)))
    found = reported(made, one)
    files = [f"{made.folder}/rounds/1.test.{end}" for end in ("en", "el")]
    done = CliRunner().invoke(evaluate, [str(one.folder), "--src", files[0], "--ref", files[1], "--json"])
    scores = json.loads(done.stdout[done.stdout.index("{") :])
    assert all(scores["metrics"][name]["score"] == found["experts"][name] for name in ("bleu", "chrf"))
    quality, counted = found["quality"], [line["bucket"] for line in found["lines"]]
    assert quality["near"] + quality["partly"] + quality["different"] == 100 and quality["count"] == len(counted) > 20
    low, high = wilson(counted.count("near"), len(counted))
    assert (quality["low"], quality["high"]) == (round(low), round(high))
    assert best_round(made) == 1
    told = one.progress(0, "")
    assert [point["chrf"] for point in told["points"]] == [20.0] * 5 and told["round"]["state"] == "done"
    assert one.progress(told["next"], "")["points"] == []


def swapped(made, one):
    for code, text in (("en", ["το σπίτι είναι μακριά"] * 300), ("el", [b for _, b in pairs(300)])):
        made.round_file(1, f".train.{code}").write_text("\n".join(text) + "\n", "utf-8")


def seen(made, one):
    both = [made.round_file(1, f".{name}.en") for name in ("train", "test")]
    both[0].write_text(both[0].read_text("utf-8") + both[1].read_text("utf-8"), "utf-8")
    other = made.round_file(1, ".train.el")
    other.write_text(other.read_text("utf-8") + "x\n" * len(both[1].read_text("utf-8").splitlines()), "utf-8")


REPEATED = [{"name": "duplicates", "count": 180, "rows": []}]
BAD = {
    "swapped": (600, None, swapped),
    "shifted": (600, None, None),
    "duplicates": (600, REPEATED, None),
    "few-pairs": (40, None, None),
    "overlap": (600, None, seen),
}


@pytest.mark.parametrize("code", BAD)
def test_a_bad_result_says_its_reason_first(tmp_path, code, monkeypatch):
    count, text, changes = BAD[code]
    if code == "duplicates":  # the model of these tests is no better than chance
        monkeypatch.setattr("nmt.studio.quality._ABOVE_CHANCE", -100)
    made, one = project(tmp_path, list(zip(lines(count), lines(count, seed=9), strict=True)), text)
    assert reported(made, one, changes)["sentences"][0]["code"] == code


def test_a_training_that_a_full_disk_has_ended_says_so(tmp_path, monkeypatch):
    """The reason could not be written on the full disk, and the page said only that it was paused."""
    made, one = project(tmp_path, pairs(40))
    one.note(prepared=True, corrections=0, codes=["en", "el"], held={"dev": 0, "test": 9})
    assert one.view()["error"] is None
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=10))
    assert (one.view()["state"], one.view()["error"]["code"]) == ("paused", "disk-full")


def test_a_full_disk_leaves_no_half_made_project_and_has_its_words(tmp_path, monkeypatch):
    """It left an empty folder, the example got "Internal Server Error", and the start a line without a place."""

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("nmt.studio.projects.write_bytes", full)
    with pytest.raises(Refused, match="no space left on device"):
        Projects(tmp_path).make("A")
    assert not any(tmp_path.iterdir())
    monkeypatch.setattr("nmt.studio.server.write_private", full)
    with pytest.raises(PathError, match=r"\.studio\.json: must be a file to write, got no space left on device; free"):
        serve(tmp_path, 0, print, browser=False)
    monkeypatch.setattr("nmt.studio.app.ROUTES", [("GET", "/", full)])
    sent = []

    async def get():
        return {"type": "http.request"}

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "query_string": b""}
    asyncio.run(make_app(tmp_path, print)(scope, get, send))
    assert sent[0]["status"] == 507 and b"It could not be saved" in sent[1]["body"]


def test_too_few_pairs_are_refused(tmp_path):
    made, one = project(tmp_path, [("a b", "c d")] * 50)
    refused(Refused, "only 1 pairs; it needs 30", prepare, made.folder, one.number)


@pytest.mark.parametrize(
    ("hits", "count", "low", "high"),
    [(7, 20, 18.1, 56.7), (0, 10, 0, 27.8), (10, 10, 72.2, 100), (37, 120, 23.3, 39.6)],
)
def test_intervals_are_wilsons(hits, count, low, high):
    assert wilson(hits, count) == pytest.approx((low, high), abs=0.05)


def test_shares_and_rules():
    found = [bucket(chrf, words=False, same=False) for chrf in (75, 74.9, 40, 39.9)]
    assert found == ["near", "partly", "partly", "different"]
    assert bucket(99, words=True, same=False) == "different" and bucket(10, words=True, same=True) == "near"
    shares = quality_of(["near", "partly", "partly"], words=False)
    assert sum(shares[name] for name in ("near", "partly", "different")) == 100
    assert judged([]) is None and judged(["right"] * 20)["low"] == 84
    good = {"pairs": 20_000, "count": 200, "chrf": 50.0, "shuffled": 20.0, "passes": 40.0, "usual": 40.0}
    rules = {"plain": {}, "high": {"chrf": 61.0}, "rising": {"rise": 2.0}, "unseen": {"unseen": 100}}
    rules |= {"worse": {"worse": 1}}
    rules |= {"few-passes": {"passes": 4.0, "per_pass": 0.5}, "long": {"longs": 20, "short": 60.0, "long": 5.0}}
    for code, change in rules.items():
        assert [one["code"] for one in sentences(Facts(**good | change))] == [code]
    assert sentences(Facts(**good | rules["few-passes"] | rules["high"]))[0]["code"] == "high"
    assert sentences(Facts(**good | rules["few-passes"]))[0]["words"] == {"n": 4, "usual": 40, "minutes": 18}


@pytest.mark.parametrize("shorts", [1, 10])
def test_one_short_sentence_says_nothing_about_long_ones(shorts):
    """The page said that short sentences go well, 100 of 100, by a single one."""
    found = groups([3] * shorts + [20] * 12, [False] * (12 + shorts), ["near"] * shorts + ["different"] * 12)
    facts = {"pairs": 20_000, "count": 60, "chrf": 40.0, "shuffled": 20.0, "passes": 9, "usual": 9}
    told = sentences(Facts(**facts | short_and_long(found)))
    assert ("long" in [one["code"] for one in told]) == (shorts == 10)


def test_a_worse_round_does_not_replace_the_better():
    own = {str(n): "near" if n < 20 else "partly" for n in range(100)}
    former = {str(n): "near" if n < 50 else "partly" for n in range(100)}
    assert compared(own, former)["better"] == "worse" and compared(former, own)["better"] == "surely"
    assert compared(own, own)["better"] == "no" and compared(own, {}) is None


@pytest.mark.parametrize("edits", [True, False])
def test_a_model_of_edits_can_be_used(tmp_path, monkeypatch, edits):
    """It had been refused, since it cannot learn from corrections; and a point in `+V.PTCP` had ended its sentence."""
    made, one = project(tmp_path, pairs(40))
    config, asked = SimpleNamespace(model=SimpleNamespace(decoder=SimpleNamespace(edit_actions=edits))), []
    one.note(ended=True, words=edits)
    monkeypatch.setattr(trying, "find_checkpoint", lambda folder: made.folder / "project.json")
    monkeypatch.setattr(trying, "load_folder_config", lambda _: config, raising=False)
    begin = lambda settings: asked.append((settings.learn, settings.split)) or made.text(9)  # noqa: E731
    monkeypatch.setattr(trying.Service, "begin", begin)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Refused):
        asyncio.run(trying.Trying().load(made, one, 1))
    assert asked == [(not edits, not edits)]
