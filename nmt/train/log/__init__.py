"""The training log: lines of progress, TensorBoard, memory, the machine."""
