"""low_resource.py: copies and clones, parts that are missing, all languages together, and mistakes in one line."""

import gzip

import low_resource
import pytest

from tests.data_scripts.test_corpora import SHARED, one_line, run


def write(folder, names, text="eins\nzwei\n"):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return folder


def test_a_single_corpus_with_the_parts_that_are_there(tmp_path):
    names = [f"{part}.{lang}" for part in ("train", "dev", "out_dev") for lang in ("chr.gz", "en")]
    folder = write(tmp_path / "copy", [*names, "test.en"])  # one side of test alone is no part
    answer = run("low_resource.py", "cherokee", "--from", folder, "--out", tmp_path / "out")
    assert (answer.returncode, answer.stderr) == (0, "")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(
        f"{part}.{lang}" for part in ("train", "dev", "out_dev") for lang in ("chr", "en")
    )
    assert "2 train, 2 dev, 2 out_dev lines each in chr, en" in answer.stdout


def test_names_of_a_copy_and_of_a_clone(tmp_path):
    """gn as in a copy; hch as in a clone, where the training text has an older code."""
    copy = [f"gn.{part}.{lang}.gz" for part in ("train", "dev") for lang in ("es", "gn")]
    clone = ["train.es", "train.wix", "dev.es", "dev.hch"]
    folder = write(tmp_path / "copy", [*copy, *(f"wixarika-spanish/{name}" for name in clone)])
    words = ("americas", "--from", folder, "--only", "gn", "hch", "--out", tmp_path / "out")
    answer = run("low_resource.py", *words)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert (tmp_path / "out/gn/train.gn").read_text() == "eins\nzwei\n"
    assert (tmp_path / "out/hch/train.hch").read_text() == "eins.\nzwei.\n"
    together = tmp_path / "out/together"
    assert (together / "train.es").read_text() == "<2gn> eins\n<2gn> zwei\n<2hch> Eins.\n<2hch> Zwei.\n"
    assert (together / "train_hch.es").read_text() == "Eins.\nZwei.\n"
    assert (together / "train_hch.xx").read_text() == "eins.\nzwei.\n"
    assert (together / "dev_hch.es").read_text() == "<2hch> eins\n<2hch> zwei\n"
    assert (together / "dev.xx").read_text() == "eins\nzwei\n" * 2


def test_texts_without_a_last_line_end_stay_line_by_line():
    corpora = {code: {part: {"es": b"a\nb", code: b"c\nd"} for part in ("train", "dev")} for code in ("gn", "shp")}
    joined = low_resource.together(corpora)
    assert joined["train"]["es"].splitlines() == [b"<2gn> a", b"<2gn> b", b"<2shp> a", b"<2shp> b"]
    assert joined["train"]["xx"].splitlines() == [b"c", b"d"] * 2


@pytest.mark.parametrize(
    ("language", "pair", "expected"),
    [
        ("shp", ("Vino el viejo .", "Yósira jóque ."), ("Vino el viejo.", "Yosira joke.")),
        ("shp", ("¿ Qué ?", "¿Jáhueque ?"), ("¿Qué?", "¿Jaweke?")),
        ("tar", ("ay ! me piqué !", "a ! e'tzéruku !"), ("Ay! me piqué!", "A! e’chéluku!")),
        ("tar", ("no sé", "ŕejói regá ame"), ("No sé.", "Rejói reká ami.")),
        ("hch", ("y él", "\"'ik+"), ("Y él.", "ik+.")),
        ("gn", ("Uno", "Mokõi g̃uarã"), ("Uno", "Mokôi ĝuarâ")),
        ("nah", ("En ese", "Yn ypan yhuan çan ,"), ("En ese", "In ipan ihuan zan,")),
        ("tar", ("", "ko"), ("", "ko")),
        ("aym", ("Si.", "Jist ’ arapx qilqt 'äw."), ("Si.", "Jist'arapx qilqt'äw.")),
    ],
)
def test_training_text_is_written_like_dev(language, pair, expected):
    assert low_resource.like_dev(language, *pair) == expected


def test_dev_keeps_its_spelling_and_training_text_too_where_that_is_asked_for(tmp_path):
    names = [f"shp.{part}.{lang}" for part in ("train", "dev") for lang in ("es", "shp")]
    folder = write(tmp_path / "copy", names, "que\n")
    words = ("americas", "--from", folder, "--only", "shp", "--out")
    assert run("low_resource.py", *words, tmp_path / "new").returncode == 0
    assert run("low_resource.py", *words, tmp_path / "old", "--as-it-is").returncode == 0
    read = [(tmp_path / name).read_text() for name in ("new/shp/train.shp", "new/shp/dev.shp", "old/shp/train.shp")]
    assert read == ["ke\n", "que\n", "que\n"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["iwslt14-sample", "--from", "EMPTY"], "must contain train.de"),
        (["africa", "--from", "EMPTY"], "must contain en-hau.train.en or en-hau/train.en (plain or .gz)"),
        (["americas", "--from", "NONE"], "must be a folder"),
        (
            ["americas", "--from", "EMPTY", "--only", "xx"],
            "--only xx: must be a part of americas, got another; it has aym",
        ),
        (["cherokee", "--from", "EMPTY", "--only", "chr"], "it has nothing to choose from"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_written(words, message, tmp_path):
    (tmp_path / "empty").mkdir()
    paths = {"EMPTY": tmp_path / "empty", "NONE": tmp_path / "none"}
    answer = run("low_resource.py", *(paths.get(word, word) for word in words), "--out", tmp_path / "out")
    assert message in one_line(answer, "low_resource.py")
    assert not (tmp_path / "out").exists()


def test_sides_of_unequal_length_are_refused(tmp_path):
    folder = write(tmp_path / "copy", ["train.de", "train.en", "valid.de"])
    write(folder, ["valid.en"], "eins\n")
    answer = run("low_resource.py", "iwslt14-sample", "--from", folder, "--out", tmp_path / "out")
    assert "dev: all languages must have the same number of lines" in one_line(answer, "low_resource.py")
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(not (SHARED / "cherokee").is_dir(), reason="no shared folder beside the clone")
def test_cherokee_from_the_shared_copy(tmp_path):
    answer = run("low_resource.py", "cherokee", "--from", SHARED / "cherokee", "--out", tmp_path)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert "11639 train, 1000 dev, 256 out_dev" in answer.stdout
