"""Run chosen tests for Arm on a machine that is none, by qemu's emulation of single processes: `make test-arm`.

It needs Debian's qemu-user-static. Packages of Debian and PyPI for Arm are fetched once, into build/arm. What passes is
right on Arm; how fast it is the emulation does not tell.

Run: python -m tests.arm.run [--only PART ...] [--levels LEVEL ...] [--folder build/arm]
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from deploy.app import DEBIAN, debian_packages, requirements, unpacked_wheels

ROOT = Path(__file__).resolve().parents[2]
PROCESSORS = {"neon": "cortex-a72", "neon_dotprod": "neoverse-n1", "neon_bf16": "max"}
"""A processor that qemu knows, by the best level that it has."""


def fetch(folder: Path) -> None:
    """Fetch Python and our dependencies for Arm, unless they are there."""
    if (folder / "complete").exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "site").mkdir(parents=True)
    debian_packages(folder, "arm64", DEBIAN)
    unpacked_wheels(folder, folder / "site", *requirements("pytest", extras=()), system="linux-aarch64")
    (folder / "complete").touch()


class Arm:
    """Python of another machine."""

    def __init__(self, folder: Path, level: str, processor: str | None = None) -> None:
        self.folder, self.level, self.processor = folder, level, processor or PROCESSORS[level]

    def run(self, *arguments: str, threads: int = 1, **variables: str) -> str:
        """Run Python with these arguments; return what it printed. Raises CalledProcessError, after printing that."""
        environment = {
            "PYTHONPATH": f"{ROOT}:{self.folder / 'site'}",
            "NMT_CPU": self.level,
            "NMT_THREADS": str(threads),
        }
        environment |= {"NUMBA_NUM_THREADS": str(threads), "PYTHONDONTWRITEBYTECODE": "1"}
        environment = {**os.environ, **environment, "NMT_CACHE_DIR": str(self.folder / "cache"), **variables}
        python = [self.folder / "root/usr/bin/python3.11", *arguments]
        command = ["qemu-aarch64-static", "-cpu", self.processor, "-L", self.folder / "root", *python]
        done = subprocess.run(command, check=False, text=True, stdout=subprocess.PIPE, env=environment, cwd=ROOT)
        if done.returncode:
            print(done.stdout, file=sys.stderr)
            done.check_returncode()
        return done.stdout


def check_level(arm: Arm) -> None:
    """The best level is found; a better one than the processor has is refused."""
    print_name = "from nmt.rnn.kernels.machine_code.features import TARGET; print(TARGET.name)"
    assert arm.run("-c", print_name).split() == [arm.level]
    assert Arm(arm.folder, "", arm.processor).run("-c", print_name).split() == [arm.level]
    if arm.level == "neon":
        refused = Arm(arm.folder, "neon_dotprod", arm.processor)
        name_error = f"try:\n    {print_name}\nexcept Exception as error:\n    print(error)"
        assert "NMT_CPU: must be a target this neon machine has" in refused.run("-c", name_error)


def check_kernels(arm: Arm) -> None:
    """Products, in float32, bfloat16 and int8, and functions of the loops pass their tests."""
    tests = [f"tests/rnn/kernels/test_{name}.py" for name in ("products", "bfloat16", "int8", "activations")]
    print(arm.run("-m", "pytest", "-q", "-p", "no:cacheprovider", *tests))


INSTRUCTIONS = """
import numpy as np
from nmt.rnn import LSTMCell, Scan, Weights, initial_params
from nmt.rnn.kernels.machine_code import objects
machine = objects._target_machine()
emit, texts = machine.emit_object, []
machine.emit_object = lambda module: (texts.append(machine.emit_assembly(module)), emit(module))[1]
cell = LSTMCell(24, 32)
for kind in ("int8", "bfloat16"):
    Scan(cell, compute_dtype=kind).forward(Weights(initial_params(cell, 1)), np.ones((3, 5, 24), "f4"))
