"""Brings Multi30k (image captions) to plain text: data/multi30k/{train,dev,test}.{de,en,fr}.

    python data_scripts/multi30k.py                  downloads from the corpus' public home
    python data_scripts/multi30k.py --from FOLDER    takes a copy that is there already

The text stays as its authors wrote it: cased, not tokenised. test is test_2016_flickr. Every file
is compared with a checksum of the copy on which the results in README.md were measured; a file that
differs is used and named. The corpus: Elliott, Frank, Sima'an and Specia, "Multi30K: Multilingual
English-German Image Descriptions", 2016.
"""

import argparse
import hashlib
import sys
from pathlib import Path

from parallel_text import Corpus, write_parallel_corpus
from text_files import fail, fetch, find_text_file, read_text_bytes, unpack_gzip

HOME = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
LANGUAGES = ("de", "en", "fr")
# Our name of a part -> the corpus' own.
PARTS = {"train": "train", "dev": "val", "test": "test_2016_flickr"}

# SHA-256 of the plain text.
CHECKSUMS = {
    "train.de": "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72",
    "train.en": "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6",
    "train.fr": "5925a3c18f1587b6b54b87743106e6e8ab93618edb6f65d19eac0621f853a10d",
    "dev.de": "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660",
    "dev.en": "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227",
    "dev.fr": "5304e444d842e962b2dda4d816b70b22a1765b15401642b7ca37a67477e708dc",
    "test.de": "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",
    "test.en": "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
    "test.fr": "cb3160d69b002bb638e66cc7612fcd56cb0af82eadc9c142dedc438afb885ef6",
}


def read_from_folder(folder: Path, part: str, language: str) -> bytes:
    """Returns one file of a local copy, whose names may carry ".raw" and ".gz"."""
    name = PARTS[part]
    return read_text_bytes(find_text_file(folder, (f"{name}.raw.{language}", f"{name}.{language}")))


def download(part: str, language: str) -> bytes:
    """Fetches one file from the corpus' public home and unpacks it."""
    address = f"{HOME}/{PARTS[part]}.{language}.gz"
    return unpack_gzip(fetch(address), address)


def report_difference(part: str, language: str, text: bytes) -> None:
    """Warns on stderr about a file that is not the one our results were measured on."""
    name = f"{part}.{language}"
    found = hashlib.sha256(text).hexdigest()
    if found != CHECKSUMS[name]:
        print(
            f"warning: {name} differs from the copy our results were measured on "
            f"(SHA-256 {found[:12]}..., not {CHECKSUMS[name][:12]}...); scores may differ too",
            file=sys.stderr,
        )


def main() -> None:
    """Reads or downloads every file, compares, checks and writes."""
    parser = argparse.ArgumentParser(description="Bring Multi30k to plain text, one sentence a line.")
    parser.add_argument("--from", dest="folder", type=Path, help="folder of the corpus; else download")
    parser.add_argument(
        "--out", type=Path, default=Path("data/multi30k"), help="folder to write (default: %(default)s)"
    )
    options = parser.parse_args()
    if options.folder is not None and not options.folder.is_dir():
        fail(f"--from {options.folder}: must be a folder, got none there; check the path")
    corpus: Corpus = {part: {} for part in PARTS}
    for part in PARTS:
        for language in LANGUAGES:
            if options.folder is None:
                text = download(part, language)
            else:
                text = read_from_folder(options.folder, part, language)
            report_difference(part, language, text)
            corpus[part][language] = text
    write_parallel_corpus(corpus, options.out)


if __name__ == "__main__":
    main()
