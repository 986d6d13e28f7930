"""From kernels to machine code of a GPU, and its launch."""
