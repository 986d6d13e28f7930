"""Kill a process that learns, at any moment, and look whether all that it acknowledged is there."""

import os
import random
import subprocess
import sys
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
    """Kill `kills` processes while they learn. Raises AssertionError if a pair is lost."""
    rng, acknowledged = random.Random(seed), 0
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    command = [sys.executable, "-c", _WORKER, str(folder), str(memory)]
    for _ in range(kills):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        ready = process.stdout.readline().split()
        assert ready and ready[0] == "ready", ready
        assert int(ready[1]) >= acknowledged, f"{acknowledged} pairs were acknowledged, and {ready[1]} are there"
        time.sleep(rng.uniform(0.0, 0.6))
        process.kill()
        said = process.stdout.read().split("\n")[:-1]  # whole lines
        process.wait()
        assert process.returncode in (-9, 1)  # 1 on Windows
        acknowledged = max(acknowledged, *map(int, said), 0) if said else acknowledged


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
