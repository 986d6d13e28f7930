"""Kill a process that learns, at any moment, and look whether all that it acknowledged is there.

    python -m tests.learning.killed 50

is the long form of a test: kills and undos of a model that has learnt nothing, bits compared. The model is consolidated
now and then, so that kills and undos meet consolidations too.
"""

import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests import saved_models

_LINES = saved_models.sentences(4000, seed=11, longest=6)
PAIRS = list(zip(_LINES[:2000], _LINES[2000:], strict=True))
EVERY = 5
"""Pairs after which a process consolidates."""

_WORKER = """
import sys
from nmt import LearningTranslator
from tests.learning.killed import EVERY, PAIRS
one = LearningTranslator.load(sys.argv[1], memory=sys.argv[2])
done = one.progress().pairs
if done % 3 == 2:
    one.consolidate()  # undisturbed; those below are often killed
print("ready", done, flush=True)
for source, target in PAIRS[done:]:
    number = one.learn(source, target).pair.number
    print(number, flush=True)
    if number % EVERY == 0:
        one.consolidate()
"""


def check_kills(folder, memory, *, kills, seed):
    """Kill `kills` processes while they learn; return how many. Raises AssertionError if a pair is lost."""
    rng, acknowledged = random.Random(seed), 0
    for _ in range(kills):
        process = subprocess.Popen(
            [sys.executable, "-c", _WORKER, str(folder), str(memory)],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])},
        )
        ready = process.stdout.readline().split()
        assert ready and ready[0] == "ready", ready
        assert int(ready[1]) >= acknowledged, f"{acknowledged} pairs were acknowledged, and {ready[1]} are there"
        time.sleep(rng.uniform(0.0, 0.6))
        process.kill()
        said = process.stdout.read().split("\n")[:-1]  # whole lines
        process.wait()
        assert process.returncode in (-9, 1)  # 1 on Windows
        acknowledged = max(acknowledged, *map(int, said), 0) if said else acknowledged
    return kills


def learn_like(other, one, project=""):
    """Let `other` learn the pairs of `one`, and consolidate where `one` was consolidated and a pair is left before."""
    places = [place for (place,) in one.memory._rows("SELECT number FROM consolidations WHERE project = ?", project)]
    done = 0
    for pair in one.memory.learnt(project):
        if done and any(done <= place < pair.number for place in places):
            other.consolidate(project)
        other.learn(pair.source, pair.target, project=project)
        done = pair.number
    if any(done <= place for place in places):
        other.consolidate(project)
    return len(places)


def main():
    """Do it often, and undo often."""
    from nmt import LearningTranslator
    from tests.learning.conftest import parameters

    count = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    with tempfile.TemporaryDirectory() as place:
        folder = saved_models.write_folder(Path(place) / "model")
        check_kills(folder, Path(place) / "killed", kills=count, seed=2)
        with LearningTranslator.load(folder, memory=Path(place) / "killed") as one:
            pairs = [(pair.source, pair.target) for pair in one.memory.pairs("")]
            assert pairs == PAIRS[: len(pairs)]
            killed = parameters(one.translator())
            with LearningTranslator.load(folder, memory=Path(place) / "whole") as other:
                places = learn_like(other, one)
                assert parameters(other.translator()) == killed
            print(
                f"{count} kills: {len(pairs)} pairs, all that were acknowledged, consolidated {places} times; the same "
                "bits as without kills"
            )
        undone = 0
        with LearningTranslator.load(folder, memory=Path(place) / "undone") as one:
            numbers = []
            for pair in PAIRS[:60]:
                numbers.append(one.learn(*pair).pair.number)
                if numbers[-1] % EVERY == 0:
                    one.consolidate()
            for place_ in random.Random(3).sample(range(60), 20):
                one.undo(numbers[place_])
                with LearningTranslator.load(folder, memory=Path(place) / f"without{undone}") as other:
                    assert learn_like(other, one) == 60 // EVERY
                    assert parameters(other.translator()) == parameters(one.translator())
                undone += 1
        print(f"{undone} undos: each the bits of a model that has never learnt the pair")


if __name__ == "__main__":
    main()
