"""The training log: lines of progress, memory, the machine."""
