import numpy as np
import pytest


def test_work_of_one_layer_is_counted_by_the_formula() -> None:
    from _cases import Shape, operations

    shape = Shape("s", T=3, N=2, I=5, H=7)
    assert operations("lstm", shape, "inference") == 2 * (3 * 2) * (5 + 7) * (4 * 7)
    assert operations("gru", shape, "training") == 3 * 2 * (3 * 2) * (5 + 7) * (3 * 7)


def test_work_of_a_bidirectional_stack_counts_both_directions_and_their_joined_output() -> None:
    from _cases import Shape, operations

    shape = Shape("s", T=3, N=2, I=5, H=7, layers=2, bidirectional=True)
    first, second = 2 * 6 * (5 + 7) * 7, 2 * 6 * (14 + 7) * 7
    assert operations("rnn_tanh", shape, "inference") == 2 * first + 2 * second


@pytest.mark.parametrize(("T", "N", "mean"), [(30, 64, 15), (9, 6, 4), (10, 5, 9)])
def test_mixed_lengths_keep_their_mean_and_order(T: int, N: int, mean: int) -> None:
    from _cases import Shape

    lengths = Shape("s", T=T, N=N, I=1, H=1, mean_length=mean).lengths()
    assert lengths.sum() == mean * N
    assert lengths[0] == lengths.max() == T
    assert lengths.min() >= 2
    assert (np.diff(lengths) <= 0).all()


def test_mixed_lengths_count_real_steps_only_and_blank_the_rest() -> None:
    from _cases import Shape, make_inputs, operations

    shape = Shape("s", T=6, N=4, I=3, H=2, mean_length=4)
    assert operations("rnn_relu", shape, "inference") == 2 * 16 * (3 + 2) * 2
    _, arrays = make_inputs("rnn_relu", shape)
    assert np.count_nonzero(arrays["x"].any(-1)) == 16


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("mxnet", (300, 20, 800, 800, 1, False)),
        ("mxnet5", (300, 20, 800, 800, 5, False)),
        ("mxnet5bi", (300, 20, 800, 800, 5, True)),
        ("cudnn", (8, 128, 1024, 1024, 3, False)),
    ],
)
def test_shapes_are_those_of_the_tables_of_others(name, sizes) -> None:
    """MXNet's second table has one direction in its caption and both in its heading."""
    from _cases import SHAPES

    shape = SHAPES[name]
    assert (shape.T, shape.N, shape.I, shape.H, shape.layers, shape.bidirectional) == sizes
