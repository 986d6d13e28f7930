"""Kernels of the package at usual sizes, by module and name."""

import importlib
import pkgutil

import numpy as np

import nmt.rnn.kernels.cuda as package
from nmt.rnn.arrays.device_operations import RULES
from nmt.rnn.cells import AttentionCell, LSTMCell
from nmt.rnn.compiler.plan import make_plan
from nmt.rnn.compiler.trace import trace
from nmt.rnn.kernels.cuda import optimizer, output_loss
from nmt.rnn.kernels.cuda.emit_cuda import emit_cuda
from nmt.rnn.kernels.cuda.machine_code.gpu_kernel import GPUKernel
from nmt.rnn.kernels.cuda.persistent.cell_steps import CELLS
from nmt.rnn.kernels.cuda.persistent.tiles import choose_tile
from nmt.rnn.kernels.cuda.persistent.time_loop import backward_kernel, forward_kernel
from nmt.rnn.kernels.cuda.rows import row_kernels, row_operations
from nmt.rnn.kernels.cuda.rows.row_operations import NUMBERS
from nmt.rnn.kernels.cuda.search import beam_step, best, choose_tokens

GPUS = {(8, 0): 108, (9, 0): 132}  # multiprocessors of an A100 and an H100


def of_a_decoder():
    """Training with attention."""
    traced = trace(AttentionCell(LSTMCell(1024, 512), 1024, 512), training=True)
    for part, step in (("step", traced), ("constant", traced.invariants)):
        plan = make_plan(step, training=True) if step else None
        for way in ("forward", "backward") if plan else ():
            for kernel in emit_cuda(getattr(plan, way), np.dtype(np.float32), way).kernels:
                yield f"emit_cuda: {part} {kernel.name}", kernel.kernel


def persistent(capability):
    """Those chosen for a GPU of this capability."""
    for cell, gates in CELLS.items():
        for hidden, batch, exact in ((512, 128, False), (800, 20, False), (256, 64, True)):
            for back in (False, True):
                tile = choose_tile(hidden, gates, batch, GPUS[capability], capability, backward=back, exact=exact)
                if tile is not None:
                    kind = f"{'backward' if back else 'forward'} {'float32' if exact else 'bfloat16'}"
                    grid = f"{tile.blocks}x{tile.slices(batch)} blocks of {tile.units}x{tile.columns}"
                    make = backward_kernel if back else forward_kernel
                    kernel = make(cell, tile, tile.turns(batch, GPUS[capability]))
                    yield f"persistent.time_loop: {cell} {kind} H {hidden} B {batch}: {grid}", kernel


def others():
    """Of rows, sums, losses, optimizers and searches."""
    for make in row_kernels._makers:
        kernel = make(np.dtype(np.float32), 256)
        yield f"rows.row_kernels: {kernel.name}", kernel
    for kind in NUMBERS:
        yield f"optimizer: square_norm {kind}", optimizer.square_norm_kernel(kind)
        for rule in RULES:
            yield f"optimizer: {rule.function.__name__} {kind}", optimizer.rule_kernel(kind, rule)
        yield f"output_loss: loss_rows {kind}", output_loss.loss_rows_kernel(kind)
        for name in ("embedding_rows", "embedding_gradient", "take_rows"):
            yield f"rows.row_operations: {name} {kind}", getattr(row_operations, f"{name}_kernel")(kind)
        for K in (1, 5, 10):
            yield f"search.beam_step: beam_step {kind} of {K}", beam_step.beam_step_kernel(kind, K, K + 1)
            yield f"search.best: best_tokens {kind} of {K + 1}", best.best_tokens_kernel(kind, K + 1)
        yield f"search.beam_step: beam_step {kind}, drawn", beam_step.beam_step_kernel(kind, 5, 1)
        yield f"search.best: top_tokens {kind} of 5", best.best_tokens_kernel(kind, 5, normalise=False)
        yield f"search.best: log_probs {kind}", best.log_probs_kernel(kind)
        for probabilities in (False, True):
            yield f"search.best: join {kind} {probabilities}", best.join_kernel(kind, probabilities)
        for make in (choose_tokens.rules_kernel, choose_tokens.draw_kernel, choose_tokens.pick_kernel):
            kernel = make(kind)
            yield f"search.choose_tokens: {kernel.name} {kind}", kernel


def kernels(capability):
    """All of these, and those that are global names of the package."""
    found = {}
    for info in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        short = info.name.removeprefix(package.__name__ + ".")
        names = vars(importlib.import_module(info.name)).items()
        found |= {f"{short}: {name}": kernel for name, kernel in names if isinstance(kernel, GPUKernel)}
    return {**found, **dict(of_a_decoder()), **dict(persistent(capability)), **dict(others())}
