"""Divisions of a layer among blocks and warps: their choice, and a table of what each takes, compiled offline."""

import json
import re
from importlib import import_module, metadata
from pathlib import Path
from types import SimpleNamespace

import pytest

from nmt.rnn.kernels.cuda.persistent.layer import plan_layer
from nmt.rnn.kernels.cuda.persistent.tiles import Tile, choose_tile, fitting_tiles, shortest
from tests.benchmarks.conftest import scripts_importable

TABLE = json.loads(Path(__file__).with_name("tiles.json").read_text())
SPILLS = 32  # bytes written and read: an address or two
# What spills more, and why it is chosen all the same.
MORE_SPILLS = {
    # On an H100 this one took 5.6 us a step with 48 bytes, and 8.8 us before it had them.
    "sm_90 lstm backward bfloat16 H 800: 16 units, 8 columns, 10 warps, 4 turns": 48,
    # With weights in shared memory: 5.8 and 7.1 us, where the best in registers took 7.2 and 7.8.
    "sm_90 lstm forward bfloat16 H 800: 16 units, 32 columns, 5 warps, 1 turns, weights in shared memory": 64,
    "sm_90 lstm forward float32 H 384: 16 units, 32 columns, 4 warps, 1 turns, weights in shared memory": 208,
    # By the estimate the next divisions take longer than loads of some words from memory.
    "sm_90 gru forward bfloat16 H 800: 16 units, 32 columns, 5 warps, 3 turns, weights in shared memory": 100,
    "sm_90 lstm backward bfloat16 H 384: 48 units, 8 columns, 8 warps, 1 turns": 40,
    "sm_90 gru forward bfloat16 H 384: 48 units, 8 columns, 6 warps, 1 turns": 72,
    "sm_90 gru forward bfloat16 H 640: 16 units, 24 columns, 5 warps, 1 turns": 40,
}
SHARED = 49 * 1024  # 48 KiB that a block has without asking, and 1 KiB that GPUs of 9.0 keep for themselves


@pytest.fixture(scope="module")
def gpu_tiles():
    with scripts_importable():
        return import_module("gpu_tiles")


def test_the_table_has_every_division_that_is_chosen(gpu_tiles):
    """Renew it by `python benchmarks/gpu_tiles.py` after a change of the choice or of the kernels."""
    assert set(TABLE["tiles"]) == set(gpu_tiles.chosen())


@pytest.mark.parametrize("name", TABLE["tiles"])
def test_a_division_fits(name):
    used = TABLE["tiles"][name]
    assert used["registers"] <= 255 and used["shared"] <= SHARED
    assert used["spills"] <= MORE_SPILLS.get(name, SPILLS)


def test_the_table_is_of_these_kernels(gpu_tiles, request):
    """The smallest division of each GPU, compiled again."""
    pytest.importorskip("cuda.bindings.nvjitlink", reason="needs numba-cuda: pip install -e .[cuda-compiler]")
    request.getfixturevalue("one_analysis")
    found = {}
    for one in gpu_tiles.chosen((256,)).values():
        found.setdefault(one[0], one)
    installed = {found.metadata["Name"]: found.version for found in metadata.distributions()}
    same = TABLE["compilers"] == {name: installed.get(name) for name in TABLE["compilers"]}
    for one in found.values():
        made, expected = gpu_tiles.compiled(*one), TABLE["tiles"][gpu_tiles.name(*one)]
        assert made == expected if same else made["spills"] <= SPILLS, gpu_tiles.name(*one)


def test_rounds_are_those_of_the_launches():
    """Groups that do not all run at once are shared among the blocks, at most `groups` in one launch."""
    tile = Tile(800, 4, False, 8, 8, 5, False)
    assert (tile.blocks, tile.slices(256), tile.together(132), tile.turns(256, 132)) == (100, 32, 1, 4)
    half = Tile(800, 4, False, 16, 8, 5, False)
    assert (half.blocks, half.together(132), half.rounds(256, 132), half.turns(16, 132)) == (50, 2, 16, 1)


def test_turns_leave_shared_memory_for_the_sums():
    full = Tile(512, 4, False, 16, 24, 8, False)
    assert full.sums * full.threads * 4 == 48 * 1024 and full.groups == 1


