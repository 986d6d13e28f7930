"""Convert a Transformer of OpenNMT-py for CTranslate2, in int8, in the interpreter that has both.

CTranslate2's own command reads with `weights_only`, which a checkpoint of OpenNMT-py cannot be read with: it holds the
options of its training. Only for models that train_peers.py has trained itself.

Run by train_peers.py: python _to_ctranslate2.py MODEL.pt FOLDER
"""

import sys

import torch
from ctranslate2.converters import OpenNMTPyConverter


def main() -> None:
    """Convert."""
    model, folder = sys.argv[1:]
    load = torch.load
    torch.load = lambda *args, **more: load(*args, **more | {"weights_only": False})
    OpenNMTPyConverter(model).convert(folder, quantization="int8", force=True)


if __name__ == "__main__":
    main()
