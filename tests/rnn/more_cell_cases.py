"""The cells beyond LSTM, GRU and Elman's, each with its oracle. Options are put together, as each cell is compiled."""

import numpy as np

from nmt.rnn import cells
from tests.oracle import more_cells as oracle
from tests.rnn import scan_cases as cases

D, H = cases.D, cases.H
ODD = ("hard_sigmoid", "softsign", "relu")  # the activations of ONNX Runtime's vectors

# One product of the input outside the time loop, and at least one of a state in it.
STATE_GATED = {
    "layer_norm_lstm": (lambda: cells.LayerNormLSTMCell(D, H), oracle.layer_norm_lstm),
    "layer_norm_gru": (lambda: cells.LayerNormGRUCell(D, H), oracle.layer_norm_gru),
    "mi_lstm": (lambda: cells.MILSTMCell(D, H), oracle.mi_lstm(False)),
    "mi_lstm_layer_norm": (lambda: cells.MILSTMCell(D, H, layer_norm=True), oracle.mi_lstm(True)),
    "peepholes_clip": (lambda: cells.LSTMVariantCell(D, H, peepholes=True, clip=0.7), oracle.lstm_variant(clip=0.7)),
    "projection_cell_clip": (
        lambda: cells.LSTMVariantCell(D, H, projection=4, cell_clip=0.6, bias=False),
        oracle.lstm_variant(cell_clip=0.6),
    ),
    "coupled_activations": (
        lambda: cells.LSTMVariantCell(D, H, coupled=True, peepholes=True, activations=ODD),
        oracle.lstm_variant(coupled=True, activations=ODD),
    ),
    "gru_clip_activations": (
        lambda: cells.GRUCell(D, H, reset_after=False, clip=0.7, activations=("hard_sigmoid", "softsign")),
        oracle.gru_variant(clip=0.7, activations=("hard_sigmoid", "softsign"), reset_after=False),
    ),
    "deep_transition_gru": (lambda: cells.DeepTransitionGRUCell(D, H, transitions=3), oracle.deep_transition),
    "slstm": (lambda: cells.SLSTMCell(D, 6, heads=2), oracle.slstm(2)),
}
# Whose products all read the input alone.
INPUT_GATED = {
    "sru": (lambda: cells.SRUCell(D, H), oracle.sru),
    "sru_one_size": (lambda: cells.SRUCell(D, D), oracle.sru),
    "ssru": (lambda: cells.SSRUCell(D, H), oracle.ssru),
    "qrnn_window1": (lambda: cells.QRNNCell(D, H, window=1), oracle.qrnn),
    "qrnn_window2": (lambda: cells.QRNNCell(D, H, window=2), oracle.qrnn),
    "min_gru": (lambda: cells.MinGRUCell(D, H), oracle.min_gru),
    "min_lstm": (lambda: cells.MinLSTMCell(D, H), oracle.min_lstm),
    "ind_rnn": (lambda: cells.IndRNNCell(D, H), oracle.ind_rnn),
    "convolution": (lambda: cells.ConvolutionCell(D, H, window=3), oracle.convolution),
}
# Odd sizes of heads, keys and values; these states are matrices.
LINEAR = {
    "gla": (2, 2, {"decay": "key"}),
    "retnet": (3, 3, {"decay": "constant"}),
    "linear_attention": (1, 2, {"decay": "none"}),
    "head_decay": (2, 1, {"decay": "head"}),
    "hgrn2": (2, 2, {"decay": "tied"}),
    "gated_delta_net": (2, 2, {"decay": "head", "delta": True, "window": 3}),
    "kda": (2, 4, {"decay": "key", "delta": True, "window": 2}),
}


def linear(heads, keys, options):
    return lambda: cells.LinearAttentionCell(D, 6, heads=heads, key_size=keys, rank=2, **options)


MATRICES = {name: (linear(*given), oracle.linear_attention(*given[:2], **given[2])) for name, given in LINEAR.items()}
kda, of_kda = MATRICES["kda"]
MATRICES["kda"] = lambda: cells.NormedCell(kda()), oracle.normed(of_kda)
MATRICES["mlstm"] = lambda: cells.MLSTMCell(D, 6, heads=2, key_size=4), oracle.mlstm(2, 4)
# Products read what their own states have left of earlier inputs.
MIXING = {
    "hawk": (
        lambda: cells.BlockCell(D, cells.RGLRUCell(H, H), convolved=False, gate="gelu"),
        oracle.block(oracle.rg_lru, 4, activation=lambda u: u, gate=oracle.gelu),
    ),
    "mamba": (
        lambda: cells.NormedCell(cells.BlockCell(D, cells.S6Cell(H, H, size=3, rank=2), window=2)),
        oracle.normed(oracle.block(oracle.s6(3), 2, activation=oracle.silu, gate=oracle.silu)),
    ),
    "rwkv7": (lambda: cells.RWKV7Cell(D, 6, heads=2, rank=2), oracle.rwkv7(2)),
}
INPUT_GATED |= {"lrn": (lambda: cells.LRNCell(D, H), oracle.lrn), **MATRICES}
CELLS = {**STATE_GATED, **INPUT_GATED, **MIXING}
# The others' programs are those of their neighbours with less in them.
COMPILED = [name for name in CELLS if name not in ("mi_lstm", "sru_one_size", "qrnn_window1")]
# Of these only the meaning is tested: they are put together from operations that others compile.
MEANINGS = {
    **CELLS,
    **{
        f"rnn_{name}": (
            lambda name=name: cells.ElmanCell(D, H, nonlinearity=name, clip=1.5),
            oracle.elman_variant(clip=1.5, nonlinearity=name),
        )
        for name in ("softplus", "leaky_relu", "elu", "scaled_tanh", "thresholded_relu")
    },
    "gru_clip": (
        lambda: cells.GRUCell(D, H, clip=0.7),
        oracle.gru_variant(clip=0.7, activations=("sigmoid", "tanh"), reset_after=True),
    ),
    "zoneout": (
        lambda: cells.ZoneoutCell(cells.LSTMVariantCell(D, H), {"h": 0.3, "c": 0.1}),
        oracle.zoneout(oracle.lstm_variant(), {"h": 0.3, "c": 0.1}),
    ),
}


def draw(name, lengths=None, dtype="float64", **sizes):
    """A cell of MEANINGS with numbers for everything it reads."""
    case = cases.draw(MEANINGS[name][0](), dtype, lengths, **sizes)
    if "n" in case.initial:  # an sLSTM's normaliser is a sum of exponentials; zero is "nothing stored yet"
        case.initial["n"] = np.maximum(case.initial["n"], 0)
    return case
