"""The state of a studio: its projects, children and the round in use, and the page's view of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil

from nmt.config.presets import near
from nmt.report import read_run, report_page
from nmt.studio.children import Children
from nmt.studio.errors import Refused
from nmt.studio.preparing import CORRECTIONS, LEAST_PAIRS, HeldOut, corrections, write_pairs
from nmt.studio.projects import HELD, TEXTS, Project, Projects, write_json
from nmt.studio.quality import LEAST_JUDGED, judged
from nmt.studio.rounds import FREE, Round, best_round
from nmt.studio.texts import Rows, alone, counts, facts_of, join, name_sides, reading
from nmt.studio.trying import Trying
from nmt.system.files import read_json

PAGE = Path(__file__).parent / "page"
_MEMORY = 1500 * 2**20
"""Bytes of memory that a training needs."""
_MINUTES = (5, 30, 480)
ENOUGH = (("lesson", 500), ("few", 2_000), ("some", 10_000))
STOPS = ("disk-full", "too-few", "undecided", "running")
"""Warnings with which no training can begin."""
UPLOAD = ".upload-"
"""The beginning of the name of a file that is still coming."""


class State:
    """The parts that the routes share."""

    def __init__(self, folder: Path, quit: Callable[[], None]) -> None:
        self.projects, self.quit, self.trying = Projects(folder), quit, Trying()
        self.children = Children(self.save_corrections)

    def save_corrections(self, project: Project) -> None:
        """Write what was confirmed in all rounds to the texts."""
        with project.lock:
            found, path = corrections(project, self.trying.memories()), project.folder / TEXTS / CORRECTIONS
            if found or path.is_file():
                write_pairs(path, found)

    def doing(self, project: Project, number: int) -> str:
        """Return what is done with a round now; see `Round.view`."""
        now = self.children.training
        if now is not None and (now.project.id, now.round.number) == (project.id, number):
            return now.wish or "train"
        return "test" if self.children.has(project, kind="test", round=number) else ""

    def recover(self) -> None:
        """Go on with what an earlier studio has left: texts that were not read, rounds that were not tested."""
        for project in self.projects.all():
            try:
                for path in (project.folder / TEXTS).glob(f"{UPLOAD}*"):
                    path.unlink()
                for entry in project.values["texts"]:
                    if not facts_of(project, entry["id"]):
                        self.read(project, entry["id"])
                for one in (Round(project, number) for number in project.rounds()):
                    if one.has_ended and one.quality is None and not one.record.get("error"):
                        self.children.test(project, one)
            except Refused:
                continue  # the list shows it as broken

    def read(self, project: Project, number: int) -> None:
        """Begin to read a text. Two of one language each are joined if they are as long, or subtitles."""

        async def work() -> None:
            facts = project.text_file(number, ".json")
            facts.unlink(missing_ok=True)
            try:
                await self.children.read(project, reading(project, number))
            except Refused as error:
                write_json(facts, {"state": "failed", "error": error.to_dict()})
            name_sides(project, number)
            halves = alone(project)
            found = [facts_of(project, one) for one in halves]
            if len(halves) == 2 and len({one["form"] == "subtitles" or one["rows"] for one in found}) == 1:
                self.read(project, join(project, *halves))

        self.children.run(project, "read", work, text=number)

    def strings(self) -> dict[str, Path]:
        """Return the files of words, by language: those of the page, and those of the user's folder."""
        places = (PAGE / "strings", self.projects.folder / "languages")
        return {path.stem: path for place in places for path in sorted(place.glob("*.json"))}

    def brief(self, project: Project) -> dict[str, Any]:
        """Return the line of a project in the list."""
        try:
            values, rounds, now = project.values, project.rounds(), self.children.training
            stage = "text" if values["texts"] else "empty"
            if rounds:
                stage = "trained" if any(Round(project, one).quality for one in rounds) else "paused"
            stage = "training" if now is not None and now.project.id == project.id else stage
            pairs, twice = counts(project)
            known = {name: values[name] for name in ("name", "sides", "changed", "purpose")}
            known |= {"pairs": pairs, "twice": twice}
            return {"id": project.id, **known, "rounds": len(rounds), "state": stage, "broken": None}
        except Refused as error:
            return {"id": project.id, "name": project.folder.name, "state": "broken", "broken": error.to_dict()}

    def whole(self, project: Project) -> dict[str, Any]:
        """Return all of a project. Jobs come first: one that ends meanwhile is shown once more as running."""
        jobs = [{**job} for job in self.children.of(project)]
        values, brief = project.values, self.brief(project)
        return {
            **brief,
            **{name: values[name] for name in ("direction", "origin", "permission", "contact")},
            "folder": str(project.folder),
            "enough": _enough(brief["pairs"]),
            "texts": [Rows(project, entry).view() for entry in values["texts"]],
            "held": {kind: len(pairs) for kind, pairs in HeldOut(project.folder / HELD).pairs.items()},
            "rounds": [Round(project, number).view(self.doing(project, number)) for number in project.rounds()],
            "best": best_round(project),
            "corrections": len(corrections(project, self.trying.memories())),
            "jobs": jobs,
            "shared": project.shared(),
            "room": self.trying.room_of(project),
        }

    def warnings(self, project: Project) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield what a user should know before a training."""
        values, pairs = project.values, self.brief(project)["pairs"]
        memory = psutil.virtual_memory().available
        for code, need, free in (("disk-full", FREE, self.projects.free()), ("memory", _MEMORY, memory)):
            if free < need:
                yield code, {"need": need, "free": free}
        battery = psutil.sensors_battery() if hasattr(psutil, "sensors_battery") else None
        if battery is not None and battery.power_plugged is False:
            yield "battery", {"percent": round(battery.percent)}
        if (cloud := self.projects.cloud) is not None:
            yield "cloud", {"name": cloud}
        if (now := self.children.training) is not None:
            yield "running", {"project": now.project.values["name"]}
        if pairs < LEAST_PAIRS:
            yield "too-few", {"least": LEAST_PAIRS, "pairs": pairs}
        if any(not one["part_of"] and facts_of(project, one["id"]).get("asks") for one in values["texts"]):
            yield "undecided", {}
        one, other = (side["lang"] for side in values["sides"])
        if one and one == other and not any(facts_of(project, text["id"]).get("features") for text in values["texts"]):
            yield "same-language", {}

    def forecast(self, project: Project) -> dict[str, Any]:
        """Return what to expect of a training, and what stands against it."""
        warnings, pairs = list(self.warnings(project)), self.brief(project)["pairs"]
        measured = [one for one in near(pairs) if one.chrf_elsewhere is not None]
        usual = _MINUTES[project.values["purpose"] != "lesson"]
        return {
            "pairs": pairs,
            "enough": _enough(pairs),
            "expect": asdict(min(measured, key=lambda one: one.chrf or 0)) if measured else None,
            "choices": [{"minutes": one, "recommended": one == usual} for one in _MINUTES],
            "warnings": [{"code": code, "words": words} for code, words in warnings],
            "stops": any(code in STOPS for code, _ in warnings),
        }

    def report(self, project: Project, one: Round) -> dict[str, Any]:
        """Return the report of a round with the judgements of people."""
        if (report := one.report) is None:
            return {"state": "waiting"}
        values = project.values
        verdicts = values["judgements"].get(str(one.number), {})
        found = judged(list(verdicts.values()))
        for line in report["lines"]:
            line["verdict"] = verdicts.get(str(line["line"]))
        headline = "person" if found is not None and found["count"] >= LEAST_JUDGED else "letters"
        facts = {"state": "ready", "round": one.view(), "judged": found, "headline": headline}
        return report | facts | {"few": report["quality"]["count"] < LEAST_JUDGED, "useful": [values["purpose"]]}

    def page(self, project: Project, one: Round, language: str) -> str:
        """Return the report of a round as a page of its own, which is printed as its card."""
        title, words = project.values["name"], read_json(self.strings().get(language, Path()))
        given = {"project": self.whole(project), "round": one.view(), "report": self.report(project, one)}
        return report_page([read_run(one.folder)], None, title, given, words, language)


def _enough(pairs: int) -> str | None:
    return None if pairs < LEAST_PAIRS else next((name for name, most in ENOUGH if pairs < most), "good")
