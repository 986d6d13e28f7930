"""Arrays and memory below the kernels: parameters, workspaces, the states of searches, and the names of arrays."""
