"""The witnesses themselves, against PyTorch's and ONNX's vectors and numbers worked out by hand."""

import numpy as np
import pytest

from tests.oracle import attention, beam, cells, compare, gradients, layers, loss, vectors

needs_vectors = pytest.mark.skipif(not vectors.PRESENT, reason=vectors.ABSENT)
KINDS = sorted(cells.GATES)


def run_oracle(case, params, x, hx, cx, **conventions):
    """The oracle on a case's sizes; results as a dict, in the case's own batch layout."""
    x = x.swapaxes(0, 1) if case.batch_first else x
    y, hy, cy = layers.run(
        case.kind, params, x, hx, cx, case.lengths,
        num_layers=case.num_layers, bidirectional=case.bidirectional, reverse=case.direction == "reverse",
        **conventions,
    )  # fmt: skip
    return {"y": y.swapaxes(0, 1) if case.batch_first else y, "hy": hy, "cy": cy}


@needs_vectors
@pytest.mark.parametrize("name", [n for n in vectors.torch_layer_names() if not vectors.torch_layer(n).options])
def test_layers_equal_torch(name):
    case = vectors.torch_layer(name)
    results = run_oracle(case, case.params, case.x, case.hx, case.cx)
    for key, expected in case.expected.items():
        compare.assert_close(results[key], expected, compare.TOLERANCE["float64"], f"{name} {key}")


@needs_vectors
@pytest.mark.parametrize("name", [n for n in vectors.torch_layer_names() if not vectors.torch_layer(n).options])
def test_complex_steps_through_layers_equal_torch_gradients(name):
    case, rng = vectors.torch_layer(name), np.random.default_rng(7)
    leaves = {"x": case.x, "hx": case.hx, "cx": case.cx, **case.params}
    leaves = {key: value for key, value in leaves.items() if value is not None}
    promised = {**{k.removeprefix("d_"): v for k, v in case.gradients.items()}, **case.d_params}

    def total(now):
        params = {key: now[key] for key in case.params}
        results = run_oracle(case, params, now["x"], now.get("hx"), now.get("cx"))
        return sum(np.sum(results[key.removeprefix("d_")] * d) for key, d in case.cotangents.items())

    assert set(promised) == set(leaves)
    for _ in range(2):
        direction = gradients.random_direction(leaves, rng)
        exact = gradients.complex_step(total, leaves, direction)
        compare.assert_close(gradients.inner(promised, direction), exact, 1e-9, f"{name} along a direction")


@needs_vectors
@pytest.mark.parametrize("name", [n for n in vectors.onnx_layer_names() if vectors.onnx_is_plain(n)])
def test_layers_equal_onnx(name):
    case = vectors.onnx_layer(name)
    results = run_oracle(case, case.params, case.x, case.hx, case.cx, empty="zero")
    assert case.expected
    for key, expected in case.expected.items():
        # The expected numbers were computed in float32, so this is all they can tell.
        compare.assert_close(results[key], expected, 2e-6, f"{name} {key}")


@pytest.mark.parametrize("kind", KINDS)
def test_saturated_gates_copy_or_replace(kind):
    """With gates forced open or shut by their biases, a step is known without arithmetic."""
    H, D = 3, 2
    p = layers.layer_params(layers.random_params(np.random.default_rng(0), kind, D, H), 0)
    x, h, c = np.ones(D), np.array([0.5, -0.5, 0.25]), np.array([0.1, 0.2, -0.3])
    if kind == "lstm":
        p["b_x"][:] = np.repeat([-1e2, 1e2, 0.0, 1e2], H)  # forget nothing, take nothing, show all
        h_new, c_new = cells.step(kind, p, x, h, c)
        np.testing.assert_allclose(c_new, c)
        np.testing.assert_allclose(h_new, np.tanh(c))
    elif kind.startswith("gru"):
        p["b_x"][:] = np.repeat([0.0, 1e2, 0.0], H)  # z = 1 keeps the state
        np.testing.assert_allclose(cells.step(kind, p, x, h, c)[0], h)
        p["b_x"][:] = np.repeat([-1e2, -1e2, 0.0], H)  # r = 0: the old state is not seen
        after = cells.step(kind, p, x, h, c)[0]
        bias = p["b_h"][2 * H :] if kind == "gru_reset_before" else 0.0
        np.testing.assert_allclose(after, np.tanh(x @ p["W_x"][:, 2 * H :] + bias))
    else:
        p["b_x"][:] = -1e2
        np.testing.assert_allclose(cells.step(kind, p, x, h, c)[0], 0.0 if kind == "rnn_relu" else -1.0)


