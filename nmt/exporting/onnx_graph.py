"""Build ONNX graphs from nodes and constants."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_TYPES = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64, "int32": TensorProto.INT32}
_OPSET = 17
_IR_VERSION = 8
"""The version that ONNX Runtime can read since 1.12 (2022)."""


class Graph:
    """An ONNX graph, built node by node, of a model with these weights. Values are represented by their names."""

    def __init__(self, name: str, weights: dict[str, np.ndarray]) -> None:
        self.name, self._weights = name, weights
        self._nodes: list[Any] = []
        self._constants: dict[str, Any] = {}
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []

    def input(self, name: str, dtype: str, *axes: int | str) -> str:
        """Add an input of `dtype` float32 or int64, and return its name; axes are sizes or names."""
        self._inputs.append(helper.make_tensor_value_info(name, _TYPES[dtype], axes))
        return name

    def output(self, value: str, name: str, *axes: int | str) -> None:
        """Make a float32 value an output with this name."""
        self._nodes.append(helper.make_node("Identity", [value], [name]))
        self._outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, axes))

    def constant(self, name: str, array: Any) -> str:
        """Add a float32 or int64 array, and return its name; a name that exists already refers to the same array."""
        if name not in self._constants:
            found = np.asarray(array)
            found = found.astype(np.int64 if found.dtype.kind in "iu" else np.float32)
            self._constants[name] = numpy_helper.from_array(np.ascontiguousarray(found), name)
        return name

    def add(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> list[str]:
        """Add a node with `outputs` outputs, and return their names; `""` stands for an omitted input."""
        made = [f"{kind}_{len(self._nodes)}_{n}" for n in range(outputs)]
        self._nodes.append(helper.make_node(kind, list(inputs), made, **attributes))
        return made

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one output, and return its name."""
        return self.add(kind, *inputs, **attributes)[0]

    def weight(self, name: str) -> str:
        """Add a weight of the model, and return its name."""
        return self.constant(name, self._weights[name])

    def linear(self, x: str, *names: str) -> str:
        """Return x W, or x W + b if a second name is given."""
        y = self.op("MatMul", x, self.weight(names[0]))
        return self.op("Add", y, self.weight(names[1])) if names[1:] else y

    def split(self, x: str, parts: int, width: int) -> list[str]:
        """Return `parts` equal parts of the last axis, each of size `width`."""
        sizes = self.constant(f"split {parts} of {width}", np.full(parts, width))
        return self.add("Split", x, sizes, outputs=parts, axis=-1)

    def save(self, path: Any) -> None:
        """Check the graph and write it to a file."""
        graph = helper.make_graph(self._nodes, self.name, self._inputs, self._outputs, list(self._constants.values()))
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION, producer_name="nmt"
        )
        onnx.checker.check_model(model, full_check=True)
        onnx.save_model(model, str(path))
