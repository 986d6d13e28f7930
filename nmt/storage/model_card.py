"""Write the card of a model: one page of Markdown in the layout of public model hubs
(huggingface.co/docs/hub/model-cards), with questions for what the model does not know (Mitchell et al. 2019)."""

from __future__ import annotations

import json
import re
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import nmt
from nmt.config.data_section import UNNAMED
from nmt.data.corpora.sources import sources_of
from nmt.errors import CheckpointError
from nmt.system.files import write_bytes, writing
from nmt.system.paths import exists, shown

if TYPE_CHECKING:
    from nmt.storage.saved_model import SavedModel

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
    """Write the card of a model in `bundle`. Raises CheckpointError if it exists already or cannot be written."""
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
        f"A recurrent model that turns `{config.data.src.lang}` into `{config.data.tgt.lang}`.",
        facts,
        f"## Use\n\nWith nmt {nmt.__version__} (`pip install .` in its checkout):\n\n"
        f"```bash\nnmt-translate {shown(bundle.name)}\n```",
        f"## Scores\n\n{rows}",
        "The checkpoint was chosen by these scores; on a text by which nothing was chosen they are lower.",
        _OPEN.strip(),
        f"## Training\n\n```json\n{_settings(saved)}\n```\n",
    ]
    return "\n\n".join(sections)


def _languages(saved: SavedModel) -> list[str]:
    """Return the sides that are named by language codes as in BCP 47, unlike letters and sounds."""
    data = saved.config.data
    codes = [side for side in (data.src.lang, data.tgt.lang) if re.fullmatch(r"[a-z]{2,3}(?:[-_][A-Za-z]{2,4})?", side)]
    return [code for code in codes if code not in UNNAMED]


def _front(saved: SavedModel) -> dict[str, Any]:
    """Return the machine-readable front matter."""
    config = saved.config
    metrics = [{"type": name, "value": round(value, 2), "name": _METRICS[name]} for name, value in _scores(saved)]
    front: dict[str, Any] = {"library_name": "recurrent-nmt", "pipeline_tag": "translation"}
    front |= {"language": languages} if (languages := _languages(saved)) else {}
    front["tags"] = ["recurrent", config.model.decoder.rnn_type, "cpu"]
    if metrics:
        paths = [PurePath(source.path) for source in sources_of(config.data.dev)]
        name = _sample(saved) + ", ".join(path.name if path.is_absolute() else str(path) for path in paths)
        result = {"task": {"type": "translation"}, "dataset": {"name": name, "type": "text"}, "metrics": metrics}
        front["model-index"] = [{"name": config.name, "results": [result]}]
    return front


def _scores(saved: SavedModel) -> list[tuple[str, float]]:
    """Return the scores of the checkpoint, from its file or the validation that it belongs to."""
    found = saved.content.get("scores") or saved.content.get("state", {}).get("best_scores", {})
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
    sizes = saved.src_subwords.vocab_size, saved.tgt_subwords.vocab_size
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
