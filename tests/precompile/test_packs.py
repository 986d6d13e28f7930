"""Packs of machine code: the same bytes each time, read only whole, and what runs from one needs no compiler."""

import json
import re

import numpy as np
import pytest

from nmt.precompile.jobs import make_packs, standard_jobs
from nmt.rnn.kernels.machine_code.features import LEVELS, TARGET
from nmt.rnn.kernels.machine_code.recipes import generated_loop, native_of, recipe_of
from nmt.rnn.kernels.machine_code.store import Pack, Record, write_pack
from nmt.rnn.kernels.model import update
from nmt.rnn.kernels.products import microkernel, packing
from nmt.rnn.kernels.products import product as products
from nmt.rnn.kernels.threads.workers import close_job
from tests.processes import python

F4 = np.dtype("f4")
RECORDS = {
    "first": Record({"entry": "f", "symbols": ["nmt_g"]}, bytes(range(256))),
    "second": Record({"entry": "f", "symbols": []}, b"\0" * 100),
}
WORK = """
import sys
from pathlib import Path
from nmt.rnn.kernels.machine_code import store
store.PACKS = Path(sys.argv[1])
import numpy as np
from nmt.rnn.kernels.products import packing
from nmt.rnn.kernels.products import product as products
from nmt.rnn.kernels.products.packing import packed_size
rng = np.random.default_rng(0)
A, W = rng.standard_normal((37, 45)).astype("f4"), rng.standard_normal((45, 70)).astype("f4")
packed, C = np.empty(packed_size(45, 70, "f4"), "f4"), np.empty((37, 70), "f4")
packing.pack(0, 1, W, 0, 45, packed)
products.product(0, 1, A, 0, packed, C, 0, 45, 70, np.array([[0, 37]]), 0)
np.testing.assert_allclose(C, A @ W, atol=1e-4)
print("numba" in sys.modules)
"""


def needed():
    """Recipes of what the work above runs."""
    kernels = (
        (packing.pack, ("float32 2", "int64", "int64", "float32 1")),
        (
            products.product,
            ("float32 2", "int64", "float32 1", "float32 2", "int64", "int64", "int64", "int64 2", "int64"),
        ),
    )
    called = microkernel.product_rows_f4.native, microkernel.tile_f4.native, microkernel.tile_row_f4.native
    return [recipe_of(kernel.native(forms)) for kernel, forms in kernels] + [recipe_of(native) for native in called]


def work(packs, cache):
    """Whether Numba was loaded, and what was said."""
    done = python(WORK, packs, NMT_CACHE_DIR=str(cache), NMT_SHIPPED_CODE="1")
    return done.stdout.strip() == "True", done.stderr


