"""Builds ONNX graphs: nodes and constants by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_OPSET = 17
_IR_VERSION = 8
"""What ONNX Runtime reads since 1.12, of 2022."""


class Graph:
    """A graph that grows node by node. Values are names."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._nodes: list[Any] = []
        self._constants: dict[str, Any] = {}
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []

    def input(self, name: str, dtype: str, *axes: int | str) -> str:
        """Return an input of `dtype` float32 or int64; axes are sizes or names."""
        self._inputs.append(helper.make_tensor_value_info(name, _type(dtype), axes))
        return name

    def output(self, value: str, name: str, *axes: int | str) -> None:
        """Give out a value of float32 by a name."""
        self._nodes.append(helper.make_node("Identity", [value], [name]))
        self._outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, axes))

    def constant(self, name: str, array: Any) -> str:
        """Return an array of the graph, float32 or int64; the same name is the same array."""
        if name not in self._constants:
            found = np.asarray(array)
            found = found.astype(np.int64 if found.dtype.kind in "iu" else np.float32)
            self._constants[name] = numpy_helper.from_array(np.ascontiguousarray(found), name)
        return name

    def add(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> list[str]:
        """Return a node with so many outputs; `""` is an input that is not given."""
        made = [f"{kind}_{len(self._nodes)}_{n}" for n in range(outputs)]
        self._nodes.append(helper.make_node(kind, list(inputs), made, **attributes))
        return made

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Return a node with one output."""
        return self.add(kind, *inputs, **attributes)[0]

    def linear(self, x: str, *names: str, weights: dict[str, np.ndarray]) -> str:
        """x W, and with a second name + b."""
        y = self.op("MatMul", x, self.constant(names[0], weights[names[0]]))
        return self.op("Add", y, self.constant(names[1], weights[names[1]])) if names[1:] else y

    def split(self, x: str, parts: int, width: int) -> list[str]:
        """Equal shares of the last axis, of `width` each."""
        sizes = self.constant(f"split {parts} of {width}", np.full(parts, width))
        return self.add("Split", x, sizes, outputs=parts, axis=-1)

    def save(self, path: Any) -> None:
        """Check the graph and write it."""
        graph = helper.make_graph(self._nodes, self.name, self._inputs, self._outputs, list(self._constants.values()))
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION, producer_name="nmt"
        )
        onnx.checker.check_model(model, full_check=True)
        onnx.save_model(model, str(path))


def _type(dtype: str) -> int:
    return int({"float32": TensorProto.FLOAT, "int64": TensorProto.INT64, "int32": TensorProto.INT32}[dtype])
