"""CuPy's arrays and functions, as strict as the real ones and stricter: nothing of the host is converted by itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.cuda_standin import contract
from tests.cuda_standin.gpu import Block, CUDARuntimeError, Gpu, OutOfMemoryError, StandInError, Stream

OPERATORS = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split()
COMPARISONS = "lt le gt ge eq ne".split()


def make_cupy(gpu: Gpu) -> Any:
    """The module `cupy` of a GPU."""
    return _Module(gpu)


class MemoryPool:
    """`cupy.cuda.MemoryPool`, with a limit."""

    gpu: Gpu

    def __init__(self) -> None:
        self.used = 0

    def malloc(self, size: int) -> Block:
        if size > self.gpu.free:
            raise OutOfMemoryError(f"Out of memory allocating {size:,} bytes")
        self.used += size
        return Block(self.gpu, size, self.gpu.stream)

    def used_bytes(self) -> int:
        return self.used


class _Module:
    """`cupy`: the functions of the contract, and `cuda`."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self.cuda = _cuda(self, gpu)
        self.allocator: Any = self.cuda.MemoryPool().malloc
        self.ndarray = type("ndarray", (ndarray,), {"__slots__": (), "module": self})

    def __getattr__(self, name: str) -> Any:
        if name not in contract.FUNCTIONS:
            raise AttributeError(f"module 'cupy' has no attribute {name!r}, or it is not in contract.FUNCTIONS")

        def call(*given: Any, out: Any = None, **options: Any) -> Any:
            check_options(name, contract.FUNCTIONS[name], given, options | ({} if out is None else {"out": out}))
            return self.call(getattr(np, name), given, options, out)

        return call

    # ------------------------------------------------------------ arrays

    def new(self, shape: Any, dtype: Any) -> Any:
        """Memory that nobody has written."""
        shape = (int(shape),) if isinstance(shape, int | np.integer) else tuple(int(n) for n in shape)
        dtype = np.dtype(dtype)
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        block = self.allocator(size) if size else None
        if self.gpu.stream.captured is not None:
            raise StandInError("an array is allocated while a graph is recorded")
        host = np.empty(shape, dtype) if block is None else block.bytes.view(dtype).reshape(shape)
        return self.ndarray(host, block)

    def wrap(self, found: Any) -> Any:
        """A new array of the GPU for a result of NumPy."""
        if isinstance(found, tuple | list):
            return type(found)(self.wrap(one) for one in found)
        made = self.new(np.shape(found), np.asarray(found).dtype)
        made.host[...] = found
        return made

    def given(self, value: Any) -> Any:
        """An argument on the host. Raises for an array of the host, as CuPy does."""
        if isinstance(value, ndarray):
            return value.touched()
        if isinstance(value, np.ndarray) and value.ndim:
            raise TypeError("Unsupported type <class 'numpy.ndarray'>")
        if isinstance(value, tuple | list):
            return type(value)(self.given(one) for one in value)
        return value

    def call(self, function: Any, given: Any, options: Any, out: Any = None) -> Any:
        """NumPy's function on arrays of the GPU."""
        if self.gpu.stream.captured is not None:
            raise StandInError(f"{function.__name__}: an operation of CuPy while a graph is recorded")
        self.gpu.counts["cupy"] += 1
        arguments = [self.given(one) for one in given]
        options = {key: self.given(one) for key, one in options.items()}
        if out is None:
            return self.wrap(function(*arguments, **options))
        function(*arguments, out=out.touched(), **options)
        return out

    def empty(self, shape: Any, dtype: Any = float) -> Any:
        return self.new(shape, dtype)

    def zeros(self, shape: Any, dtype: Any = float) -> Any:
        self.gpu.counts["cupy"] += 1
        made = self.new(shape, dtype)
        made.host[...] = 0
        return made

    def empty_like(self, prototype: Any) -> Any:
        return self.new(prototype.shape, prototype.dtype)

    def zeros_like(self, a: Any) -> Any:
        return self.zeros(a.shape, a.dtype)

    def array(self, obj: Any, dtype: Any = None, order: str = "K") -> Any:
        self.gpu.counts["upload"] += 1
        self.gpu.report()
        return self.wrap(np.array(obj.touched() if isinstance(obj, ndarray) else obj, dtype, order="C"))

    def asarray(self, a: Any, dtype: Any = None) -> Any:
        return a if isinstance(a, ndarray) and dtype in (None, a.dtype) else self.array(a, dtype)

    def ascontiguousarray(self, a: Any) -> Any:
        if not isinstance(a, ndarray):
            return self.array(a)
        return a if a.flags.c_contiguous else self.call(np.ascontiguousarray, (a,), {})

    def broadcast_to(self, array: Any, shape: Any) -> Any:
        return array.same_memory(np.broadcast_to(array.host, shape))

    def moveaxis(self, a: Any, source: Any, destination: Any) -> Any:
        return a.same_memory(np.moveaxis(a.host, source, destination))

    def asnumpy(self, a: Any, stream: Stream | None = None) -> np.ndarray:
        stream = stream or self.gpu.stream
        if not self.gpu_only(a)._c_contiguous and a.size:
            with stream:  # as `ndarray.get`
                a = self.ascontiguousarray(a)
        stream.synchronize()
        if a.block is not None:
            Gpu.check_stream(a.block, stream, "a copy to the host")
        return np.array(a.host)

    @staticmethod
    def gpu_only(a: Any) -> Any:
        if not isinstance(a, ndarray):
            raise StandInError(f"asnumpy of a {type(a).__name__}: it is on the host already")
        return a


