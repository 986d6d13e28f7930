"""What must be the same bits on Linux and on Windows: trainings, killed trainings, translations, int8, exports.

    python -m tests.windows.same FOLDER          digests of all, a line each; `bed` runs it here and there
    python -m tests.windows.same FOLDER KILLS    kill a training so often, at random moments: it must go on to the same

Both must run at one level of processors, NMT_CPU: Linux alone lets a process use the matrix unit.
"""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file

from nmt import Translator
from nmt.exporting.to_numpy import save_numpy
from nmt.precompile.jobs import _WORDS, ModelJob, _write_texts, standard_jobs
from nmt.storage.saved_model import load_saved_model, save_quantised

_LINES = [" ".join(random.Random(n).choices(_WORDS, k=1 + n % 13)) for n in range(60)]
_UPDATES = 50


def job(dtype: str) -> ModelJob:
    """The model with dropout and two layers."""
    return next(one for one in standard_jobs() if one.name == f"gru, deep {dtype}")


def settings_of(folder: Path, dtype: str) -> dict[str, Any]:
    data = str(_write_texts(folder))
    training = {"updates": _UPDATES, "batch_size": 128, "validation_freq": 10, "stop_after": None, "logging_freq": 1}
    texts = {"train": data, "dev": data, "src": {"lang": "a"}, "tgt": {"lang": "b"}, "subwords": {"type": "word"}}
    return {**job(dtype).settings, "name": "same", "data": texts, "training": training}


def train(folder: Path, dtype: str, threads: int) -> subprocess.Popen[bytes]:
    """Begin a training in `folder/model`, or go on with it."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = {**settings_of(folder, dtype), "model_dir": str(folder / "model")}
    (folder / "c.yaml").write_text(json.dumps(settings))  # which is YAML, too
    command = [sys.executable, "-m", "nmt", "-q", "train", str(folder / "c.yaml"), "--threads", str(threads)]
    with (folder / "err").open("ab") as err:
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=err)


def digest(value: object) -> str:
    return hashlib.sha256(value if isinstance(value, bytes) else repr(value).encode()).hexdigest()[:16]


def arrays(path: Path) -> list[tuple[str, str, bytes]]:
    return [(name, str(one.dtype), one.tobytes()) for name, one in sorted(load_file(path).items())]


def show(folder: Path) -> None:
    """Print a line for each thing."""
    for dtype in ("float32", "bfloat16"):
        for threads in (1, 2):
            at = folder / f"{dtype}-{threads}"
            assert train(at, dtype, threads).wait() == 0
            print(f"parameters {dtype}, {threads} threads", digest(arrays(at / "model" / "best.safetensors")))
            for name, path in (("", at / "model"), (" in int8", at / "int8")):
                if name:
                    save_quantised(path, load_saved_model(at / "model", None))
                translator = Translator.load(path, threads=threads)
                found = translator.translate_nbest(_LINES, n_best=3)
                rows = [[(one.text, one.score.hex(), one.log_prob.hex()) for one in ranks] for ranks in found]
                print(f"translations {dtype}{name}, {threads} threads", digest(rows))
            scores = [[float(p).hex() for p in one.log_probs] for one in translator.score(_LINES, _LINES)]
            print(f"scores of {dtype} in int8, {threads} threads", digest(scores))
    export = folder / "numpy"
    save_numpy(export, load_saved_model(folder / "float32-1" / "model", None))
    print("NumPy export", digest([path.read_bytes().replace(b"\r", b"") for path in sorted(export.glob("*.[jp]*"))]))
    script = next(export.glob("*.py"))
    done = subprocess.run(
        [sys.executable, str(script)], input="\n".join(_LINES).encode(), capture_output=True, check=True
    )
    print("its translations", digest(done.stdout.replace(b"\r", b"")))


def kill(folder: Path, count: int) -> None:
    """Kill trainings at random moments, each in a folder of its own; then each goes on, to the bits of one that nobody
    has killed."""
    assert train(folder / "whole", "float32", 1).wait() == 0
    wanted, drawn = arrays(folder / "whole" / "model" / "best.safetensors"), random.Random(65)
    for n in range(count):
        at, least, lines = folder / str(n), drawn.randrange(60), 0
        process, log = train(at, "float32", 1), at / "model" / "metrics.jsonl"
        while lines < least and process.poll() is None:
            time.sleep(0.01)
            lines = log.read_bytes().count(b"\n") if log.exists() else 0
        time.sleep(drawn.uniform(0.0, 0.3))
        process.kill()
        killed = process.wait()
        assert train(at, "float32", 1).wait() == 0, n
        assert arrays(at / "model" / "best.safetensors") == wanted, n
        print(f"kill {n}: exit code {killed}, {lines} lines of metrics.jsonl; went on to the same bits", flush=True)


if __name__ == "__main__":
    place = Path(sys.argv[1])
    place.mkdir(parents=True, exist_ok=True)
    kill(place, int(sys.argv[2])) if sys.argv[2:] else show(place)
