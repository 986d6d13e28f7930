"""Subwords: the same model every time, text that comes back, specials that never become text."""

import errno
import io
import os
import unicodedata

import pytest
import sentencepiece

from nmt.config import DataConfig
from nmt.data.corpora.corpus import clean_line
from nmt.data.corpora.prepare import load_sides
from nmt.data.tokens.factors import subwords_from_file
from nmt.data.tokens.subwords import SPECIAL_PIECES, Subwords, _sample, train_subwords
from nmt.errors import DataError
from nmt.special_tokens import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from tests.data.corpora import line_of, sentences, small_subwords, write_pair
from tests.processes import python
from tests.refusals import refused

TYPES = ["unigram", "bpe", "char", "word"]
HOSTILE = [
    "",
    "   ",
    "\t \u3000 ",
    "a\x00b\x01c\x7f",
    "one\u2028two\u2029three\x85four\x0bfive\x0c",
    "👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽",
    "שלום עולם مرحبا بالعالم",
    "\u202eright to left\u202c \u200f.",
    "e\u0301\u0302\u0303 Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢L",
    "<s> </s> <pad> <unk> ▁ ▁▁x",
    "<0x0A> \\n %s {0} &amp; a/b",
    "中文没有空格",
    "x" * 5000,
    "ﬁ ½ Ⅷ",
    "non\u00a0breaking",
    "lone \ud800 surrogate",
]


@pytest.mark.parametrize("type", TYPES)
def test_plain_text_comes_back(type):
    subwords = small_subwords(type)
    text = sentences(50, seed=9)
    rows = subwords.encode(text)
    assert subwords.decode(rows) == text
    assert all(EOS_ID < i < subwords.vocab_size for row in rows for i in row)


def test_characters_of_the_training_text_come_back_however_odd():
    # sentencepiece passes over "</s>" in its training text: the slash has to occur elsewhere too.
    text = [clean_line(line) for line in HOSTILE]
    trained = train_subwords(sentences(200) + text * 5, type="char", vocab_size=1000)
    for line in text:
        row = trained.encode([line])[0]
        assert UNK_ID not in row
        assert trained.decode([row]) == [line]


@pytest.mark.parametrize("type", TYPES)
def test_unknown_characters_harm_nothing(type):
    subwords = small_subwords(type)
    for line in HOSTILE:
        (row,) = subwords.encode([clean_line(line)])
        (text,) = subwords.decode([row])
        assert all(unicodedata.category(char) not in ("Cc", "Zl", "Zp") for char in text)
        assert "⁇" not in text and not any(piece in text for piece in ("<unk>", "<pad>"))
        assert len(text.splitlines()) <= 1


def test_special_names_in_the_text_are_not_special():
    for row in small_subwords().encode(["<s> </s>", "<pad>", "a </s> b", "<unk>"]):
        assert not {PAD_ID, BOS_ID, EOS_ID} & set(row)


@pytest.mark.parametrize("type", TYPES)
def test_special_ids_decode_to_nothing(type):
    subwords = small_subwords(type)
    row = subwords.encode(["the old house"])[0]
    found = subwords.decode([[BOS_ID, *row, EOS_ID, PAD_ID, PAD_ID], row, [], [UNK_ID] * 3, [PAD_ID, EOS_ID]])
    assert found == ["the old house", "the old house", "", "", ""]
    assert subwords.decode([[part for i in row for part in (UNK_ID, i, PAD_ID)]]) == ["the old house"]
    assert subwords.pieces([0, 1, 2, 3]) == list(SPECIAL_PIECES)
    assert "".join(subwords.pieces(row)) == "▁the▁old▁house"
    refused(IndexError, "", subwords.decode, [[subwords.vocab_size]])


def test_every_single_unit_decodes_to_clean_text():
    subwords = small_subwords()
    for text in subwords.decode([[i] for i in range(subwords.vocab_size)]):
        assert not any(piece in text for piece in SPECIAL_PIECES)


