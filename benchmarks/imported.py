"""An imported model compared with the toolkit that trained it: are scores and translations the same, and how fast are
both?

Scores of all lines, greedy and beam-5 translations of the original, in its own environment, and of ours after
nmt-import; then sentences/s of both in the same run, one after the other, ours in float32 and int8. The fastest turn of
each counts, and reading the model does not. Where translations differ, our float32 model's scores of both are shown.
The text must be tokenized as for the model: subwords separated by spaces.

Run: python benchmarks/imported.py onmt MODEL.pt --python ENVIRONMENT/bin/python --src FILE --ref FILE
     python benchmarks/imported.py joey FOLDER/best.ckpt --python ... (config.yaml and vocabularies next to it)
     python benchmarks/imported.py marian FOLDER/model.npz --python ... (vocab.yml next to it)
     [--threads N] [--turns N] [--lines N] [--most TOKENS]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from _machine import describe
from _timing import note

from nmt import Translator
from nmt.importing.sources import import_model
from nmt.importing.writing import save_imported

_BEAMS = (1, 5)
_SHOWN = 5
_HERE = Path(__file__).parent


def original(given: argparse.Namespace, src: list[str], ref: list[str], folder: Path) -> dict[str, Any]:
    """What the toolkit itself gives. Ends the script where it fails."""
    asked = {"model": str(given.model), "src": src, "ref": ref, "beams": _BEAMS, "batch": given.batch}
    asked |= {"threads": given.threads, "most": given.most, "turns": given.turns}
    found, log = folder / "original.json", folder / "original.log"
    env = os.environ | {"OMP_NUM_THREADS": str(given.threads), "MKL_NUM_THREADS": str(given.threads)}
    env |= {"TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1", "CUDA_VISIBLE_DEVICES": ""}
    command = [str(given.python), str(_HERE / "_original.py"), given.toolkit, str(found)]
    with log.open("wb") as err:
        done = subprocess.run(command, input=json.dumps(asked).encode(), env=env, stdout=err, stderr=err)
    if done.returncode:
        raise SystemExit(f"{given.python}: exit code {done.returncode}\n{log.read_text('utf-8', 'replace')[-2000:]}")
    answer: dict[str, Any] = json.loads(found.read_text("utf-8"))
    return answer


def timed(translator: Translator, src: list[str], beam: int, given: argparse.Namespace) -> tuple[list[str], float]:
    """Our translations, and the seconds of the fastest turn."""
    best = float("inf")
    for _ in range(given.turns):
        start = time.perf_counter()
        found = translator.translate(src, beam_size=beam, batch_size=given.batch, **limits(given))
        best = min(best, time.perf_counter() - start)
    return found, best


def limits(given: argparse.Namespace) -> dict[str, Any]:
    """Both stop at the same length, Marian at three times the source's, and prefer none."""
    if given.toolkit == "marian":
        return {"max_length_ratio": 3.0, "max_length_extra": 0, "length_penalty": "none"}
    return {"max_length_ratio": 1e-6, "max_length_extra": given.most, "length_penalty": "none"}


def compare(translator: Translator, src: list[str], theirs: list[str], ours: list[str]) -> str:
    """How many translations differ, and what our model says of each."""
    places = [n for n, (a, b) in enumerate(zip(theirs, ours, strict=True)) if a != b]
    if not places:
        return "all the same"
    lines = [src[n] for n in places]
    scores = [
        [sum(detail.log_probs) for detail in translator.score(lines, [texts[n] for n in places])]
        for texts in (theirs, ours)
    ]
    gaps = [b - a for a, b in zip(*scores, strict=True)]
    for n, gap in list(zip(places, gaps, strict=True))[:_SHOWN]:
        note(f"line {n + 1}: ours is more probable by {gap:.5f}\n  theirs {theirs[n][:90]}\n  ours   {ours[n][:90]}")
    ties = sum(abs(gap) < 1e-3 for gap in gaps)
    better = sum(gap >= 1e-3 for gap in gaps)
    return f"{len(places)} differ: {ties} ties, ours more probable in {better}, theirs in {len(places) - ties - better}"


def main() -> None:
    """Print what is equal, and the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("toolkit", choices=["onmt", "joey", "marian"])
    parser.add_argument("model", type=Path)
    parser.add_argument("--python", type=Path, required=True, help="of the toolkit's environment")
    parser.add_argument("--src", type=Path, required=True, help="what to translate")
    parser.add_argument("--ref", type=Path, required=True, help="what to score")
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--most", type=int, default=60, help="tokens of a translation")
    given = parser.parse_args()
    src, ref = (path.read_text("utf-8").splitlines()[: given.lines] for path in (given.src, given.ref))
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        save_imported(folder / "model", import_model(given.model))
        command = [sys.executable, "-m", "nmt", "quantize", str(folder / "model"), "-o", str(folder / "int8")]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        models = {"float32": Translator.load(folder / "model", threads=given.threads)}
        models["int8"] = Translator.load(folder / "int8", threads=given.threads)
        theirs = original(given, src, ref, folder)
        scores = [sum(detail.log_probs) for detail in models["float32"].score(src, ref)]
        gap = max(abs(a - b) for a, b in zip(scores, theirs["scores"], strict=True))
        mean = sum(scores) / len(scores)
        print(", ".join(f"{name} {value}" for name, value in describe(given.threads).items()))
        print(f"scores of {len(src)} lines: at most {gap:.6f} apart, {mean:.2f} in the mean")
        rows = []
        for beam in _BEAMS:
            before = theirs[str(beam)]
            rows.append((given.toolkit, beam, before["seconds"], before["seconds"]))
            for name, translator in models.items():
                texts, seconds = timed(translator, src, beam, given)
                print(f"beam {beam}, {name}: {compare(models['float32'], src, before['texts'], texts)}")
                rows.append((f"nmt {name}", beam, seconds, before["seconds"]))
    print("| | beam | sentences/s | relative to the original |\n|---|---|---|---|")
    for name, beam, seconds, first in rows:
        print(f"| {name} | {beam} | {len(src) / seconds:,.1f} | {first / seconds:.2f}x |")


if __name__ == "__main__":
    main()
