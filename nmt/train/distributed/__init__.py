"""Training by several processes: ranks, the reduction of gradients, interruption."""
