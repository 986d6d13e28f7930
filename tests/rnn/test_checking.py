"""`nmt.rnn.check` says what is wrong; that it says what is right is shown by docs/add-a-cell.md and its test."""

import numpy as np
import pytest

from nmt.rnn import Cell, Param, State, check, check_cell, exp, tanh
from nmt.rnn.kernels.loops import emit_cpu


class Fickle(Cell):
    """Its step is another one each time that it is traced, so the program is not what the step says."""

    factor = 1.0

    def __init__(self, input_size, hidden_size):
        self.input_size = self.output_size = hidden_size

    def params(self):
        return {"u": Param((self.output_size,))}

    def states(self):
        return {"h": self.output_size}

    def step(self, p, x, s):
        Fickle.factor *= 1.5
        h = tanh(x + Fickle.factor * p.u * s.h)
        return h, State(h=h)


def test_a_program_that_is_not_the_step_is_found(capsys, monkeypatch):
    monkeypatch.setattr(check_cell, "_check_numbers", lambda cell: None)  # which would notice it first
    assert not check(Fickle)
    printed = capsys.readouterr().out
    assert "WRONG program = interpreter, all steps" in printed
    assert printed.rstrip().splitlines()[-1].startswith("Fickle: ") and "do not hold" in printed


def test_a_step_that_computes_other_numbers_each_time_is_one_line(capsys, monkeypatch):
    monkeypatch.setattr(Fickle, "factor", 1.0)
    assert not check(Fickle)
    printed = capsys.readouterr().out
    assert "Fickle.step: must compute the same twice, got other numbers of y" in printed and printed.count("\n") == 1


class Growing(Fickle):
    """Its numbers overflow, whoever computes them."""

    def step(self, p, x, s):
        h = exp(100.0 * (x + p.u * s.h))
        return h, State(h=h)


class Steep(Fickle):
    """Its numbers are finite, and the product of a slope of zero and one of infinity is not."""

    def step(self, p, x, s):
        h = tanh(exp(1000.0 * (x + p.u * s.h)))
        return h, State(h=h)


@pytest.mark.parametrize(("cell", "what"), [(Growing, "y"), (Steep, "the gradient of x")])
def test_numbers_that_are_not_finite_are_the_cells_own(capsys, recwarn, cell, what):
    assert not check(cell)
    printed = capsys.readouterr().out
    assert f"must compute finite numbers from those of a normal distribution, got inf or nan in {what}; " in printed
    assert printed.count("\n") == 1 and not recwarn.list


def test_a_step_that_does_not_fit_its_states_is_one_line(capsys):
    class Narrow(Fickle):
        def states(self):
            return {"h": self.output_size - 1}

    assert not check(Narrow)
    printed = capsys.readouterr().out
    assert "widths must be equal" in printed and printed.count("\n") == 1


class LowRank(Cell):
    """Its recurrent product has two factors; the second reads what all threads have written of the first."""

    def __init__(self, input_size, hidden_size):
        self.input_size = self.output_size = self.hidden_size = hidden_size

    def params(self):
        H = self.hidden_size
        return {"U": Param((H, H)), "V": Param((H, H))}

    def states(self):
        return {"h": self.hidden_size}

    def step(self, p, x, s):
        h = tanh(x + s.h @ p.U @ p.V)
        return h, State(h=h)


def test_a_race_between_threads_is_found(capsys, monkeypatch):
    assert check(LowRank)
    between_kinds = emit_cpu._FunctionWriter._steps_before_barriers
    monkeypatch.setattr(emit_cpu._FunctionWriter, "_steps_before_barriers", lambda self: between_kinds(self) - {0})
    capsys.readouterr()
    assert not check(type("Unmet", (LowRank,), {}))  # another class, because the program of the first is kept
    wrong = [line for line in capsys.readouterr().out.splitlines() if "WRONG" in line]
    assert len(wrong) == 1 and "two threads dividing units" in wrong[0]


class Matrix(LowRank):
    """Its step takes a matrix for a vector."""

    def step(self, p, x, s):
        h = tanh(x + s.h * p.U)
        return h, State(h=h)


def test_a_matrix_in_place_of_a_vector_is_one_line(capsys):
    assert not check(Matrix)
    printed = capsys.readouterr().out
    assert "got the matrix parameter U [7, 7]; multiply by it, x @ p.U, or declare a vector" in printed
    assert printed.count("\n") == 1


class Idle(LowRank):
    """Its step forgets a parameter."""

    def step(self, p, x, s):
        h = tanh(x + s.h @ p.U)
        return h, State(h=h)


def test_a_parameter_that_nothing_reads_is_found(capsys):
    assert not check(Idle)
    assert "WRONG every parameter has a gradient, but V" in capsys.readouterr().out


def test_nan_never_passes():
    found, expected = {"y": np.array([np.nan])}, {"y": np.ones(1)}
    error = check_cell._difference(found, expected)
    assert not check_cell.Finding("x", error, 1e9).passed
