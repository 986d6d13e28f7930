"""The shared reference vectors (PyTorch, ONNX) read into this project's layout. They lie in `shared/vectors`, a sibling
of the repository; where that is absent, the tests on them skip."""

import json
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).resolve().parents[2].parent / "shared" / "vectors"
PRESENT = (FOLDER / "torch").is_dir() and (FOLDER / "onnx").is_dir()
ABSENT = "needs the shared reference vectors (shared/vectors beside the repository)"

# ONNX's gate orders to ours: LSTM i o f c -> i f g o; GRU z r h -> r z n.
ONNX_GATES = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}
DEFAULT_ACTIVATIONS = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}


@dataclass(frozen=True)
class LayerCase:
    """One call of a stack of layers and what must come out; time-major unless batch_first. `direction` is "forward",
    "reverse" or "bidirectional"; a reverse case's parameters carry the suffix `_reverse`. Expected arrays that the file
    does not hold are absent from `expected` and `gradients`."""

    kind: str
    direction: str
    num_layers: int
    input_size: int
    hidden_size: int
    bias: bool
    batch_first: bool
    params: dict[str, np.ndarray]
    x: np.ndarray
    hx: np.ndarray | None
    cx: np.ndarray | None
    lengths: np.ndarray | None
    expected: dict[str, np.ndarray]
    options: dict[str, int] = field(default_factory=dict)
    cotangents: dict[str, np.ndarray] = field(default_factory=dict)
    gradients: dict[str, np.ndarray] = field(default_factory=dict)
    d_params: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def bidirectional(self):
        """Whether a layer has both directions."""
        return self.direction == "bidirectional"


def names(source):
    """The names of all files of a source ("torch" or "onnx"), sorted; none when they are absent."""
    return sorted(path.stem for path in (FOLDER / source).glob("*.npz")) if PRESENT else []


@lru_cache(maxsize=256)
def arrays(source, name):
    """All arrays of a file, by name; floating numbers as float64, which holds float32 exactly."""
    with np.load(FOLDER / source / f"{name}.npz") as file:
        found = {key: file[key] for key in file.files}
    return {k: v.astype(np.float64) if v.dtype.kind == "f" else v for k, v in found.items()}


def torch_config(name):
    """The description inside a PyTorch file."""
    return json.loads(str(arrays("torch", name)["config"]))


def torch_layer_names():
    """The files that hold one call of one stack."""
    return [n for n in names("torch") if n.split("_")[0] not in ("tbptt", "step", "accum", "stack")]


def from_torch(file, prefix):
    """Parameters (or gradients) under `prefix` in our layout: torch's weights transposed."""
    ours = {"weight_ih": "W_x", "weight_hh": "W_h", "weight_hr": "W_p", "bias_ih": "b_x", "bias_hh": "b_h"}
    found = {}
    for key, value in file.items():
        for theirs, name in ours.items():
            start = f"{prefix}{theirs}"
            if key.startswith(start):
                found[name + key[len(start) :]] = np.ascontiguousarray(value.T)
    return found


def present(file, **wanted):
    """Those of the wanted arrays (our name = their name) that the file holds."""
    return {ours: file[theirs] for ours, theirs in wanted.items() if theirs in file}


def torch_layer(name):
    """A PyTorch file as a LayerCase."""
    file, config = arrays("torch", name), torch_config(name)
    return LayerCase(
        kind=config["kind"],
        direction="bidirectional" if config["bidirectional"] else "forward",
        num_layers=config["num_layers"],
        input_size=config["input_size"],
        hidden_size=config["hidden_size"],
        bias=config["bias"],
        batch_first=config["batch_first"],
        params=from_torch(file, "w_"),
        x=file["x"],
        hx=file.get("h0"),
        cx=file.get("c0"),
        lengths=file.get("lengths"),
        expected=present(file, y="y", hy="hn", cy="cn"),
        options={"proj_size": config["proj_size"]} if config.get("proj_size") else {},
        cotangents=present(file, d_y="gy", d_hy="ghn", d_cy="gcn"),
        gradients=present(file, d_x="dx", d_hx="dh0", d_cx="dc0"),
        d_params=from_torch(file, "d_"),
    )


def onnx_attributes(name):
    """The node's attributes."""
    return json.loads(str(arrays("onnx", name)["attrs"]))


def onnx_is_plain(name):
    """Whether an ONNX file is of a cell that the oracle knows: no peepholes, clip, coupled gates, other activations."""
    file, attributes = arrays("onnx", name), onnx_attributes(name)
    op = str(file["op"])
    given = set(attributes.get("activations", []))
    usual = given <= set(DEFAULT_ACTIVATIONS[op]) or (op == "RNN" and given == {"Relu"})
    return usual and "in_P" not in file and "clip" not in attributes and not attributes.get("input_forget", 0)


def onnx_layer_names():
    """The files of recurrent operators."""
    return [n for n in names("onnx") if str(arrays("onnx", n)["op"]) in ONNX_GATES]


def onnx_params(op, file, suffixes):
    """W [D, G*H, I], R [D, G*H, H], B [D, 2*G*H] of ONNX in our layout and gate order."""
    found, order = {}, ONNX_GATES[op]

    def reorder(rows):
        gates = np.split(rows, len(order))
        return np.ascontiguousarray(np.concatenate([gates[g] for g in order]).T)

    for index, suffix in enumerate(suffixes):
        found[f"W_x_l0{suffix}"] = reorder(file["in_W"][index])
        found[f"W_h_l0{suffix}"] = reorder(file["in_R"][index])
        if "in_B" in file:
            b_x, b_h = np.split(file["in_B"][index], 2)
            found[f"b_x_l0{suffix}"], found[f"b_h_l0{suffix}"] = reorder(b_x), reorder(b_h)
    return found


def onnx_layer(name):
    """An ONNX file as a LayerCase; layout=1 (batch first everywhere) is transposed away."""
    file, attributes = arrays("onnx", name), onnx_attributes(name)
    op = str(file["op"])
    kind = {"LSTM": "lstm", "GRU": "gru", "RNN": "rnn_tanh"}[op]
    if op == "GRU" and not attributes.get("linear_before_reset", 0):
        kind = "gru_reset_before"
    if "Relu" in attributes.get("activations", []):
        kind = "rnn_relu"
    direction = attributes.get("direction", "forward")
    suffixes = {"forward": ("",), "reverse": ("_reverse",), "bidirectional": ("", "_reverse")}[direction]
    batch_first = attributes.get("layout", 0) == 1
    expected = present(file, y="out_Y", hy="out_Y_h", cy="out_Y_c")
    x = file["in_X"]
    if batch_first:
        x = x.transpose(1, 0, 2)
        expected = {k: v.transpose(1, 2, 0, 3) if k == "y" else v.transpose(1, 0, 2) for k, v in expected.items()}
    if "y" in expected:  # [T, dirs, B, H] -> [T, B, dirs * H]
        y = expected["y"].transpose(0, 2, 1, 3)
        expected["y"] = y.reshape(y.shape[0], y.shape[1], -1)
    return LayerCase(
        kind=kind,
        direction=direction,
        num_layers=1,
        input_size=x.shape[2],
        hidden_size=file["in_R"].shape[2],
        bias="in_B" in file,
        batch_first=False,
        params=onnx_params(op, file, suffixes),
        x=np.ascontiguousarray(x),
        hx=file.get("in_initial_h"),
        cx=file.get("in_initial_c"),
        lengths=file.get("in_sequence_lens"),
        expected=expected,
    )
