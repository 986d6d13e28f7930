"""OpenNMT-py's onmt_translate with its int8, in its own interpreter; takes the options of onmt_translate.

OpenNMT-py 3.5.1 compares the name `int8` with PyTorch's type and so never quantises; this does what it means to do
(onmt.model_builder.load_test_model).
"""

import onmt.model_builder
import torch
from onmt.bin.translate import main

load = onmt.model_builder.load_test_model


def load_quantised(*args: object, **options: object) -> tuple[object, torch.nn.Module, object]:
    """The same with dynamic quantisation."""
    vocabs, model, settings = load(*args, **options)
    return vocabs, torch.quantization.quantize_dynamic(model, dtype=torch.qint8), settings


onmt.model_builder.load_test_model = load_quantised
main()
