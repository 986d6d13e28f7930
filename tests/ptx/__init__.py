"""The PTX that NVVM made of the kernels, run instruction by instruction on the processor.

`program` reads the text, `machine` (C++, compiled where the tests run) runs it with checks: every access lies in an
array and is aligned, no two threads race, nobody waits for ever. `gpu` puts it below the stand-in for CuPy, the driver
and cuBLAS. The tests of the GPU run on it, with NMT_TEST_DEVICE=ptx (`make test-ptx`) at a GPU's sizes.
"""
