"""What stands for CuPy, the driver and cuBLAS on a machine without a GPU, so that the package's own runtime runs there.

`tests/ptx` runs kernels; everything above them is what a GPU would get: memory by address, packed parameters, streams,
graphs, cuBLAS calls. It is strict: names and parameters are those of `contract`, no array
of the host becomes one of the GPU by itself or the other way round, memory belongs to one stream, and no operation of
CuPy may be recorded.
"""
