"""A model folder as nmt-train writes it, with the real model and without training: what is in it is not good, but all
of it is there."""

from pathlib import Path

import numpy as np

from nmt.config import Config, config_from_dict, dump_config
from nmt.data.calibration import calibrated, learn_known
from nmt.data.corpora.readers import TokenRows
from nmt.data.tokens.subwords import Subwords, train_subwords
from nmt.special_tokens import EOS_ID
from nmt.storage import model_folder
from nmt.storage.saved_model import load_saved_model
from nmt.train.checkpoints.checkpoint import save_checkpoint
from tests.settings import texts_in
from tests.small_models import model_settings

WORDS = [f"{a}{b}" for a in ("ka", "lo", "mi", "nu", "té", "ß") for b in ("ra", "su", "ti", "x", "yo")]


def sentences(count, seed=0, longest=9, words=WORDS):
    """Lines of words the model knows."""
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(words, rng.integers(1, longest + 1))) for _ in range(count)]


def write_folder(folder, *, joint=True, seed=0, side=None, subwords="unigram", vocab_size=48, words=WORDS, **model):
    """Write a folder; `model` are changes of the model section as `model_settings` takes them."""
    folder.mkdir(parents=True)
    sides = {name: {"lang": lang, **(side or {})} for name, lang in (("src", "xx"), ("tgt", "yy"))}
    data = texts_in(folder, **sides, subwords={"joint": joint, "type": subwords, "vocab_size": vocab_size})
    values = {"model_dir": str(folder), "threads": 1, "data": data, "model": model_settings(**model).to_dict()}
    config = config_from_dict(values)
    text = sentences(400, words=words)
    src = train_subwords(text, type=subwords, vocab_size=vocab_size)
    tgt = src if joint else train_subwords(text[::-1][:300], type=subwords, vocab_size=vocab_size - 6)
    for name, lines in (("train", text), ("dev", text[:40])):
        for lang in ("xx", "yy"):
            (folder / f"{name}.{lang}").write_text("\n".join(lines) + "\n", "utf-8")
    return write_model(folder, config, src, tgt, seed)


def write_pair(folder, source, target, **more):
    """Write a folder of a model from one language to another."""
    path = write_folder(folder, **more) / "config.yaml"
    text = path.read_text("utf-8").replace("lang: xx", f"lang: {source}").replace("lang: yy", f"lang: {target}")
    path.write_text(text, "utf-8")
    return folder


def calibrate(folder: Path) -> None:
    """Write what a text of half of the words would have taught about a translator."""
    saved = load_saved_model(folder)
    read, said = (saved.src_subwords.encode(sentences(60, seed, words=WORDS[::2])) for seed in (7, 8))
    known = learn_known(saved.src_subwords, TokenRows.from_lists(read))
    found = calibrated(known, said, -np.arange(60.0), [len(row) for row in said], np.arange(60.0, 0, -1), 30.0)
    assert found is not None
    digest = model_folder.subwords_digest(saved.src_subwords, saved.tgt_subwords)
    tensors = model_folder.confidence_tensors(found)
    model_folder.save_tensors(folder / model_folder.CONFIDENCE_NAME, tensors, {"subwords": digest})


def write_model(folder: Path, config: Config, src: Subwords, tgt: Subwords, seed: int) -> Path:
    """Write settings, subwords and a checkpoint."""
    (folder / "config.yaml").write_text(dump_config(config), "utf-8")
    model_folder.save_subwords(folder, src, tgt, joint=config.data.subwords.joint)
    save_checkpoint(
        folder / model_folder.BEST_NAME,
        params=random_params(config, src, tgt, seed),
        optimizer={},
        metadata={
            "state": {"update": 8, "best_update": 8, "best_scores": {"bleu": 1.5}},
            "subwords": model_folder.subwords_digest(src, tgt),
            "config": config.to_dict(),
        },
    )
    return folder


def random_params(config, src, tgt, seed):
    """Parameters that decide something, and translations that end."""
    model = model_folder.build_model(config, src.vocab_size, tgt.vocab_size)
    rng = np.random.default_rng(seed)
    params = {name: rng.normal(0.0, 0.6, p.shape).astype(np.float32) for name, p in sorted(model.params.items())}
    params["output.b"][EOS_ID] += 2.5
    return params
