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

T, B, S, E, H, M = 5, 4, 6, 7, 9, 8


def attention_scan(device=None, cell=None):
    cell = cell or AttentionCell(LSTMCell(E + H, H), M, H)
    rng = np.random.default_rng(0)
    weights = Weights({k: v + 0.1 * rng.standard_normal(v.shape) for k, v in initial_params(cell, 1, float).items()})
    memory = rng.standard_normal((S, B, M))
    scan = Scan(cell, dtype=np.float64, threads=2, device=device)
    weights = Weights({k: scan.device.upload(v) for k, v in weights.items()})
    return scan, weights, memory, rng.standard_normal((T, B, E))


def test_steps_equal_the_scan():
    scan, weights, memory, x = attention_scan()
    lengths = [6, 2, 1, 4]
    whole = scan.forward(weights, x, captured={"memory": memory}, source_lengths=lengths)
    stepper = Stepper(scan, weights)
    sentence_ids = stepper.admit({"memory": memory}, lengths)
    states = {k: np.zeros((B, n)) for k, n in scan.states.items()}
    for t in range(T):
        y, new = stepper.step(x[t], states, sentence_ids)
        np.testing.assert_array_equal(y, whole.y[t])
        states = {k: v.copy() for k, v in new.items()}
    compare.assert_same_bits(states, whole.final)


@pytest.mark.parametrize("division", ["rows", "units"])
def test_the_division_between_threads_never_shows_in_a_step(division):
    scan, weights, memory, x = attention_scan()
    divided = Scan(scan.cell, dtype=np.float64, threads=3, division=division)
    states = {k: np.zeros((B, n)) for k, n in scan.states.items()}
    steps = []
    for one in (Scan(scan.cell, dtype=np.float64, threads=1), divided):
        stepper = Stepper(one, weights)
        sentence_ids = stepper.admit({"memory": memory}, [6, 2, 1, 4])
        steps.append(stepper.step(x[0], states, sentence_ids))
    np.testing.assert_array_equal(steps[1][0], steps[0][0])
    compare.assert_same_bits(steps[1][1], steps[0][1])


def test_rows_share_and_leave():
    """Two rows on one sentence, one on another, then only one: each as if it were alone."""
    scan, weights, memory, x = attention_scan()
    lengths = [6, 2, 1, 4]
    stepper = Stepper(scan, weights)
    sentence_ids = stepper.admit({"memory": memory}, lengths)
    owner = sentence_ids[[3, 3, 1]]
    states = {k: np.zeros((3, n)) for k, n in scan.states.items()}
    _, new = stepper.step(x[0, :3], states, owner)
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


def test_rows_with_one_parent_and_one_word_share_them():
    together, apart = shared_step()
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
        parent, word, sentence = (
            rng.integers(count, size=rows),
            rng.integers(T * B, size=rows),
            rng.integers(B, size=rows),
        )
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
    stepper = Stepper(scan, weights)
    sentence_ids = stepper.admit({"memory": memory})
    states = {k: np.zeros((B, n)) for k, n in scan.states.items()}
    before = stepper.step(x[0], states, sentence_ids)[0].copy()
    weights["W_c"] = weights["W_c"] * 2
    after = stepper.step(x[0], states, sentence_ids)[0]
    assert not np.array_equal(after, before)
    fresh = Stepper(scan, weights)
    np.testing.assert_array_equal(after, fresh.step(x[0], states, fresh.admit({"memory": memory}))[0])


def test_states_made_of_the_input_alone_are_shared_too():
    """The oldest share of a convolution's window is a product of what is itself a product of the word, and shared."""
    layers = StackCell([LinearCell(E, H), ResidualCell(ConvolutionCell(H, H))])
    cell = AttentionCell(layers, M, H, input_feeding=False)
    together, apart = shared_step(cell=cell)
    assert {"cell.1.past1", "cell.1.past2"} <= apart.keys()
    compare.assert_same_bits(together, apart)


def test_sentences_come_and_go():
    """Memory is moved and used again under the sentences that stay."""
    scan, weights, memory, x = attention_scan()
    lengths = np.array([6, 2, 1, 4])
    states = {k: np.zeros((B, n)) for k, n in scan.states.items()}
    stepper = Stepper(scan, weights)
    alone = Stepper(scan, weights)
    expected = alone.step(x[0], states, alone.admit({"memory": memory}, lengths))[0].copy()
    kept = stepper.admit({"memory": memory}, lengths)
    for turn in range(12):
        others = stepper.admit({"memory": memory[:, : 1 + turn % B]}, lengths[: 1 + turn % B])
        np.testing.assert_array_equal(stepper.step(x[0], states, kept)[0], expected)
        stepper.release(others)
        if turn % 4 == 3:
            stepper.release(kept)
            kept = stepper.admit({"memory": memory}, lengths)
    assert len(next(iter(stepper._sources.arrays.values()))) <= 4 * lengths.sum()


PLAIN = {
    "gru": lambda: GRUCell(E, H),
    "stack": lambda: StackCell([DropoutCell(LSTMCell(E, H), 0.3), GRUCell(H, 5)]),
    "all products hoisted": lambda: SRUCell(H, H),
}


def close(found, expected):
    """A step is cut into other functions than a scan, and within a function sums of a row may change their order."""
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", PLAIN)
def test_a_cell_without_captured_arrays_steps_as_it_scans(name):
    cell = PLAIN[name]()
    rng = np.random.default_rng(3)
    weights = Weights({k: v + 0.1 * rng.standard_normal(v.shape) for k, v in initial_params(cell, 1, float).items()})
    x = rng.standard_normal((T, B, cell.input_size))
    first = {k: rng.standard_normal((B, n)) for k, n in cell.states().items()}
    scan = Scan(cell, dtype=np.float64, threads=2)
    whole = scan.forward(weights, x, first)
    stepper, states = Stepper(scan, weights), first
    for t in range(T):
        y, new = stepper.step(x[t], states)
        close(y, whole.y[t])
        states = {k: v.copy() for k, v in new.items()}
    for state, final in whole.final.items():
        close(states[state], final)


def test_the_door_of_a_step():
    scan, weights, memory, x = attention_scan()
    stepper = Stepper(scan, weights)
    states = {k: np.zeros((B, n)) for k, n in scan.states.items()}
    refused(ShapeError, "sentence must be the id of each row's sentence, got None", stepper.step, x[0], states)
    sentence_ids = stepper.admit({"memory": memory})
    promise = r"sentence, word and parent must be of one length, got \[1, 4\]"
    refused(ShapeError, promise, stepper.step, x[0], states, sentence_ids, word=np.array([0]))
