"""Worker threads of compiled code: atomics, barriers, the pool."""
