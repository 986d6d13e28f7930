"""A library translates as the command does at the same level of processors, bit for bit, from C and by several threads;
what cannot be is a code and one line."""

import ctypes
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner

from nmt import Translator
from nmt.cli.commands.export import export
from nmt.errors import CheckpointError
from nmt.exporting.c import building
from nmt.exporting.c.library import check_library, save_library
from nmt.storage.saved_model import load_saved_model
from tests.exporting.c.test_text import CC, HERE, needs_cc, wild
from tests.exporting.web.test_web import LINES, MODELS, small
from tests.processes import python
from tests.refusals import refused
from tests.saved_models import sentences, write_folder
from tests.search_cases import RULES

ARM, EMULATOR = shutil.which("aarch64-linux-gnu-gcc"), shutil.which("qemu-aarch64-static")
MINGW = shutil.which("x86_64-w64-mingw32-gcc")
FLAGS = ["-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread"]
# The driver reads lines, so none has a line break.
SENTENCES = [line.encode() for line in (*LINES, *sentences(60, seed=8)) if "\n" not in line]
# A first byte-order mark is not text to the command.
SENTENCES += [line for line in wild(40) if not line.startswith(b"\xef\xbb\xbf")]
PYTHON = """
import json, sys
from nmt import Translator
path, compute_dtype, lines, asked = json.load(sys.stdin)
lines = [bytes.fromhex(line).decode("utf-8", "replace") for line in lines]
translator, answers = Translator.load(path, threads=1, compute_dtype=compute_dtype), []
for settings in asked:
    found = translator.translate_nbest(lines, **settings)
    rows = [[one.score.hex(), one.log_prob.hex(), one.text] for line in found for one in line]
    answers.append([[len(line) for line in found], rows])
json.dump(answers, sys.stdout)
"""


def built(folder, out, compute_dtype="int8", levels=("generic",)):
    """Export a model and build the driver with its library."""
    save_library(out, str(folder), None, load_saved_model(folder), compute_dtype, levels)
    return compile_driver(out)


def compile_driver(out, compiler=CC):
    driver = out / "driver"
    places = [f"-I{out}", str(HERE / "driver.c"), str(out / "libtranslator.a"), "-lm"]
    subprocess.run([compiler, *FLAGS, *places, "-o", str(driver)], check=True)
    return driver


