"""Tokens of bytes: every text comes back, merges and longest tokens are as defined, damaged files are an error."""

import json
import random
import unicodedata

import pytest

from nmt.data.tokens.byte_tokens import LETTER_OF, ByteTokens, as_letters, read_byte_tokens
from nmt.data.tokens.subword_files import read_subwords
from nmt.errors import DataError
from nmt.special_tokens import UNK_ID

BYTES = [as_letters(bytes([n])) for n in range(256)]
TEXTS = [
    "it's we'll",
    " two  spaces",
    "a\tb",
    "½ ² 12",
    "naïve 猫",
    "e\u0301",
    "'''s",
    "x\u00a0 y",
    "it'S 'sd",
    "",
    " ",
]
MERGES = [("i", "t"), ("Ġ", "w"), ("Ġw", "e"), ("l", "l"), ("'", "ll"), ("1", "2"), ("Ġ", "12"), ("Ã", "¯"), ("Ġ", "Ġ")]


def merging(**options):
    return ByteTokens([*BYTES, *(a + b for a, b in MERGES)], MERGES, **options)


def longest():
    return ByteTokens([*BYTES, *map(as_letters, (b"ab", b"abcd", "猫".encode(), b" a"))], None)


@pytest.mark.parametrize("make", [merging, longest])
def test_every_text_comes_back_and_so_does_the_vocabulary(make):
    tokens = make()
    again = read_subwords(tokens.model_bytes)
    assert isinstance(again, ByteTokens)
    rng = random.Random(1)
    texts = TEXTS + ["".join(chr(rng.randrange(32, 0xD000)) for _ in range(20)) for _ in range(20)]
    rows = tokens.encode(texts)
    assert again.encode(texts) == rows
    assert UNK_ID not in {n for row in rows for n in row}
    for text, row in zip(texts, rows, strict=True):
        shown = "".join(" " if unicodedata.category(c) == "Cc" or c in "\u2028\u2029" else c for c in text)
        assert tokens.decode([row]) == again.decode([row]) == [shown]
        assert len(tokens.cut([text])[0]) == len(row)
    assert tokens.unwritten(texts) == []


def test_pieces_are_those_of_gpt_2():
    tokens = merging()
    assert tokens.pieces(tokens.encode(["it's we'll"])[0]) == ["it", "'", "s", "▁we", "'ll"]
    assert tokens.pieces(tokens.encode(["x 12 3"])[0]) == ["x", "▁12", "▁", "3"]
    # The last space of several belongs to what follows.
    assert tokens.pieces(tokens.encode(["a   we"])[0]) == ["a", "▁▁", "▁we"]
    assert tokens.join(["it", "▁we"]) == "it we"


def test_the_longest_token_is_taken_even_if_a_shorter_one_is_none():
    tokens = longest()
    assert tokens.pieces(tokens.encode(["abcd abce 猫"])[0]) == ["abcd", "▁a", "b", "c", "e", "▁", "猫"]


def test_options_of_the_text():
    whole = ByteTokens([*merging().units, "we", "well"], MERGES, whole=["we", "well"])
    assert whole.pieces(whole.encode(["wello we"])[0]) == ["well", "o", "▁", "we"]
    prefixed = merging(prefixed=True)
    assert prefixed.cut(["we", " we"]) == [["▁we"], ["▁we"]]
    assert prefixed.decode(prefixed.encode(["we"])) == [prefixed.join(["▁we"])] == ["we"]
    assert merging(normal=True).encode(["e\u0301"]) == merging().encode(["é"]) != merging().encode(["e\u0301"])


def test_a_byte_without_a_token_is_unknown():
    tokens = ByteTokens(["a", "Ġ"], [])
    assert tokens.encode(["ab"]) == [[4, UNK_ID]]
    assert tokens.unwritten(["ab a"]) == ["b"]


def test_damaged_files_are_an_error_of_one_line():
    content = merging().model_bytes
    values = json.loads(content)
    for wrong, text in (
        (content[:-20], "got a part of one"),
        (json.dumps(values | {"nmt_byte_tokens": 2}).encode(), "another version than 1"),
        (json.dumps(values | {"units": ["a", "a"]}).encode(), "a unit twice"),
        (json.dumps(values | {"merges": [["a"]]}).encode(), "merges that are not pairs"),
        (json.dumps(values | {"whole": [1]}).encode(), "units that are not texts"),
    ):
        with pytest.raises(DataError, match=text) as error:
            read_byte_tokens(wrong, "joint.spm")
        assert "\n" not in str(error.value)


def test_the_library_tokenizers_gives_these_tokens():
    library = pytest.importorskip("tokenizers", reason="a witness by others needs tokenizers")
    theirs = library.Tokenizer(library.models.BPE())
    theirs.normalizer = library.normalizers.NFC()
    theirs.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = library.trainers.BpeTrainer(vocab_size=600, initial_alphabet=LETTER_OF, show_progress=False)
    text = ["it's the cat's 12 cats, we'll see the naïve cats", "猫 ½ cat cats the the"] * 3
    theirs.train_from_iterator(text, trainer)
    theirs.add_tokens([library.AddedToken("  ", normalized=True)])
    model = json.loads(theirs.to_str())["model"]
    units = [*sorted(model["vocab"], key=model["vocab"].get), "ĠĠ"]
    ours = ByteTokens(units, [tuple(pair) for pair in model["merges"]], whole=["  "], normal=True)
    rng = random.Random(2)
    kinds = [(32, 127), (0x80, 0x3000), (32, 33), (39, 40), (48, 58), (0x1F300, 0x1F600)]
    for _ in range(500):
        line = "".join(chr(rng.randrange(*rng.choice(kinds))) for _ in range(30)) + rng.choice(text)
        assert ours.encode([line])[0] == [n + 4 for n in theirs.encode(line).ids], line
