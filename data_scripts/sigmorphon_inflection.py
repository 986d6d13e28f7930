"""Brings words, features and inflected forms of many languages to FOLDER/NAME/{train,dev,test}.{lemma,form}.

    python data_scripts/sigmorphon_inflection.py 2022                  downloads from the shared task's public home
    python data_scripts/sigmorphon_inflection.py 2023 --from FOLDER    takes a copy of the task's files, plain or .gz

2022: Kodner et al., "SIGMORPHON-UniMorph 2022 Shared Task 0: Generalization and Typologically Diverse Morphological
Inflection". NAME is LANGUAGE_small (700 forms to learn from) or LANGUAGE_large (7,000). 2023: Goldman et al.,
"SIGMORPHON-UniMorph 2023 Shared Task 0: Typologically Diverse Morphological Inflection", 10,000 forms, and all words of
test are new. Both come from UniMorph (CC BY-SA 3.0 and the licences of its sources).

A line of `lemma` has the letters of the word and its features, `w a l k +V +PST`, and a line of `form` the letters of
the form, in Unicode's composed form (NFC); a syllable of Hangul is written as the letters that it is made of, and the
space within a word as `␣`.

The tables can also be read as they are, with `features_column` (docs/data.md): `nmt-train tur.tsv -o runs/tur`.
"""

import argparse
import re
from pathlib import Path

from parallel_text import Corpus, write_parallel_corpus
from sigmorphon2020_g2p import letters_of
from text_files import fail, fetch, find_text_file, read_table, read_text_bytes

HOME_2022 = "https://raw.githubusercontent.com/sigmorphon/2022InflectionST/main/part1"
HOME_2023 = "https://raw.githubusercontent.com/sigmorphon/2023InflectionST/main/part1/data"
SMALL = (
    *("ang", "ara", "asm", "bra", "ckt", "evn", "gml", "goh", "guj", "heb", "hsb", "hsi", "hye", "itl", "kat", "kaz"),
    *("ket", "khk", "kor", "mag", "nds", "non", "pol", "poma", "sjo", "slk", "slp", "tur"),
)
LARGE = (*("ang", "ara", "asm", "evn", "heb", "hye", "kat", "kaz", "khk", "kor", "non", "pol", "poma", "slk", "tur"),)
SURPRISE = ("hye", "kaz", "slp")
"""Languages of 2022 that are in another folder there."""
LANGUAGES_2023 = (
    *("afb", "amh", "arz", "bel", "dan", "deu", "eng", "fin", "fra", "grc", "heb", "heb_unvoc", "hun", "hye", "ita"),
    *("jap", "klr", "mkd", "rus", "sme", "spa", "sqi", "swa", "tur"),
)
SPACE = "\u2423"
_BETWEEN = re.compile(r"[;,()+\s]+")


def spelled(word: str) -> str:
    """Returns the letters of a word between spaces."""
    return " ".join(f" {SPACE} ".join(" ".join(letters_of(part)) for part in word.split()).split())


def sides_of(table: bytes, where: str, columns: tuple[int, int, int]) -> dict[str, bytes]:
    """Returns the lines of words with features and of forms; `columns` are those of word, form and features."""
    lemmas, forms = [], []
    for cells in read_table(table, where, 3):
        if cells is not None:
            word, form, features = (cells[column] for column in columns)
            lemmas.append(" ".join([spelled(word), *(f"+{one}" for one in _BETWEEN.split(features) if one)]))
            forms.append(spelled(form))
    both = {"lemma": lemmas, "form": forms}
    return {side: "".join(f"{line}\n" for line in rows).encode() for side, rows in both.items()}


def tables_of(year: str) -> dict[str, dict[str, tuple[str, str]]]:
    """Returns name -> part -> file and the folder at its public home."""
    if year == "2023":
        parts = {"train": "trn", "dev": "dev", "test": "tst"}
        return {name: {part: (f"{name}.{end}", HOME_2023) for part, end in parts.items()} for name in LANGUAGES_2023}
    found = {}
    for size, languages in (("small", SMALL), ("large", LARGE)):
        for name in languages:
            home = f"{HOME_2022}/{'surprise' if name in SURPRISE else 'development'}_languages"
            files = {"train": f"{name}_{size}.train", "dev": f"{name}.dev", "test": f"{name}.gold"}
            found[f"{name}_{size}"] = {part: (file, home) for part, file in files.items()}
    return found


def main() -> None:
    """Reads or downloads every table and writes both sides."""
    parser = argparse.ArgumentParser(description="Bring words, features and forms of many languages to plain text.")
    parser.add_argument("year", choices=("2022", "2023"), help="which task")
    parser.add_argument("--from", dest="folder", type=Path, help="folder of the corpus; else download")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="names such as tur_small (default: all)")
    parser.add_argument("--out", type=Path, help="folder to write (default: data/inflectionYEAR)")
    options = parser.parse_args()
    if options.folder is not None and not options.folder.is_dir():
        fail(f"--from {options.folder}: must be a folder, got none there; check the path")
    tables, columns = tables_of(options.year), (0, 1, 2) if options.year == "2022" else (0, 2, 1)
    if unknown := set(options.only or ()) - set(tables):
        fail(f"--only: must be of {', '.join(tables)}, got {sorted(unknown)[0]}; give some of these")
    for name in options.only or tables:
        corpus: Corpus = {}
        for part, (file, home) in tables[name].items():
            whole = options.folder is None
            table = fetch(f"{home}/{file}") if whole else read_text_bytes(find_text_file(options.folder, [file]))
            corpus[part] = sides_of(table, file, columns)
        write_parallel_corpus(corpus, (options.out or Path(f"data/inflection{options.year}")) / name)


if __name__ == "__main__":
    main()