@pytest.mark.parametrize("type", TYPES)
def test_training_is_deterministic(type):
    assert small_subwords(type).model_bytes == small_subwords(type).model_bytes


def of_a_sample():
    return train_subwords(iter(sentences(600)), type="bpe", vocab_size=60, max_sentences=150).model_bytes


def test_training_on_a_sample_is_deterministic_in_every_process():
    (model,) = {of_a_sample() for _ in range(3)}
    assert train_subwords(sentences(600), type="bpe", vocab_size=60).model_bytes != model
    for _ in range(2):
        assert python("from tests.data.test_subwords import of_a_sample as f; print(f())").stdout == f"{model}\n"


@pytest.mark.parametrize("count", [0, 1, 999, 1000])
def test_a_text_that_is_small_enough_is_its_own_sample(count):
    assert list(_sample(map(str, range(count)), 1000)) == [str(number) for number in range(count)]


def test_a_sample_is_drawn_from_all_of_a_text():
    found = [int(line) for line in _sample(map(str, range(100_000)), 1000)]
    assert len(set(found)) == 1000
    # A tenth of the text gives 100 lines; five standard deviations are 47.
    counts = [sum(number // 10_000 == tenth for number in found) for tenth in range(10)]
    assert sum(counts) == 1000
    assert all(abs(count - 100) < 47 for count in counts)


@pytest.mark.parametrize("type", ["char", "word"])
def test_vocabulary_size_is_a_limit_for_char_and_word(type):
    assert small_subwords(type, 12).vocab_size == 12
    assert 12 < small_subwords(type, 5000).vocab_size < 60


@pytest.mark.parametrize("type", ["unigram", "bpe"])
def test_vocabulary_size_is_exact_and_one_too_large_names_the_largest_that_works(type):
    assert small_subwords(type, 40).vocab_size == 40
    line = line_of(lambda: small_subwords(type, 100_000))
    assert "data.subwords.vocab_size must be at most" in line and "got 100000" in line
    largest = int(line.split("at most ")[1].split()[0])
    assert small_subwords(type, largest).vocab_size == largest


def test_too_small_a_vocabulary_names_the_smallest():
    smallest = int(line_of(lambda: small_subwords("bpe", 6)).split("at least ")[1].split()[0])
    assert small_subwords("bpe", smallest).vocab_size == smallest


@pytest.mark.parametrize("text", [[], [""], ["", "  ", " "]])
def test_an_empty_text_is_one_line(text):
    assert "must contain at least one word" in line_of(lambda: train_subwords(text))


def test_an_error_while_reading_comes_through_unchanged():
    def broken():
        yield "hello world"
        raise DataError("train.de: line 2 must be UTF-8")

    assert line_of(lambda: train_subwords(broken())) == "train.de: line 2 must be UTF-8"


def test_training_keeps_no_more_sentences_than_the_sample_has():
    """On the Python side; sentencepiece has its own copies."""
    alive = peak = 0

    class Sentence(str):
        def __new__(cls, text):
            nonlocal alive, peak
            alive += 1
            peak = max(peak, alive)
            return super().__new__(cls, text)

        def __del__(self):
            nonlocal alive
            alive -= 1

    text = (Sentence(text) for text in sentences(3000))
    train_subwords(text, type="bpe", vocab_size=60, max_sentences=200)
    assert 200 <= peak < 220


def test_training_is_silent(capfd):
    small_subwords("bpe")
    line_of(lambda: small_subwords("bpe", 100_000))
    line_of(lambda: train_subwords([]))
    captured = capfd.readouterr()
    assert captured.out == "" and captured.err == ""


def test_files_and_bytes(tmp_path):
    subwords = small_subwords()
    path = tmp_path / "joint.spm"
    path.write_bytes(subwords.model_bytes)
    text = sentences(5, seed=3)
    for again in (subwords_from_file(path), Subwords(subwords.model_bytes)):
        assert again.encode(text) == subwords.encode(text)
        assert again.model_bytes == subwords.model_bytes
    path.write_bytes(subwords.model_bytes[: len(subwords.model_bytes) // 2])
    assert str(path) in line_of(lambda: subwords_from_file(path))
    path.write_bytes(b"")
    assert "empty file" in line_of(lambda: subwords_from_file(path))
    path.write_bytes(b"this is not a model at all")
    line_of(lambda: subwords_from_file(path))
    assert "No such file" in line_of(lambda: subwords_from_file(tmp_path / "none.spm"))
    assert str(tmp_path) in line_of(lambda: subwords_from_file(tmp_path))


def foreign_model(**settings):
    result = io.BytesIO()
    settings = {"model_writer": result, "minloglevel": 5, "vocab_size": 45} | settings
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(sentences(400)), **settings)
    return result.getvalue()


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"unk_id": 3, "bos_id": 2, "eos_id": 1, "pad_id": 0},
        {"bos_id": -1, "eos_id": -1},
        {"unk_id": 0, "bos_id": 1, "eos_id": 2, "pad_id": 44},
        {"model_type": "bpe", "user_defined_symbols": ["<2de>"], "control_symbols": ["<x>"]},
    ],
)
def test_models_of_other_ids_are_renumbered(settings):
    model = foreign_model(**settings)
    subwords = Subwords(model)
    plain = sentencepiece.SentencePieceProcessor(model_proto=model)
    text = sentences(20, seed=5)
    rows = subwords.encode(text)
    assert subwords.decode(rows) == text
    assert all(EOS_ID < i < subwords.vocab_size for row in rows for i in row)
    assert [subwords.pieces(row) for row in rows] == plain.encode(text, out_type=str)
    assert subwords.encode(["Ω"])[0][-1] == UNK_ID
    assert subwords.decode([[PAD_ID, UNK_ID, BOS_ID, EOS_ID, *rows[0]]]) == [text[0]]
    all_pieces = subwords.pieces(range(4, subwords.vocab_size))
    assert len(set(all_pieces)) == len(all_pieces) == subwords.vocab_size - 4


