"""A round from its texts to what is given away; what is killed at any moment goes on, or ends whole."""

import json
import os
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from tests.studio.studios import Studio, pairs, table

LEARNT = {"source": "de", "target": "en", "q": "Das ist neu", "translation": "This is new"}


def until(studio, project, states, seconds=180, number=1):
    """The round when it is in one of these states; the clocks of all looks."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = studio("GET", f"projects/{project}/rounds/{number}/progress")
        if found["round"]["state"] in states:
            return found
        assert found["round"]["state"] != "failed", found["round"]["error"]
        time.sleep(0.1)
    raise AssertionError(found)


def ready(studio, name, rows=None):
    """A project of a lesson with pairs."""
    project = studio.make(name, **{"pairs.tsv": table(rows or pairs(300), heading="German\tEnglish")})
    studio("POST", f"projects/{project}", {"purpose": "lesson", "permission": "mine"})
    return project


def test_a_round_is_trained_stopped_for_a_while_tested_used_and_shared(studio):
    project = ready(studio, "Whole way")
    studio("POST", f"projects/{project}/rounds", {"minutes": 20})
    other = ready(studio, "Another")
    assert studio("POST", f"projects/{other}/rounds", {"minutes": 1}, status=409)["error"]["code"] == "running"
    until(studio, project, ("training",))
    use = {"project": project, "round": 1}
    while not studio("GET", f"projects/{project}/rounds/1/progress")["round"]["model"]:
        time.sleep(0.2)
    assert studio("POST", "use", use) == {"at": "/try/"}  # what it has learnt so far, which learns nothing more
    assert studio.ask("POST", "/try/api/learn", LEARNT)[0] == 403
    assert studio("POST", f"projects/{project}/rounds/1/pause", {})["state"] == "stopping"
    until(studio, project, ("paused",))
    assert studio("POST", f"projects/{project}/rounds/1/resume", {})["state"] in ("starting", "training")
    until(studio, project, ("training",))
    for _ in range(2):  # the second ends it at once
        studio("POST", f"projects/{project}/rounds/1/stop", {})
    until(studio, project, ("done",))
    report = studio("GET", f"projects/{project}/rounds/1/report")
    folder = studio.folder / "Whole way"
    held = {line.split("\t")[0] for kind in ("dev", "test") for line in (folder / "held" / f"{kind}.tsv").open()}
    assert len(held) > 20 and not held & set((folder / "rounds" / "1.train.de").read_text("utf-8").splitlines())
    command = [sys.executable, "-P", "-m", "nmt", "evaluate", "--hyp", "rounds/1.test.out", "--ref", "rounds/1.test.en"]
    scores = json.loads(subprocess.run([*command, "--json"], cwd=folder, stdout=subprocess.PIPE, check=True).stdout)
    for name in ("bleu", "chrf"):
        assert report["experts"][name] == scores["metrics"][name]["score"]
    for line, verdict in zip(report["lines"], ["right", "usable", "wrong"] * 7, strict=False):
        given = {"line": line["line"], "verdict": verdict}
        told = studio("POST", f"projects/{project}/rounds/1/judge", given)["judged"]
    assert told["count"] == min(21, len(report["lines"])) and told["low"] < 67 < told["high"]
    assert studio("GET", f"projects/{project}/rounds/1/report")["headline"] == "person"
    assert studio("POST", "use", use) == {"at": "/try/"}
    status, headers, content = studio.ask("GET", "/try/")
    assert status == 200 and "frame-ancestors 'self'" in headers["content-security-policy"] and b"page.js" in content
    assert studio.ask("POST", "/try/api/learn", LEARNT)[0] in (200, 400)
    status, headers, content = studio.ask("GET", f"/studio/projects/{project}/rounds/1/report.html")
    assert status == 200 and b"<script" in content and "attachment" in headers["content-disposition"]
    for kind in ("page", "model", "card", "tmx", "table", "folder"):
        studio("POST", f"projects/{project}/rounds/1/share", {"kind": kind})
    whole = studio.rest(project)
    assert not [(job["kind"], job["error"]) for job in whole["jobs"] if job["state"] != "done"]
    shared = [one["name"] for one in whole["shared"]]
    assert {name.rpartition(".")[2] for name in shared} == {"html", "nmt", "tmx", "tsv", "zip"}
    status, _, content = studio.ask("GET", f"/studio/projects/{project}/shared/{shared[0].replace(' ', '%20')}")
    assert status == 200 and content


def test_two_browsers_that_begin_at_once_make_one_round(studio):
    """The second one had left a round that had never begun, which the page then showed instead of the first."""
    project = ready(studio, "Two browsers")
    with ThreadPoolExecutor(4) as pool:
        ask = partial(studio.ask, "POST", f"/studio/projects/{project}/rounds", {"minutes": 1})
        answers = [one.result()[0] for one in [pool.submit(ask) for _ in range(4)]]
    assert sorted(answers) == [200, 409, 409, 409]
    assert len(studio("GET", f"projects/{project}")["rounds"]) == 1
    studio("POST", f"projects/{project}/rounds/1/pause", {})
    until(studio, project, ("paused",))


def kill(studio):
    studio.process.kill()
    studio.process.wait()
    studio.process.stderr.close()


def test_what_is_killed_at_any_moment_leaves_whole_projects(tmp_path):
    random_ = random.Random(int(os.environ.get("NMT_KILLS_SEED", "1")))
    folder, kept = tmp_path / "studio", {}
    for number in range(int(os.environ.get("NMT_KILLS", "2"))):
        studio = Studio(folder)
        state = studio("GET", "state")
        names = {one["id"]: one["name"] for one in state["projects"]}
        for one, known in kept.items():
            whole = studio.rest(one)
            assert names[one] == known["name"] and whole["broken"] is None
            assert {text["id"]: text["rows"] for text in whole["texts"]}.items() >= known["texts"].items()
        ends = time.monotonic() + random_.uniform(0.05, 6)
        try:
            name = f"Project {number}"
            one = studio("POST", "projects", {"name": name})["id"]
            kept[one] = {"name": name, "texts": {}}
            while time.monotonic() < ends:
                if len(kept[one]["texts"]) > 2:
                    studio("POST", f"projects/{one}/texts/1/decide", {"finding": "mixed", "do": "keep"}, status=400)
                    continue
                rows = table(pairs(2000), heading="German\tEnglish")
                text = studio("POST", f"projects/{one}/texts?name=a.tsv", raw=rows)["id"]
                kept[one]["texts"][text] = 2000
                studio("POST", f"projects/{one}", {"origin": "x" * random_.randint(0, 2000)})
        finally:
            kill(studio)
    studio = Studio(folder)
    for one, known in kept.items():
        assert {text["id"]: text["rows"] for text in studio.rest(one)["texts"]} == known["texts"]
    assert studio.end() == 0


def test_a_studio_that_is_killed_lets_its_training_save_and_the_next_one_goes_on(tmp_path):
    studio = Studio(tmp_path)
    project = ready(studio, "Killed")
    studio("POST", f"projects/{project}/rounds", {"minutes": 20})
    until(studio, project, ("training",))
    where = tmp_path / ".studio.json"
    assert studio.key in where.read_text("utf-8") and where.stat().st_mode & 0o777 in (0o600, 0o666)  # that of Windows
    child = json.loads((tmp_path / "Killed" / "rounds" / "1.json").read_text())["child"]
    command = [sys.executable, "-c", "from nmt.cli.entry import studio; studio()", str(tmp_path), "--no-browser"]
    second = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=60)
    assert "runs already" in second.stderr and f":{studio.port}/" in second.stderr and not second.returncode
    kill(studio)
    studio = Studio(tmp_path)
    until(studio, project, ("paused",))
    ends = time.monotonic() + 60
    while os.path.exists(f"/proc/{child}") and time.monotonic() < ends:
        time.sleep(0.1)
    assert (tmp_path / "Killed" / "rounds" / "1" / "last.safetensors").is_file()
    studio("POST", f"projects/{project}/rounds/1/resume", {})
    until(studio, project, ("training",))
    studio("POST", f"projects/{project}/rounds/1/pause", {})
    until(studio, project, ("paused",))
    assert "resum" in (tmp_path / "Killed" / "rounds" / "1" / "train.log").read_text("utf-8")
    assert studio.end() == 0