print(*(sum(text.count("\\t" + name) for text in texts) for name in ("sdot", "bfdot", "fmla")))
"""


def check_instructions(arm: Arm) -> None:
    """Products of bytes use sdot, and those of bfloat16 bfdot, where the level has it, and nowhere else; the rest uses
    fmla."""
    with tempfile.TemporaryDirectory() as empty:  # so that everything is compiled
        sdot, bfdot, fmla = map(int, arm.run("-c", INSTRUCTIONS, NMT_CACHE_DIR=empty).split())
    print(f"{arm.level}: {sdot} sdot, {bfdot} bfdot, {fmla} fmla")
    assert (sdot > 0) == (arm.level != "neon") and (bfdot > 0) == (arm.level == "neon_bf16") and fmla > 0


MAKE_PACK = """
import sys
from pathlib import Path
from nmt.precompile.jobs import make_packs
from tests.precompile.test_packs import WORK, needed
make_packs(needed(), Path(sys.argv[1]), sys.argv[2:], lambda line: None)
print(WORK)
"""


def check_packs(arm: Arm) -> None:
    """Machine code that was made on this machine for a wheel runs there, and nothing is compiled."""
    with tempfile.TemporaryDirectory() as empty:
        work = _here("-c", MAKE_PACK, f"{empty}/packs", arm.level)
        done = arm.run("-c", work, f"{empty}/packs", NMT_CACHE_DIR=empty, NMT_SHIPPED_CODE="1")
    assert done.split() == ["False"], f"{arm.level}: Numba must not be loaded, got {done}"


def _demo(folder: Path) -> Path:
    """Return the folder of the demo's corpus, made here."""
    if not (folder / "demo").exists():
        subprocess.run([sys.executable, "data_scripts/number_words.py", "--out", folder / "demo"], check=True, cwd=ROOT)
    return folder / "demo"


def _train(python: Callable[..., str], folder: Path, name: str) -> list[float]:
    """Train the demo for 20 updates into a folder of this name; return its losses."""
    model, demo = folder / name, _demo(folder)
    shutil.rmtree(model, ignore_errors=True)
    numbers = {"updates": 20, "validation_freq": 20, "logging_freq": 5, "learning_rate_warmup": 10}
    own = {f"training.{key}": number for key, number in numbers.items()}
    own |= {"model_dir": model, **{f"data.{part}": demo / part for part in ("train", "dev", "test")}}
    python("-m", "nmt", "train", "configs/quickstart.yaml", *(f"--set={key}={value}" for key, value in own.items()))
    lines = (model / "metrics.jsonl").read_text("utf-8").splitlines()
    return [found["loss"] for line in lines if "loss" in (found := json.loads(line))]


def _here(*arguments: str) -> str:
    """Run Python of this machine; return what it printed."""
    return subprocess.run([sys.executable, *arguments], check=True, text=True, stdout=subprocess.PIPE, cwd=ROOT).stdout


def check_training(arm: Arm) -> None:
    """Losses of the demo's first 20 updates are those of this machine, to rounding."""
    here, there = _train(_here, arm.folder, "here"), _train(arm.run, arm.folder, arm.level)
    print(f"{arm.level}: losses {there}, here {here}")
    assert len(here) == len(there) and all(abs(a - b) < 1e-3 * a for a, b in zip(here, there, strict=True))


def check_translation(arm: Arm) -> None:
    """A model that was trained here gives the same lines there, in float32 and int8, with one thread and two."""
    if not (arm.folder / "here").exists():
        _train(_here, arm.folder, "here")
    lines = arm.folder / "lines.en"
    lines.write_text("".join((_demo(arm.folder) / "test.en").read_text("utf-8").splitlines(keepends=True)[:8]), "utf-8")
    for kind in ("float32", "int8"):
        given = ("-m", "nmt", "translate", str(arm.folder / "here"), str(lines), "--compute-dtype", kind)
        given += ("--max-length-ratio", "1", "--max-length-extra", "5")
        expected = _here(*given)
        for threads in (1, 2):
            assert arm.run(*given, threads=threads) == expected, f"{arm.level}, {kind}, {threads} threads"
        print(f"{arm.level}: {kind}, the same {len(expected.splitlines())} lines with 1 thread and 2")


CHECKS = {
    "level": check_level, "kernels": check_kernels, "instructions": check_instructions, "packs": check_packs,
    "training": check_training, "translation": check_translation,
}  # fmt: skip


def main() -> None:
    """Fetch what is needed and run the parts, at each level."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=CHECKS, nargs="+", default=[*CHECKS])
    parser.add_argument("--levels", choices=PROCESSORS, nargs="+", default=[*PROCESSORS])
    parser.add_argument("--folder", type=Path, default=ROOT / "build/arm")
    args = parser.parse_args()
    if not shutil.which("qemu-aarch64-static"):
        raise SystemExit("tests/arm/run.py: qemu-aarch64-static must be installed; apt-get install qemu-user-static")
    folder = args.folder.resolve()
    fetch(folder)
    for level in args.levels:
        for name in args.only:
            CHECKS[name](Arm(folder, level))
            print(f"{level}: {name} passed", flush=True)


if __name__ == "__main__":
    main()
