"""Feed readers with bytes that a fuzzer changes, guided by the branches that they reach (atheris, on libFuzzer).

    pip install atheris        # not part of the extra [dev]
    python -m tests.fuzz.guided safetensors --seconds 600 --corpus build/guided

A reader must return or raise an NMTError of one line; anything else, more than a gibibyte or more than ten seconds for
one input, ends the run, and the input stays in the folder. The corpus keeps the inputs that reached something new.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import atheris  # type: ignore[import-not-found]  # has no types, and is not needed for anything else

with atheris.instrument_imports(include=["nmt.config", "nmt.storage", "nmt.documents", "nmt.learning"]):
    import nmt.config.loading
    import nmt.documents.document
    import nmt.documents.formats.xliff
    import nmt.learning.tmx
    import nmt.storage.tensor_file

from nmt.errors import NMTError

_TMX = (
    b'<?xml version="1.0"?>\n<tmx version="1.4"><header/><body><tu><tuv xml:lang="en"><seg>A <ph>x</ph>b</seg></tuv>'
    b'<tuv xml:lang="de-AT"><seg>C &amp; d</seg></tuv></tu></body></tmx>'
)
_XLIFF = (
    b'<?xml version="1.0"?>\n<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file source-language='
    b'"en" target-language="de" original="a"><body><trans-unit id="1"><source>A <g id="2">b</g></source><target/>'
    b"</trans-unit></body></file></xliff>"
)
_XLIFF_2 = (
    b'<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en" trgLang="de"><file id="f"><unit '
    b'id="1"><segment><source>A <pc id="2">b</pc></source></segment></unit></file></xliff>'
)


def _tensors(content: bytes, path: Path) -> None:
    path.write_bytes(content)
    with nmt.storage.tensor_file.reading_whole():
        nmt.storage.tensor_file.map_tensors(path)


def _foreign_tensors(content: bytes, path: Path) -> None:
    path.write_bytes(content)
    with nmt.storage.tensor_file.reading_whole():
        nmt.storage.tensor_file.read_foreign_tensors(path)


def _settings(content: bytes, path: Path) -> None:
    path.write_bytes(content)
    nmt.config.loading.load_config(path)


def _tmx(content: bytes, path: Path) -> None:
    path.write_bytes(content)
    nmt.learning.tmx.read_tmx(path, "en", "de")


def _xliff(content: bytes, path: Path) -> None:
    document = nmt.documents.document.read_document(content, "xliff", "a.xlf", None, ("en", "de"))
    document.write([f"new {number} <&" for number in range(len(document.passages))])


def _seed_tensors(folder: Path) -> bytes:
    import numpy as np

    arrays = {"a": np.arange(3, dtype="f4"), "b": np.zeros(0)}
    nmt.storage.tensor_file.write_tensors(folder / "seed", arrays, {"x": [1]})
    content = (folder / "seed").read_bytes()
    (folder / "seed").unlink()
    return content


def _seed_settings(folder: Path) -> bytes:
    return (Path(__file__).parents[2] / "configs" / "quickstart.yaml").read_bytes()


READERS: dict[str, tuple[Callable[[bytes, Path], None], list[Callable[[Path], bytes]]]] = {
    "safetensors": (_tensors, [_seed_tensors]),
    "foreign-safetensors": (_foreign_tensors, [_seed_tensors]),
    "settings": (_settings, [_seed_settings]),
    "tmx": (_tmx, [lambda folder: _TMX]),
    "xliff": (_xliff, [lambda folder: _XLIFF, lambda folder: _XLIFF_2]),
}


def main() -> None:
    """Fuzz one reader for a stated time."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("reader", choices=READERS)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--corpus", type=Path, default=Path("build/guided"), help="folder for inputs")
    given = parser.parse_args()
    read, seeds = READERS[given.reader]
    folder = given.corpus / given.reader
    folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds):
        (folder / f"seed-{number}").write_bytes(seed(folder))
    memory = Path("/dev/shm")  # a file there takes a tenth of the time
    scratch = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None)) / "input"

    def once(content: bytes) -> None:
        try:
            read(content, scratch)
        except NMTError as error:
            assert "\n" not in str(error), error

    options = [f"-max_total_time={given.seconds}", f"-seed={given.seed}", "-timeout=10", "-rss_limit_mb=1024"]
    options += ["-max_len=4096", "-print_final_stats=1", f"-artifact_prefix={folder}-"]
    atheris.Setup([sys.argv[0], *options, str(folder)], once)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
