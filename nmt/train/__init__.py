"""Training: optimizers, learning rates, checkpoints and the loop that uses them."""
