"""Gradients of whole small translators against finite differences, in float64.

The setups are few and chosen to cover every choice at least once, as each compiles its own plans; pairs that touch the
same code (tied weights with the bridge, dropout with residuals and feeding) are put together.

Then products in bfloat16 next to float32, and what training adds to the likelihood, against its papers' formulas.
"""

import dataclasses
from dataclasses import replace

import numpy as np
import pytest

from nmt.config import config_from_dict
from nmt.data.batching.batches import make_batch
from nmt.data.tokens.subwords import PAD_ID
from nmt.decode import force, search
from nmt.model.batch_pass import Alignment, Objective
from nmt.model.output_heads import attention_loss
from nmt.rnn.devices import cpu, resolved_dtype
from nmt.rnn.kernels.machine_code import features
from nmt.special_tokens import EOS_ID
from nmt.storage.model_folder import build_model
from tests import small_models
from tests.devices import AT_FULL_SIZE, device_at
from tests.finite_differences import check_gradients
from tests.oracle import compare, gradients
from tests.train import fake_model

VOCAB = 9
SEED = 5


def setup(*, encoder=None, decoder=None, tied="none", label_smoothing=0.0):
    return {"changes": {"encoder": encoder, "decoder": decoder, "tied": tied}, "smoothing": label_smoothing}


def embeddings(size=6, **more):
    return {"embedding_dim": size, **more}


def dropouts(**more):
    return {"num_layers": 2, "dropout": 0.3, **more}


def conv(**more):
    return {"type": "conv", "num_layers": 2, "hidden_size": 5, "embeddings": embeddings(4), "max_positions": 3, **more}


