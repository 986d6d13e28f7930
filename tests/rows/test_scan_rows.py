"""Rows of the engines before us that the scan's interface fulfils, one test a row, named after it.

A: the blog on Caffe2's recurrent networks. R: its `recurrent_net`. C: cuDNN. V: the survey of interfaces.
"""

import numpy as np
import pytest

from nmt.rnn import (
    Cell,
    ChunkedScan,
    GRUCell,
    LearnedStartCell,
    LSTMCell,
    Param,
    Scan,
    StackCell,
    State,
    UnrolledCell,
    Weights,
)
from nmt.rnn.arrays.workspace import Workspace
from tests.rnn import interface_cases as cases
from tests.rnn import test_asked, test_interface


@pytest.mark.parametrize("outputs", [(), ("a",), ("y", "a")])
def test_A09_outputs_that_have_gradients_are_selected(outputs):
    test_asked.test_outputs_that_receive_a_gradient(outputs)


def test_A10_a_cell_says_how_it_is_connected():
    """To itself some steps ago, and to sequences outside."""
    for name in ("lags", "sequences"):
        test_interface.test_what_a_cell_may_read_equals_loops_and_interpreter(name, "all")


def test_A11_each_input_receives_its_gradient():
    test_interface.test_what_a_cell_may_read_equals_loops_and_interpreter("axes", "mask")


def test_A17_a_static_network_gives_the_same_numbers():
    test_interface.test_an_unrolled_cell_gives_the_same_numbers("lstm", 6)


def test_A18_unrolled_steps_are_part_of_the_graph_around_them():
    """Of one step outside nothing is left to loop over, and every product is one of the graph around."""
    test_interface.test_what_unrolling_costs()
    test_interface.test_an_unrolled_cell_gives_the_same_numbers("axes", 2)


def test_A19_every_cell_is_unrolled_by_one_wrapper():
    for name, steps in (("gru", 2), ("sequences", 3)):
        test_interface.test_an_unrolled_cell_gives_the_same_numbers(name, steps)
    assert UnrolledCell(StackCell([GRUCell(3, 4)]), 2).params() == StackCell([GRUCell(3, 4)]).params()


def test_R03_several_sequences():
    test_interface.test_what_a_cell_may_read_equals_loops_and_interpreter("sequences", "lengths, reverse")


def test_V11_one_cell_as_a_loop_and_unrolled():
    test_interface.test_an_unrolled_cell_gives_the_same_numbers("gru", 2)


def test_V13_explicit_unrolling_of_a_stack():
    test_interface.test_an_unrolled_cell_gives_the_same_numbers("stack", 2)


@pytest.mark.parametrize("steps", [2, 3, 6])
def test_V22_a_stated_number_of_steps_is_unrolled(steps):
    test_interface.test_an_unrolled_cell_gives_the_same_numbers("lstm", steps)


@pytest.mark.parametrize("axes", [(6,), (2, 3), (1, 2, 3)])
def test_R04_any_trailing_axes(axes):
    test_interface.test_any_number_of_trailing_axes_is_a_view(axes)


def test_R05_first_states_are_learned():
    test_interface.test_learned_first_states(False)


def test_R06_states_link_to_earlier_outputs():
    test_interface.test_what_a_cell_may_read_equals_loops_and_interpreter("lags", "lengths, reverse")


def test_R09_gradients_of_outputs_by_name():
    test_asked.test_outputs_that_receive_a_gradient(("a",))


def test_C12_states_are_injected_again():
    test_asked.test_chunks_with_carried_states_equal_one_long_call("all", False, 3)
    test_asked.test_truncated_gradients_stop_at_the_chunk()


def test_C16_one_step_a_call_equals_one_long_call():
    test_asked.test_chunks_with_carried_states_equal_one_long_call("all", False, 1)


def test_V02_a_loop_with_a_condition():
    test_asked.test_chunks_stop_where_one_call_does("all", 2)
    test_asked.test_no_chunk_runs_when_every_row_has_stopped()


def test_V08_explicit_unrolling():
    test_interface.test_an_unrolled_cell_gives_the_same_numbers("gru", 2)


def test_V09_any_mask():
    test_interface.test_what_a_cell_may_read_equals_loops_and_interpreter("lags", "mask")
    test_asked.test_a_row_with_holes_is_the_row_without_them()


class OneState(Cell):
    """h = x W + h U."""

    input_size, output_size = 3, 2

    def params(self):
        return {"W": Param((3, 2)), "U": Param((2, 2))}

    def states(self):
        return {"h": 2}

    def step(self, p, x, s):
        h = x @ p.W + s.h @ p.U
        return h, State(h=h)


def test_V09_the_literal_case_of_keras():
    """Kernels of ones, x = 0 .. 23 in rows of 4 steps and a mask: the numbers of its own test. Where a step does not
    exist Keras repeats the output before it, and ours is zero."""
    x = np.arange(24.0).reshape(2, 4, 3).swapaxes(0, 1).copy()
    mask = np.array([[1, 1, 1, 0], [1, 1, 0, 0]], bool).T.copy()
    weights = Weights({"W": np.ones((3, 2)), "U": np.ones((2, 2))})
    found = Scan(OneState(), dtype=np.float64).forward(weights, x, mask=mask)
    np.testing.assert_array_equal(found.final["h"], [[57, 57], [126, 126]])
    np.testing.assert_array_equal(found.y[:, :, 0].T, [[3, 18, 57, 0], [39, 126, 0, 0]])


def test_V19_delays():
    for lag in (2, 3):
        test_interface.test_a_skipping_cell_is_so_many_cells_that_take_turns(lag)


# ------------------------------------------------------------ Caffe2's executor test


@pytest.mark.parametrize("training", [False, True])
def test_A12_one_plan_and_one_memory_run_other_lengths_again_and_again(training):
    """T, T/2, 3T/4, T, T/2 + 1 on one plan and one workspace, five times over: all results and gradients have the bits
    of the first run in memory of its own. Stale memory of a longer run would show (recurrent_net_executor_test)."""
    cell = StackCell([LSTMCell(3, 4), LearnedStartCell(GRUCell(4, 5))])
    longest = 16
    run = cases.draw(cell, None, steps=longest)
    weights = Weights(run.params)
    scan, memory = Scan(cell, dtype=np.float64, threads=2), Workspace()

    def once(steps, allocate):
        x, d_y = (np.ascontiguousarray(a[:steps]) for a in (run.inputs["x"], run.d["y"]))
        if allocate is not None:
            allocate.reset()
        result = scan.forward(weights, x, run.initial, training=training, allocate=allocate)
        found = {"y": result.y.copy(), **{k: v.copy() for k, v in result.final.items()}}
        if training:
            shares = {k: np.zeros_like(p) for k, p in run.params.items()}
            back = scan.backward(result.tape, d_y, {k: run.d[f"final {k}"] for k in scan.states}, shares)
            found |= {"d_x": back.x.copy(), **{f"d_{k}": v.copy() for k, v in (back.initial | shares).items()}}
        return found

    lengths = (longest, longest // 2, 3 * longest // 4, longest, longest // 2 + 1)
    expected = {steps: once(steps, None) for steps in lengths}
    for _ in range(5):
        for steps in lengths:
            found = once(steps, memory)
            for name, value in expected[steps].items():
                np.testing.assert_array_equal(found[name], value, err_msg=f"{steps} {name}")
    chunked = ChunkedScan(Scan(cell, dtype=np.float64, threads=2), 4)
    np.testing.assert_array_equal(
        chunked.forward(weights, run.inputs["x"], run.initial, training=training).y, expected[longest]["y"]
    )
