"""Brings EuTrans (Spanish-English travel sentences) to data/eutrans/{train,dev,test}.{es,en}.

    python data_scripts/eutrans.py --from FOLDER

FOLDER contains training.es, dev.es, test.es (or test_a.es) and the corresponding .en files, plain or .gz.
A public copy is examples/EuTrans of github.com/lvapeab/nmt-keras, with a longer test text.
The text was tokenized by its authors and has a small vocabulary: a quick check on real sentences.
"""

import argparse
from pathlib import Path

from parallel_text import Corpus, write_parallel_corpus
from text_files import fail, find_text_file, read_text_bytes

LANGUAGES = ("es", "en")
# Our name of a part -> the names under which copies have it.
PARTS = {"train": ("training", "train"), "dev": ("dev",), "test": ("test_a", "test")}


def main() -> None:
    """Reads every file, checks and writes."""
    parser = argparse.ArgumentParser(description="Bring EuTrans to plain text, one sentence a line.")
    parser.add_argument("--from", dest="folder", type=Path, required=True, help="folder of the corpus; see this file")
    parser.add_argument("--out", type=Path, default=Path("data/eutrans"), help="folder to write (default: %(default)s)")
    options = parser.parse_args()
    if not options.folder.is_dir():
        fail(f"--from {options.folder}: must be a folder, got none there; check the path")
    corpus: Corpus = {part: {} for part in PARTS}
    for part, names in PARTS.items():
        for language in LANGUAGES:
            path = find_text_file(options.folder, [f"{name}.{language}" for name in names])
            corpus[part][language] = read_text_bytes(path)
    write_parallel_corpus(corpus, options.out)


if __name__ == "__main__":
    main()