SETUPS = {
    "lstm_bahdanau_bridge": setup(label_smoothing=0.1),
    "no_input_feeding": setup(decoder={"input_feeding": False}),
    "gru_general_tied_softmax": setup(
        encoder={"rnn_type": "gru"},
        decoder={"rnn_type": "gru", "attention": "general", "embeddings": embeddings()},
        tied="softmax",
    ),
    "gru_reset_before_dot_last_tied_all": setup(
        encoder={"rnn_type": "gru_reset_before", "embeddings": embeddings()},
        decoder={"rnn_type": "gru_reset_before", "attention": "dot", "init_hidden": "last", "embeddings": embeddings()},
        tied="all",
        label_smoothing=0.1,
    ),
    "tanh_scaled_dot_zero": setup(
        encoder={"rnn_type": "rnn_tanh", "hidden_size": 6, "bidirectional": False},
        decoder={"rnn_type": "rnn_tanh", "attention": "scaled_dot", "init_hidden": "zero"},
    ),
    "without_attention": setup(
        encoder={"rnn_type": "gru"},
        decoder={"rnn_type": "gru", "attention": "none", "init_hidden": "last", "input_feeding": False},
    ),
    "multi_head_recurrent_readout": setup(
        encoder={"rnn_type": "gru", "projection": 6},
        decoder={
            **{"rnn_type": "gru", "attention": "multi_head", "attention_heads": 3, "readout": "recurrent"},
            **{"init_hidden": "zero", "input_feeding": False},
        },
    ),
    "linear_readout_biased_from_top": setup(
        encoder={"num_layers": 2},
        decoder={
            **{"attention_bias": True, "readout": "linear", "init_from": "top", "bridge_activation": "linear"},
            **{"num_layers": 2},
        },
    ),
    "linear_readout_of_another_size": setup(
        encoder={"rnn_type": "gru"}, decoder={"rnn_type": "gru", "readout": "linear", "readout_size": 9}
    ),
    "conditional_gru_deep_from_mean": setup(
        encoder={"rnn_type": "gru"},
        decoder={
            **{"rnn_type": "gru", "conditional": True, "readout": "deep", "init_from": "mean", "attention_bias": True},
            **{"input_feeding": False, "attention_size": 4},
        },
        tied="softmax",
    ),
    "conditional_lstm_above_conv": setup(
        encoder=conv(num_layers=1),
        decoder={
            **{"conditional": True, "init_from": "mean", "attention": "general", "num_layers": 2, "residual": True},
            **{"readout": "deep", "hidden_size": 5},
        },
    ),
    "lexical_tied_all": setup(
        encoder={"embeddings": embeddings(scale=True)},
        decoder={"lexical": True, "hidden_dropout": 0.2, "embeddings": embeddings(scale=True)},
        tied="all",
        label_smoothing=0.1,
    ),
    "lexical_conditional_from_mean_above_projection": setup(
        encoder={"rnn_type": "gru", "projection": 5},
        decoder={
            **{"rnn_type": "gru", "lexical": True, "conditional": True, "init_from": "mean", "attention": "general"},
            **{"readout": "deep", "readout_size": 9},
        },
    ),
    # States of other widths than the output, states that start at zero.
    "projected_lstm_to_qrnn": setup(
        encoder={"rnn_type": "projected_lstm", "num_layers": 2, "residual": True},
        decoder={"rnn_type": "qrnn", "num_layers": 2},
    ),
    # More tokens than positions; dropout everywhere; a window beyond the shortest sentences.
    "conv": setup(
        encoder=conv(kernel_size=5, dropout=0.3, embeddings=embeddings(4, dropout=0.2)),
        decoder=conv(attention="dot", dropout=0.3, hidden_dropout=0.2, embeddings=embeddings(4, dropout=0.2)),
        label_smoothing=0.1,
    ),
    "conv_tied_bahdanau": setup(
        encoder=conv(hidden_size=3, embeddings=embeddings(5)),
        decoder=conv(attention="bahdanau", attention_size=7, kernel_size=2, embeddings=embeddings(5)),
        tied="all",
    ),
    "conv_to_lstm": setup(encoder=conv(num_layers=1), decoder={"num_layers": 2}),
    "lstm_to_conv": setup(decoder=conv(num_layers=1, attention="general")),
    "relu_luong_scaled_embeddings": setup(
        encoder={"rnn_type": "rnn_relu", "embeddings": embeddings(4, scale=True)},
        decoder={
            "rnn_type": "rnn_relu",
            "attention": "luong",
            "input_feeding": False,
            "embeddings": embeddings(5, scale=True),
        },
    ),
    "lstm_last_two_layers_residual": setup(
        encoder={"num_layers": 2, "residual": True},
        decoder={"num_layers": 2, "residual": True, "init_hidden": "last", "attention_size": 7},
    ),
    "dropout_everywhere": setup(
        encoder=dropouts(embeddings=embeddings(4, dropout=0.2)),
        decoder=dropouts(hidden_dropout=0.2, embeddings=embeddings(5, dropout=0.2), attention="general"),
        label_smoothing=0.1,
    ),
    "variational_dropout_residual_gru": setup(
        encoder=dropouts(rnn_type="gru", variational_dropout=True, residual=True),
        decoder=dropouts(
            rnn_type="gru", variational_dropout=True, residual=True, hidden_dropout=0.2, attention="general"
        ),
    ),
}
# States that are matrices, in both sides; blocks with a residual connection. On the processor alone.
MATRICES = {
    "gla_to_mlstm": setup(
        encoder={"rnn_type": "gla", "num_layers": 2, "residual": True, "hidden_size": 4},
        decoder={"rnn_type": "mlstm", **dropouts(), "residual": True},
    ),
    "hawk_to_retnet": setup(
        encoder={"rnn_type": "hawk", "hidden_size": 4, "bidirectional": False},
        decoder={"rnn_type": "retnet", "num_layers": 2, "input_feeding": False},
    ),
}
SETUPS |= MATRICES
WITH_DROPOUT = ("dropout_everywhere", "variational_dropout_residual_gru", "conv")
WITHOUT_DROPOUT = "lstm_bahdanau_bridge gru_reset_before_dot_last_tied_all conv_tied_bahdanau".split()
WITHOUT_DROPOUT += "conditional_gru_deep_from_mean lstm_last_two_layers_residual".split()
WITHOUT_DROPOUT += ["lexical_conditional_from_mean_above_projection"]

