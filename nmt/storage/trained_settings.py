"""Compare the settings that a checkpoint was trained with to the present ones, for settings that give parameters their
meaning.

Many of them change no shape: embeddings that are scaled now and were not in training, or text that is lower-cased now,
would produce garbage without an error. A checkpoint contains the settings of its training; its reader compares them.
"""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import nmt
from nmt.errors import CheckpointError
from nmt.system.files import write_bytes, writing
from nmt.system.paths import exists, shown

if TYPE_CHECKING:
    from nmt.config import Config
    from nmt.storage.saved_model import SavedModel


MEANING = ("task", "model.*", "data.*.lowercase", "data.*.normalize", "data.*factor*", "data.subwords.joint")
"""Settings that must be as in training, or parameters mean something else. Subwords are compared by their bytes."""
TRAINING_ONLY = ("model.*dropout", "model.initializer", "model.init_weight", "model.forget_bias")
"""Exceptions: settings that only training reads."""
_SOURCE = ("model.encoder.*", "data.src.*")
"""Settings of the source, which a language model does not have, whatever its settings say."""


@dataclass(frozen=True)
class Difference:
    """A setting whose value differs from the one in training."""

    key: str
    before: Any
    now: Any

    def matches(self, *patterns: str) -> bool:
        """Return whether its key matches one of the patterns."""
        return any(fnmatch.fnmatchcase(self.key, pattern) for pattern in patterns)

    @property
    def changes_meaning(self) -> bool:
        """Return whether it changes the meaning of the trained parameters."""
        return self.matches(*MEANING) and not self.matches(*TRAINING_ONLY) and not self.moved

    @property
    def moved(self) -> bool:
        """Return whether it is a custom cell whose module has another name or place now."""
        names = [value for value in (self.before, self.now) if isinstance(value, str) and "." in value]
        return self.matches("model.*.rnn_type") and len(names) == 2 and len({n.rpartition(".")[2] for n in names}) == 1

    @property
    def shown(self) -> tuple[str, str]:
        """Return the former and the present value, as YAML shows them."""
        return _shown(self.before), _shown(self.now)