def run_driver(driver, lines, *, level="generic", beam=4, n_best=4, threads=1, before=(), **options):
    """Return what the driver prints: the number of translations of each line, and score, log-probability and text of
    each."""
    given = [f"{name}={int(value) if value is True else value}" for name, value in options.items()]
    command = [*before, driver, driver.parent / "model.bin", level, beam, n_best, threads, 0, *given]
    done = subprocess.run([*map(str, command)], input=b"\n".join(lines) + b"\n", capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    printed, counts, rows = done.stdout.decode().split("\n"), [], []
    at = 0
    while at < len(printed) - 1:
        count = int(printed[at].split()[1])
        rows += [printed[n].split(" ", 3) for n in range(at + 1, at + 1 + count)]
        counts.append(count)
        at += 1 + count
    return counts, [[float.fromhex(row[0]).hex(), float.fromhex(row[1]).hex(), row[3]] for row in rows]


def of_python(folder, compute_dtype, lines, level="generic", **settings):
    return answers_of_python(folder, compute_dtype, lines, [settings], level)[0]


def answers_of_python(folder, compute_dtype, lines, asked, level="generic"):
    """What the driver is to print with each of some settings."""
    given = json.dumps([str(folder), compute_dtype, [line.hex() for line in lines], asked])
    return [(counts, rows) for counts, rows in json.loads(python(PYTHON, text=given, NMT_CPU=level).stdout)]


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A folder with a library in int8, its model's file and a driver; nothing in it may be changed."""
    folder = tmp_path_factory.mktemp("plain")
    built(small(folder / "model", {}), folder / "out")
    return folder / "out"


@needs_cc
@pytest.mark.parametrize("name", [name for name in MODELS if "4 bits" not in name])
def test_translations_and_scores_are_those_of_python_to_the_last_bit(tmp_path, name):
    compute_dtype, settings = MODELS[name]
    folder = small(tmp_path / "model", settings)
    found = run_driver(built(folder, tmp_path / "out", compute_dtype), SENTENCES, threads=3)
    expected = of_python(folder, compute_dtype, SENTENCES, n_best=4, beam_size=4)
    assert sum(bool(row[2]) for row in expected[1]) > 200
    assert found == expected


@needs_cc
def test_rules_and_samples_are_those_of_python_to_the_last_bit(plain):
    asked = [{"n_best": 4, "beam_size": 4, **rules} for rules in RULES.values()]
    answers = answers_of_python(plain.parent / "model", "int8", SENTENCES, asked)
    for (name, rules), expected in zip(RULES.items(), answers, strict=True):
        assert run_driver(plain / "driver", SENTENCES, threads=2, **rules) == expected, name


DETAILS = """
import json, math, sys
from nmt import Constraints, Translator
path, lines = json.load(sys.stdin)
translator = Translator.load(path, threads=1, compute_dtype="int8")
def hexes(numbers):
    return [float(x).hex() for x in numbers]
def shown(one):
    weights = hexes(one.attention.ravel())
    return [hexes(one.log_probs), weights, one.tokens, one.src_tokens, [*map(list, one.alignment)]]
prefix = Constraints(prefixes="miti lo")
found = translator.translate_nbest(lines, n_best=4, beam_size=4, details=True, constraints=prefix)
there = [one for line in found for one in line if one.detail]
details = [[math.exp(one.log_prob / one.length).hex(), *shown(one.detail)] for one in there]
json.dump([details, [shown(one) for one in translator.score(lines, lines)]], sys.stdout)
"""


@needs_cc
def test_details_of_prefixed_and_of_given_translations_are_those_of_python_to_the_last_bit(plain):
    lines = [line for line in SENTENCES if line.strip() and not line.isspace()][:60]
    given = json.dumps([str(plain.parent / "model"), [line.decode("utf-8", "replace") for line in lines]])
    done = python(DETAILS, text=given, NMT_CPU="generic")

    def driven(*options):
        command = [plain / "driver", plain / "model.bin", "generic", "4", "4", "1", "0", *options]
        done = subprocess.run([*map(str, command)], input=b"\n".join(lines), capture_output=True, check=True)
        rows = [json.loads(row) for row in done.stdout.decode().split("\n") if row.startswith("{")]
        for row in rows:
            row |= {name: [float.fromhex(one).hex() for one in row[name]] for name in ("log_probs", "attention")}
            row["confidence"] = float.fromhex(row["confidence"]).hex()
        return [list(row.values()) for row in rows]

    translated, scored = json.loads(done.stdout)
    assert driven("details=1", "prefix=miti lo") == translated and len(translated) > 100
    assert [row[1:] for row in driven("score=1")] == scored


@needs_cc
def test_subwords_of_each_language_and_unicode_are_those_of_python(tmp_path):
    data = {"joint": False, "subwords": "bpe", "vocab_size": 60, "side": {"normalize": "nfkc"}}
    folder = small(tmp_path / "model", data)
    config = folder / "config.yaml"  # with powers that NumPy's arrays and the C library round differently
    config.write_text(config.read_text().replace("length_penalty: 1.0", "length_penalty: 0.6"))
    driver = built(folder, tmp_path / "out")
    lines = [*SENTENCES, "\uff4b\uff41\uff52\uff41 \u2460 \u212b".encode()]
    assert run_driver(driver, lines, beam=3, n_best=1) == of_python(folder, "int8", lines, beam_size=3)


@needs_cc
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="needs valgrind")
def test_no_byte_is_lost_or_read_twice(plain):
    driver = plain / "driver"
    before = ["valgrind", "-q", "--leak-check=full", "--show-leak-kinds=all", "--error-exitcode=9"]
    lines = SENTENCES[:20] + SENTENCES[-20:]
    assert run_driver(driver, lines, threads=2, before=before) == run_driver(driver, lines)


@needs_cc
def test_each_failing_allocation_is_an_error_that_leaves_nothing_in_use(plain, tmp_path):
    functions = ",".join(f"--wrap={name}" for name in ("malloc", "calloc", "aligned_alloc", "free"))
    places = [f"-I{plain}", str(HERE / "failing.c"), str(plain / "libtranslator.a"), "-lm", f"-Wl,{functions}"]
    subprocess.run([CC, *FLAGS, *places, "-o", "failing"], check=True, cwd=tmp_path)
    command = {"input": b"kara losu " * 60, "capture_output": True, "check": False, "cwd": tmp_path}
    done = subprocess.run(["./failing", plain / "model.bin"], **command)
    assert done.returncode == 0 and int(done.stdout) > 5, done.stdout


