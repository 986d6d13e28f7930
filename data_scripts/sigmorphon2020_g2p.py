"""Brings letters and sounds of many languages to data/sigmorphon2020_g2p/LANGUAGE/{train,dev,test}.{letters,sounds}.

    python data_scripts/sigmorphon2020_g2p.py                  downloads from the shared task's public home
    python data_scripts/sigmorphon2020_g2p.py --from FOLDER    takes a copy: LANGUAGE_PART.tsv, plain or .gz

The data of the shared task on letters to sounds of 2020 (Gorman, Ashby, Goyzueta, McCarthy, Wu and You, "The SIGMORPHON
2020 Shared Task on Multilingual Grapheme-to-Phoneme Conversion"), which come from Wiktionary (CC BY-SA): 3,600 words to
learn from, 450 to choose by and 450 to be scored by in each language. A syllable of Hangul is written as the two or
three letters that it is made of; elsewhere a letter is a character of Unicode's composed form (NFC).
"""

import argparse
import unicodedata
from pathlib import Path

from parallel_text import Corpus, write_parallel_corpus
from text_files import fail, fetch, find_text_file, read_table, read_text_bytes

HOME = "https://raw.githubusercontent.com/sigmorphon/2020/master/task1/data"
PARTS = ("train", "dev", "test")
LANGUAGES = ("arm", "bul", "fre", "geo", "gre", "hin", "hun", "ice", "kor", "lit")


def letters_of(word: str) -> list[str]:
    """Returns the letters of a word, those within a syllable of Hangul one by one."""
    composed = unicodedata.normalize("NFC", word)
    parts = [unicodedata.normalize("NFD", c) if "\uac00" <= c <= "\ud7a3" else c for c in composed]
    return [letter for part in parts for letter in part if not letter.isspace()]


def sides_of(table: bytes, where: str) -> dict[str, bytes]:
    """Returns letters and sounds of a table, a word a line."""
    rows = [row for row in read_table(table, where, 2) if row is not None]
    letters = [" ".join(letters_of(word)) for word, _ in rows]
    sounds = [" ".join(sounds.split()) for _, sounds in rows]
    return {side: ("\n".join(lines) + "\n").encode() for side, lines in (("letters", letters), ("sounds", sounds))}


def main() -> None:
    """Reads or downloads every table and writes both sides."""
    parser = argparse.ArgumentParser(description="Bring letters and sounds of many languages to plain text.")
    parser.add_argument("--from", dest="folder", type=Path, help="folder of the corpus; else download")
    parser.add_argument("--languages", nargs="+", default=LANGUAGES, help="codes of the task (default: %(default)s)")
    parser.add_argument(
        "--out", type=Path, default=Path("data/sigmorphon2020_g2p"), help="folder to write (default: %(default)s)"
    )
    options = parser.parse_args()
    if options.folder is not None and not options.folder.is_dir():
        fail(f"--from {options.folder}: must be a folder, got none there; check the path")
    for language in options.languages:
        corpus: Corpus = {}
        for part in PARTS:
            name = f"{language}_{part}.tsv"
            if options.folder is None:
                table = fetch(f"{HOME}/{part}/{name}")
            else:
                table = read_text_bytes(find_text_file(options.folder, [name]))
            corpus[part] = sides_of(table, name)
        write_parallel_corpus(corpus, options.out / language)


if __name__ == "__main__":
    main()