def check_options(name: str, known: tuple[str, ...], given: Any, options: Any) -> None:
    """Raise unless the parameters are in the contract."""
    ordered = [one for one in known if not one.startswith("*")]
    if "*" not in known and len(given) > len(ordered):
        raise StandInError(f"{name}: {len(given)} arguments by position, contract: {known}")
    for key in options:
        if key not in ordered and f"*{key}" not in known:
            raise StandInError(f"{name}: {key} is not in the contract, {known}")


class ndarray:  # noqa: N801
    """`cupy.ndarray`: an array whose memory is the GPU's; `host` is for the stand-in alone."""

    __slots__ = ("__weakref__", "block", "host")
    __array_priority__ = 100
    module: Any  # of the class made for one GPU

    def __init__(self, host: np.ndarray, block: Block | None) -> None:
        self.host, self.block = host, block

    def touched(self) -> np.ndarray:
        """The numbers, for an operation in this thread's stream."""
        if self.block is not None:
            Gpu.check_stream(self.block, self.module.gpu.stream, "an operation of CuPy")
        return self.host

    def same_memory(self, host: np.ndarray) -> ndarray:
        return type(self)(host, self.block)

    @property
    def data(self) -> Any:
        return SimpleNamespace(ptr=self.host.ctypes.data if self.block is not None and self.size else 0)

    @property
    def T(self) -> ndarray:  # noqa: N802
        return self.same_memory(self.host.T)

    @property
    def _c_contiguous(self) -> bool:
        return bool(self.host.flags.c_contiguous)

    def __getattr__(self, name: str) -> Any:
        if name in contract.ATTRIBUTES:
            return getattr(self.host, name)
        if name not in contract.METHODS:
            raise AttributeError(f"'cupy.ndarray' object has no attribute {name!r}, or it is not in contract.METHODS")

        def method(*given: Any, **options: Any) -> Any:
            check_options(name, contract.METHODS[name], given, options)
            return self.module.call(lambda host: getattr(host, name)(*given, **options), (self,), {})

        return method

    def view(self, dtype: Any = None) -> ndarray:
        return self.same_memory(self.host.view() if dtype is None else self.host.view(dtype))

    def reshape(self, *shape: Any) -> Any:
        found = self.host.reshape(*shape)
        return self.same_memory(found) if np.shares_memory(found, self.host) or not found.size else self._new(found)

    def swapaxes(self, axis1: int, axis2: int) -> ndarray:
        return self.same_memory(self.host.swapaxes(axis1, axis2))

    def transpose(self, *axes: Any) -> ndarray:
        return self.same_memory(self.host.transpose(*axes))

    def _new(self, found: Any) -> Any:
        return self.module.call(lambda: found, (), {})

    def __len__(self) -> int:
        return len(self.host)

    def __iter__(self) -> Any:
        return (self[n] for n in range(len(self)))

    def __getitem__(self, index: Any) -> Any:
        index = _index(index)
        whole = (*index, ...) if isinstance(index, tuple) else (index, ...)
        found = self.host[whole if ... not in [i for i in whole[:-1] if i is ...] else index]
        if np.shares_memory(found, self.host) or not found.size:
            return self.same_memory(found)
        self.touched()
        return self._new(found)

    def __setitem__(self, index: Any, value: Any) -> None:
        self._change(lambda host, other: host.__setitem__(_index(index), other), value)

    def _change(self, function: Any, value: Any) -> None:
        """Change the array in place, now or when a graph is replayed."""
        module = self.module
        if (stream := module.gpu.stream).captured is None:
            module.gpu.counts["cupy"] += 1
            function(self.touched(), module.given(value))
        elif isinstance(value, ndarray) and value.dtype != self.dtype:
            raise StandInError("an array of another type is made while a graph is recorded")
        else:
            given = value.host if isinstance(value, ndarray) else module.given(value)
            blocks = [one.block for one in (self, value) if isinstance(one, ndarray) and one.block is not None]

            def work(at: Stream) -> None:
                for block in blocks:
                    Gpu.check_stream(block, at, "an operation of CuPy")
                function(self.host, given)

            stream._do(work)

    def _wait(self) -> np.ndarray:
        self.module.gpu.stream.synchronize()
        return self.touched()

    def __float__(self) -> float:
        return float(self._wait())

    def __int__(self) -> int:
        return int(self._wait())

    def __bool__(self) -> bool:
        return bool(self._wait())

    def __array__(self, *given: Any, **options: Any) -> Any:
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()`")

    def __array_function__(self, function: Any, *given: Any) -> Any:
        raise TypeError(f"numpy.{function.__name__} of an array of the GPU; call it by the device's xp")

    def __array_ufunc__(self, ufunc: Any, method: str, *given: Any, **options: Any) -> Any:
        """A NumPy number on the left of an operator."""
        if method != "__call__" or options or not hasattr(ufunc, "__name__"):
            return NotImplemented
        if any(isinstance(one, np.ndarray) and one.ndim for one in given):
            raise TypeError("Unsupported type <class 'numpy.ndarray'>")
        return self.module.call(ufunc, given, {})

    __hash__ = object.__hash__


def _index(index: Any) -> Any:
    if isinstance(index, tuple):
        return tuple(_index(one) for one in index)
    if isinstance(index, ndarray):
        return index.touched()
    if isinstance(index, list) or (isinstance(index, np.ndarray) and index.ndim):
        raise StandInError("an index of the host would be uploaded by itself; use the device's index()")
    return index


def _operator(name: str) -> Any:
    function = getattr(np.ndarray, name)

    def apply(self: ndarray, *other: Any) -> Any:
        return self.module.call(function, (self, *other), {})

    return apply


def _in_place(name: str) -> Any:
    function = getattr(np.ndarray, name)

    def apply(self: ndarray, other: Any) -> Any:
        self._change(function, other)
        return self

    return apply


for _name in OPERATORS:
    for _form in (f"__{_name}__", f"__r{_name}__"):
        setattr(ndarray, _form, _operator(_form))
    setattr(ndarray, f"__i{_name}__", _in_place(f"__i{_name}__"))
for _name in (*COMPARISONS, "neg", "invert", "abs"):
    setattr(ndarray, f"__{_name}__", _operator(f"__{_name}__"))


def _cuda(module: _Module, gpu: Gpu) -> Any:
    class Module:
        def load(self, cubin: bytes) -> None:
            gpu.check_context("a module")
            self.number = int(cubin)

        def get_function(self, name: str) -> Any:
            if name != gpu.entries[self.number]:
                raise CUDARuntimeError(f"CUDA_ERROR_NOT_FOUND: {name}")
            return SimpleNamespace(ptr=self.number)

    def set_allocator(allocator: Any) -> None:
        module.allocator = allocator

    class OwnStream(Stream):
        def __init__(self, *, non_blocking: bool = False) -> None:
            super().__init__(gpu, f"stream {len(gpu.streams)}", non_blocking=non_blocking)

    def properties(device: int) -> Any:
        return {"name": gpu.name, "major": gpu.capability[0], "minor": gpu.capability[1]}

    facts = {"MultiProcessorCount": gpu.multiprocessors, "MaxSharedMemoryPerBlockOptin": gpu.shared}
    return SimpleNamespace(
        Stream=OwnStream,
        get_current_stream=lambda: gpu.stream,
        MemoryPool=type("MemoryPool", (MemoryPool,), {"gpu": gpu}),
        set_allocator=set_allocator,
        function=SimpleNamespace(Module=Module),
        memory=SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
        runtime=SimpleNamespace(
            CUDARuntimeError=CUDARuntimeError,
            setDevice=lambda device: setattr(gpu.current, "device", device),
            getDeviceCount=lambda: 1,
            getDeviceProperties=properties,
            deviceGetAttribute=lambda attrib, device: facts[attrib],
            memGetInfo=lambda: (gpu.free, gpu.memory),
            driverGetVersion=lambda: 13000,
            **{f"cudaDevAttr{name}": name for name in facts},
        ),
    )