@needs_cc
def test_the_conditions_of_all_levels_compile_and_the_last_one_always_holds(tmp_path):
    machine = building.Compiler().machine
    rows = "".join(f'  printf("{name} %d\\n", !!({one}));\n' for name, one in building.LEVELS[machine].items())
    code = f"#include <stdio.h>\n{building.ASKING[machine]}int main(void) {{\n{rows}}}\n"
    (tmp_path / "ask.c").write_text(code)
    subprocess.run([CC, *FLAGS, "-std=c11", "ask.c", "-o", "ask"], check=True, cwd=tmp_path)
    found = subprocess.run(["./ask"], capture_output=True, text=True, check=True, cwd=tmp_path).stdout.splitlines()
    assert [line.split()[0] for line in found] == list(building.LEVELS[machine])
    assert found[-1].endswith(" 1")


@needs_cc
def test_the_command_writes_an_example_that_translates(tmp_path, monkeypatch):
    """The commands of docs/deploy.md; of the levels of x86 two stand for all, as each takes ten seconds of a core."""
    some = {name: one for name, one in building.LEVELS["x86_64"].items() if name in ("avx2", "generic")}
    monkeypatch.setitem(building.LEVELS, "x86_64", some)
    folder = small(tmp_path / "model", {})
    done = CliRunner().invoke(export, [str(folder), "--to", "c", "-o", str(tmp_path / "out")], catch_exceptions=False)
    assert done.exit_code == 0 and "bytes as c, in int8" in done.output
    out = tmp_path / "out"
    names = ["example.c", "libtranslator.a", "libtranslator.so", "model.bin", "translator.h"]
    assert sorted(one.name for one in out.iterdir()) == names
    page = (Path(__file__).parents[3] / "docs" / "deploy.md").read_text("utf-8")
    (build,) = re.findall(r"^```sh\n(.*?)^```", page, re.M | re.S)
    done = subprocess.run(["bash", "-e", "-c", build], capture_output=True, text=True, check=True, cwd=out)
    translator = Translator.load(folder, threads=1, compute_dtype="int8")
    assert done.stdout == f"{translator.translate('Guten Morgen!')}\n"
    shared = [CC, "example.c", "-L.", "-ltranslator", "-Wl,-rpath,$ORIGIN", "-o", "shared"]
    subprocess.run(shared, check=True, cwd=out)
    command = {"input": b"kara losu\n\nmiti", "capture_output": True, "check": True, "cwd": out}
    assert subprocess.run(["./shared"], **command).stdout == subprocess.run(["./translate"], **command).stdout
    (code,) = re.findall(r"^```c\n(.*?)^```", page, re.M | re.S)
    head, _, body = code.partition("\n")
    (out / "page.c").write_text(f"#include <stdio.h>\n#include <stdlib.h>\n{head}\nint main(void) {{\n{body}}}\n")
    subprocess.run([CC, "-Wall", "-Werror", "page.c", "libtranslator.a", "-lm", "-o", "page"], check=True, cwd=out)
    (best, *_) = translator.translate_nbest(["Guten Morgen!"], n_best=3)[0]
    printed = subprocess.run(["./page"], capture_output=True, text=True, check=True, cwd=out).stdout.split("\n")
    assert printed[0] == f"{best.score:f} {best.text}" and len(printed) > 2
    needed = subprocess.run(["ldd", "libtranslator.so"], capture_output=True, text=True, check=True, cwd=out).stdout
    libraries = {line.split()[0].rpartition("/")[2].split(".")[0] for line in needed.strip().splitlines()}
    assert libraries <= {"linux-vdso", "libc", "libm", "ld-linux-x86-64", "ld-linux-aarch64"}


@needs_cc
def test_a_library_with_the_model_inside_needs_no_file(tmp_path, monkeypatch):
    monkeypatch.setitem(building.LEVELS, building.Compiler().machine, {"generic": "1"})
    folder, out = small(tmp_path / "model", {}), tmp_path / "out"
    command = [str(folder), "--to", "c", "--embed", "-o", str(out)]
    assert CliRunner().invoke(export, command, catch_exceptions=False).exit_code == 0
    names = {"example.c", "libtranslator.a", "libtranslator.so", "translator.h"}
    assert {one.name for one in out.iterdir()} == names
    (build,) = re.findall(r"standard input: (.*) \*/", (out / "example.c").read_text())
    command = {"input": "kara losu\n\nmiti\n", "text": True, "capture_output": True, "check": True, "shell": True}
    done = subprocess.run(build, cwd=out, **command)
    _, rows = of_python(folder, "int8", [b"kara losu", b"", b"miti"], n_best=1)
    assert done.stdout.split("\n")[:-1] == [row[2] for row in rows]
    done = CliRunner().invoke(export, [str(folder), "--to", "numpy", "--embed", "-o", str(tmp_path / "other")])
    assert done.exit_code != 0 and "--embed: must come with --to c, got --to numpy" in done.output


