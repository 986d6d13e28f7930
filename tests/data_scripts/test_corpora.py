"""multi30k.py, eutrans.py and exact_match.py on whole and broken folders and without a network."""

import gzip
import io
import subprocess
import sys
import urllib.error
from pathlib import Path
from unittest.mock import Mock

import enja50k
import histnorm
import low_resource
import multi30k
import names
import pytest
import sigmorphon2020_g2p as g2p
import sigmorphon2021_g2p
import text_files

from tests.refusals import refused

SCRIPTS = Path(multi30k.__file__).parent
SHARED = SCRIPTS.parent.parent / "shared" / "data"
MULTI30K_FILES = [f"{part}.{language}" for part in multi30k.PARTS for language in multi30k.LANGUAGES]


def run(script, *arguments):
    return subprocess.run([sys.executable, SCRIPTS / script, *map(str, arguments)], capture_output=True, text=True)


def printed(script, *arguments):
    """What a run prints that has no warning."""
    answer = run(script, *arguments)
    assert (answer.returncode, answer.stderr) == (0, "")
    return answer.stdout


def one_line(answer, script):
    assert answer.returncode == 1
    assert answer.stderr.splitlines()[-1].startswith(f"{script}: ")
    assert "Traceback" not in answer.stderr
    return answer.stderr.splitlines()[-1]


@pytest.fixture
def small_copy(tmp_path):
    """A folder in the layout of Multi30k: train packed, the rest plain; two lines a file."""
    folder = tmp_path / "copy"
    folder.mkdir()
    for part, name in multi30k.PARTS.items():
        for language in multi30k.LANGUAGES:
            text = f"eins {part} {language}\nzwei ü\n".encode()
            if part == "train":
                (folder / f"{name}.raw.{language}.gz").write_bytes(gzip.compress(text))
            else:
                (folder / f"{name}.{language}").write_bytes(text)
    return folder


def test_multi30k_from_a_folder(small_copy, tmp_path):
    answer = run("multi30k.py", "--from", small_copy, "--out", tmp_path / "out")
    assert answer.returncode == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(MULTI30K_FILES)
    assert (tmp_path / "out/train.de").read_text("utf-8") == "eins train de\nzwei ü\n"
    assert (tmp_path / "out/dev.fr").read_text("utf-8") == "eins dev fr\nzwei ü\n"
    for name in MULTI30K_FILES:
        assert f"warning: {name} differs" in answer.stderr


def test_broken_folders_are_one_line_and_nothing_is_written(small_copy, tmp_path):
    def message(folder, out="out"):
        return one_line(run("multi30k.py", "--from", folder, "--out", tmp_path / out), "multi30k.py")

    (tmp_path / "file").write_text("in the way")
    assert "must be writable" in message(small_copy, "file") and (tmp_path / "file").read_text() == "in the way"
    assert "must be a folder" in message(tmp_path / "none")
    (small_copy / "val.en").write_text("only one\n")
    unequal = "dev: all languages must have the same number of lines, got de 2, en 1, fr 2"
    assert unequal in message(small_copy)
    (small_copy / "train.raw.en.gz").write_bytes(b"\x1f\x8bbroken")
    assert "whole gzip file" in message(small_copy)
    (small_copy / "train.raw.en.gz").unlink()
    assert "must contain train.raw.en or train.en" in message(small_copy)
    (small_copy / "train.en").write_bytes(b"fine\n\xff\xfe\n")
    assert "train.en:2: must be UTF-8" in message(small_copy)
    assert not (tmp_path / "out").exists()


def test_no_network_is_one_line(monkeypatch):
    unreachable = Mock(side_effect=urllib.error.URLError("Name or service not known"))
    monkeypatch.setattr(text_files.urllib.request, "urlopen", unreachable)
    refused(SystemExit, "must be reachable.*--from FOLDER", multi30k.download, "train", "de")


