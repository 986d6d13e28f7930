"""The recurrent core inside PyTorch: `LSTM`, `GRU` and `RNN` in place of torch.nn's, and `cell` for cells of one's own.

All compute on the processor, forward and backward, as nodes of torch's autograd that share memory with its tensors.
"""

from nmt.errors import how_to_install

try:
    import torch as _torch  # noqa: F401 - only asked for here, so that the error says what to do
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ImportError(f"nmt.torch: must have the package torch, got none; {how_to_install('torch')}") from None

from nmt.torch.modules import GRU, LSTM, RNN, CellModule, cell

__all__ = ["GRU", "LSTM", "RNN", "CellModule", "cell"]
