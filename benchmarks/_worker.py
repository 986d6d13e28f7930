"""The peers' side of `_peer.py`: one process that answers requests, run by the peer's own Python (3.8 or newer).

A line of JSON asks, a line of JSON answers; arrays travel through .npz files. Imports nothing of ours.
"""

from __future__ import annotations

import json
import os
import sys
import time

import numpy as np


class Bench:
    """One network of a peer: `run(training)` does a pass, `results()` one of each kind and returns its arrays."""

    def run(self, training):
        raise NotImplementedError

    def results(self):
        raise NotImplementedError


def serve(version, make):
    """Answer until the input ends. `make(request, arrays)` returns a Bench; what it raises is answered as an error."""
    answers = os.fdopen(os.dup(1), "w", 1)
    os.dup2(2, 1)  # what libraries print must not get between the answers
    answers.write(json.dumps({"version": version}) + "\n")
    benches = {}
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = _answer(request, benches, make)
        except Exception as e:
            message = str(e).strip() or "no message"
            answer = {"error": "%s: %s" % (type(e).__name__, message.splitlines()[0])}  # noqa: UP031
        answers.write(json.dumps(answer) + "\n")


def _answer(request, benches, make):
    if request["op"] == "load":
        with np.load(request["file"]) as file:
            benches[request["name"]] = make(request, {name: file[name] for name in file.files})
        return {}
    if request["op"] == "drop":
        benches.clear()
        return {}
    bench = benches[request["name"]]
    if request["op"] == "results":
        np.savez(request["file"], **bench.results())
        return {}
    training, begun, each = request["mode"] == "training", time.perf_counter(), []
    for _ in range(request["count"]):
        start = time.process_time()
        bench.run(training)
        each.append(time.process_time() - start)
    return {"seconds": (time.perf_counter() - begun) / request["count"], "each": each}