def differences(saved: Any, wanted: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield the settings that differ, by key; one that only one version of nmt knows has no counterpart. `saved`: the
    settings in a checkpoint, which may be anything; `wanted`: the settings as `Config.to_dict` returns them."""
    for key, now in sorted(flat_settings(wanted)):
        section = saved
        *outer, last = key.split(".")
        for name in outer:
            section = section.get(name) if isinstance(section, Mapping) else None
        if isinstance(section, Mapping) and last in section and section[last] != now:
            yield Difference(key, section[last], now)


def check_settings(
    settings_path: Path,
    config: Config,
    checkpoint: Path,
    content: Mapping[str, Any],
    allowed: Callable[[Difference], bool] = lambda difference: False,
) -> None:
    """Compare the settings next to a checkpoint with those it was trained with; a checkpoint without settings passes.

    Args:
        settings_path: The file that `config` was read from.
        checkpoint: The file that `content` was read from.
        allowed: Returns whether the caller can handle a difference.

    Raises:
        CheckpointError: Settings that decide what the parameters mean differ; all of them are named.
    """
    found = [
        one
        for one in differences(content.get("config"), config.to_dict())
        if one.changes_meaning and not (config.task == "lm" and one.matches(*_SOURCE)) and not allowed(one)
    ]
    if not found:
        return
    (before, now), others = found[0].shown, [(one.key, *one.shown) for one in found[1:]]
    name = checkpoint.name if checkpoint.parent == settings_path.parent else checkpoint
    more = "".join(f", and {key} {wanted}, got {got}" for key, wanted, got in others)
    raise CheckpointError(
        f"{settings_path}: {found[0].key} must be {before}, which {name} was trained with, got {now}{more}; "
        f"set {'them' if others else 'it'} back, or train a new model with {'them' if others else 'it'}"
    )


def flat_settings(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield settings as `("model.encoder.num_layers", 1)`; tuples become lists, as in JSON."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from flat_settings(value, f"{prefix}{key}.")
        else:
            yield prefix + key, list(value) if isinstance(value, tuple) else value


def _shown(value: Any) -> str:
    """Return a value for an error message: plain text as it is, everything else as JSON, shortened."""
    if isinstance(value, str) and value.isprintable() and len(value) <= 60:
        return value
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


_METRICS = {"bleu": "BLEU", "chrf": "chrF", "ppl": "perplexity of a subword", "accuracy": "subwords predicted right"}
"""The validation scores that a card shows, in this order."""
_OPEN = """\
## To be added before publication

- **Licence**: of the parameters, which depends on that of the training text.
- **Training text**: where it comes from, what it is about, who wrote it.
- **Intended use**, and what it must not be used for.
- **Known mistakes**: kinds of text on which it is poor. A recurrent model of this size knows little beyond its training
  text, and translates any input without a warning.
"""


def write_card(path: Path, saved: SavedModel, bundle: Path) -> None:
    """Write the card of a model that was written to `bundle`. An existing card is not overwritten. Raises
    CheckpointError: The card exists already, or cannot be written."""
    if exists(path):
        raise CheckpointError(f"{path}: must be a new file, got one that is there; remove it, or choose another name")
    with writing(path):
        write_bytes(path, model_card(saved, bundle).encode())


def model_card(saved: SavedModel, bundle: Path) -> str:
    """Return the card as text: front matter, description, use, scores, training, open questions."""
    config = saved.config
    front = "\n".join(f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in _front(saved).items())
    scores = [f"| {_METRICS[name]} | {value:.2f} |" for name, value in _scores(saved)]
    rows = (
        "\n".join([f"| on {_sample(saved)}the validation text | |", "|---|---|", *scores])
        if scores
        else "None are known."
    )
    facts = "\n".join(f"- {name}: {value}" for name, value in _facts(saved, bundle))
    sections = [
        f"---\n{front}\n---",
        f"# {config.name}",
        _purpose(saved),
        facts,
        f"## Use\n\nWith nmt {nmt.__version__} (`pip install .` in its checkout):\n\n"
        f"```bash\n{_command(saved)} {shown(bundle.name)}\n```",
        f"## Scores\n\n{rows}",
        "The checkpoint was chosen by these scores; on a text by which nothing was chosen they are lower.",
        _OPEN.strip(),
        f"## Training\n\n```json\n{_settings(saved)}\n```\n",
    ]
    return "\n\n".join(sections)


def _command(saved: SavedModel) -> str:
    return "nmt-translate" if saved.config.task == "translation" else "nmt-generate"


def _purpose(saved: SavedModel) -> str:
    data = saved.config.data
    if saved.config.task == "lm":
        return f"A recurrent language model of `{data.tgt.lang}`."
    return f"A recurrent model that turns `{data.src.lang}` into `{data.tgt.lang}`."


def _languages(saved: SavedModel) -> list[str]:
    """Return the sides that are named by language codes as in BCP 47, without sides such as letters and sounds, or
    without a name."""
    from nmt.config.data_section import UNNAMED

    data = saved.config.data
    sides = [data.src.lang, data.tgt.lang] if saved.config.task == "translation" else [data.tgt.lang]
    codes = [side for side in sides if re.fullmatch(r"[a-z]{2,3}(?:[-_][A-Za-z]{2,4})?", side)]
    return [code for code in codes if code not in UNNAMED]


def _front(saved: SavedModel) -> dict[str, Any]:
    """Return the machine-readable front matter."""
    from nmt.data.corpora.sources import sources_of

    config, translates = saved.config, saved.config.task == "translation"
    task = "translation" if translates else "text-generation"
    metrics = [{"type": name, "value": round(value, 2), "name": _METRICS[name]} for name, value in _scores(saved)]
    front: dict[str, Any] = {"library_name": "recurrent-nmt", "pipeline_tag": task}
    front |= {"language": languages} if (languages := _languages(saved)) else {}
    front["tags"] = ["recurrent", config.model.decoder.rnn_type, "cpu"]
    if metrics:
        paths = [PurePath(source.path) for source in sources_of(config.data.dev)]
        files = ", ".join(path.name if path.is_absolute() else str(path) for path in paths)
        name = _sample(saved) + files
        result = {"task": {"type": task}, "dataset": {"name": name, "type": "text"}, "metrics": metrics}
        front["model-index"] = [{"name": config.name, "results": [result]}]
    return front


def _scores(saved: SavedModel) -> list[tuple[str, float]]:
    """Return the scores of the checkpoint, from its file or the validation that it belongs to."""
    state = saved.content.get("state", {})
    found = saved.content.get("scores") or state.get("best_scores", {})
    return [(name, float(found[name])) for name in _METRICS if isinstance(found.get(name), int | float)]


def _sample(saved: SavedModel) -> str:
    """Return `178 of 500 pairs of ` if validations read a part of their text; nothing if they read all of it."""
    state = saved.content.get("state", {})
    read, pairs = state.get("validation_pairs"), (state.get("dev") or [0])[0]
    is_part = isinstance(read, int) and isinstance(pairs, int) and 0 < read < pairs
    return f"{read:,} of {pairs:,} pairs of " if is_part else ""


def _facts(saved: SavedModel, bundle: Path) -> list[tuple[str, str]]:
    kind: str = "int8" if "quantization" in saved.content else saved.config.compute_dtype
    kind = "float32 or bfloat16, whichever is faster" if kind == "auto" else kind
    sizes = [saved.tgt_subwords.vocab_size]
    if saved.config.task == "translation":
        sizes = [saved.src_subwords.vocab_size, *sizes]
    return [
        ("size", f"{bundle.stat().st_size:,} bytes, {saved.parameters:,} numbers, computed in {kind}"),
        ("vocabulary", " and ".join(f"{size:,}" for size in sizes) + f" units ({saved.config.data.subwords.type})"),
        ("fingerprint", f"`{saved.digest}`"),
    ]


def _settings(saved: SavedModel) -> str:
    """Return the settings that the model was trained with, without folders of the machine that trained it."""
    values = saved.config.to_dict()
    training = {key: value for key, value in values["training"].items() if key != "load_model"}
    return json.dumps({"model": values["model"], "training": training}, indent=1, ensure_ascii=False)