def test_download_unpacks_and_reports_a_difference(monkeypatch, capsys):
    asked = []

    def answer(address, timeout):
        asked.append(address)
        return io.BytesIO(gzip.compress(b"anderer Text\n"))

    monkeypatch.setattr(text_files.urllib.request, "urlopen", answer)
    text = multi30k.download("dev", "de")
    assert text == b"anderer Text\n"
    assert asked == [f"{multi30k.HOME}/val.de.gz"]
    multi30k.report_difference("dev", "de", text)
    assert "warning: dev.de differs" in capsys.readouterr().err


def test_exact_match(tmp_path):
    (tmp_path / "hyp").write_text("a\nb\n\nd\n")
    (tmp_path / "ref").write_text("a\nB\n\nd\n")
    answer = run("exact_match.py", tmp_path / "hyp", tmp_path / "ref", "--at-least", "75")
    assert answer.returncode == 0
    assert answer.stdout.splitlines() == ["  got  b", "  for  B", "exact match: 75.0% (3 of 4)"]
    answer = run("exact_match.py", tmp_path / "hyp", tmp_path / "ref", "--at-least", "75.1")
    assert "must be at least 75.1%, got 75.0%" in one_line(answer, "exact_match.py")


@pytest.mark.parametrize("script", ["exact_match.py", "pronunciation_errors.py"])
def test_files_of_other_length_are_refused(script, tmp_path):
    for name, content in {"hyp": b"a\n", "ref": b"a\nb\n", "empty": b"", "latin": b"\xe9\n"}.items():
        (tmp_path / name).write_bytes(content)
    for hypotheses, references in (("hyp", "ref"), ("empty", "empty"), ("latin", "hyp"), ("none", "hyp")):
        assert "must" in one_line(run(script, tmp_path / hypotheses, tmp_path / references), script)


