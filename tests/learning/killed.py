"""Kill a process that learns, at any moment, and look whether all that it acknowledged is there.

    python -m tests.learning.killed 50

is the long form of a test: kills and undos of a model that has learnt nothing, bits compared.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests import saved_models

_LINES = saved_models.sentences(4000, seed=11, longest=6)
PAIRS = list(zip(_LINES[:2000], _LINES[2000:], strict=True))

_WORKER = """
import sys
from nmt import LearningTranslator
from tests.learning.killed import PAIRS
one = LearningTranslator.load(sys.argv[1], memory=sys.argv[2])
done = one.progress().pairs
print("ready", done, flush=True)
for source, target in PAIRS[done:]:
    print(one.learn(source, target).pair.number, flush=True)
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
        process.send_signal(signal.SIGKILL)
        said = process.stdout.read().split("\n")[:-1]  # whole lines
        process.wait()
        assert process.returncode == -signal.SIGKILL
        acknowledged = max(acknowledged, *map(int, said), 0) if said else acknowledged
    return kills


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
                for source, target in pairs:
                    other.learn(source, target)
                assert parameters(other.translator()) == killed
            print(f"{count} kills: {len(pairs)} pairs, all that were acknowledged; the same bits as without kills")
        undone = 0
        with LearningTranslator.load(folder, memory=Path(place) / "undone") as one:
            numbers = [one.learn(*pair).pair.number for pair in PAIRS[:60]]
            gone = set()
            for place_ in random.Random(3).sample(range(60), 20):
                one.undo(numbers[place_])
                gone.add(place_)
                with LearningTranslator.load(folder, memory=Path(place) / f"without{undone}") as other:
                    for number, pair in enumerate(PAIRS[:60]):
                        if number not in gone:
                            other.learn(*pair)
                    assert parameters(other.translator()) == parameters(one.translator())
                undone += 1
        print(f"{undone} undos: each the bits of a model that has never learnt the pair")


if __name__ == "__main__":
    main()
