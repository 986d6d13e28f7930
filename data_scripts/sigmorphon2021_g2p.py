"""Brings letters and sounds of many languages to data/sigmorphon2021_g2p/LANGUAGE/{train,dev,test}.{letters,sounds}.

    python data_scripts/sigmorphon2021_g2p.py                  downloads from the shared task's public home
    python data_scripts/sigmorphon2021_g2p.py --from FOLDER    takes a copy: SIZE.LANGUAGE_PART.tsv, plain or .gz

The data of the shared task on letters to sounds of 2021 (Ashby et al., "Results of the Second SIGMORPHON Shared Task on
Multilingual Grapheme-to-Phoneme Conversion"), which come from Wiktionary (CC BY-SA): 800 words to learn from in the
setting low, 8,000 in medium. Letters are as in sigmorphon2020_g2p.py.
"""

import argparse
from pathlib import Path

from parallel_text import Corpus, write_parallel_corpus
from sigmorphon2020_g2p import PARTS, sides_of
from text_files import fail, fetch, find_text_file, read_text_bytes

HOME = "https://raw.githubusercontent.com/sigmorphon/2021-task1/main/data"
LANGUAGES = {
    "low": ("ice", "ita", "lav", "mlt_latn", "rum", "slv", "wel_sw"),
    "medium": ("arm_e", "bul", "dut", "fre", "geo", "hbs_latn", "hun", "jpn_hira"),
}


def main() -> None:
    """Reads or downloads every table and writes both sides."""
    parser = argparse.ArgumentParser(description="Bring letters and sounds of many languages to plain text.")
    parser.add_argument("--from", dest="folder", type=Path, help="folder of the corpus; else download")
    parser.add_argument(
        "--out", type=Path, default=Path("data/sigmorphon2021_g2p"), help="folder to write (default: %(default)s)"
    )
    options = parser.parse_args()
    if options.folder is not None and not options.folder.is_dir():
        fail(f"--from {options.folder}: must be a folder, got none there; check the path")
    for size, languages in LANGUAGES.items():
        for language in languages:
            corpus: Corpus = {}
            for part in PARTS:
                name = f"{language}_{part}.tsv"
                if options.folder is None:
                    table = fetch(f"{HOME}/{size}/{name}")
                else:
                    table = read_text_bytes(find_text_file(options.folder, [f"{size}.{name}", f"{size}/{name}"]))
                corpus[part] = sides_of(table, name)
            write_parallel_corpus(corpus, options.out / language)


if __name__ == "__main__":
    main()