def test_five_warps_take_two_turns_on_four_schedulers():
    four, five, eight = (Tile(1280, 4, False, 8, 8, warps, False) for warps in (4, 5, 8))
    turns = [tile.loads * (-(-tile.warps // 4)) for tile in (four, five, eight)]
    assert turns == [10, 16, 10]
    assert five.cycles(8, 1000) > four.cycles(8, 1000)


def test_the_last_register_is_left_where_warps_share_few(gpu_tiles):
    """This division spilled 112 bytes in its loop."""
    assert not Tile(384, 4, True, 48, 8, 12, False).fits((9, 0))
    assert Tile(800, 4, True, 16, 8, 10, False).fits((9, 0)), "this one spills 24"


@pytest.mark.parametrize(("hidden", "batch"), [(256, 64), (512, 128), (800, 20), (1024, 64)])
@pytest.mark.parametrize("gates", [3, 4])
def test_usual_layers_have_a_division_on_an_h100(gates, hidden, batch):
    ways = [choose_tile(hidden, gates, batch, 132, (9, 0), backward=back, exact=False) for back in (False, True)]
    assert all(ways)
    for odd in (500, 8192):  # no multiple of 8, and more weights than all multiprocessors hold
        assert choose_tile(odd, gates, batch, 132, (9, 0), backward=False, exact=False) is None


def test_weights_lie_in_shared_memory_where_that_was_faster_or_registers_do_not_suffice():
    """As measured on an H100 (results/gpu.md)."""

    def shared(hidden, rows, exact, gates=4):
        tiles = [choose_tile(hidden, gates, rows, 132, (9, 0), backward=back, exact=exact) for back in (False, True)]
        return [tile and tile.in_shared for tile in tiles]

    assert shared(256, 64, False) == shared(512, 20, True) == [False, False]
    assert shared(800, 20, False) == shared(512, 128, True) == [False, True]
    assert shared(512, 128, False) == shared(800, 20, True) == shared(1024, 20, True, gates=3) == [True, True]
    assert shared(1024, 64, True) == [True, None], "256 KiB for a block"


def timed():
    """The tables of results/gpu.md of both places of weights: cell, float32 products, hidden size, rows, whether back;
    microseconds of registers and of shared memory, and whether the slower one is marked as what is chosen."""
    text = (Path(__file__).parents[2] / "results" / "gpu.md").read_text(encoding="utf-8")
    for match in re.finditer(r"^\| (LSTM|GRU) (\d+), (\d+)(, float32)? ((?:\| [^|]+ ){4})\|$", text, re.MULTILINE):
        cell, hidden, rows, exact, cells = match.groups()
        cells = cells.strip("| ").split(" | ")
        if "registers" not in heading(text, match.start()):
            continue
        for back in (False, True):
            pair = cells[2 * back : 2 * back + 2]
            if "does not fit" not in pair:
                numbers = [float(one.rstrip("*")) for one in pair]
                yield (
                    (cell.lower(), bool(exact), int(hidden), int(rows), back),
                    numbers,
                    [one[-1] == "*" for one in pair],
                )


def heading(text, place):
    """The first line of the table there."""
    return text[text.rindex("\n\n", 0, place) :].strip().partition("\n")[0]


@pytest.mark.parametrize(("cell", "count", "most"), [("gru", 60, 0.05), ("lstm", 38, 0.1)])
def test_weights_lie_where_they_were_faster(cell, count, most):
    """As timed on an H200 and an H100; what is chosen though it was slower has a star there, and was little slower."""
    found = [one for one in timed() if one[0][0] == cell]
    assert len(found) == count
    for (_, exact, hidden, rows, back), times, stars in found:
        tiles = fitting_tiles(hidden, {"lstm": 4, "gru": 3}[cell], 132, (9, 0), backward=back, exact=exact)
        in_shared = shortest(tiles, rows, 132).in_shared
        chosen, other = times[in_shared], times[not in_shared]
        what = f"{cell} {hidden}, {rows}, float32 {exact}, back {back}"
        assert stars == [chosen > other and place == in_shared for place in (False, True)], what
        assert chosen <= other * (1 + most), what


def test_inference_of_many_rows_runs_step_by_step():
    """As was faster on an H100; training is not, and neither are float32 products."""
    runtime = SimpleNamespace(multiprocessors=132, capability=(9, 0))

    def plan(batch, **options):
        return plan_layer(runtime, "lstm", 512, batch, **{"exact": False, "training": False, **options})

    assert plan(128) and not plan(512)
    assert plan(512, training=True) and plan(512, exact=True)


def test_inference_needs_no_backward_division():
    runtime = SimpleNamespace(multiprocessors=132, capability=(9, 0))
    sizes = [(cell, H) for cell in ("lstm", "gru") for H in range(256, 1056, 32)]
    alone = [
        one
        for one in sizes
        if plan_layer(runtime, *one, 20, exact=True, training=False) and not plan_layer(runtime, *one, 20, exact=True)
    ]
    assert alone, "no size for which only the forward weights fit"
    for cell, H in alone:
        assert choose_tile(H, {"lstm": 4, "gru": 3}[cell], 20, 132, (9, 0), backward=True, exact=True) is None
