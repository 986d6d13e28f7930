"""A cell of one's own as a module of torch."""

import copy
import re
from pathlib import Path

import pytest

from nmt.errors import NMTError, ShapeError
from nmt.rnn import Cell, Param, State, layouts
from nmt.rnn.cells import AttentionCell, GRUCell, LearnedStartCell, LSTMCell, RecurrentDropoutCell, StackCell
from nmt.rnn.functions import sigmoid, tanh
from tests.refusals import refused

torch = pytest.importorskip("torch", reason="PyTorch is not installed; make test-torch")

from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence  # noqa: E402

import nmt.torch  # noqa: E402

T, B, D, H = 5, 2, 3, 4


class Slow(Cell):
    """A gate between the state and a candidate."""

    def __init__(self, input_size, hidden_size):
        self.input_size, self.output_size = input_size, hidden_size

    def params(self):
        D, H = self.input_size, self.output_size
        return {"W": Param((D, H)), "U": Param((H, H)), "b": Param((H,))}

    def states(self):
        return {"h": self.output_size}

    def step(self, p, x, s):
        z = sigmoid(x @ p.W + p.b)
        h = z * s.h + (1 - z) * tanh(s.h @ p.U)
        return h, State(h=h)


def by_torch(module, x, h):
    """The same cell in torch's operations."""
    outputs = []
    for one in x:
        z = torch.sigmoid(one @ module.W + module.b)
        h = z * h + (1 - z) * torch.tanh(h @ module.U)
        outputs.append(h)
    return torch.stack(outputs), h


