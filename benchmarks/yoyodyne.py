"""How well and how fast do we and Yoyodyne learn forms and sounds of words in the same seconds of one core?

Yoyodyne (CUNY-CL, on PyTorch) is the toolkit that linguists use for such tasks. Its models are those of its own tests:
a recurrent network with attention, a pointer-generator, and Transformers, with their settings; each keeps the
checkpoint with the best accuracy on dev. Ours are the recipe's two, edit actions and attention that copies. All get
the same seconds for training (without starting and compiling), and one thread. Two tasks are Yoyodyne's own test data,
the third is a language of SIGMORPHON 2022. Accuracy is the share of test words that are right in every symbol, beam 5
for ours, and for Yoyodyne the better of greedy and beam 5.

Run: python benchmarks/yoyodyne.py FOLDER --yoyodyne VENV/bin/yoyodyne --checkout ITS_REPOSITORY --third FOLDER_OF_TSV
"""

import argparse
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from _machine import describe

HERE = Path(__file__).resolve().parent.parent
for folder in ("data_scripts", "recipes"):
    sys.path.insert(0, str(HERE / folder))

from catalogue import EDITS_OR_ATTENTION  # noqa: E402
from sigmorphon2020_g2p import sides_of as sounds_of  # noqa: E402
from sigmorphon_inflection import sides_of as forms_of  # noqa: E402

PARTS = ("train", "dev", "test")
_SOUNDS = ("soft_attention_lstm", "pointer_generator_lstm", "rotary_transformer")
_FORMS = (
    "soft_attention_lstm_shared_features",
    "pointer_generator_lstm_separate_features",
    "pointer_generator_rotary_transformer_linear_features",
)


@dataclass(frozen=True)
class Task:
    """Tables of word, target and perhaps features; `data` is Yoyodyne's configuration of them."""

    name: str
    folder: Path
    data: str
    models: tuple[str, ...]

    @property
    def has_features(self) -> bool:
        """Whether the third column has features."""
        return self.models is _FORMS

    def table(self, part: str) -> Path:
        """The file of a part."""
        return self.folder / f"{part}.tsv"

    def answers(self, part: str) -> list[str]:
        """Return the second column."""
        return [line.split("\t")[1] for line in self.table(part).read_text("utf-8").splitlines()]


@dataclass(frozen=True)
class Result:
    """Accuracies in percent, passes over the text, and seconds of the commands."""

    dev: float
    test: float
    passes: float
    training_seconds: float
    translating_seconds: float


def seconds_of(command: list[str | Path], log: Path, environment: dict[str, str]) -> float:
    """Run a command and return its seconds; its output goes to `log`. Raise CalledProcessError if it fails."""
    began = time.monotonic()
    with log.open("w", encoding="utf-8") as sink:
        subprocess.run([str(word) for word in command], check=True, stdout=sink, stderr=sink, env=environment)
    return time.monotonic() - began


def accuracy(found: list[str], right: list[str]) -> float:
    """Return the percentage of equal lines, spaces aside. Raise ValueError if their numbers differ."""
    pairs = zip(found, right, strict=True)
    return 100 * sum(one.replace(" ", "") == other.replace(" ", "") for one, other in pairs) / len(right)


def run_yoyodyne(task: Task, model: str, folder: Path, options: argparse.Namespace) -> Result:
    """Train one of its models and translate dev and test."""
    configs = options.checkout / "tests/testdata/configs"
    folder.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    common = [f"--data={configs / task.data}", f"--data.model_dir={folder}", f"--model={configs / f'{model}.yaml'}"]
    limit = time.strftime("00:%H:%M:%S", time.gmtime(options.seconds))
    fit = [
        *(options.yoyodyne, "fit", *common, f"--data.train={task.table('train')}", f"--data.val={task.table('dev')}"),
        *("--checkpoint.filename=best", "--checkpoint.mode=max", "--checkpoint.monitor=val_accuracy"),
        *(f"--seed_everything={options.seed}", "--trainer.accelerator=cpu", "--trainer.max_epochs=100000"),
        *(f"--trainer.max_time={limit}", "--trainer.gradient_clip_val=3", "--trainer.enable_progress_bar=false"),
        "--trainer.logger=lightning.pytorch.loggers.CSVLogger",
    ]
    took = seconds_of(fit, folder / "fit.log", environment)
    checkpoint = sorted(folder.rglob("best*.ckpt"))[-1]
    scores: dict[str, dict[int, float]] = {part: {} for part in PARTS[1:]}
    seconds = {}
    for beam in (1, 5):
        for part in PARTS[1:]:
            output = folder / f"{part}.{beam}"
            predict = [
                *(options.yoyodyne, "predict", *common, f"--ckpt_path={checkpoint}", f"--prediction.path={output}"),
                *(f"--data.predict={task.table(part)}", "--trainer.accelerator=cpu"),
                "--trainer.enable_progress_bar=false",
                *([f"--model.beam_width={beam}", "--data.batch_size=1"] if beam > 1 else []),
            ]
            seconds[beam] = seconds_of(predict, folder / f"predict-{part}-{beam}.log", environment)
            found = [line.split("\t")[0] for line in output.read_text("utf-8").splitlines()]
            scores[part][beam] = accuracy(found, task.answers(part))
    best = max(scores["dev"], key=lambda beam: (scores["dev"][beam], -beam))
    metrics = sorted(folder.rglob("metrics.csv"))[-1].read_text("utf-8").splitlines()
    column = metrics[0].split(",").index("epoch")
    passes = 1 + max(int(row.split(",")[column]) for row in metrics[1:])
    return Result(scores["dev"][best], scores["test"][best], passes, took, seconds[best])