@needs_cc
@pytest.mark.parametrize("command", [["go", "build", "-o", "use", "use.go"], ["rustc", "-L", ".", "use.rs"]])
def test_other_languages_call_it(request, tmp_path, command):
    version = [command[0], "version" if command[0] == "go" else "--version"]
    if shutil.which(command[0]) is None or subprocess.run(version, capture_output=True).returncode:
        pytest.skip(f"needs {command[0]}")  # a launcher may be there without a toolchain
    out = shutil.copytree(request.getfixturevalue("plain"), tmp_path / "out")
    driver = out / "driver"
    (out / "libtranslator.so").unlink()  # so that the other one is linked
    shutil.copy(HERE / command[-1], out)
    environment = os.environ | {"GO111MODULE": "off", "GOCACHE": str(tmp_path / "cache")}
    subprocess.run(command, env=environment, check=True, cwd=out)
    lines = [line.encode() for line in sentences(20)]
    done = subprocess.run(["./use"], input=b"\n".join(lines), capture_output=True, check=True, cwd=out)
    _, rows = run_driver(driver, lines, beam=5, n_best=1)
    assert done.stdout.decode().split("\n")[:-1] == [row[2] for row in rows]


@needs_cc
def test_errors_are_a_code_and_a_line(plain, tmp_path):
    out = shutil.copytree(plain, tmp_path / "out")
    driver = out / "driver"
    other = bytearray((out / "model.bin").read_bytes())
    other[10] ^= 1
    (tmp_path / "other.bin").write_bytes(other)
    (tmp_path / "short.bin").write_bytes(other[:99])
    cases = [
        ("missing.bin", "", "3", "1", "1: missing.bin: must be the file of the model, cannot be read: No such file"),
        ("short.bin", "", "3", "1", "2: short.bin: must be the file of"),
        ("other.bin", "", "3", "1", "2: other.bin: must be the file that was exported with this library, got another"),
        ("out", "", "3", "1", "2: out: must be the file of"),
        ("out/model.bin", "avx3", "3", "1", "3: nmt_load: level must be of generic and of this processor, got avx3"),
        ("out/model.bin", "", "0", "1", "3: nmt_translate: beam_size must be from 1 to 1000, got 0"),
        ("out/model.bin", "", "5", "-1", "3: nmt_translate: n_best must be from 1 to 10000, got -1"),
    ]
    for path, level, beam, n_best, message in cases:
        command = [str(driver), path, level, beam, n_best, "1", "0"]
        done = subprocess.run(command, input=b"kara\n", capture_output=True, check=False, cwd=tmp_path)
        assert done.returncode == 1
        assert done.stderr.decode().startswith(message) and done.stderr.count(b"\n") == 1
    error = ctypes.create_string_buffer(512)
    found = ctypes.CDLL(str(out / "libtranslator.so")).nmt_load(None, None, ctypes.byref(ctypes.c_void_p()), error)
    assert found == 3 and error.value == b"nmt_load: path and model must be given, got NULL"
    limited = ["bash", "-c", f"ulimit -v 100000; {driver} out/model.bin '' 1000 1 1 0"]
    done = subprocess.run(limited, input=b"kara losu\n" * 500, capture_output=True, check=False, cwd=tmp_path)
    assert done.stderr == b"4: nmt_translate: no memory for 500 lines\n"


@pytest.mark.skipif(ARM is None or EMULATOR is None, reason="needs gcc for aarch64 and qemu-user")
def test_a_library_for_arm_finds_the_translations_of_generic(tmp_path, monkeypatch):
    folder = small(tmp_path / "model", {})
    monkeypatch.setenv("CC", ARM)
    save_library(tmp_path / "out", str(folder), None, load_saved_model(folder), "int8", ["neon", "neon_dotprod"])
    driver = compile_driver(tmp_path / "out", ARM)
    expected = of_python(folder, "int8", SENTENCES, n_best=4, beam_size=4)
    for level in ("neon", "neon_dotprod"):
        before = [EMULATOR, "-L", "/usr/aarch64-linux-gnu"]
        counts, rows = run_driver(driver, SENTENCES, level=level, threads=2, before=before)
        assert counts == expected[0]
        for ours, theirs in zip(rows, expected[1], strict=True):
            assert ours[2] == theirs[2]
            # Arm has fused multiply-adds, `generic` has none: the last bits of float32 sums differ.
            assert float.fromhex(ours[0]) == pytest.approx(float.fromhex(theirs[0]), rel=2e-6, abs=2e-6)