def draw(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("grad", [True, False])
def test_results_are_those_of_the_cell_written_in_torch(grad):
    module, x, h = nmt.torch.cell(Slow(D, H), dtype=torch.float64), draw(T, B, D), draw(B, H)
    with torch.set_grad_enabled(grad):
        (y, final), (expected, last) = module(x, {"h": h}), by_torch(module, x, h)
        torch.testing.assert_close((y, final["h"]), (expected, last))
        torch.testing.assert_close(module(x)[0], by_torch(module, x, torch.zeros_like(h))[0])
    if grad:
        leaves = [x, h, *module.parameters()]
        found = (torch.autograd.grad(one.cos().sum(), leaves) for one in (y, expected))
        torch.testing.assert_close(*found)


def test_directions_layouts_and_packed_sequences():
    module, x, h = nmt.torch.cell(Slow(D, H), dtype=torch.float64), draw(T, B, D), draw(B, H)
    options = {"batch_first": True}, {"reverse": True}
    turned, reverse = (nmt.torch.cell(Slow(D, H), dtype=torch.float64, **own) for own in options)
    for other in (turned, reverse):
        other.load_state_dict(module.state_dict())
    y, final = module(x, {"h": h}, lengths=[3, 5])
    torch.testing.assert_close(turned(x.transpose(0, 1), {"h": h}, lengths=[3, 5])[0].transpose(0, 1), y)
    torch.testing.assert_close(reverse(x.flip(0))[0].flip(0), module(x)[0])
    packed, last = module(pack_padded_sequence(x, [3, 5], enforce_sorted=False), {"h": h})
    torch.testing.assert_close((pad_packed_sequence(packed)[0], last["h"]), (y, final["h"]))


@pytest.mark.parametrize(
    ("cell", "others"),
    [
        (Slow(D, H), {}),
        (LearnedStartCell(StackCell([GRUCell(D, H), LSTMCell(H, H)])), {}),
        (AttentionCell(LSTMCell(D + 4, H), 6, 4), {"memory": (7, B, 6)}),
        (RecurrentDropoutCell(GRUCell(D, H), 0.5), {}),
    ],
    ids=["own", "stacked", "attention", "dropout"],
)
def test_gradients_agree_with_finite_differences(cell, others):
    module = nmt.torch.cell(cell, dtype=torch.float64).eval()  # without dropout, which gradients in evaluation lack too
    arrays = {name: draw(*shape) for name, shape in others.items()}
    lengths = {"source_lengths": [7, 4]} if others else {}

    def run(x, *rest):
        y, states = module(x, **dict(zip(arrays, rest, strict=False)), **lengths)
        return (y, *states.values())

    assert sorted(module.state_dict()) == sorted(cell.params())
    assert torch.autograd.gradcheck(run, (draw(T, B, D), *arrays.values(), *module.parameters()))


def test_dropout_follows_the_generator_of_torch_while_training():
    module, x = nmt.torch.cell(RecurrentDropoutCell(GRUCell(D, H), 0.5)), torch.randn(T, B, D)
    drawn = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        drawn.append(module(x)[0])
    assert torch.equal(drawn[0], drawn[1]) and not torch.equal(drawn[0], drawn[2])
    plain = nmt.torch.cell(GRUCell(D, H))
    plain.load_state_dict(module.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(copy.deepcopy(module).eval()(x)[0], plain(x)[0])


X, PACKED = draw(T, B, D), pack_padded_sequence(draw(T, B, D), [3, 5], enforce_sorted=False)


@pytest.mark.parametrize(
    ("given", "options", "words"),
    [
        ((draw(T, B, D + 1),), {}, r"x must be float64 \[any, any, 3\] on cpu, got float64 \[5, 2, 4\]"),
        ((draw(T, B, 1),), {}, r"x must be float64 \[any, any, 3\] on cpu, got float64 \[5, 2, 1\]"),
        ((X[0, 0],), {}, r"x must be float64 \[any, any, 3\] on cpu, got float64 \[3\]"),
        ((X.tolist(),), {}, "x must be a tensor, got list"),
        ((X, {"g": draw(B, H)}), {}, "arrays must be among h, got g"),
        ((X, {"h": draw(1, H)}), {}, r"initial h must be float64 \[2, 4\] on cpu, got float64 \[1, 4\]"),
        ((PACKED, {"h": draw(3, H)}), {}, r"h must have 2 rows, got \[3, 4\]"),
        ((X, {"h": None}), {}, "h must be a tensor, got NoneType"),
        *(((X, state), {}, "state must be a dict with tensors for h, got") for state in (draw(1), draw(B, H), (X,))),
        ((X,), {"h": draw(B, H)}, "arrays must be among h, got h; states are given in one dict, others by name"),
        ((X,), {"memory": X}, "arrays must be among h, got memory"),
        ((PACKED,), {"lengths": [1, 1]}, "lengths must be None with a packed sequence, got both"),
    ],
)
@pytest.mark.parametrize("grad", [True, False])
def test_errors_are_one_line(given, options, words, grad):
    with torch.set_grad_enabled(grad):
        refused(ShapeError, f"^Slow: {words}", nmt.torch.cell(Slow(D, H), dtype=torch.float64), *given, **options)


def test_modules_that_do_not_fit_are_one_line():
    module = nmt.torch.cell(Slow(D, H), dtype=torch.float64)
    promise = "Slow must be given plain tensors .* got tensors of torch.float32 and torch.float64"
    for grad in (True, False):
        with torch.set_grad_enabled(grad):
            refused(NMTError, promise, module, X.float())
    refused(ShapeError, "nmt.torch.cell: the cell must be a Cell, got the class Slow; make one", nmt.torch.cell, Slow)
    refused(NMTError, "Slow: dtype must be torch.float32 or .* got foo", nmt.torch.cell, Slow(D, H), dtype="foo")
    refused(ShapeError, "got LSTM; give module.state_dict", layouts.from_torch, torch.nn.LSTM(D, H))
    attention = nmt.torch.cell(AttentionCell(LSTMCell(D + 4, H), 6, 4), dtype=torch.float64)
    refused(ShapeError, r"captured arrays must be \['memory'\], got none", attention, X)
    loss, promise = module(X)[0].sum(), "create_graph must be False with a Slow"
    refused(NMTError, promise, torch.autograd.grad, loss, X, create_graph=True)
    module.W = torch.nn.Parameter(draw(1, 1))
    refused(NMTError, r"a parameter must be \[3, 4\], got \[1, 1\]", module, X)


def test_the_page_of_pytorch():
    page = Path(__file__).resolve().parents[2] / "docs" / "library.md"
    names, text = {}, page.read_text("utf-8").split("\n## In PyTorch\n")[1]
    for block in re.findall(r"^```python\n(.*?)^```", text, re.M | re.S):
        exec(compile(block, page.name, "exec"), names)
    assert names["y"].shape == (7, 3, 32) and names["state"]["h"].shape == (3, 32)
    assert not names["y"][2:, 1].any()