@pytest.mark.parametrize("kind", KINDS)
def test_padding_is_never_read_and_y_is_zero_there(kind):
    rng, lengths = np.random.default_rng(1), [2, 4, 1]
    params = layers.random_params(rng, kind, 3, 4, num_layers=2, bidirectional=True)
    x = rng.normal(size=(4, 3, 3))
    y, hy, _ = layers.run(kind, params, x, lengths=lengths, num_layers=2, bidirectional=True)
    for row, n in enumerate(lengths):
        alone, h_alone, _ = layers.run(kind, params, x[:n, row : row + 1], num_layers=2, bidirectional=True)
        np.testing.assert_array_equal(y[:n, row], alone[:, 0])
        np.testing.assert_array_equal(y[n:, row], 0.0)
        np.testing.assert_array_equal(hy[:, row], h_alone[:, 0])


def test_residual_adds_the_input_of_every_layer_but_the_first():
    rng = np.random.default_rng(2)
    params = layers.random_params(rng, "lstm", 3, 4, num_layers=2)
    x = rng.normal(size=(3, 2, 3))
    first, _, _ = layers.run("lstm", params, x)
    upper = {name.replace("_l1", "_l0"): value for name, value in params.items() if "_l1" in name}
    second, _, _ = layers.run("lstm", upper, first)
    y, _, _ = layers.run("lstm", params, x, num_layers=2, residual=True)
    np.testing.assert_allclose(y, first + second, rtol=0, atol=1e-15)


def attention_params(rng, kind, query_size, memory_size):
    if kind == "additive":
        shapes = {"W_query": (query_size, 5), "W_key": (memory_size, 5), "b": (5,), "v": (5,)}
    else:
        shapes = {"W": (query_size, memory_size)} if kind == "general" else {}
    return {name: rng.normal(size=shape) for name, shape in shapes.items()}


@pytest.mark.parametrize("kind", ["additive", "dot", "general", "scaled_dot"])
def test_attention_weighs_only_real_positions(kind):
    rng = np.random.default_rng(3)
    p, query, memory = (
        attention_params(rng, kind, 4, 4),
        rng.normal(size=4),
        rng.normal(size=(6, 4)),
    )
    context, weights = attention.attend(kind, query, memory, 3, p)
    memory[3:] = np.nan
    again, _ = attention.attend(kind, query, np.nan_to_num(memory, nan=1e9), 3, p)
    np.testing.assert_allclose(weights.sum(), 1.0)
    np.testing.assert_array_equal(weights[3:], 0.0)
    np.testing.assert_allclose(context, weights[:3] @ memory[:3])
    np.testing.assert_array_equal(context, again)


def test_attention_scores_by_hand():
    query, key = np.array([1.0, 2.0]), np.array([3.0, -1.0])
    additive = {"W_query": np.eye(2), "W_key": np.eye(2), "v": np.array([1.0, 10.0])}
    assert attention.score("dot", query, key, {}) == 1.0
    assert attention.score("scaled_dot", query, key, {}) == pytest.approx(1.0 / np.sqrt(2.0))
    assert attention.score("general", query, key, {"W": np.array([[0.0, 1.0], [2.0, 0.0]])}) == 11.0
    assert attention.score("additive", query, key, additive) == pytest.approx(np.tanh(4.0) + 10 * np.tanh(1.0))


