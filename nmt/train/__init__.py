"""Training: optimizers, learning rates, checkpoints and the loop that uses them.

The package can be called: `nmt.train(...)` is `nmt.train.run.training.train`.
"""

from nmt.system.callable_package import make_callable

make_callable(__name__, "nmt.train.run.training", "train")
