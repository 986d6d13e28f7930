"""Matrix products: the micro-kernel, packed weights, bfloat16, int8, AMX."""
