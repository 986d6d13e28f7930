"""The parameters of a stack of layers: arrays by name, which are views of one vector."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from nmt.errors import ShapeError
from nmt.rnn.arrays.device_operations import Array
from nmt.rnn.arrays.weights import initial_array
from nmt.rnn.arrays.workspace import zeros_of
from nmt.rnn.cell import Param
from nmt.rnn.device import Device
from nmt.rnn.layers.layer_states import check_array

Arrays = dict[str, Array]


class LayerParams:
    """Arrays by name, side by side in one vector without gaps, in the order of `shapes`."""

    def __init__(self, where: str, shapes: Mapping[str, Param], dtype: np.dtype, device: Device) -> None:
        """Allocate parameters, all zero. `where`: the name of the caller, for errors."""
        self.shapes, self.dtype = dict(shapes), dtype
        self._where, self._device = where, device
        self._flat = zeros_of(device.xp, (sum(math.prod(p.shape) for p in shapes.values()),), dtype)
        self._views = self.views(self._flat)
        self.arrays: Arrays = dict(self._views)

    def views(self, flat: Array) -> Arrays:
        """Return the pieces, by parameter, of a vector laid out like `flat`. Raises ShapeError."""
        size, xp = sum(math.prod(p.shape) for p in self.shapes.values()), self._device.xp
        fits = isinstance(flat, xp.ndarray) and flat.shape == (size,) and flat.dtype == self.dtype
        if not fits or not flat.flags.c_contiguous:
            got = f"{flat.dtype} {list(flat.shape)}" if isinstance(flat, xp.ndarray) else type(flat).__name__
            raise ShapeError(f"{self._where}: a flat vector must be contiguous {self.dtype} [{size}], got {got}")
        found, start = {}, 0
        for name, param in self.shapes.items():
            stop = start + math.prod(param.shape)
            found[name] = flat[start:stop].reshape(param.shape)
            start = stop
        return found

    @property
    def flat(self) -> Array:
        """Return all parameters as one vector, of which they are views.

        Arrays that were put into `arrays` since then are copied into it and replaced by its views. Raises ShapeError:
        one of them does not fit.
        """
        strange = {name: a for name, a in self.arrays.items() if self._views.get(name) is not a}
        if strange or len(self.arrays) < len(self._views):
            self.check(self.arrays)
            for name, array in strange.items():
                self._views[name][...] = array
            self.arrays.update(self._views)
        return self._flat

    def check(self, arrays: Mapping[str, Array], *, exact: bool = False) -> None:
        """Raise ShapeError unless exactly these parameters are there, with their shapes.

        `exact`: with their dtype and device, too.
        """
        missing = [name for name in self.shapes if name not in arrays]
        if missing or len(arrays) > len(self.shapes):
            raise ShapeError(
                f"{self._where}: parameters must be {', '.join(self.shapes)}, got {', '.join(arrays) or 'none'}"
            )
        for name, param in self.shapes.items():
            if exact:
                check_array(self._where, name, arrays[name], param.shape, self.dtype, self._device)
            elif np.shape(arrays[name]) != param.shape:
                raise ShapeError(
                    f"{self._where}: parameter {name} must be {list(param.shape)}, got {list(np.shape(arrays[name]))}"
                )

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Copy parameters from host arrays of any float type. Raises ShapeError."""
        self.check(arrays)
        for name, view in self._views.items():
            view[...] = self._device.upload(np.ascontiguousarray(arrays[name], self.dtype))
        self.arrays.update(self._views)

    def initialize(self, seed: int) -> None:
        """Draw new parameters, as each `Param` specifies."""
        rng = np.random.default_rng(seed)
        self.load({name: initial_array(param, rng, self.dtype) for name, param in self.shapes.items()})

    def set_writeable(self, writeable: bool) -> None:
        """Make the host arrays writeable or read-only.

        Arrays on a GPU cannot be made read-only; the caller must not write into them.
        """
        if not isinstance(self._flat, np.ndarray):
            return
        self._flat.flags.writeable = writeable
        for array in self._views.values():
            array.flags.writeable = writeable
