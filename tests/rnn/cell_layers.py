"""Stacks of cells in one or both directions, for the vectors of features that are cells' and not the operators'."""

import re
from dataclasses import dataclass

import numpy as np

from nmt.rnn import Scan, Weights, cells
from tests.oracle import vectors


@dataclass
class Layer:
    """One direction of one layer, with the tape of its last forward pass."""

    scan: Scan
    params: dict
    reverse: bool
    tape: object = None


def layer(cell, params, reverse, dtype, device=None):
    """A cell with its parameters, cast, on a device."""
    scan = Scan(cell, dtype=dtype, device=device)
    params = {name: moved(scan, value) for name, value in params.items()}
    assert set(params) == set(cell.params())
    return Layer(scan, params, reverse)


def moved(scan, array):
    """An array of the host as the scan takes it."""
    return scan.device.upload(np.ascontiguousarray(array, scan.dtype))


def forward(stack, x, initial, lengths):
    """`stack`: layers, each a list of its directions. Returns y and the final states [layers * directions, B, n]."""
    below, final, at = x, [], 0
    for directions in stack:
        outputs = []
        for one in directions:
            states = {k: moved(one.scan, v[at]) for k, v in initial.items()}
            options = {"lengths": lengths, "reverse": one.reverse, "training": True}
            result = one.scan.forward(Weights(one.params), moved(one.scan, below), states, **options)
            one.tape, at = result.tape, at + 1
            download = one.scan.device.download
            outputs.append(download(result.y))
            final.append({name: download(state) for name, state in result.final.items()})
        below = np.concatenate(outputs, axis=-1)
    return below, {name: np.stack([f[name] for f in final]) for name in final[0]}


def backward(stack, d_y, d_final):
    """Gradients of x, of the initial states (stacked) and of each direction's parameters, in the order of `forward`."""
    d_below, initial, params = d_y, [], []
    at = sum(len(directions) for directions in stack)
    for directions in reversed(stack):
        at -= len(directions)
        parts, d_x = np.split(d_below, len(directions), axis=-1), 0
        found = []
        for n, one in enumerate(directions):
            device = one.scan.device
            shares = {name: device.xp.zeros_like(p) for name, p in one.params.items()}
            last = {k: moved(one.scan, v[at + n]) for k, v in d_final.items()}
            got = one.scan.backward(one.tape, moved(one.scan, parts[n]), last, shares)
            d_x = d_x + device.download(got.x)
            found.append(tuple({k: device.download(v) for k, v in some.items()} for some in (got.initial, shares)))
        initial[:0], params[:0] = [f[0] for f in found], [f[1] for f in found]
        d_below = d_x
    return d_below, {name: np.stack([i[name] for i in initial]) for name in initial[0]}, params


def torch_projected(name, dtype, device=None):
    """A PyTorch file with projections as (stack, the names of its parameters direction by direction)."""
    config, case = vectors.torch_config(name), vectors.torch_layer(name)
    stack, ends, below = [], [], case.input_size
    for n in range(case.num_layers):
        suffixes = ("", "_reverse") if case.bidirectional else ("",)
        cell = cells.ProjectedLSTMCell(below, case.hidden_size, config["proj_size"])
        directions = []
        for suffix in suffixes:
            end = f"_l{n}{suffix}"
            p = {key: case.params[key + end] for key in ("W_x", "W_h", "W_p")}
            p["b"] = case.params[f"b_x{end}"] + case.params[f"b_h{end}"]
            directions.append(layer(cell, p, suffix != "", dtype, device))
            ends.append(end)
        stack.append(directions)
        below = config["proj_size"] * len(suffixes)
    return stack, ends


def onnx_stack(name, dtype, device=None):
    """An ONNX file with peepholes, clip, coupled gates or other activations as a stack of one layer."""
    file, attributes, case = vectors.arrays("onnx", name), vectors.onnx_attributes(name), vectors.onnx_layer(name)
    op = str(file["op"])
    suffixes = {"forward": ("",), "reverse": ("_reverse",), "bidirectional": ("", "_reverse")}[case.direction]
    given = attributes.get("activations", vectors.DEFAULT_ACTIVATIONS[op])[: len(vectors.DEFAULT_ACTIVATIONS[op])]
    names = tuple(re.sub("(?<!^)(?=[A-Z])", "_", one).lower() for one in given)
    directions = []
    for n, suffix in enumerate(suffixes):
        end = f"_l0{suffix}"
        p = {"W_x": case.params[f"W_x{end}"], "W_h": case.params[f"W_h{end}"]}
        b_x, b_h = (case.params.get(f"b_{k}{end}", np.zeros(p["W_x"].shape[1])) for k in "xh")
        sizes, options = (case.input_size, case.hidden_size), {"clip": attributes.get("clip")}
        if op == "LSTM":
            coupled = bool(attributes.get("input_forget", 0))
            peepholes = file["in_P"][n] if "in_P" in file else None
            cell = cells.LSTMVariantCell(
                *sizes, **options, activations=names, coupled=coupled, peepholes=peepholes is not None
            )
            p["b"] = b_x + b_h
            if coupled:  # ONNX has a forget gate there that nobody reads
                p = {k: np.delete(v, np.s_[case.hidden_size : 2 * case.hidden_size], axis=-1) for k, v in p.items()}
            if peepholes is not None:
                p |= dict(zip(("w_i", "w_o", "w_f"), np.split(peepholes, 3), strict=True))
        elif op == "GRU":
            after = bool(attributes.get("linear_before_reset", 0))
            cell = cells.GRUCell(*sizes, reset_after=after, activations=names, **options)
            p |= {"b": b_x, "b_h": b_h}
            if not after:
                p["W_rz"], p["W_n"] = np.split(p.pop("W_h"), [2 * case.hidden_size], axis=1)
        else:
            cell = cells.ElmanCell(*sizes, nonlinearity=names[0], **options)
            p["b"] = b_x + b_h
        directions.append(layer(cell, p, suffix != "", dtype, device))
    return [directions]
