"""What the plans say that an update takes, against what it takes."""

import numpy as np
import pytest

from nmt.model.footprint import packed_weights_bytes, workspace_bytes
from tests.small_models import batch_of, build, random_sentences

MODELS = {
    "lstm": {},
    "dropout": {
        "encoder": {"dropout": 0.2, "embeddings": {"embedding_dim": 4, "dropout": 0.3}, "num_layers": 2},
        "decoder": {
            "hidden_dropout": 0.2,
            "variational_dropout": True,
            "embeddings": {"embedding_dim": 5, "dropout": 0.1},
        },
    },
    "gru, one direction, no bridge, softmax tied": {
        "encoder": {"rnn_type": "gru", "bidirectional": False, "hidden_size": 64},
        "decoder": {"rnn_type": "gru", "init_hidden": "last", "hidden_size": 64, "embeddings": {"embedding_dim": 64}},
        "tied": "softmax",
    },
    "lexical": {"encoder": {"rnn_type": "gru"}, "decoder": {"rnn_type": "gru", "lexical": True}},
    "edit actions": {
        "encoder": {"rnn_type": "gru"},
        "decoder": {"rnn_type": "gru", "edit_actions": True, "attention": "none", "input_feeding": False},
    },
}


@pytest.mark.parametrize("name", MODELS)
def test_the_workspace_of_an_update_is_predicted(name):
    model = build(50, **MODELS[name])
    rng = np.random.default_rng(1)
    for count, longest in ((3, 4), (40, 23), (300, 23)):
        batch = batch_of(
            list(
                zip(
                    random_sentences(rng, count, 50, longest),
                    random_sentences(rng, count, 50, longest // 2 + 1),
                    strict=True,
                )
            )
        )
        model.loss_and_gradients(batch, seed=1)
        T, B = batch.tgt_out.shape
        predicted = sum(workspace_bytes(model, T, len(batch.src), B).values())
        assert predicted == pytest.approx(model._idle_workspaces.kept[-1].taken, rel=0.1)


@pytest.mark.parametrize("compute_dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", MODELS)
def test_packed_weights_are_predicted(name, compute_dtype):
    model = build(50, compute_dtype=compute_dtype, **MODELS[name])
    model.loss_and_gradients(batch_of([([5, 6], [7, 8, 9])]), seed=1)
    assert packed_weights_bytes(model) == model.weights.packed_bytes