def test_byte_pieces_cannot_break_a_line():
    settings = {"vocab_size": 340, "byte_fallback": True, "model_type": "bpe", "hard_vocab_limit": False}
    subwords = Subwords(foreign_model(**settings))
    pieces = subwords.pieces(range(subwords.vocab_size))
    newline, nul = pieces.index("<0x0A>"), pieces.index("<0x00>")
    word = subwords.encode(["house"])[0]
    assert subwords.decode([[*word, newline, nul, *word]])[0].splitlines()[0].count("house") == 2
    assert subwords.decode([subwords.encode(["Ω 😀"])[0]]) == ["Ω 😀"]


def test_many_sentences_encode_as_each_alone():
    subwords = small_subwords()
    text = sentences(1500, seed=4)
    assert subwords.encode(text) == [subwords.encode([line])[0] for line in text]
    assert subwords.encode([]) == [] and subwords.decode([]) == []


def data_config(prefix, **subwords):
    sides = {"src": {"lang": "de"}, "tgt": {"lang": "en", "lowercase": True}}
    texts = {"train": prefix, "dev": prefix, "subwords": {"vocab_size": 45, **subwords}}
    return DataConfig.model_validate(texts | sides)


def test_load_sides_joint_separate_and_given(tmp_path):
    prefix = write_pair(tmp_path, sentences(300, 1), [s.upper() for s in sentences(300, 2)])
    src, tgt = load_sides(data_config(prefix))
    assert src.subwords is tgt.subwords and src.subwords.vocab_size == 45
    assert UNK_ID in src.subwords.encode(["HOUSE"])[0], "the target is lower-cased before training"
    src2, tgt2 = load_sides(data_config(prefix, joint=False, vocab_size=40))
    assert src2.subwords is not tgt2.subwords
    path = tmp_path / "given.spm"
    path.write_bytes(src.subwords.model_bytes)
    given, same = load_sides(data_config(str(tmp_path / "not there"), model_file=str(path)))
    assert given.subwords is same.subwords and given.subwords.vocab_size == 45
    refused(DataError, "no such file, nor", load_sides, data_config(str(tmp_path / "not there")))
    half, trained = load_sides(data_config(prefix, joint=False, src_model_file=str(path)))
    assert half.subwords.model_bytes == src.subwords.model_bytes != trained.subwords.model_bytes
    assert os.path.exists(path)


