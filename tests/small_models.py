"""Tiny translators for tests; sizes are runtime data, so they share plans where they can."""

import numpy as np

from nmt.data.batching.batches import make_batch
from nmt.model.translation import TranslationModel
from tests.settings import settings_with

ENCODER = {"rnn_type": "lstm", "embeddings": {"embedding_dim": 4}, "hidden_size": 3, "num_layers": 1}
ENCODER |= {"bidirectional": True}
DECODER = {"rnn_type": "lstm", "embeddings": {"embedding_dim": 5}, "hidden_size": 6, "num_layers": 1}
DECODER |= {"init_hidden": "bridge", "attention": "bahdanau", "input_feeding": True}


def model_settings(*, encoder=None, decoder=None, tied="none"):
    """The model section: the settings above with the given changes."""
    sides = {"encoder": {**ENCODER, **(encoder or {})}, "decoder": {**DECODER, **(decoder or {})}}
    names = [f"factor{n}" for n in range(len(sides["encoder"].get("factors", ())))]
    data = {"src_factors": names, "factor_separator": "|", "subwords": {"joint": False}} if names else None
    return settings_with(data, model={"tied_embeddings": tied, **sides}).model


def build(
    vocab_size,
    *,
    scale=0.5,
    seed=0,
    dtype=None,
    compute_dtype=None,
    recompute="attention",
    device=None,
    factor_sizes=(),
    **changes,
):
    """A model with normal parameters: sharper than a fresh one, so that nothing is almost tied."""
    options = {"compute_dtype": compute_dtype, "recompute": recompute, "device": device}
    options["src_factor_sizes"] = factor_sizes
    options |= {} if dtype is None else {"dtype": dtype}
    model = TranslationModel(model_settings(**changes), vocab_size, vocab_size, **options)
    rng = np.random.default_rng(seed)
    for name in sorted(model.params):
        values = rng.normal(0.0, scale, model.params[name].shape).astype(model.dtype)
        model.params[name][...] = model.device.upload(values)
    model.changed()
    return model


def on_device(model, device, **options):
    """A model with the same parameters on another device; `options` are those `build` made it with."""
    copy = build(model.vocab_sizes["src"], device=device, **options)
    for name, param in model.params.items():
        copy.params[name][...] = device.upload(model.device.download(param))
    copy.changed()
    return copy


def batch_of(pairs):
    """A batch of (source ids, target ids) pairs, without BOS and EOS."""
    return make_batch([src for src, _ in pairs], [tgt for _, tgt in pairs], range(len(pairs)))


class Group:
    """The batches of one update."""

    def __init__(self, batches):
        self.batches = batches
        self.num_src_tokens = sum(batch.num_src_tokens for batch in batches)
        self.num_tgt_tokens = sum(batch.num_tgt_tokens for batch in batches)

    def __len__(self):
        return len(self.batches)

    def __iter__(self):
        return enumerate(self.batches)


def random_sentences(rng, count, vocab_size, longest):
    """`count` lists of 1 to `longest` ordinary token ids (no specials)."""
    return [rng.integers(4, vocab_size, rng.integers(1, longest + 1)).tolist() for _ in range(count)]
