"""What the package uses of CuPy, of the driver and of cuBLAS: names, and the parameters that are given.

The stand-in has these and nothing else; `tests/cuda/test_contract.py` compares them with the real packages.
"""

# Functions and types of `cupy`: the leading parameters that are given by position or by name, and those by name only.
FUNCTIONS: dict[str, tuple[str, ...]] = {
    "arange": ("start", "*dtype"),
    "array": ("obj", "*dtype", "*order"),
    "asarray": ("a", "*dtype"),
    "ascontiguousarray": ("a",),
    "asnumpy": ("a", "*stream"),
    "broadcast_to": ("array", "shape"),
    "concatenate": ("tup", "axis", "*out"),
    "empty": ("shape", "dtype"),
    "empty_like": ("prototype",),
    "exp": ("x",),
    "full": ("shape", "fill_value", "dtype"),
    "log": ("x",),
    "maximum": ("x1", "x2"),
    "moveaxis": ("a", "source", "destination"),
    "stack": ("tup", "axis"),
    "take": ("a", "indices", "axis", "out"),
    "where": ("condition", "x", "y"),
    "zeros": ("shape", "dtype"),
    "zeros_like": ("a",),
}
TYPES = ("ndarray",)

# Attributes of an array; its methods with the parameters that are given. Operators are not listed.
ATTRIBUTES = ("T", "_c_contiguous", "data", "dtype", "flags", "itemsize", "nbytes", "ndim", "shape", "size", "strides")
METHODS: dict[str, tuple[str, ...]] = {
    "any": (),
    "astype": ("dtype",),
    "copy": (),
    "max": ("axis",),
    "mean": ("axis",),
    "min": ("axis",),
    "reshape": ("*",),
    "sum": ("axis", "dtype"),
    "swapaxes": ("axis1", "axis2"),
    "transpose": ("*",),
    "view": ("dtype",),
}

# `cupy.cuda`: calls by their whole name, with the parameters given.
CUDA: dict[str, tuple[str, ...]] = {
    "Stream": ("*non_blocking",),
    "Stream.use": (),
    "Stream.__enter__": (),
    "Stream.__exit__": ("*",),
    "Stream.synchronize": (),
    "Stream.begin_capture": (),
    "Stream.end_capture": (),
    "Graph.launch": ("stream",),
    "get_current_stream": (),
    "Event": (),
    "Event.record": ("stream",),
    "Event.synchronize": (),
    "get_elapsed_time": ("start_event", "end_event"),
    "MemoryPool": (),
    "MemoryPool.malloc": ("size",),
    "MemoryPool.used_bytes": (),
    "set_allocator": ("allocator",),
    "function.Module": (),
    "function.Module.load": ("cubin",),
    "function.Module.get_function": ("name",),
    "runtime.setDevice": ("device",),
    "runtime.getDeviceCount": (),
    "runtime.getDeviceProperties": ("device",),
    "runtime.deviceGetAttribute": ("attrib", "device"),
    "runtime.memGetInfo": (),
    "runtime.driverGetVersion": (),
}
CUDA_NAMES = (
    "Stream.ptr",
    "function.Function.ptr",
    "memory.OutOfMemoryError",
    "runtime.CUDARuntimeError",
    "runtime.cudaDevAttrMultiProcessorCount",
    "runtime.cudaDevAttrMaxSharedMemoryPerBlockOptin",
)

# `cuda.bindings.driver`: functions with the number of arguments.
DRIVER: dict[str, int] = {"cuLaunchKernel": 11, "cuLaunchCooperativeKernel": 10, "cuFuncSetAttribute": 3}
DRIVER_NAMES = ("CUfunction", "CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES")

# libcublas, and the enumerations whose numbers are written in `blas.py`.
CUBLAS = ("cublasCreate_v2", "cublasSetStream_v2", "cublasSetWorkspace_v2", "cublasGemmEx")
DATA_TYPES = {"CUDA_R_32F": 0, "CUDA_R_64F": 1, "CUDA_R_16BF": 14}