@pytest.mark.parametrize(("kind", "size"), [("word", 100), ("unigram", 11), ("char", 100)])
def test_tokens_that_the_model_lacks_are_joined_as_words(kind, size):
    """As words of the source take the place of unknown tokens."""
    lines = ["a b c d"] * 20 + ["b c d a a b"] * 20
    subwords = train_subwords(lines, type=kind, vocab_size=size, character_coverage=1.0)
    joined = [subwords.join(pieces) for pieces in (["▁a", "▁ж", "▁b"], ["▁ж", "▁b"], ["▁b", "▁жж"], ["▁", "ж"])]
    assert joined == ["a ж b", "ж b", "b жж", "ж"]


@pytest.mark.parametrize(
    ("name", "content", "advice"),
    [
        ("mine.vocab", "<unk>\t0\n▁a\t-1.5\n", r"got a list of pieces; give .*mine\.model, next to it"),
        ("codes.bpe", "#version: 0.2\na b\n", "got codes of subword-nmt; leave it out"),
        ("text", "something\n", "something else"),
        ("missing.model", None, "cannot be read"),
    ],
)
def test_files_that_are_no_model_are_told_apart(tmp_path, name, content, advice):
    if content is not None:
        (tmp_path / name).write_text(content, "utf-8")
    told = refused(DataError, advice, subwords_from_file, tmp_path / name)
    assert "must be a sentencepiece model, or a .spm file of a model folder" in told


@pytest.mark.parametrize("piece", ["▁a", "<unk>"])
def test_a_piece_that_is_not_utf_8_is_one_line(piece):
    """sentencepiece reads such a model, and raises an error of Unicode when it names the piece."""
    content = train_subwords(["a b c d"] * 20, type="word", vocab_size=10).model_bytes
    damaged = content.replace(piece.encode(), b"\xff" * len(piece.encode()))
    assert damaged != content
    refused(DataError, "must be a sentencepiece model, .* copy it again", Subwords, damaged)


def test_lines_are_cut_and_joined_also_where_the_system_starts_no_threads(monkeypatch):
    """sentencepiece starts threads for many lines."""
    subwords = train_subwords(LINES_FOR_THREADS, type="bpe", vocab_size=40)
    expected = subwords.encode(LINES_FOR_THREADS)
    pieces, texts = subwords.cut(LINES_FOR_THREADS), subwords.decode(expected)

    class Lonely:
        def encode(self, lines, **options):
            if not isinstance(lines, str):
                raise RuntimeError(os.strerror(errno.EAGAIN))
            return processor.encode(lines, **options)

        def decode(self, rows):
            if rows and not isinstance(rows[0], int):
                raise RuntimeError(os.strerror(errno.EAGAIN))
            return processor.decode(rows)

    processor = subwords._processor
    monkeypatch.setattr(subwords, "_processor", Lonely())
    assert subwords.encode(LINES_FOR_THREADS) == expected
    assert subwords.cut(LINES_FOR_THREADS) == pieces
    assert subwords.decode(expected) == texts
    assert subwords.cut(["a line"]) == [pieces[0][:2]]


LINES_FOR_THREADS = [f"a line {number} of many" for number in range(200)]
