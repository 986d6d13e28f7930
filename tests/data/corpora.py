"""Small corpora and sides for the tests of this folder."""

from pathlib import Path
from random import Random

from nmt.config import SideConfig
from nmt.data.corpora.corpus import Side
from nmt.data.tokens.subwords import Subwords, train_subwords
from nmt.errors import DataError
from tests.refusals import refused

WORDS = (
    "the a house tree river green old walks sleeps sees under over small bright dog cat and but "
    "nine eleven never always window garden street evening"
).split()


def sentences(count: int, seed: int = 0, longest: int = 12) -> list[str]:
    """Sentences of 1 to `longest` words."""
    random = Random(seed)
    return [" ".join(random.choices(WORDS, k=random.randint(1, longest))) for _ in range(count)]


def small_subwords(type: str = "unigram", vocab_size: int = 45) -> Subwords:
    """A model trained on 400 such sentences."""
    return train_subwords(sentences(400), type=type, vocab_size=vocab_size)


def side(lang: str, subwords: Subwords, **settings: object) -> Side:
    """One side with default settings except those given."""
    return Side(SideConfig.model_validate({"lang": lang, **settings}), subwords)


def write_pair(folder: Path, src: list[str], tgt: list[str], name: str = "train") -> str:
    """Write NAME.de and NAME.en; gives the prefix."""
    for lang, lines in (("de", src), ("en", tgt)):
        (folder / f"{name}.{lang}").write_bytes("".join(f"{line}\n" for line in lines).encode())
    return str(folder / name)


def arrays(corpus):
    """All arrays of a corpus of pairs."""
    return corpus.src.tokens, corpus.src.starts, corpus.tgt.tokens, corpus.tgt.starts, corpus.line_numbers


def line_of(function):
    """The message of the DataError that a function raises, which is one line."""
    return refused(DataError, "", function)