def write_tables(folder, names, text):
    folder.mkdir()
    for name in names:
        (folder / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
    return folder


def test_letters_are_characters_and_those_within_a_syllable_of_hangul(tmp_path):
    # e and a combining acute are one letter; the syllable 가 is two, 강 three; a space within a word is none.
    assert g2p.letters_of("e\u0301 a") == ["\u00e9", "a"]
    assert [len(g2p.letters_of(word)) for word in ("가", "강", "가강")] == [2, 3, 5]
    folder = write_tables(tmp_path / "copy", [f"fre_{part}.tsv" for part in g2p.PARTS], "abby\ta b i\nÉte\te  t\n")
    printed("sigmorphon2020_g2p.py", "--from", folder, "--languages", "fre", "--out", tmp_path / "out")
    assert (tmp_path / "out/fre/dev.letters").read_text("utf-8") == "a b b y\nÉ t e\n"
    assert (tmp_path / "out/fre/dev.sounds").read_text("utf-8") == "a b i\ne t\n"


def test_a_row_that_is_none_is_one_line_and_writes_nothing(tmp_path):
    folder = write_tables(tmp_path / "copy", [f"fre_{part}.tsv" for part in g2p.PARTS], "abby\ta b i\nlone\n")
    answer = run("sigmorphon2020_g2p.py", "--from", folder, "--languages", "fre", "--out", tmp_path / "out")
    assert "fre_train.tsv:2: must have 2 columns between tabs, got 1" in one_line(answer, "sigmorphon2020_g2p.py")
    assert not (tmp_path / "out").exists()
    for script in ("sigmorphon2020_g2p.py", "histnorm.py", "enja50k.py"):
        assert "must be a folder" in one_line(run(script, "--from", tmp_path / "none"), script)


# A sentence, its full stop, another sentence; a form without a partner, a space within a form, digits.
OLD_AND_NEW = "Das\tDas\nJar\tJahr\n.\t.\n\n auß wachſen\tauswachsen\ndañ\n1482\t1482\nxi\t11\n"


def test_words_are_prepared_as_in_the_experiments_beside_which_they_stand():
    words = histnorm.prepared(text_files.read_table(OLD_AND_NEW.encode(), "x", 1, 2))
    two = [("auß÷wachſen", "auswachsen"), ("0000", "0000"), ("xi", "11")]
    assert words == [("das", "das"), ("jar", "jahr"), None, *two]
    sides = histnorm.sides_of(words, 0)
    assert sides["old"].decode().splitlines()[1:3] == ["j a r", "a u ß ÷ w a c h ſ e n"]
    assert sides["new"].decode().splitlines() == ["d a s", "j a h r", "a u s w a c h s e n", "0 0 0 0", "1 1"]


def test_neighbours_stay_within_their_sentence_and_the_nearest_is_nearest():
    words = [("a", "a"), ("b", "b"), ("c", "c"), None, ("d", "d"), ("e", "e")]
    one, two = (histnorm.sides_of(words, count)["old"].decode().splitlines() for count in (1, 2))
    assert one == ["a >b", "<a b >c", "<b c", "d >e", "<d e"]
    assert two[:3] == ["a >b >>c", "<a b >c", "<<a <b c"]


def test_old_spelling_from_a_folder(tmp_path):
    names = [f"{corpus}.{part}.tsv" for corpus in histnorm.CORPORA for part in histnorm.PARTS]
    folder = write_tables(tmp_path / "copy", names, OLD_AND_NEW)
    printed("histnorm.py", "--from", folder, "--out", tmp_path / "out")
    assert (tmp_path / "out/german-ridges/train.old").read_text("utf-8").splitlines()[0] == "d a s >jar"
    assert "must be at least 0" in one_line(run("histnorm.py", "--from", folder, "--context", "-1"), "histnorm.py")


def test_pieces_of_a_text_are_put_together(monkeypatch, capsys):
    asked = []

    def answer(address, timeout):
        asked.append(address.rpartition("/")[2])
        return io.BytesIO(f"{len(asked)}\n".encode())

    monkeypatch.setattr(text_files.urllib.request, "urlopen", answer)
    assert enja50k.download("train", "ja") == b"1\n2\n3\n4\n5\n"
    assert enja50k.download("dev", "en") == b"6\n"
    assert asked == [*(f"train.ja.00{number}" for number in range(5)), "dev.en"]
    assert capsys.readouterr().err.count("fetching") == 6


@pytest.mark.parametrize(
    ("name", "command", "sizes"),
    [
        ("multi30k", "multi30k.py", {"29000 train, 1014 dev, 1000 test": 1}),
        ("eutrans", "eutrans.py", {"9900 train, 100 dev, 1498 test": 1}),
        ("cherokee", "low_resource.py cherokee", {"11639 train, 1000 dev, 256 out_dev": 1}),
        # Without punctuation.
        ("histnorm", "histnorm.py", {"41868 train, 9712 dev": 1, "50035 train, 5843 dev": 1}),
        (
            "sigmorphon2020-g2p",
            "sigmorphon2020_g2p.py",
            {"3600 train, 450 dev, 450 test lines each in letters, sounds": 10},
        ),
        ("enja50k", "enja50k.py", {"50000 train, 500 dev lines each in ja, en": 1}),
        ("cmudict", "cmudict.py", {"121406 train, 2488 dev, 5026 test": 1}),
    ],
)
def test_the_shared_copies_have_the_sizes_of_the_corpora(name, command, sizes, tmp_path):
    if not (SHARED / name).is_dir():
        pytest.skip("no shared folder beside the clone")
    out = printed(*command.split(), "--from", SHARED / name, "--out", tmp_path)
    assert {size: out.count(size) for size in sizes} == sizes
    if name == "cmudict":
        assert "|" not in (tmp_path / "test.phoneme").read_text()
        assert sum("|" in line for line in (tmp_path / "test.answers").read_text().splitlines()) == 331


TABLE_2022 = "söz vermek\tsöz verdi\tV;PST\n가\t강\tN;NOM(SG,DEF)\n\n"


@pytest.mark.parametrize(
    ("year", "name", "files", "columns"),
    [
        ("2022", "tur_small", ("tur_small.train", "tur.dev", "tur.gold"), (0, 1, 2)),
        ("2023", "tur", ("tur.trn", "tur.dev", "tur.tst"), (0, 2, 1)),
    ],
)
def test_words_with_features_from_a_folder(tmp_path, year, name, files, columns):
    rows = [line.split("\t") for line in TABLE_2022.splitlines()]
    text = "".join("\t".join(row[n] for n in columns) + "\n" if len(row) == 3 else "\n" for row in rows)
    folder = write_tables(tmp_path / "copy", files, text)
    script = "sigmorphon_inflection.py"
    printed(script, year, "--from", folder, "--only", name, "--out", tmp_path / "out")
    lemma, form = ((tmp_path / f"out/{name}/test.{side}").read_text("utf-8").splitlines() for side in ("lemma", "form"))
    assert lemma[0] == "s ö z ␣ v e r m e k +V +PST" and form[0] == "s ö z ␣ v e r d i"
    assert len(lemma[1].split()) == 2 + 4 and lemma[1].endswith("+N +NOM +SG +DEF"), "a syllable is its letters"
    assert "must be of " in one_line(run(script, year, "--only", "xx"), script)
    (folder / f"{files[0]}.gz").write_bytes(gzip.compress(b"a\tb\n"))
    message = one_line(run(script, year, "--from", folder, "--only", name, "--out", tmp_path / "none"), script)
    assert f"{files[0]}:1: must have 3 columns between tabs, got 2" in message
    assert not (tmp_path / "none").exists()


def test_letters_and_sounds_of_2021_and_names(tmp_path, monkeypatch):
    for script, where in ((sigmorphon2021_g2p, tmp_path / "g2p"), (names, tmp_path / "names")):
        asked = []

        def fetched(address, asked=asked):
            asked.append(address)
            return b"abby\ta b i\n"

        monkeypatch.setattr(script, "fetch", fetched)
        monkeypatch.setattr("sys.argv", ["script", "--out", str(where)])
        script.main()
        assert len(asked) == len(set(asked)) == {"g2p": 45, "names": 18}[where.name]
    assert (tmp_path / "g2p/jpn_hira/test.letters").read_text() == "a b b y\n"
    assert (tmp_path / "names/korean/train.latin").read_text() == "a b b y\n"
    assert (tmp_path / "names/korean/train.script").read_text() == "a b i\n"


def write(folder, names, text="eins\nzwei\n"):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return folder


def test_a_single_corpus_with_the_parts_that_are_there(tmp_path):
    names = [f"{part}.{lang}" for part in ("train", "dev", "out_dev") for lang in ("chr.gz", "en")]
    folder = write(tmp_path / "copy", [*names, "test.en"])  # one side of test alone is no part
    out = printed("low_resource.py", "cherokee", "--from", folder, "--out", tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(
        f"{part}.{lang}" for part in ("train", "dev", "out_dev") for lang in ("chr", "en")
    )
    assert "2 train, 2 dev, 2 out_dev lines each in chr, en" in out


def test_names_of_a_copy_and_of_a_clone(tmp_path):
    """gn as in a copy; hch as in a clone, where the training text has an older code."""
    copy = [f"gn.{part}.{lang}.gz" for part in ("train", "dev") for lang in ("es", "gn")]
    clone = ["train.es", "train.wix", "dev.es", "dev.hch"]
    folder = write(tmp_path / "copy", [*copy, *(f"wixarika-spanish/{name}" for name in clone)])
    printed("low_resource.py", "americas", "--from", folder, "--only", "gn", "hch", "--out", tmp_path / "out")
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
    words = ("americas", "--from", write(tmp_path / "copy", names, "que\n"), "--only", "shp", "--out")
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
        (["americas", "--from", "EMPTY", "--only", "xx"], "xx: must be a part of americas, got another; it has aym"),
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
