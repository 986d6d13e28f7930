"""The language model: gradients against finite differences, segments against one long run, stepping against both."""

import numpy as np
import pytest

from nmt.config import config_from_dict
from nmt.data.batching.batches import StreamBatches
from nmt.data.corpora.readers import TokenRows
from nmt.decode import search
from nmt.model.language import LanguageModel
from nmt.special_tokens import EOS_ID
from nmt.train.updates.optimizer import clip_scale, gradient_norm, make_optimizer

V = 11


def settings(tied="none", **decoder):
    """The whole settings of a small language model with the given changes of the decoder."""
    small = {"embeddings": {"embedding_dim": 5}, "hidden_size": 5 if tied != "none" else 6, "num_layers": 2}
    return config_from_dict(
        {
            "task": "lm",
            "model_dir": "unused",
            "data": {"train": "unused", "dev": "unused", "tgt": {"lang": "en"}},
            "model": {"tied_embeddings": tied, "decoder": {**small, **decoder}},
            "training": {"metric": "ppl"},
        }
    )


def build(dtype=np.float64, seed=0, vocab_size=V, **changes):
    """A model with normal parameters: sharper than a fresh one."""
    model = LanguageModel(settings(**changes).model, vocab_size, dtype=dtype)
    rng = np.random.default_rng(seed)
    for name in sorted(model.params):
        model.params[name][...] = rng.normal(0.0, 0.5, model.params[name].shape)
    model.changed()
    return model


def segments_of(streams, steps, lines=12, seed=1):
    rng = np.random.default_rng(seed)
    text = [rng.integers(4, V, rng.integers(1, 8)).tolist() for _ in range(lines)]
    return list(StreamBatches(TokenRows.from_lists(text), streams, steps).epoch(1))


DROPOUT = {"dropout": 0.3, "hidden_dropout": 0.2, "embeddings": {"embedding_dim": 5, "dropout": 0.2, "scale": True}}
KINDS = {
    "lstm": {},
    "gru, tied": {"rnn_type": "gru", "tied": "softmax"},
    "lstm, residual, dropout": {**DROPOUT, "residual": True, "num_layers": 3},
    "sru, variational": {**DROPOUT, "rnn_type": "sru", "variational_dropout": True},
    "matrix states": {"rnn_type": "gla", "residual": True},
}


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_a_segment_are_slopes_of_its_loss(kind):
    model = build(**KINDS[kind])
    first, second = segments_of(3, 4)[:2]
    model.loss_and_gradients(first, seed=5)
    before = model.carried

    def loss():
        model.carry(before)  # truncated: what the first segment left is a constant
        stats, gradients = model.loss_and_gradients(second, seed=6, label_smoothing=0.1)
        return stats.loss / stats.tokens, {k: g.copy() for k, g in gradients.items()}

    gradients = loss()[1]
    rng, h = np.random.default_rng(2), 1e-6
    for name, param in model.params.items():
        way = rng.normal(size=param.shape)
        kept, losses = param.copy(), []
        for sign in (1, -1):
            param[...] = kept + sign * h * way
            model.changed()
            losses.append(loss()[0])
        param[...] = kept
        model.changed()
        slope = (losses[0] - losses[1]) / (2 * h)
        assert slope == pytest.approx((gradients[name] * way).sum(), rel=1e-5, abs=1e-8), name


@pytest.mark.parametrize("kind", ["lstm", "gru, tied", "matrix states"])
def test_segments_one_after_another_are_one_long_run(kind):
    model = build(**KINDS[kind])
    whole = segments_of(3, 1000)
    assert len(whole) == 1
    expected = model.loss(whole[0])
    for steps in (1, 4, 5):
        parts = [model.loss(segment) for segment in segments_of(3, steps)]
        assert sum(p.nll for p in parts) == pytest.approx(expected.nll, rel=1e-12)
        assert sum(p.tokens for p in parts) == expected.tokens
    model.loss_and_gradients(whole[0], seed=0)  # training has states of its own
    again = [model.loss(segment) for segment in segments_of(3, 4)]
    assert sum(p.nll for p in again) == pytest.approx(expected.nll, rel=1e-12)


def softmaxed(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def oracle(model, tokens, H=6, E=5):
    """Log-probabilities of tokens after EOS by loops: two LSTM layers, gates i f g o, written from the paper."""
    p = {k: np.asarray(v) for k, v in model.params.items()}
    h, c = np.zeros((2, H)), np.zeros((2, H))
    found = []
    for read, said in zip([EOS_ID, *tokens][:-1], tokens, strict=True):
        x = p["tgt_embeddings"][read]
        for n in range(2):
            own = {k.removeprefix(f"decoder.{n}."): v for k, v in p.items() if k.startswith(f"decoder.{n}.")}
            a = x @ own["W_x"] + h[n] @ own["W_h"] + own["b"]
            i, f, g, o = np.split(a, 4)
            i, f, o = (1 / (1 + np.exp(-gate)) for gate in (i, f, o))
            c[n] = f * c[n] + i * np.tanh(g)
            x = h[n] = o * np.tanh(c[n])
        found.append(np.log(softmaxed(x @ p["output.W"] + p["output.b"])[said]))
    return np.array(found)


def test_an_lstm_language_model_is_its_equations():
    model = build()
    tokens = [4, 9, 5, EOS_ID, 7, 7, 10, EOS_ID]
    column = np.array([[EOS_ID, *tokens][:-1], tokens], np.int32)[:, :, None]
    got, _ = model.log_probs(np.ascontiguousarray(column[0]), column[1], np.array([len(tokens)]), {})
    np.testing.assert_allclose(got[0], oracle(model, tokens), rtol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_search_finds_has_the_probability_that_reading_gives(kind):
    """Steps of search, all layers in one cell, equal layer after layer over all steps."""
    model = build(**KINDS[kind])
    found = search(model, [[], []], beam_size=4, n_best=4, length_penalty="none", max_length_extra=6)
    assert found[0] == found[1] != []
    for one in found[0]:
        tokens = [*one.ids, *([EOS_ID] if one.finished else [])]
        assert one.log_prob == pytest.approx(model.line_log_probs([tokens])[0].sum(), rel=1e-9)


def test_the_toy_of_cudnn_converges():
    """Batch 1, T 3, hidden 20, 2 layers, vocabulary 255 (NVIDIA's first sample of recurrent networks)."""
    config = settings(hidden_size=20, num_layers=2, embeddings={"embedding_dim": 20})
    model = LanguageModel(config.model, 255)
    rng = np.random.default_rng(3)
    lines = TokenRows.from_lists([rng.integers(4, 255, 2).tolist() for _ in range(10)])
    batches = StreamBatches(lines, 1, 3)
    model.initialize(1)
    training = config.training.model_copy(update={"learning_rate": 0.02})
    optimizer = make_optimizer(training, model.params)
    losses, into = [], None
    for epoch in range(1, 201):
        total = tokens = 0.0
        for number, segment in enumerate(batches.epoch(epoch)):
            assert segment.tgt_in.shape == (3, 1)
            stats, into = model.loss_and_gradients(segment, seed=number, into=into)
            optimizer.step(model.params, into, training.learning_rate, clip_scale(gradient_norm(into), 5.0))
            model.changed()
            total, tokens = total + stats.nll, tokens + stats.tokens
        losses.append(total / tokens)
    assert losses[0] > np.log(255) / 2 and losses[-1] < 0.05, losses[:: len(losses) // 6]
