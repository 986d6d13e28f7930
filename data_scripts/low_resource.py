"""Brings texts of languages with few sentences to data/CORPUS, one sentence a line.

    python data_scripts/low_resource.py cherokee --from FOLDER
    python data_scripts/low_resource.py americas --from FOLDER
    python data_scripts/low_resource.py africa --from FOLDER
    python data_scripts/low_resource.py iwslt14-sample --from FOLDER

FOLDER is a copy, plain or .gz, or a clone of the public home:

- cherokee: Cherokee and English (Zhang, Frey and Bansal 2020), https://github.com/ZhangShiyue/ChrEn, its data/parallel.
  For research; the copyright stays with the books.
- americas: Spanish to nine languages (Mager et al. 2021), https://github.com/AmericasNLP/americasnlp2021, its data.
  All of them together, each source with a tag of its target language, are in data/americas/together, and the training
  texts of each without the tag, for corpora with a `tag` (docs/data.md). The training text is brought closer to the
  writing of dev, which differs: see SPELLING; --as-it-is leaves it.
- africa: English or French to languages of Africa, news (Adelani et al. 2022),
  https://github.com/masakhane-io/lafand-mt, its data/text_files; CC BY-NC.
- iwslt14-sample: a sample of IWSLT14, German to English, of the size of the smallest one of Sennrich and Zhang (2019):
  train.de, train.en, valid.de and valid.en, which you must have.

Parts that a copy lacks are omitted, but train and dev must be there. Do not publish the texts or models of them.
"""

import argparse
import re
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path

from parallel_text import Corpus, write_parallel_corpus
from text_files import fail, find_text_file, read_text_bytes

TOGETHER = "together"


@dataclass(frozen=True)
class Collection:
    """Corpora of one kind.

    variants: Name of a corpus -> its two languages, and the folder that it has in its public home.
    parts: Our name of a part -> its name there. train and dev are required.
    names: What a language's files are also called there.
    """

    variants: dict[str, tuple[str, str, str]]
    parts: dict[str, str]
    names: dict[str, tuple[str, ...]] = field(default_factory=dict)
    is_single: bool = False


AMERICAS = {
    "aym": "aymara",
    "bzd": "bribri",
    "cni": "ashaninka",
    "gn": "guarani",
    "hch": "wixarika",
    "nah": "nahuatl",
    "oto": "hñähñu",
    "shp": "shipibo_konibo",
    "tar": "raramuri",
}
FROM_ENGLISH = ("hau", "ibo", "lug", "luo", "pcm", "tsn", "twi", "yor", "zul")
FROM_FRENCH = ("bam", "bbj", "ewe", "fon", "mos", "wol")
WITHOUT_ACCENTS = (("[áà]", "a"), ("[éè]", "e"), ("[íì]", "i"), ("[óò]", "o"), ("[úù]", "u"))
SPELLING: dict[str, tuple[tuple[str, str], ...]] = {
    "aym": (("’", "'"),),
    "bzd": (),
    "cni": (
        ("tz", "t"),
        ("v", "b"),
        ("z", "s"),
        (r"paye\b", "pee"),
        (r"aki\b", "ake"),
        (r"\bairo\b", "eiro"),
        ("[“”]", ""),
    ),
    "gn": (("g̃", "ĝ"), *zip("ãẽĩõũỹ", "âêîôûŷ", strict=True), ("[’´]", "'"), ('[“”"]', "")),
    "hch": (("[\"']", ""),),
    "nah": (
        *((r"\by(?=[^aeiou\W])", "i"), ("ç", "z"), ("k(?=[ei])", "qu"), ("k", "c"), ("w", "hu")),
        *((r"\b(i?)u(?=[aei])", r"\1hu"), ("j", "h"), ("s(?=[ei])", "c"), ("s", "z"), ("qu(?=[ao])", "cu")),
    ),
    "oto": (
        *(("u̱", "ⴘ"), ("o̱", "ô̮"), ("e̱", "ê"), ("a̱|ä", "â"), ("['’]", ""), ("k(?=[ei])", "qu"), ("k", "c")),
        *(("j", "qh"), ("f", "ph"), ("g(?=[ei])", "gu"), ("ts", "tz"), (r"\bra\b", "na")),
    ),
    "shp": (("qu", "k"), ("c(?=[^h])", "k"), ("hu", "w"), *WITHOUT_ACCENTS),
    "tar": (
        *(("'", "’"), (r"\Br(?=[aeiouáéíóú])", "l"), ("ŕ", "r"), ("g(?!a’)", "k"), ("tz", "ch")),
        (r"(?<=[aeiouáéíóú]\w)e\b", "i"),
    ),
}
"""Language -> substitutions, one after another, in the lower-cased words of its training text: it is written in another
orthography, or in several, than dev. Found by comparing the frequencies of letters and words in both."""
SENTENCES = {"bzd": str.upper, "hch": str.lower, "tar": str.upper}
"""Languages whose training text lacks full stops and capitals that dev has -> what a sentence begins with there."""
THREE = {"train": "train", "dev": "dev", "test": "test"}
COLLECTIONS = {
    "cherokee": Collection(
        {"": ("chr", "en", "")}, THREE | {"out_dev": "out_dev", "out_test": "out_test"}, is_single=True
    ),
    "americas": Collection(
        {code: ("es", code, f"{name}-spanish") for code, name in AMERICAS.items()},
        THREE,
        {"hch": ("wix",), "tar": ("tnh",)},
    ),
    "africa": Collection(
        {f"en-{code}": ("en", code, f"en-{code}") for code in FROM_ENGLISH}
        | {f"fr-{code}": ("fr", code, f"fr-{code}") for code in FROM_FRENCH},
        THREE,
    ),
    "iwslt14-sample": Collection({"": ("de", "en", "")}, {"train": "train", "dev": "valid"}, is_single=True),
}


