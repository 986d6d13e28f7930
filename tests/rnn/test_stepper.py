"""Step by step is the same as all at once, rows may leave on the way, and captured rows are found by owner."""

import numpy as np
import pytest

from nmt.errors import ShapeError
from nmt.rnn.arrays.weights import Weights, initial_params
from nmt.rnn.cells import (
    AttentionCell,
    ConvolutionCell,
    DropoutCell,
    GRUCell,
    LinearCell,
    LSTMCell,
    ResidualCell,
    SRUCell,
    StackCell,
)
from nmt.rnn.scan.scan import Scan
from nmt.rnn.stepping.stepper import Stepper
from tests.oracle import compare
from tests.refusals import refused
from tests.rnn import scan_cases as cases

T, B, S, E, H, M = 5, 4, 6, 7, 9, 8


def attention_scan(device=None, cell=None):
    cell = cell or AttentionCell(LSTMCell(E + H, H), M, H)
    rng = np.random.default_rng(0)
    weights = Weights({k: v + 0.1 * rng.standard_normal(v.shape) for k, v in initial_params(cell, 1, float).items()})
    memory = rng.standard_normal((S, B, M))
    scan = Scan(cell, dtype=np.float64, threads=2, device=device)
    weights = Weights({k: scan.device.upload(v) for k, v in weights.items()})
    return scan, weights, memory, rng.standard_normal((T, B, E))


def zeros(scan, rows=B):
    """States of rows that begin."""
    return {k: np.zeros((rows, n)) for k, n in scan.states.items()}


@pytest.mark.parametrize(("threads", "division"), [(1, None), (2, None), (3, "rows"), (3, "units")])
def test_steps_equal_the_scan(threads, division):
    """However threads divide a step."""
    scan, weights, memory, x = attention_scan()
    given = {"memory": memory}, [6, 2, 1, 4]
    whole = cases.named(scan.forward(weights, x, captured=given[0], source_lengths=given[1]))
    divided = Scan(scan.cell, dtype=np.float64, threads=threads, division=division)
    compare.assert_same_bits(cases.stepped(divided, weights, x, zeros(scan), *given), whole)


def test_rows_share_and_leave():
    """Two rows on one sentence, one on another, then only one: each as if it were alone."""
    scan, weights, memory, x = attention_scan()
    lengths = [6, 2, 1, 4]
    stepper = Stepper(scan, weights)
    sentence_ids = stepper.admit({"memory": memory}, lengths)
    owner = sentence_ids[[3, 3, 1]]
    _, new = stepper.step(x[0, :3], zeros(scan, 3), owner)
    states = {k: v[[2]].copy() for k, v in new.items()}
    y, _ = stepper.step(x[1, :1], states, owner[[2]])
    steps = np.stack([x[0, 2], x[1, 0]])[:, None]
    alone = scan.forward(weights, steps, captured={"memory": memory[:, [1]]}, source_lengths=[2])
    np.testing.assert_array_equal(y, alone.y[1])


def shared_step(device=None, cell=None):
    """The same step twice: of rows that share words, parents and sentences, and of rows that each have their own
    copies. Results on the host."""
    scan, weights, memory, x = attention_scan(device, cell)
    upload, download = scan.device.upload, scan.device.download
    stepper = Stepper(scan, weights)
    sentence_ids = stepper.admit({"memory": upload(memory)}, [6, 2, 1, 4])
    states = {k: np.random.default_rng(1).standard_normal((B, n)) for k, n in scan.states.items()}
    parent, word = np.array([2, 0, 0, 3, 2, 2]), np.array([1, 0, 1, 1, 1, 0])
    sentence = sentence_ids[[1, 0, 0, 3, 1, 1]]

    def step(x, states, **shared):
        y, new = stepper.step(upload(x), {k: upload(v) for k, v in states.items()}, sentence, **shared)
        return {"y": download(y).copy(), **{k: download(v).copy() for k, v in new.items()}}

    together = step(np.ascontiguousarray(x[0, :2]), states, word=word, parent=parent)
    return together, step(x[0, word], {k: v[parent] for k, v in states.items()})


def words_alone():
    """States made of the input alone: the oldest share of a convolution's window is a product of what is itself a
    product of the word."""
    layers = StackCell([LinearCell(E, H), ResidualCell(ConvolutionCell(H, H))])
    return AttentionCell(layers, M, H, input_feeding=False)


@pytest.mark.parametrize(
    ("make", "states"), [(lambda: None, {"feed"}), (words_alone, {"cell.1.past1", "cell.1.past2"})]
)
def test_rows_with_one_parent_and_one_word_share_them(make, states):
    together, apart = shared_step(cell=make())
    assert states <= apart.keys()
    compare.assert_same_bits(together, apart)