# Sources and targets of mixed lengths, a repeated word, an empty target (only EOS), and an equal
# pair of lengths.
PAIRS = [([4, 5, 6, 7], [5, 5, 8]), ([8], [4]), ([6, 4, 1], [7, 6, 5, 4]), ([5, 8], []), ([7, 4, 5], [1, 4, 8, 6])]


def model_of(name, dtype=np.float64, **more):
    return small_models.build(VOCAB, dtype=dtype, **SETUPS[name]["changes"], **more)


def loss_and_gradients(model, name, batch, *, seed=SEED, threads=1):
    return model.loss_and_gradients(batch, seed=seed, label_smoothing=SETUPS[name]["smoothing"], threads=threads)


def loss_with_dropout(model, name, batch):
    """The loss of a token as in training."""
    return loss_and_gradients(model, name, batch)[0].loss / batch.num_tgt_tokens


def copied(grads):
    return {name: np.array(value) for name, value in grads.items()}


@pytest.mark.parametrize("name", SETUPS)
def test_gradients_equal_finite_differences(name):
    model, batch = model_of(name), small_models.batch_of(PAIRS)
    _, grads = loss_and_gradients(model, name, batch)
    grads = copied(grads)
    assert set(grads) == set(model.params)

    def loss():
        model.changed()
        return loss_with_dropout(model, name, batch)

    complaints = gradients.check(loss, model.params, grads, np.random.default_rng(3), rtol=1e-6, atol=1e-9)
    assert not complaints, "\n".join(complaints)


ON_A_GPU = (
    *("lstm_bahdanau_bridge", "gru_reset_before_dot_last_tied_all", "multi_head_recurrent_readout", "lexical_tied_all"),
    *("conditional_gru_deep_from_mean", "projected_lstm_to_qrnn", "conv", "variational_dropout_residual_gru"),
)
"""What the stand-in, which is slow, takes of the setups."""