def read_corpus(collection: Collection, variant: str, folder: Path) -> Corpus:
    """Returns the texts of one corpus; ends the script if train or dev are missing."""
    *languages, home = collection.variants[variant]
    corpus: Corpus = {}
    for part, name in collection.parts.items():
        sides = {}
        for language in languages:
            forms = (language, *collection.names.get(language, ()))
            places = [f"{prefix}{name}.{form}" for form in forms for prefix in prefixes(variant, home)]
            if part in ("train", "dev") or has_any(folder, places):
                sides[language] = read_text_bytes(find_text_file(folder, places))
        if len(sides) == len(languages):
            corpus[part] = sides
    return corpus


def prefixes(variant: str, home: str) -> list[str]:
    """Returns what stands before the name of a part: in a copy, and in the public home."""
    return [f"{variant}.", f"{home}/"] if variant else [""]


def has_any(folder: Path, names: list[str]) -> bool:
    """Returns whether one of the files is there, plain or packed."""
    return any((folder / f"{name}{end}").is_file() for name in names for end in ("", ".gz"))


def like_dev(language: str, source: str, target: str) -> tuple[str, str]:
    """Returns a pair of the training text in the writing of dev: no spaces before signs, the language's spelling."""
    source, target = (re.sub(r"([¿¡(“]) +", r"\1", re.sub(r" +([,.;:?!)”])", r"\1", x)) for x in (source, target))

    def respell(word: re.Match[str]) -> str:
        """Returns the word by the rules, with its first letter's case."""
        text = word.group()
        new = text.lower()
        for pattern, replacement in SPELLING[language]:
            new = re.sub(pattern, replacement, new)
        first = re.search(r"\w", text)
        return (
            re.sub(r"\w", lambda letter: letter.group().upper(), new, count=1)
            if first and first.group().isupper()
            else new
        )

    if language == "aym":  # `jist ’ arapx` is one word
        target = re.sub(r"(?<=\w) ?[’'] ?(?=\w)", "'", target)
    source, target = source.strip(), re.sub(r"\S+", respell, target).strip()
    if language in SENTENCES and source and target:
        source, target = (text.rstrip(" ,;:-") or text for text in (source, target))
        stop = "" if {source[-1], target[-1]} & set(".?!") else "."
        source = source[0].upper() + source[1:] + stop
        target = SENTENCES[language](target[0]) + target[1:] + stop
    return source, target


def respelled(language: str, corpus: Corpus) -> Corpus:
    """Returns a corpus whose training text is written like dev."""
    sides = [unicodedata.normalize("NFC", corpus["train"][name].decode()) for name in ("es", language)]
    pairs = zip(*(side.removesuffix("\n").split("\n") for side in sides), strict=True)
    new = [like_dev(language, *pair) for pair in pairs]
    train = {name: "".join(f"{pair[i]}\n" for pair in new).encode() for i, name in enumerate(("es", language))}
    return corpus | {"train": train}


def together(corpora: dict[str, Corpus]) -> Corpus:
    """Returns texts of several corpora as one, `train` and `dev`, and those of each, `train_CODE` and `dev_CODE`. A tag
    of the target language is before each source but those of `train_CODE`: `tag` of a corpus puts it there."""
    joined: Corpus = {part: {"es": b"", "xx": b""} for part in ("train", "dev")}
    for code, corpus in corpora.items():
        for part in ("train", "dev"):
            plain, target = (corpus[part][lang].removesuffix(b"\n") + b"\n" for lang in ("es", code))
            source = b"".join(b"<2%s> %s\n" % (code.encode(), line) for line in plain.split(b"\n")[:-1])
            joined[part]["es"] += source
            joined[part]["xx"] += target
            joined[f"{part}_{code}"] = {"es": source if part == "dev" else plain, "xx": target}
    return joined


def main() -> None:
    """Reads every file, checks and writes."""
    parser = argparse.ArgumentParser(description="Bring texts of languages with few sentences to plain text.")
    parser.add_argument("corpus", choices=list(COLLECTIONS))
    parser.add_argument("--from", dest="folder", type=Path, required=True, help="folder of the corpus; see this file")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="languages or pairs (default: all)")
    parser.add_argument("--as-it-is", action="store_true", help="americas: leave the spelling of the training text")
    parser.add_argument("--out", type=Path, help="folder to write (default: data/CORPUS)")
    options = parser.parse_args()
    collection = COLLECTIONS[options.corpus]
    out = options.out or Path("data") / options.corpus
    if not options.folder.is_dir():
        fail(f"--from {options.folder}: must be a folder, got none there; check the path")
    if unknown := [name for name in options.only or () if name not in collection.variants or collection.is_single]:
        known = "nothing to choose from" if collection.is_single else ", ".join(collection.variants)
        fail(f"--only {unknown[0]}: must be a part of {options.corpus}, got another; it has {known}")
    corpora = {name: read_corpus(collection, name, options.folder) for name in options.only or collection.variants}
    if options.corpus == "americas" and not options.as_it_is:
        corpora = {name: respelled(name, corpus) for name, corpus in corpora.items()}
    for name, corpus in corpora.items():
        write_parallel_corpus(corpus, out / name)
    if options.corpus == "americas":
        write_parallel_corpus(together(corpora), out / TOGETHER)


if __name__ == "__main__":
    main()
