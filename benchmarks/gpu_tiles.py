"""What do the persistent kernels take of a GPU, in every division of a layer that is chosen? Compiled without one.

Registers a thread, bytes spilled a thread, static shared memory a block, for GPUs of capability 8.0, 9.0 and 10.0, over
hidden sizes and batches. Needs the extra [cuda-compiler]. The table goes into tests/cuda/tiles.json, which a test
compares with the divisions that are chosen now.

Run: python benchmarks/gpu_tiles.py [--hidden 256 512 ...] [--out tests/cuda/tiles.json]
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

from nmt.rnn.kernels.cuda.machine_code.compile import compile_kernel
from nmt.rnn.kernels.cuda.persistent.cell_steps import CELLS
from nmt.rnn.kernels.cuda.persistent.tiles import Tile, choose_tile
from nmt.rnn.kernels.cuda.persistent.time_loop import backward_kernel, forward_kernel

GPUS = {(9, 0): 132, (8, 0): 108, (10, 0): 148}
"""Multiprocessors of an H100, an A100 and a B200."""
HIDDEN, BATCHES = (256, 384, 512, 640, 800, 1024), (20, 64, 128)
FEWER = (256, 512, 1024)
"""Hidden sizes for the GPUs other than capability 9.0: a division takes some ten seconds to compile."""
COMPILERS = ("numba-cuda", "nvidia-nvvm", "nvidia-nvjitlink")


def chosen(hidden: tuple[int, ...] = HIDDEN) -> dict[str, tuple[tuple[int, int], str, Tile, int]]:
    """Return every division that is chosen, by name: capability, cell, tile and turns."""
    found = {}
    for capability, multiprocessors in GPUS.items():
        for cell, gates in CELLS.items():
            for H in [size for size in hidden if capability == (9, 0) or size in FEWER]:
                for B in BATCHES:
                    for exact in (False, True):
                        for backward in (False, True):
                            gpu = multiprocessors, capability
                            tile = choose_tile(H, gates, B, *gpu, backward=backward, exact=exact)
                            if tile is not None:
                                turns = tile.turns(B, multiprocessors)
                                found[name(capability, cell, tile, turns)] = capability, cell, tile, turns
    return found


def name(capability: tuple[int, int], cell: str, tile: Tile, turns: int) -> str:
    """Return the name of a division in the table."""
    way, kind = "backward" if tile.backward else "forward", "float32" if tile.exact else "bfloat16"
    division = f"{tile.units} units, {tile.columns} columns, {tile.warps} warps, {turns} turns"
    division += ", weights in shared memory" * tile.in_shared
    return f"sm_{capability[0]}{capability[1]} {cell} {way} {kind} H {tile.hidden}: {division}"


def compiled(capability: tuple[int, int], cell: str, tile: Tile, turns: int) -> dict[str, int]:
    """Return what the kernel of a division takes."""
    make: Any = backward_kernel if tile.backward else forward_kernel
    return asdict(compile_kernel(make(cell, tile, turns), capability).resources)


def main() -> None:
    """Compile what the table lacks, or has of other compilers, and write it; a run that is stopped goes on later."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hidden", type=int, nargs="+", default=HIDDEN)
    parser.add_argument("--out", type=Path, default=Path("tests/cuda/tiles.json"))
    options = parser.parse_args()
    compilers = {package: metadata.version(package) for package in COMPILERS}
    table = json.loads(options.out.read_text()) if options.out.exists() else {}
    kept = table.get("tiles", {}) if table.get("compilers") == compilers else {}
    wanted = chosen()
    kept = {key: value for key, value in kept.items() if key in wanted}
    for key, given in chosen(tuple(options.hidden)).items():
        if key not in kept:
            kept[key] = compiled(*given)
            print(key, kept[key], flush=True)
            ordered = {"compilers": compilers, "tiles": dict(sorted(kept.items()))}
            options.out.write_text(json.dumps(ordered, indent=0) + "\n")


if __name__ == "__main__":
    main()
