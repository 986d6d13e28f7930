"""Brings CMUdict, letters to sounds, to data/cmudict/{train,dev,test}.{grapheme,phoneme}.

    python data_scripts/cmudict.py --from FOLDER

The dictionary is public (github.com/cmusphinx/cmudict); its division into three parts is yours, since none is published
in this form. FOLDER contains train.grapheme, dev.grapheme, test.grapheme (or test_a.grapheme) and the corresponding
.phoneme files, plain or .gz: one word or pronunciation per line, letters and sounds separated by spaces. In dev and
test a line may contain several pronunciations separated by vertical bars, any of which is correct. dev.phoneme and
test.phoneme keep the first, since training needs exactly one; dev.answers and test.answers have all, for
pronunciation_errors.py.
"""

import argparse
from pathlib import Path

from parallel_text import Corpus, write_parallel_corpus
from text_files import fail, find_text_file, read_text_bytes, write_aside

# Our name of a part -> the names under which copies have it.
PARTS = {"train": ("train",), "dev": ("dev",), "test": ("test_a", "test")}


def main() -> None:
    """Reads every file, checks and writes."""
    parser = argparse.ArgumentParser(description="Bring CMUdict to plain text, one word a line.")
    parser.add_argument("--from", dest="folder", type=Path, required=True, help="folder of the corpus; see this file")
    parser.add_argument("--out", type=Path, default=Path("data/cmudict"), help="folder to write (default: %(default)s)")
    options = parser.parse_args()
    if not options.folder.is_dir():
        fail(f"--from {options.folder}: must be a folder, got none there; check the path")
    corpus: Corpus = {part: {} for part in PARTS}
    answers: dict[str, bytes] = {}
    for part, names in PARTS.items():
        for side in ("grapheme", "phoneme"):
            corpus[part][side] = read_text_bytes(find_text_file(options.folder, [f"{name}.{side}" for name in names]))
        if part != "train":
            answers[part] = corpus[part]["phoneme"]
            corpus[part]["phoneme"] = first_pronunciations(answers[part])
    write_parallel_corpus(corpus, options.out)
    for part, text in answers.items():
        write_aside(options.out / f"{part}.answers", text)


def first_pronunciations(text: bytes) -> bytes:
    """Returns the lines without what follows the first vertical bar."""
    return b"".join(line.split(b"|", 1)[0].strip() + b"\n" for line in text.splitlines())


if __name__ == "__main__":
    main()