@pytest.mark.skipif(MINGW is None, reason="needs gcc-mingw-w64-x86-64")
def test_a_library_for_windows_exports_the_functions_of_its_header(tmp_path, monkeypatch):
    """That it translates there: tests/windows/bed.py."""
    folder = small(tmp_path / "model", {})
    monkeypatch.setenv("CC", MINGW)
    out = tmp_path / "out"
    save_library(out, str(folder), None, load_saved_model(folder), "int8", ["generic"], inside=True)
    names = ["example.c", "libtranslator.a", "libtranslator.dll.a", "translator.dll", "translator.h"]
    assert sorted(path.name for path in out.iterdir()) == names
    dump = [MINGW.replace("gcc", "objdump"), "-p", out / "translator.dll"]
    told = subprocess.run(dump, capture_output=True, text=True, check=True).stdout
    functions = {*re.findall(r"\b(nmt_\w+)\(", (out / "translator.h").read_text())}
    assert functions and functions == {*re.findall(r"\bnmt_\w+", told.partition("Name Pointer")[2])}
    subprocess.run([MINGW, "-Werror", "example.c", "libtranslator.dll.a", "-o", "a.exe"], check=True, cwd=out)


@pytest.mark.skipif(find_spec("ziglang") is None, reason="needs the package ziglang")
@pytest.mark.parametrize(("machine", "kind"), [("x86_64", 7), ("aarch64", 12)])
def test_a_library_for_macos_is_linked_and_that_for_intel_translates_here(tmp_path, monkeypatch, machine, kind):
    folder, out = small(tmp_path / "model", {}), tmp_path / "out"
    monkeypatch.setenv("CC", shlex.join([sys.executable, *"-m ziglang cc -target".split(), f"{machine}-macos.11.0"]))
    save_library(out, str(folder), None, load_saved_model(folder), "int8", inside=True)
    assert sorted(path.name for path in out.iterdir()) == ["example.c", "libtranslator.dylib", "translator.h"]
    build = shlex.split(f"{os.environ['CC']} -Werror example.c -L. -ltranslator -o use")
    subprocess.run(build, check=True, cwd=out)
    assert (out / "use").read_bytes()[:8] == b"\xcf\xfa\xed\xfe" + bytes([kind, 0, 0, 1])
    if machine == "x86_64" and " avx2 " in Path("/proc/cpuinfo").read_text():
        options = [*FLAGS, "-rdynamic", f"-I{out}", "-Wl,--no-as-needed", "-lm", "-o", out / "macho"]
        subprocess.run([CC, HERE / "macho.c", *options], check=True)
        lines = [line for line in SENTENCES if b"\0" not in line]
        command = [out / "macho", out / "libtranslator.dylib"]
        done = subprocess.run(command, input=b"\n".join([*lines, b""]), capture_output=True, check=True)
        found = [line.split(" ", 1) for line in done.stdout.decode().split("\n")[:-1]]
        _, expected = of_python(folder, "int8", lines, "avx2")
        assert [[float.fromhex(score).hex(), text] for score, text in found] == [[row[0], row[2]] for row in expected]


def test_without_a_compiler_one_line_says_so_and_nothing_is_written(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler -O2")
    done = CliRunner().invoke(export, [str(folder), "--to", "c", "-o", str(tmp_path / "out")])
    assert done.exit_code != 0 and done.output.count("\n") == 1
    assert "must have a C compiler to build the library with, got none that runs as no-such-compiler -O2" in done.output
    assert not (tmp_path / "out").exists()


def test_what_a_library_cannot_have_is_one_line(tmp_path):
    cases = [
        ({"subwords": "word"}, "the source's subwords must be unigram or bpe for C, got one of kind word"),
        ({"decoder": {"copy_source": True}}, "must be a model whose translation is one program, got one where the de"),
    ]
    for n, (settings, message) in enumerate(cases):
        saved = load_saved_model(write_folder(tmp_path / str(n), **settings))
        refused(CheckpointError, message, check_library, saved)


def test_the_header_is_a_header_of_cpp(tmp_path):
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("needs a C++ compiler")
    (tmp_path / "it.cpp").write_text('#include "translator.h"\nint main() { nmt_options o; nmt_defaults(&o); }\n')
    header = Path(sys.modules[save_library.__module__].__file__).parent
    subprocess.run([compiler, "-Wall", "-Werror", f"-I{header}", "-fsyntax-only", str(tmp_path / "it.cpp")], check=True)