@pytest.mark.parametrize("input_feeding", [False, True])
def test_decoder_steps_one_by_one_equal_the_whole(input_feeding):
    """Feeding the last vector back by hand is input feeding; without it, that changes nothing."""
    rng = np.random.default_rng(4)
    E, H, M, A, T, B = 3, 4, 5, 2, 4, 2
    p = {
        "cell": layers.random_params(rng, "lstm", E + (A if input_feeding else 0), H, num_layers=2),
        "attention": attention_params(rng, "general", H, M),
        "W_c": rng.normal(size=(M + H, A)),
        "b_c": rng.normal(size=A),
    }
    embedded, memory = rng.normal(size=(T, B, E)), rng.normal(size=(6, B, M))
    h, c = rng.normal(size=(2, B, H)), rng.normal(size=(2, B, H))
    whole, h_last, _, _ = attention.decode(
        "lstm", "general", p, embedded, h, c, memory, [6, 2], input_feeding=input_feeding
    )
    fed = np.zeros((B, A))
    for t in range(T):
        out, h, c, _ = attention.decode(
            "lstm",
            "general",
            p,
            embedded[t : t + 1],
            h,
            c,
            memory,
            [6, 2],
            input_feeding=input_feeding,
            fed=fed,
        )
        fed = out[0] if input_feeding else np.full((B, A), 1e3)
        np.testing.assert_allclose(out[0], whole[t], rtol=0, atol=1e-14)
    np.testing.assert_allclose(h, h_last, rtol=0, atol=1e-14)


def test_cross_entropy_by_hand():
    logits, targets = np.log([[0.5, 0.25, 0.25], [0.1, 0.8, 0.1]]), [0, 2]
    nll, smoothed, correct = loss.cross_entropy(logits, targets, 0.3)
    means = -(np.log(0.5) + 2 * np.log(0.25)) / 3 - (np.log(0.8) + 2 * np.log(0.1)) / 3
    assert nll == pytest.approx(-np.log(0.5) - np.log(0.1))
    assert smoothed == pytest.approx(0.7 * nll + 0.3 * means)
    assert correct == 1


def bigram(rng, size):
    """A random table of log p(next | last)."""
    return np.stack([loss.log_softmax(row) for row in rng.normal(size=(size, size)) * 2.0])


def test_brute_force_finds_everything_and_sums_to_one():
    eos, table = 0, bigram(np.random.default_rng(5), 4)

    def log_probs(prefix):
        return table[prefix[-1] if prefix else eos]

    found = beam.all_sequences(log_probs, eos=eos, max_length=3)
    assert len(found) == 1 + 3 + 9 + 27
    assert sum(np.exp(s.log_prob) for s in found) == pytest.approx(1.0)
    assert [s.score for s in found] == sorted((s.score for s in found), reverse=True)
    one = next(s for s in found if s.ids == (2, 1) and s.finished)
    assert one.log_prob == pytest.approx(table[0, 2] + table[2, 1] + table[1, 0])
    fewer = beam.all_sequences(log_probs, eos=eos, max_length=3, forbidden=(3,))
    assert {s.ids for s in fewer} == {s.ids for s in found if 3 not in s.ids}
    assert beam.greedy(log_probs, eos=eos, max_length=3).log_prob <= found[0].log_prob


def test_length_penalties_by_hand():
    assert beam.penalised(-6.0, 3, "none") == -6.0
    assert beam.penalised(-6.0, 3, "average") == -2.0
    assert beam.penalised(-6.0, 7, 1.0) == pytest.approx(-3.0)
    assert beam.penalised(-6.0, 7, 0.5) == pytest.approx(-6.0 / np.sqrt(2.0))
    assert beam.penalised(-6.0, 7, 0.0) == -6.0


def test_checker_accepts_right_gradients_and_names_wrong_ones():
    rng = np.random.default_rng(6)
    arrays = {"a": rng.normal(size=(3, 2)), "b": rng.normal(size=2)}
    before = {name: array.copy() for name, array in arrays.items()}

    def value():
        return np.sum(np.tanh(arrays["a"]) * arrays["b"] ** 2)

    slope = 1 - np.tanh(arrays["a"]) ** 2
    right = {"a": slope * arrays["b"] ** 2, "b": 2 * arrays["b"] * np.tanh(arrays["a"]).sum(axis=0)}
    assert gradients.check(value, arrays, right, rng, elements=3) == []
    np.testing.assert_allclose(gradients.elementwise(value, arrays["b"]), right["b"], atol=1e-8)
    wrong = {**right, "b": right["b"] * [1.0, 1.001]}
    assert any(line.startswith("b") for line in gradients.check(value, arrays, wrong, rng, elements=3))
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, before[name])
