"""Translate the test of a round and say how good it is, as a child process:
`python -m nmt.studio.judging FOLDER ROUND`. The numbers are those of `nmt-evaluate` on the same files."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from nmt.data.calibration import learn_known
from nmt.data.corpora.corpus import clean_line
from nmt.data.corpora.language_names import is_in
from nmt.data.corpora.readers import TokenRows
from nmt.evaluate.scores import reliability, score_translations, sentence_utility
from nmt.inference.pipeline import source_ids, unseen_words
from nmt.inference.translator import Translator
from nmt.report import Run, read_run, report_data
from nmt.storage.model_folder import find_checkpoint, load_folder_config
from nmt.studio.preparing import lines_of
from nmt.studio.projects import Project, write_json
from nmt.studio.quality import NEAR, Facts, bucket, compared, fit, groups, quality_of, sentences, short_and_long
from nmt.studio.rounds import REPORT
from nmt.studio.texts import texts_of
from nmt.system.files import read_json, write_bytes
from nmt.train.planning.lengths import usual_updates

_MOST_WORDS, _MOST_EXAMPLES = 200, 3
OUTPUT = ".test.out"


def judge(folder: Path, number: int, threads: int | None = None) -> dict[str, Any]:
    """Return the report of a round, and write the translations of its test."""
    project = Project(folder)
    record, run = project.record(number), read_run(project.round_file(number))
    source, target = record["direction"]
    words, train = bool(record.get("words")), lines_of(project, number, "train")
    sources, references = (lines_of(project, number, "test")[side] for side in (source, target))
    translator = Translator.load(project.round_file(number), threads=threads)
    found = [row[0] for row in translator.translate_nbest(sources, n_best=1)]
    outputs = [one.text for one in found]
    write_bytes(project.round_file(number, OUTPUT), "".join(f"{line}\n" for line in outputs).encode(), sync=True)
    side = translator.config.data.tgt
    references = [clean_line(line, side.lowercase, side.normalize) for line in references]
    utility, pairs = sentence_utility("chrf"), list(zip(outputs, references, strict=True))
    chrf = [utility(*pair) for pair in pairs]
    buckets = [bucket(score, words=words, same=a == b) for score, (a, b) in zip(chrf, pairs, strict=True)]
    unseen = _unseen(translator, train[source], sources, words=words)
    confidences = [min(1.0, max(0.0, one.confidence)) for one in found]
    by_length = [] if words else groups([len(line.split()) for line in sources], list(map(bool, unseen)), buckets)
    scores = score_translations(outputs, references, metrics=("bleu", "chrf"), confidence=len(outputs) > 1)
    before = _before(project, number, dict(zip(sources, buckets, strict=True)))
    codes, known = [str(code) for code in record["codes"]], set(train[source])
    facts = _facts(project, number, run, record) | short_and_long(by_length)
    facts |= {"count": len(sources), "chrf": scores["chrf"].score, "words": words, "fit": fit(*train)}
    facts |= {"unseen": sum(map(bool, unseen)), "overlap": sum(line in known for line in sources)}
    facts |= {"worse": before["n"] if before is not None and before["better"] == "worse" else 0}
    facts["swapped"] = is_in(train[0][:1000], codes[1], codes[0]) or is_in(train[1][:1000], codes[0], codes[1])
    others = [*references[1:], *references[:1]]  # of other sentences: what chance gives
    facts["shuffled"] = score_translations(outputs, others, metrics=("chrf",))["chrf"].score if outputs[1:] else 0.0
    told = sentences(Facts(**facts))
    names = ("source", "reference", "translation", "chrf", "bucket", "confidence", "unseen")
    columns = (sources, references, outputs, chrf, buckets, confidences, unseen)
    lines = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    bins = reliability(confidences, chrf, 100 if words else NEAR).bins if lines else []
    return {
        "version": 1,
        "quality": quality_of(buckets, words=words),
        "sentences": told,
        "before": before,
        "groups": by_length,
        "unseen": _words(sources, unseen),
        "help": _help(told, facts),
        "lines": [{"line": n, **line} for n, line in enumerate(lines, start=1)],
        "calibration": [asdict(one) for one in bins],
        "experts": _experts(run, scores, record, project.round_file(number)),
    }


def _unseen(translator: Translator, train: list[str], lines: list[str], *, words: bool) -> list[tuple[str, ...]]:
    """Return for each line the words that training never had; none of single words, which are new by intention."""
    if words:
        return [()] * len(lines)
    if (known := translator.calibration) is None:
        known = learn_known(translator.src_subwords, TokenRows.from_lists(source_ids(translator, train)))
    return unseen_words(translator, known, lines, source_ids(translator, lines))


def _facts(project: Project, number: int, run: Run, record: dict[str, Any]) -> dict[str, Any]:
    """Return what the run and the texts tell the rules."""
    training = load_folder_config(project.round_file(number)).training
    last = run.events.get("train") or run.events.get("validation") or {}
    updates, epochs = run.updates, max(0.5, int(last.get("epoch") or 1) - 0.5)
    usual = usual_updates(training, max(1, round(updates / max(epochs, 1e-9)))) * epochs / max(1, updates)
    curve = [value for _, _, value in run.curves.get("validation chrf", ())]
    quarter = curve[-max(1, len(curve) // 4) - 1] if len(curve) > 3 else None
    texts = [rows.facts for rows in texts_of(project)]
    repeated = sum(one["count"] for facts in texts for one in facts["findings"] if one["name"] == "duplicates")
    share = repeated / max(1, sum(facts["rows"] for facts in texts))
    return {
        "pairs": int(record["pairs"]),
        "passes": epochs,
        "usual": usual,
        "per_pass": run.minutes / max(epochs, 1e-9),
        "rise": 0.0 if quarter is None else curve[-1] - quarter,
        "repeated": 100 * share,
    }


def _before(project: Project, number: int, own: dict[str, str]) -> dict[str, Any] | None:
    """Return how the round compares with the best of the earlier ones of its direction."""
    direction = project.record(number)["direction"]
    best: tuple[int, dict[str, Any]] | None = None
    for other in project.rounds():
        report = read_json(project.round_file(other, REPORT))
        if other < number and report and project.record(other).get("direction") == direction:
            if best is None or report["quality"]["near"] >= best[1]["quality"]["near"]:
                best = other, report
    if best is None:
        return None
    found = compared(own, {line["source"]: line["bucket"] for line in best[1]["lines"]})
    return None if found is None else {"n": best[0], "quality": best[1]["quality"], **found}


def _words(sources: list[str], unseen: list[tuple[str, ...]]) -> list[dict[str, Any]]:
    """Return the words never met, the most frequent first, with sentences that have them."""
    counts = Counter(word for words in unseen for word in words).most_common(_MOST_WORDS)
    lines = {word: [line for line, words in zip(sources, unseen, strict=True) if word in words] for word, _ in counts}
    return [{"word": word, "count": count, "examples": lines[word][:_MOST_EXAMPLES]} for word, count in counts]


def _help(told: list[dict[str, Any]], facts: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what would help most, in order."""
    first = ["time"] if {"few-passes", "rising"} & {one["code"] for one in told} else []
    order = [*first, "more", *(["words"] if facts["unseen"] else []), "correct", *([] if first else ["no-time"])]
    return [{"code": code, "words": {"n": facts["unseen"], "count": facts["count"]}} for code in order]


def _experts(run: Run, scores: dict[str, Any], record: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return numbers for experts: those of nmt-evaluate, and the report of the run."""
    return {
        **{name: score.score for name, score in scores.items()},
        **{f"{name}_interval": score.interval for name, score in scores.items()},
        **{f"{name}_signature": score.signature for name, score in scores.items()},
        "preset": run.settings.get("preset"),
        "checkpoint": find_checkpoint(folder).stem,
        "codes": record["codes"],
        **report_data([run]),
    }


def main() -> None:
    """Write the report of the round that the arguments name."""
    folder, number = Path(sys.argv[1]), int(sys.argv[2])
    threads = int(sys.argv[3]) if len(sys.argv) > 3 else None
    write_json(Project(folder).round_file(number, REPORT), judge(folder, number, threads))


if __name__ == "__main__":
    main()