def write_sides(task: Task, folder: Path) -> None:
    """Write the table as ours reads it: symbols between spaces, a file for each side."""
    folder.mkdir(parents=True, exist_ok=True)
    for part in PARTS:
        table = task.table(part).read_bytes()
        sides = forms_of(table, part, (0, 1, 2)) if task.has_features else sounds_of(table, part)
        for text, language in zip(sides.values(), ("src", "tgt"), strict=True):
            (folder / f"{part}.{language}").write_bytes(text)


def run_ours(task: Task, method: str, folder: Path, options: argparse.Namespace) -> Result:
    """Train one of the recipe's models and translate dev and test."""
    write_sides(task, folder)
    model = folder / "model"
    settings = {
        **{"data.train": folder / "train", "data.dev": folder / "dev", "data.src.lang": "src", "data.tgt.lang": "tgt"},
        **{"model_dir": model, "seed": options.seed},
        **EDITS_OR_ATTENTION[method],
    }
    nmt: list[str | Path] = [sys.executable, "-m", "nmt"]
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    config = HERE / "configs/inflection.yaml"
    train = [*nmt, "train", config, *words, "--budget", f"{options.seconds}s", "--threads", "1"]
    environment = os.environ | {"PYTHONPATH": str(HERE)}
    took = seconds_of(train, folder / "train.out", environment)
    scores, seconds = {}, 0.0
    for part in PARTS[1:]:
        output = folder / f"{part}.found"
        command = [*nmt, "translate", model, folder / f"{part}.src", "-o", output, "--threads", "1"]
        seconds = seconds_of(command, folder / f"translate-{part}.out", environment)
        right = (folder / f"{part}.tgt").read_text("utf-8").splitlines()
        scores[part] = accuracy(output.read_text("utf-8").splitlines(), right)
    passes = re.findall(r"epoch +(\d+)", (model / "train.log").read_text("utf-8"))
    return Result(scores["dev"], scores["test"], float(passes[-1]), took, seconds)


def main() -> None:
    """Print a row for each task and model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder for runs")
    parser.add_argument("--yoyodyne", type=Path, required=True, help="its command in an environment of its own")
    parser.add_argument("--checkout", type=Path, required=True, help="its repository, which has models and test data")
    parser.add_argument("--third", type=Path, help="folder of train.tsv, dev.tsv, test.tsv: word, form, features")
    parser.add_argument("--seconds", type=int, default=60, help="training time of each model (default: %(default)s)")
    parser.add_argument("--only", nargs="+", metavar="TASK", help="names of tasks (default: all)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    own = options.checkout / "tests/testdata/data"
    tasks = [
        Task("ice_g2p", own / "ice_g2p", "ice_g2p_data.yaml", _SOUNDS),
        Task("tur_inflection", own / "tur_inflection", "tur_inflection_data.yaml", _FORMS),
    ]
    if options.third:
        tasks.append(Task(options.third.name, options.third, "tur_inflection_data.yaml", _FORMS))
    print(describe(threads=1))
    print("task\tsystem\tmodel\tdev\ttest\tpasses\ttraining command, s\ttranslating test, s", flush=True)
    for task in [one for one in tasks if not options.only or one.name in options.only]:
        runs = [("yoyodyne", model, run_yoyodyne) for model in task.models]
        runs += [("nmt", method, run_ours) for method in EDITS_OR_ATTENTION]
        for system, model, run in runs:
            got = run(task, model, options.folder / task.name / model, options)
            figures = (got.dev, got.test, got.passes, got.training_seconds, got.translating_seconds)
            print(task.name, system, model, *(f"{figure:.2f}" for figure in figures), sep="\t", flush=True)


if __name__ == "__main__":
    main()
