"""Brings 50,000 short sentences of the Tanaka corpus to data/enja50k/{train,dev}.{ja,en}.

    python data_scripts/enja50k.py                  downloads from the selection's public home
    python data_scripts/enja50k.py --from FOLDER    takes a copy, plain or .gz

The selection is small_parallel_enja of Yusuke Oda (github.com/odashi/small_parallel_enja): sentences of 4 to 16 words
from the Tanaka corpus, tokenized into words, the English ones lower-cased. The training text comes in five files there,
train.ja.000 to train.ja.004; a copy may have them in one. Several sentences share an English one, so translate from
Japanese.
"""

import argparse
from pathlib import Path

from parallel_text import Corpus, write_parallel_corpus
from text_files import fail, fetch, find_text_file, read_text_bytes

HOME = "https://raw.githubusercontent.com/odashi/small_parallel_enja/master"
LANGUAGES = ("ja", "en")
PARTS = ("train", "dev")
TRAIN_FILES = 5


def download(part: str, language: str) -> bytes:
    """Fetches one part from the selection's public home; its pieces are put together."""
    pieces = [f".{number:03}" for number in range(TRAIN_FILES)] if part == "train" else [""]
    return b"".join(fetch(f"{HOME}/{part}.{language}{piece}") for piece in pieces)


def main() -> None:
    """Reads or downloads every file, checks and writes."""
    parser = argparse.ArgumentParser(description="Bring 50,000 Japanese-English pairs to plain text.")
    parser.add_argument("--from", dest="folder", type=Path, help="folder of the corpus; else download")
    parser.add_argument("--out", type=Path, default=Path("data/enja50k"), help="folder to write (default: %(default)s)")
    options = parser.parse_args()
    if options.folder is not None and not options.folder.is_dir():
        fail(f"--from {options.folder}: must be a folder, got none there; check the path")
    corpus: Corpus = {part: {} for part in PARTS}
    for part in PARTS:
        for language in LANGUAGES:
            if options.folder is None:
                corpus[part][language] = download(part, language)
            else:
                corpus[part][language] = read_text_bytes(find_text_file(options.folder, [f"{part}.{language}"]))
    write_parallel_corpus(corpus, options.out)


if __name__ == "__main__":
    main()
