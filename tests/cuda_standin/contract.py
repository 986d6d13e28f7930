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
    *("Stream.ptr", "function.Function.ptr", "memory.OutOfMemoryError", "runtime.CUDARuntimeError"),
    *("runtime.cudaDevAttrMultiProcessorCount", "runtime.cudaDevAttrMaxSharedMemoryPerBlockOptin"),
)

# `cuda.bindings.driver`: functions with the number of arguments.
DRIVER: dict[str, int] = {"cuLaunchKernel": 11, "cuLaunchCooperativeKernel": 10, "cuFuncSetAttribute": 3}
DRIVER_NAMES = ("CUfunction", "CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES")

# libcublas, and the enumerations whose numbers are written in `blas.py`.
CUBLAS = ("cublasCreate_v2", "cublasSetStream_v2", "cublasSetWorkspace_v2", "cublasGemmEx")
DATA_TYPES = {"CUDA_R_32F": 0, "CUDA_R_64F": 1, "CUDA_R_16BF": 14}

# What is relied upon besides names: where CuPy's source says so, read in this version, and the words there.
READ = "14.2.0"
BEHAVIOURS: dict[str, tuple[str, str]] = {
    "the end of a with goes back to the stream that was entered": (
        "cupy/cuda/stream.pyx",
        "prev_stream = self.current_stream_stack[device_id][-1]",
    ),
    "each thread begins in the null stream": ("cupy/cuda/stream.pyx", "self.current_stream.append(default_stream)"),
    "the current stream is the object that was made so": (
        "cupy/cuda/stream.pyx",
        "self.current_stream[device_id] = stream",
    ),
    "what lies apart is copied to the host inside a with": (
        "cupy/_core/core.pyx",
        "with stream: if order == 'C': a_gpu = _internal_ascontiguousarray(self)",
    ),
    "a copy to the host waits for its stream": (
        "cupy/_core/core.pyx",
        "a_gpu.data.copy_to_host_async(ptr, a_gpu.nbytes, stream) if blocking: stream.synchronize()",
    ),
    "an array of the host may change after its upload": (
        "cupy/_core/core.pyx",
        "src_cpu[...] = a_cpu a.data.copy_from_host_async(mem.ptr, nbytes, stream) "
        "pinned_memory._add_to_watch_list(stream.record(), mem)",
    ),
    "no array becomes one of the host by itself": (
        "cupy/_core/core.pyx",
        "'Implicit conversion to a NumPy array is not allowed. '",
    ),
    "memory is of the stream in which it was taken": (
        "cupy/cuda/memory.pyx",
        "stream_ident = _get_stream_identifier( stream_module.get_current_stream_ptr())",
    ),
    "memory begins at a multiple of 512 bytes": ("cupy/cuda/memory.pyx", "cdef const int ALLOCATION_UNIT_SIZE = 512"),
    "an empty array has the address 0": ("cupy/cuda/memory.pyx", "if size == 0: return MemoryPointer(Memory(0), 0)"),
    "an allocator is that of all threads": ("cupy/cuda/memory.pyx", "_current_allocator = allocator"),
    "a lack of memory is a MemoryError": ("cupy/cuda/memory.pyx", "class OutOfMemoryError(MemoryError):"),
    "the null stream is not recorded": (
        "cupy/cuda/stream.pyx",
        "raise RuntimeError('cannot capture on the default (legacy) stream')",
    ),
    "a recording disturbs no other stream": ("cupy/cuda/stream.pyx", "mode = runtime.streamCaptureModeRelaxed"),
    "a recording is made ready once, at its end": (
        "cupy/cuda/graph.pyx",
        "cdef intptr_t ge = runtime.graphInstantiate(g)",
    ),
    "a recording is launched in the stream that is named": (
        "cupy/cuda/graph.pyx",
        "stream_ptr = stream.ptr runtime.graphLaunch(self.graphExec, stream_ptr)",
    ),
    "a recording ends with its object": ("cupy/cuda/graph.pyx", "runtime.graphExecDestroy(self.graphExec)"),
    "code ends with its module": ("cupy/cuda/function.pyx", "driver.moduleUnload(self.ptr)"),
}
