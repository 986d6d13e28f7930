"""Where the time of a translation goes: prints JSON with the shares of decoder cell, output layer, encoder and others.

Run by translate.py: python _search_share.py MODEL DTYPE SHORTLIST(0|1) BEAM BATCH FILE
"""

import json
import sys
import time

from nmt.inference.translator import Translator
from nmt.rnn.profile import recording


def shares(names: dict[str, float], whole: float) -> dict[str, float]:
    """Shares of a whole, by the names of operations; `search` is what is neither cell, output layer nor encoder: the
    `choice` between two steps, text, and what happens once a sentence or a block."""
    parts = {"step": "cell", "decoder": "cell", "output layer": "output", "search": "choice"}
    found = dict.fromkeys(("cell", "output", "encoder", "choice"), 0.0)
    for name, seconds in names.items():
        head = name.split(":")[0]
        # Scans without a name are the bridge, and what attention reads of a source.
        part = "encoder" if head.startswith(("encoder", "scan", "src", "bridge")) else parts.get(head)
        if part is not None:
            found[part] += seconds / whole
    return found | {"search": 1 - sum(found[name] for name in ("cell", "output", "encoder"))}


def main() -> None:
    """Translate a file twice on one thread, the second time with a record."""
    model, dtype, shortlist, beam, batch, path = sys.argv[1:]
    lines = open(path, encoding="utf-8").read().splitlines()
    translator = Translator.load(model, threads=1, compute_dtype=dtype)
    size = int(batch)
    # One at a time as the command does it.
    chunks = [[line] for line in lines] if size == 1 else [lines]

    def run() -> float:
        start = time.perf_counter()
        for chunk in chunks:
            translator.translate_nbest(chunk, beam_size=int(beam), batch_size=size, shortlist=shortlist == "1")
        return time.perf_counter() - start

    run()
    with recording() as profile:
        whole = run()
    print(json.dumps(shares({name: one.seconds for name, one in profile.operations.items()}, whole)))


if __name__ == "__main__":
    main()