@pytest.fixture(scope="module")
def packs(tmp_path_factory):
    """A folder with a pack for this machine's level."""
    folder = tmp_path_factory.mktemp("packs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NMT_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        make_packs(needed(), folder, [TARGET.name], lambda line: None)
    return folder


@pytest.mark.skipif(TARGET.name not in LEVELS, reason="no level of this processor is shipped")
def test_what_is_in_a_pack_is_not_compiled(packs, tmp_path):
    assert work(packs, tmp_path / "empty") == (False, "")
    assert work(tmp_path, tmp_path / "empty")[0]
    names = " ".join(path.name for path in (tmp_path / "empty" / "nmt-code").iterdir())
    assert "tile_f4" in names
    assert not any(f"tile_{kind}" in names for kind in ("f8", "bf16", "int8")), "in which nothing is computed"
    assert not work(tmp_path, tmp_path / "empty")[0]


@pytest.mark.skipif(TARGET.name not in LEVELS, reason="no level of this processor is shipped")
def test_two_builds_give_the_same_bytes(packs, tmp_path, monkeypatch):
    """By other processes, in another order, which have compiled other things before."""
    monkeypatch.setenv("NMT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    more = recipe_of(update.square_norm.native(("float32 1", "float64 1")))
    make_packs([more, *reversed(needed())], tmp_path, [TARGET.name], lambda line: None)
    first, second = (Pack(folder / f"{TARGET.name}.pack") for folder in (packs, tmp_path))
    assert len(second.index) == len(first.index) + 1
    assert {name: first.read(name) for name in first.index} == {name: second.read(name) for name in first.index}


@pytest.mark.skipif(not {"avx512", "generic"} <= {*LEVELS}, reason="levels of x86")
@pytest.mark.skipif(TARGET.name not in LEVELS, reason="no level of this processor is shipped")
def test_every_level_is_made_on_every_machine(tmp_path, monkeypatch):
    """Whether or not it could run them."""
    monkeypatch.setenv("NMT_CACHE_DIR", str(tmp_path / "cache"))
    make_packs(needed()[-1:], tmp_path, tuple(LEVELS), lambda line: None)
    codes = set()
    for level in LEVELS:
        pack = Pack(tmp_path / f"{level}.pack")
        codes |= {pack.read(name).code for name in pack.index}
    assert len(codes) >= len({*LEVELS}) - 3  # of float32, what adds VNNI, bfloat16 and AMX alone may be the same


@pytest.mark.parametrize(
    "level, system, head",
    [
        ("neon", "1", b"\x7fELF\2.{13}\xb7"),  # 64 bits, EM_AARCH64; that it runs: tests/arm/run.py
        ("neon_bf16", "macos", b"\xcf\xfa\xed\xfe\x0c\0\0\1"),  # Mach-O of 64 bits, CPU_TYPE_ARM64
        ("generic", "macos", b"\xcf\xfa\xed\xfe[\x07\x0c]\0\0\1"),
    ],
)
def test_packs_for_other_machines_are_made_here(level, system, head, tmp_path, monkeypatch):
    """Of a product, and of what asks the system for locks."""
    monkeypatch.setenv("NMT_CACHE_DIR", str(tmp_path / "cache"))
    make_packs([needed()[-1], recipe_of(close_job)], tmp_path, [level], lambda line: None, system)
    pack = Pack(tmp_path / f"{level}.pack")
    assert [bool(re.match(head, pack.read(name).code, re.DOTALL)) for name in pack.index] == [True, True]


@pytest.mark.skipif(TARGET.name not in LEVELS, reason="no level of this processor is shipped")
def test_a_damaged_pack_is_compiled_anew_and_said_once(packs, tmp_path):
    whole = (packs / f"{TARGET.name}.pack").read_bytes()
    for n, at in enumerate((5, 60, len(whole) - 10)):
        broken = tmp_path / str(n)
        broken.mkdir()
        (broken / f"{TARGET.name}.pack").write_bytes(whole[:at] + bytes([whole[at] ^ 255]) + whole[at + 1 :])
        compiled, said = work(broken, tmp_path / f"cache{n}")
        assert compiled
        assert said.count("as it was installed") == 1


# ---------------------------------------------------------------- the file


def test_what_was_packed_is_read(tmp_path):
    path = tmp_path / "some.pack"
    write_pack(path, RECORDS)
    pack = Pack(path)
    assert {name: pack.read(name) for name in pack.index} == RECORDS
    assert pack.read("third") is None
    write_pack(tmp_path / "other.pack", dict(reversed(RECORDS.items())))
    assert (tmp_path / "other.pack").read_bytes() == path.read_bytes()


def test_a_missing_pack_has_nothing_and_says_nothing(tmp_path, caplog):
    for pack in (Pack(None), Pack(tmp_path / "missing.pack")):
        assert not pack.index
        assert pack.read("first") is None
    assert caplog.messages == []


def test_damaged_code_is_never_given_out(tmp_path, caplog):
    path = tmp_path / "some.pack"
    write_pack(path, RECORDS)
    whole = path.read_bytes()
    for damaged in [
        *(whole[:n] + bytes([whole[n] ^ 1]) + whole[n + 1 :] for n in range(len(whole))),
        *(whole[:n] for n in range(len(whole))),
    ]:
        path.write_bytes(damaged)
        caplog.clear()
        pack = Pack(path)
        found = [pack.read(name) for name in ("first", "second", "first")]
        assert all(record in (None, RECORDS[name]) for record, name in zip(found, ("first", "second"), strict=False))
        assert None in found
        assert [str(path) in text for text in caplog.messages] == [True]


# ---------------------------------------------------------------- recipes and jobs

MADE_UP = """F = float32


def made_up(
    part, parts, table,
    count, array: F,
):
    for n in range(count):
        array[n] = ZERO
"""


def test_another_process_makes_the_same_from_a_recipe():
    generated = generated_loop(MADE_UP, "made_up")
    natives = [
        generated,
        close_job,
        microkernel.product_rows_f4.native,
        products.product_task(F4, F4),
        update.square_norm.native(("float32 1", "float64 1")),
    ]
    recipes = [json.loads(json.dumps(recipe_of(native))) for native in natives]
    assert [native_of(recipe).code_name for recipe in recipes] == [native.code_name for native in natives]
    code = (
        "import json, sys; from nmt.rnn.kernels.machine_code.recipes import native_of\n"
        "print(*(native_of(recipe).code_name for recipe in json.load(sys.stdin)))"
    )
    assert python(code, text=json.dumps(recipes)).stdout.split() == [native.code_name for native in natives]


def test_what_only_this_process_knows_has_no_recipe():
    from nmt.rnn.kernels.machine_code.jit import task

    assert recipe_of(task(lambda part, parts, table: None)) is None


def test_jobs_have_names_of_their_own():
    names = [job.name for job in standard_jobs()]
    assert len(set(names)) == len(names) > 20


def test_all_that_a_job_runs_can_be_made_elsewhere(monkeypatch):
    """Else the wheel would lack it."""
    from nmt.precompile.jobs import recipes_of
    from nmt.rnn.kernels.machine_code import native

    asked = []
    monkeypatch.setattr(native, "when_used", [*native.when_used, asked.append])
    monkeypatch.setattr("nmt.precompile.jobs.when_used", native.when_used)
    jobs = [job for job in standard_jobs() if job.name == "gru float32"]
    said = []
    recipes = recipes_of(jobs, said.append)
    assert len(said) == len(jobs) == 1
    assert [one.function.__qualname__ for one in asked if recipe_of(one) is None] == []
    assert {native_of(recipe).source_name for recipe in recipes} == {one.source_name for one in asked}


def test_every_function_that_others_call_by_symbol_can_be_made_elsewhere():
    """Also those that an earlier test of this process has compiled already, which ask no more."""
    import pkgutil
    from importlib import import_module

    import nmt.rnn.kernels as package
    from nmt.rnn.kernels.machine_code import native

    for info in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if ".cuda" not in info.name:
            import_module(info.name)
    known = [one for one in native._BY_SYMBOL.values() if one.function.__module__.startswith("nmt.")]
    assert len(known) > 10
    assert [one.function.__qualname__ for one in known if recipe_of(one) is None] == []
