"""Text is cleaned and cut in C as in Python, for all kinds of models and whatever bytes a line has."""

import random
import shutil
import subprocess
from pathlib import Path

import pytest

import nmt.exporting.c as c
from nmt.data.corpora.corpus import clean_line
from nmt.data.tokens.subwords import Subwords, train_subwords
from nmt.exporting.c.level import _content, _subwords
from nmt.exporting.c.text_writer import obstacle_here, subword_tables, text_tables
from tests.exporting.web.test_subwords import HOSTILE, OPTIONS, noise, trained
from tests.saved_models import sentences

HERE, HOST = Path(__file__).parent, Path(c.__file__).parent
CC = shutil.which("cc")
needs_cc = pytest.mark.skipif(CC is None, reason="needs a C compiler")
KINDS = [name for name in OPTIONS if name not in ("char", "word")]


def wild(count):
    """Lines of bytes that are often no UTF-8."""
    drawn = random.Random(9)
    parts = b"\xff|\xc3|\xed\xa0\x80|\xf4\x90\x80\x80|\xe2\x82|\xf0\x9f|\0|\xc0\xaf|kara |e".split(b"|")
    lines = [bytes(drawn.randrange(256) for _ in range(drawn.randint(0, 40))) for _ in range(count)]
    lines += [b"".join(drawn.choice(parts) for _ in range(drawn.randint(0, 20))) for _ in range(count)]
    # Capitals, and what decides about the small form of a sigma.
    letters = "AbΣΣΣσ'.:·\u00ad\u0301ʰǅİßᏣꭳ 一"
    lines += ["".join(drawn.choice(letters) for _ in range(drawn.randint(1, 9))).encode() for _ in range(count)]
    # Marks in any order, and letters that compose.
    signs = "a\u0301\u0323\u0327\u05b0\u0f72\u1100\u1161\u11a8\uac00\u212b\u0344\u1e9b"
    lines += ["".join(drawn.choice(signs) for _ in range(drawn.randint(1, 15))).encode() for _ in range(count)]
    return [line.replace(b"\n", b"") for line in lines]


@needs_cc
@pytest.mark.parametrize(
    ("normalize", "lowercase"),
    [("nfc", False), ("nfkc", False), ("none", False), ("pieces", False), ("nfc", True), ("none", True)],
)
def test_all_kinds_of_models_give_the_ids_and_the_text(tmp_path, normalize, lowercase):
    models: dict[str, Subwords] = {name: trained(OPTIONS[name]) for name in KINDS}
    models["letters twice"] = train_subwords(["aaa aaaa aa baa aaab", "bbb abab aab"] * 9, type="bpe", vocab_size=16)
    tables = {name: subword_tables(one, f"m{n}") for n, (name, one) in enumerate(models.items())}
    content, places = _content({name: array for _, arrays in tables.values() for name, array in arrays.items()})
    rows = ", ".join(_subwords(fields, places) for fields, _ in tables.values())
    (tmp_path / "arrays").write_bytes(content)
    (tmp_path / "models.h").write_text(
        f"enum {{BYTES = {len(content)}}};\nstatic const subwords models[] = {{{rows}}};\n"
    )
    (tmp_path / "text_tables.h").write_text(text_tables(normalize, lowercase=lowercase))
    flags = "-std=c11 -g -Wall -Wextra -Werror -fsanitize=undefined -fno-sanitize-recover -ffp-contract=off".split()
    places = [f"-I{tmp_path}", f"-I{HOST}", str(HERE / "words.c"), str(HOST / "text.c")]
    subprocess.run([CC, *flags, *places, "-o", str(tmp_path / "words")], check=True)
    own = [line.encode("utf-8", "surrogatepass") for line in (*HOSTILE, *noise(300))]
    own += [b"b" + n * b"a" + b"b" for n in range(12)]  # merges that overlap
    own += [chr(n).encode() for n in range(0x11000) if not 0xD800 <= n < 0xE000 and chr(n).lower() != chr(n)]
    lines = [line.replace(b"\n", b" ") for line in (*(s.encode() for s in sentences(200, seed=4)), *own, *wild(200))]
    read = [clean_line(line.decode("utf-8", "replace"), lowercase, normalize) for line in lines]
    for n, (name, model) in enumerate(models.items()):
        command = [str(tmp_path / "words"), str(n)]
        done = subprocess.run(command, input=b"\n".join(lines) + b"\n", capture_output=True, cwd=tmp_path, check=False)
        assert done.returncode == 0, done.stderr
        ids = model.encode(read)
        expected = [
            "".join(f"{one} " for one in row) + "| " + text for row, text in zip(ids, model.decode(ids), strict=True)
        ]
        assert done.stdout.decode().split("\n")[:-1] == expected, name


def test_other_kinds_of_subwords_are_named():
    assert obstacle_here(trained(OPTIONS["bpe"])) == ""
    assert obstacle_here(trained(OPTIONS["word"])) == "one of kind word"