@pytest.mark.parametrize("name", [name for name in SETUPS if name not in MATRICES] if AT_FULL_SIZE else ON_A_GPU)
def test_gradients_equal_a_finite_difference_on_a_gpu(name):
    """The same setups along one direction through all parameters, which has a share of every gradient; and each
    gradient beside the processor's."""
    device, batch = device_at("cuda"), small_models.batch_of(PAIRS)
    model = model_of(name, device=device)
    _, grads = loss_and_gradients(model, name, batch)
    grads = {key: device.download(value) for key, value in grads.items()}
    ours = model_of(name)
    _, expected = loss_and_gradients(ours, name, batch)
    compare.assert_all_close(grads, expected, 1e-10)
    params = copied(ours.params)

    def loss():
        for key, value in params.items():
            model.params[key][...] = device.upload(value)
        model.changed()
        return loss_with_dropout(model, name, batch)

    direction = gradients.random_direction(params, np.random.default_rng(3))
    promised = gradients.inner(grads, direction)
    assert gradients.along(loss, params, direction) == pytest.approx(promised, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("name", ["lstm_bahdanau_bridge", "variational_dropout_residual_gru", "conv"])
def test_recomputed_gates_give_the_same_gradients(name):
    batch = small_models.batch_of(PAIRS)
    (stats, kept), (again, found) = (
        loss_and_gradients(model_of(name, recompute=recompute), name, batch) for recompute in ("attention", "gates")
    )
    assert again.loss == pytest.approx(stats.loss, rel=1e-12)
    compare.assert_all_close(found, kept, 1e-11)


@pytest.mark.parametrize("name", WITH_DROPOUT)
def test_the_seed_decides_the_dropout(name):
    model, batch = model_of(name), small_models.batch_of(PAIRS)
    first, grads = loss_and_gradients(model, name, batch)
    grads = copied(grads)
    again, same = loss_and_gradients(model, name, batch)
    assert again.loss == first.loss
    compare.assert_same_bits(same, grads)
    other, _ = loss_and_gradients(model, name, batch, seed=SEED + 1)
    assert other.loss != first.loss
    assert model.loss(batch, threads=1).nll == model.loss(batch, threads=1).nll


@pytest.mark.parametrize("name", WITHOUT_DROPOUT)
def test_a_batch_is_the_sum_of_its_sentences(name):
    """Padding and neighbours must not show: losses and gradients (times tokens) add up."""
    model, batch = model_of(name), small_models.batch_of(PAIRS)
    whole, grads = loss_and_gradients(model, name, batch)
    grads = copied(grads)
    assert whole.tokens == batch.num_tgt_tokens == sum(len(tgt) + 1 for _, tgt in PAIRS)
    sums = {key: np.zeros_like(value) for key, value in grads.items()}
    nll = loss = correct = 0.0
    for pair in PAIRS:
        alone = small_models.batch_of([pair])
        stats, parts = loss_and_gradients(model, name, alone)
        nll, loss, correct = nll + stats.nll, loss + stats.loss, correct + stats.correct
        for key in sums:
            sums[key] += parts[key] * alone.num_tgt_tokens
        assert model.loss(alone, threads=1).nll == pytest.approx(stats.nll, rel=1e-12)
    assert (whole.nll, whole.loss) == pytest.approx((nll, loss), rel=1e-12)
    assert whole.correct == correct
    for key, value in grads.items():
        compare.assert_close(value * batch.num_tgt_tokens, sums[key], 1e-12, key)


@pytest.mark.parametrize("name", [WITHOUT_DROPOUT[0], WITH_DROPOUT[0], "conv"])
def test_two_threads_give_what_one_gives(name):
    model, batch = model_of(name), small_models.batch_of(PAIRS * 5)
    one, grads = loss_and_gradients(model, name, batch, threads=1)
    grads = copied(grads)
    two, others = loss_and_gradients(model, name, batch, threads=2)
    assert two.loss == pytest.approx(one.loss, rel=1e-12)
    compare.assert_all_close(others, grads, 1e-12)


def test_label_smoothing_mixes_in_the_mean_over_all_classes():
    """One token: its loss under every forced class gives the mean by hand; PAD's is the rest."""
    model, batch = model_of("lstm_bahdanau_bridge"), small_models.batch_of([([4, 5], [])])
    nll = {}
    for token in range(VOCAB):
        if token != PAD_ID:
            forced = dataclasses.replace(batch, tgt_out=np.full_like(batch.tgt_out, token))
            nll[token] = model.loss(forced, threads=1).nll
    nll[PAD_ID] = -np.log(1.0 - sum(np.exp(-value) for value in nll.values()))
    mean = sum(nll.values()) / VOCAB
    for smoothing in (0.0, 0.1, 0.4):
        stats, _ = model.loss_and_gradients(batch, seed=0, label_smoothing=smoothing, threads=1)
        assert stats.nll == pytest.approx(nll[EOS_ID], rel=1e-10)
        assert stats.loss == pytest.approx((1 - smoothing) * nll[EOS_ID] + smoothing * mean, rel=1e-10)


WIDE = 23
OPTIONS = {"decoder": {"attention": "general", "embeddings": {"embedding_dim": 6}}, "tied": "softmax"}


def build(compute_dtype, **more):
    return small_models.build(WIDE, compute_dtype=compute_dtype, scale=0.3, **OPTIONS, **more)


def test_loss_and_gradients_are_near_and_do_not_depend_on_threads():
    sources = small_models.random_sentences(np.random.default_rng(2), 12, WIDE, 7)
    batch = small_models.batch_of([(src, src[::-1]) for src in sources])
    exact, near = build("float32"), build("bfloat16")
    wanted, gradients = exact.loss_and_gradients(batch, seed=0, threads=1)
    stats, found = near.loss_and_gradients(batch, seed=0, threads=1)
    assert stats.loss != wanted.loss
    assert stats.loss == pytest.approx(wanted.loss, rel=1e-3)
    for name, g in gradients.items():
        assert 1e-5 < compare.norm_error(found[name], g) < compare.BFLOAT16_TOLERANCE, name
        assert found[name].dtype == near.params[name].dtype == np.float32
    again, others = near.loss_and_gradients(batch, seed=0, threads=2)
    assert again == stats
    compare.assert_same_bits(others, found)
    assert near.loss(batch, threads=2).nll == pytest.approx(exact.loss(batch, threads=1).nll, rel=1e-3)


def test_search_runs_in_bfloat16_and_its_score_is_its_loss():
    model, exact = build("bfloat16"), build("float32")
    for one in (model, exact):
        one.params["output.b"][EOS_ID] += 2  # sentences end before their limit
    sources = small_models.random_sentences(np.random.default_rng(4), 5, WIDE, 6)
    options = {"beam_size": 3, "length_penalty": "none", "n_best": 1, "max_length_ratio": 2.0, "max_length_extra": 20}
    found = [hypotheses[0] for hypotheses in search(model, sources, threads=1, **options)]
    for source, best, other in zip(sources, found, search(exact, sources, threads=1, **options), strict=True):
        alone = search(model, [source], threads=2, **options)[0][0]
        assert (alone.ids, alone.log_prob) == (best.ids, best.log_prob)
        nll = model.loss(small_models.batch_of([(source, list(best.ids))]), threads=1).nll
        assert best.log_prob == pytest.approx(-nll, rel=1e-5)
        assert best.log_prob == pytest.approx(other[0].log_prob, rel=2e-2)


@pytest.mark.parametrize(("fast", "expected"), [(True, "bfloat16"), (False, "float32")])
def test_auto_is_what_is_faster_on_this_machine(monkeypatch, tmp_path, fast, expected):
    monkeypatch.setattr(features, "multiplies_pairs_fast", lambda: fast)
    assert resolved_dtype("auto") == resolved_dtype("auto", cpu()) == expected
    assert resolved_dtype("int8") == "int8"
    settings = fake_model.write_setup(tmp_path) | {"compute_dtype": "auto"}
    assert build_model(config_from_dict(settings), 9, 9).step_decoder.compute_dtype == expected


def test_only_amx_and_amd_multiply_pairs_fast(monkeypatch):
    """78 GFLOP/s of pairs and 170 of float32 is what Intel's vector instruction has (results/layers.md)."""
    kinds = {(True, "sapphirerapids"): True, (False, "sapphirerapids"): False, (False, "znver4"): True}
    for (has_amx, name), expected in kinds.items():
        monkeypatch.setattr(features, "TARGET", replace(features.TARGET, has_bf16=True, has_amx=has_amx))
        monkeypatch.setattr(features.binding, "get_host_cpu_name", lambda name=name: name)
        assert features.multiplies_pairs_fast() == expected
    monkeypatch.setattr(features, "TARGET", replace(features.TARGET, has_bf16=False, has_amx=False))
    assert not features.multiplies_pairs_fast()


DROPPED_PAIRS = [([4, 5, 6, 7, 8], [5, 4, 6]), ([8, 4], [7, 7, 5, 8, 4]), ([6], [4]), ([5, 8, 7], [])]
ALIGNMENT = Alignment(
    np.array([0, 0, 1, 2, 0]), np.array([0, 0, 0, 1, 3]), np.array([1, 0, 1, 2, 0]), np.array([0.5, 0.5, 1.0, 1.0, 1.0])
)
OBJECTIVES = {
    "r_drop": Objective(r_drop=2.0),
    "guided": Objective(guided_alignment=1.5, alignment=ALIGNMENT),
    "all": Objective(r_drop=0.5, guided_alignment=0.3, alignment=ALIGNMENT, widest_source=40),
}


def batch_of(pairs):
    return make_batch([src for src, _ in pairs], [tgt for _, tgt in pairs], range(len(pairs)))


def dropped_model(**changes):
    side = {"dropout": 0.3, "num_layers": 2}
    return small_models.build(VOCAB, dtype=np.float64, encoder=side, decoder={**side, "hidden_dropout": 0.2}, **changes)


@pytest.mark.parametrize("tied", ["none", "softmax"])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_gradients_are_those_of_the_loss(name, tied):
    if tied == "softmax" and name != "r_drop":
        pytest.skip("the output layer is in the divergence alone")
    decoder = {"hidden_dropout": 0.2, "embeddings": {"embedding_dim": 6}}
    sides = {"encoder": {"dropout": 0.3, "num_layers": 2}, "decoder": decoder}
    model = small_models.build(VOCAB, dtype=np.float64, tied=tied, **sides)
    batch = batch_of(DROPPED_PAIRS).doubled() if "r_drop" in name or name == "all" else batch_of(DROPPED_PAIRS)
    options = {"seed": SEED, "threads": 1, "objective": OBJECTIVES[name], "label_smoothing": 0.1}
    stats, _ = check_gradients(model, batch, options, smallest=1e-8)
    plain, _ = model.loss_and_gradients(batch, **{**options, "objective": Objective()})
    assert stats.nll == plain.nll
    assert stats.loss > plain.loss, "something is added"


def test_the_divergence_is_that_of_the_two_distributions():
    model = dropped_model()
    batch = batch_of(DROPPED_PAIRS).doubled()
    options = {"seed": SEED, "threads": 1}
    seen = []
    whole = model.device.output_loss
    computed = model.device.download
    model.device.output_loss = lambda h, layer, *rest: (
        seen.append((computed(h).copy(), layer)) or whole(h, layer, *rest)
    )
    try:
        stats, _ = model.loss_and_gradients(batch, objective=Objective(r_drop=3.0), **options)
    finally:
        del model.device.output_loss
    plain, _ = model.loss_and_gradients(batch, **options)
    log_probs = model.device.log_probs(*seen[0], 1)
    one, other = log_probs[::2], log_probs[1::2]
    expected = sum(0.5 * (np.exp(p) @ (p - q) + np.exp(q) @ (q - p)) for p, q in zip(one, other, strict=True))
    assert stats.loss - plain.loss == pytest.approx(3.0 * expected)
    without = small_models.build(VOCAB, dtype=np.float64)  # without dropout both passes are one
    same, _ = without.loss_and_gradients(batch, objective=Objective(r_drop=3.0), **options)
    assert same.loss == pytest.approx(same.nll, rel=1e-12)


def test_attention_of_nothing_is_finite():
    rows = Alignment(np.array([0]), np.array([0]), np.array([2]), np.array([1.0]))
    objective = Objective(guided_alignment=1.0, alignment=rows)
    total, gradient = attention_loss(cpu(), np.zeros((2, 1, 3)), objective, 1.0)
    assert np.isfinite(total) and np.isfinite(gradient).all()


def test_guided_alignment_is_of_the_attention_that_translates():
    """The mean cross entropy under the attention that `force` shows, without dropout."""
    model = small_models.build(VOCAB, dtype=np.float64)
    batch = batch_of(DROPPED_PAIRS[:2])
    order = batch.indices.tolist()
    shown = force(model, [DROPPED_PAIRS[n][0] for n in order], [[*DROPPED_PAIRS[n][1]] for n in order], attention=True)
    found = Alignment(np.array([0, 2, 1]), np.array([0, 0, 1]), np.array([1, 0, 2]), np.array([1.0, 1.0, 0.5]))
    expected = 0.0
    for t, b, s, share in zip(found.step, found.row, found.position, found.share, strict=True):
        expected -= share * np.log(shown[b].attention[t, s])
    objective = Objective(guided_alignment=1.0, alignment=found)
    stats, _ = model.loss_and_gradients(batch, seed=1, threads=1, objective=objective)
    assert stats.loss - stats.nll == pytest.approx(expected, rel=1e-6)
