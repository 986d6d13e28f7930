"""sigmorphon2020_g2p.py, histnorm.py and enja50k.py: what they make of tables, whole and broken, and of the network."""

import gzip
import io
import itertools
import math
import random
import re

import enja50k
import histnorm
import letter_alignment
import names
import pytest
import sigmorphon2020_g2p as g2p
import sigmorphon2021_g2p
import text_files

from tests.data_scripts.test_corpora import SHARED, one_line, run


def write_tables(folder, names, text):
    folder.mkdir()
    for name in names:
        (folder / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
    return folder


def test_letters_are_characters_and_those_within_a_syllable_of_hangul(tmp_path):
    # e and a combining acute are one letter; the syllable 가 is two, 강 three; a space within a word is none.
    assert g2p.letters_of("e\u0301 a") == ["\u00e9", "a"]
    assert [len(g2p.letters_of(word)) for word in ("가", "강", "가강")] == [2, 3, 5]
    names = [f"fre_{part}.tsv" for part in g2p.PARTS]
    folder = write_tables(tmp_path / "copy", names, "abby\ta b i\nÉte\te  t\n")
    answer = run("sigmorphon2020_g2p.py", "--from", folder, "--languages", "fre", "--out", tmp_path / "out")
    assert (answer.returncode, answer.stderr) == (0, "")
    assert (tmp_path / "out/fre/dev.letters").read_text("utf-8") == "a b b y\nÉ t e\n"
    assert (tmp_path / "out/fre/dev.sounds").read_text("utf-8") == "a b i\ne t\n"


def test_a_row_that_is_none_is_one_line_and_writes_nothing(tmp_path):
    names = [f"fre_{part}.tsv" for part in g2p.PARTS]
    folder = write_tables(tmp_path / "copy", names, "abby\ta b i\nlone\n")
    answer = run("sigmorphon2020_g2p.py", "--from", folder, "--languages", "fre", "--out", tmp_path / "out")
    message = one_line(answer, "sigmorphon2020_g2p.py")
    assert "fre_train.tsv:2: must have 2 columns between tabs, got 1" in message
    assert not (tmp_path / "out").exists()
    for script in ("sigmorphon2020_g2p.py", "histnorm.py", "enja50k.py"):
        assert "must be a folder" in one_line(run(script, "--from", tmp_path / "none"), script)


# A sentence, its full stop, another sentence; a form without a partner, a space within a form, digits.
OLD_AND_NEW = "Das\tDas\nJar\tJahr\n.\t.\n\n auß wachſen\tauswachsen\ndañ\n1482\t1482\nxi\t11\n"


def test_words_are_prepared_as_in_the_experiments_beside_which_they_stand():
    rows = text_files.read_table(OLD_AND_NEW.encode(), "x", 1, 2)
    words = histnorm.prepared(rows)
    assert words == [
        ("das", "das"),
        ("jar", "jahr"),
        None,
        ("auß÷wachſen", "auswachsen"),
        ("0000", "0000"),
        ("xi", "11"),
    ]
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
    answer = run("histnorm.py", "--from", folder, "--out", tmp_path / "out")
    assert (answer.returncode, answer.stderr) == (0, "")
    assert (tmp_path / "out/german-ridges/train.old").read_text("utf-8").splitlines()[0] == "d a s >jar"
    message = one_line(run("histnorm.py", "--from", folder, "--context", "-1"), "histnorm.py")
    assert "must be at least 0" in message


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


@pytest.mark.skipif(not (SHARED / "histnorm").is_dir(), reason="no shared folder beside the clone")
def test_the_shared_copies(tmp_path):
    """Sizes are those of the task (3,600, 450, 450), and of the texts without punctuation."""
    answer = run("histnorm.py", "--from", SHARED / "histnorm", "--out", tmp_path / "old")
    assert "41868 train, 9712 dev" in answer.stdout and "50035 train, 5843 dev" in answer.stdout
    answer = run("sigmorphon2020_g2p.py", "--from", SHARED / "sigmorphon2020-g2p", "--out", tmp_path / "g2p")
    assert answer.stdout.count("3600 train, 450 dev, 450 test lines each in letters, sounds") == 10
    answer = run("enja50k.py", "--from", SHARED / "enja50k", "--out", tmp_path / "ja")
    assert "50000 train, 500 dev lines each in ja, en" in answer.stdout


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
    answer = run(script, year, "--from", folder, "--only", name, "--out", tmp_path / "out")
    assert (answer.returncode, answer.stderr) == (0, "")
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


def best_by_trying_all(source, target, shares):
    """The most probable path among all monotone ones."""

    def score(path):
        steps = [after - before for before, after in zip([-1, *path], [*path, len(source)], strict=True)]
        emitted = (shares.get((source[i], symbol), 0.0) + 1e-3 for i, symbol in zip(path, target, strict=True))
        return sum(map(math.log, emitted)) + sum(map(letter_alignment._step, steps))

    paths = itertools.combinations_with_replacement(range(len(source)), len(target))
    return max(score(path) for path in paths), score


def test_letters_are_aligned_by_the_best_path():
    rng = random.Random(5)
    for _ in range(30):
        source, target = ([rng.choice("abc") for _ in range(rng.randint(1, 5))] for _ in range(2))
        shares = {(a, b): rng.random() for a in "abc" for b in "abc"}
        found = letter_alignment.best_path(source, target, shares)
        assert [j for _, j in found] == list(range(len(target)))
        best, score = best_by_trying_all(source, target, shares)
        assert score([i for i, _ in found]) == pytest.approx(best)


def test_what_belongs_together_is_learned_from_the_words(tmp_path):
    words = ["thin", "hit", "nit", "tin", "thy", "sin", "his", "ship", "this", "sash", "hash", "path"]
    sounds = {"th": "θ", "sh": "ʃ"}
    spoken = [re.sub("th|sh", lambda two: sounds[two[0]], word) for word in words]
    for name, lines in (("a", words), ("b", spoken)):
        (tmp_path / name).write_text("".join(" ".join(line) + "\n" for line in lines), "utf-8")
    answer = run("letter_alignment.py", tmp_path / "a", tmp_path / "b", "-o", tmp_path / "align")
    assert (answer.returncode, answer.stderr) == (0, "")
    lines = (tmp_path / "align").read_text().splitlines()
    assert lines[2] == lines[3] == "0-0 1-1 2-2", "nit, tin"
    assert lines[words.index("his")] == "0-0 1-1 2-2"
    (tmp_path / "b").write_text("x\n")
    command = ["letter_alignment.py", tmp_path / "a", tmp_path / "b", "-o", tmp_path / "none"]
    assert "must have 12 lines" in one_line(run(*command), command[0])
    assert not (tmp_path / "none").exists()