@pytest.mark.parametrize("threads", [1, 3])
def test_many_rows_and_few_take_the_same_step(threads):
    """What is prepared for few rows is kept, for many it is made anew in memory that is used again; neither must show:
    not in turn, not in rows that share parents, words and sentences, not when results are the next step's states."""
    scan, weights, memory, x = attention_scan()
    scan = Scan(scan.cell, dtype=np.float64, threads=threads)
    stepper, alone = Stepper(scan, weights), Stepper(scan, weights)
    lengths = np.array([6, 2, 1, 4])
    sentence_ids = stepper.admit({"memory": memory}, lengths)
    own = alone.admit({"memory": memory}, lengths)
    rng = np.random.default_rng(5)
    states = {k: rng.standard_normal((3, n)) for k, n in scan.states.items()}
    for rows in (1, 41, 5, 16, 17, 5, 41, 2):
        count = len(next(iter(states.values())))
        parent, word, sentence = (rng.integers(most, size=rows) for most in (count, T * B, B))
        words, place = np.unique(word, return_inverse=True)
        inputs = np.ascontiguousarray(x.reshape(T * B, E)[words])
        y, new = stepper.step(inputs, states, sentence_ids[sentence], word=place, parent=parent)
        y, new = y.copy(), {k: v.copy() for k, v in new.items()}
        for r in range(rows):
            before = {k: np.ascontiguousarray(v[parent[[r]]]) for k, v in states.items()}
            one, after = alone.step(inputs[place[[r]]], before, own[sentence[[r]]])
            np.testing.assert_array_equal(y[[r]], one)
            for name, state in after.items():
                np.testing.assert_array_equal(new[name][[r]], state)
        states = new


def test_a_changed_weight_shows_in_the_next_step():
    """What was prepared knows where packed weights lie: they are laid out anew."""
    scan, weights, memory, x = attention_scan()
    stepper, states = Stepper(scan, weights), zeros(scan)
    sentence_ids = stepper.admit({"memory": memory})
    before = stepper.step(x[0], states, sentence_ids)[0].copy()
    weights["W_c"] = weights["W_c"] * 2
    after = stepper.step(x[0], states, sentence_ids)[0]
    assert not np.array_equal(after, before)
    fresh = Stepper(scan, weights)
    np.testing.assert_array_equal(after, fresh.step(x[0], states, fresh.admit({"memory": memory}))[0])


def test_sentences_come_and_go():
    """Memory is moved and used again under the sentences that stay."""
    scan, weights, memory, x = attention_scan()
    lengths, states = np.array([6, 2, 1, 4]), zeros(scan)
    stepper, alone = Stepper(scan, weights), Stepper(scan, weights)
    expected = alone.step(x[0], states, alone.admit({"memory": memory}, lengths))[0].copy()
    kept = stepper.admit({"memory": memory}, lengths)
    for turn in range(12):
        others = stepper.admit({"memory": memory[:, : 1 + turn % B]}, lengths[: 1 + turn % B])
        np.testing.assert_array_equal(stepper.step(x[0], states, kept)[0], expected)
        stepper.release(others)
        if turn % 4 == 3:
            stepper.release(kept)
            kept = stepper.admit({"memory": memory}, lengths)
    assert len(next(iter(stepper.store.arrays.values()))) <= 4 * lengths.sum()


PLAIN = {
    "gru": lambda: GRUCell(E, H),
    "stack": lambda: StackCell([DropoutCell(LSTMCell(E, H), 0.3), GRUCell(H, 5)]),
    "all products hoisted": lambda: SRUCell(H, H),
}


@pytest.mark.parametrize("name", PLAIN)
def test_a_cell_without_captured_arrays_steps_as_it_scans(name):
    """A step is cut into other functions than a scan, and within a function sums of a row may change their order."""
    case = cases.draw(PLAIN[name](), "float64", rows=B, steps=T)
    scan, given = Scan(case.cell, dtype=np.float64, threads=2), (Weights(case.params), case.x, case.initial)
    found, whole = cases.stepped(scan, *given), cases.named(scan.forward(*given))
    assert set(found) == set(whole)
    for key, value in whole.items():
        np.testing.assert_allclose(found[key], value, rtol=0, atol=1e-14, err_msg=key)


def test_the_door_of_a_step():
    scan, weights, memory, x = attention_scan()
    stepper, states = Stepper(scan, weights), zeros(scan)
    refused(ShapeError, "sentence must be the id of each row's sentence, got None", stepper.step, x[0], states)
    sentence_ids = stepper.admit({"memory": memory})
    promise = r"sentence, word and parent must be of one length, got \[1, 4\]"
    refused(ShapeError, promise, stepper.step, x[0], states, sentence_ids, word=np.array([0]))
