"""Brings names in English and another script to data/names/SCRIPT/{train,dev,test}.{latin,script}.

    python data_scripts/names.py --from FOLDER    takes a copy: SCRIPT.PART.tsv, plain or .gz
    python data_scripts/names.py                  downloads from the set's public home

The names of persons that Merhav and Ash, "Design Challenges in Named Entity Transliteration" (COLING 2018), took from
Wikidata (CC0): 26,406 to 105,371 to learn from, in six scripts. A row has the English name, the letters of the other
script between spaces, and how often the pair occurred, which is not used. Letters of a name are written between spaces.
"""

import argparse
from pathlib import Path

from parallel_text import Corpus, write_parallel_corpus
from text_files import fail, fetch, find_text_file, read_table, read_text_bytes

HOME = "https://raw.githubusercontent.com/steveash/NETransliteration-COLING2018/master/data"
PARTS = {"train": "64", "dev": "16", "test": "20"}
"""Part -> the share of the names, which is in the name of its file there."""
SCRIPTS = ("arabic", "chinese", "japanese", "katakana", "korean", "russian")


def sides_of(table: bytes, where: str) -> dict[str, bytes]:
    """Returns the lines of both scripts."""
    latin, script = [], []
    for cells in read_table(table, where, 2, 3):
        if cells is not None:
            latin.append(" ".join("".join(cells[0].split())))
            script.append(" ".join(cells[1].split()))
    both = {"latin": latin, "script": script}
    return {side: "".join(f"{line}\n" for line in rows).encode() for side, rows in both.items()}


def main() -> None:
    """Reads or downloads every table and writes both sides."""
    parser = argparse.ArgumentParser(description="Bring names in two scripts to plain text.")
    parser.add_argument("--from", dest="folder", type=Path, help="folder of the corpus; else download")
    parser.add_argument("--out", type=Path, default=Path("data/names"), help="folder to write (default: %(default)s)")
    options = parser.parse_args()
    if options.folder is not None and not options.folder.is_dir():
        fail(f"--from {options.folder}: must be a folder, got none there; check the path")
    for script in SCRIPTS:
        corpus: Corpus = {}
        for part, share in PARTS.items():
            if options.folder is None:
                table = fetch(f"{HOME}/wd_{script}_{share}")
            else:
                table = read_text_bytes(find_text_file(options.folder, [f"{script}.{part}.tsv"]))
            corpus[part] = sides_of(table, f"{script}.{part}")
        write_parallel_corpus(corpus, options.out / script)


if __name__ == "__main__":
    main()
