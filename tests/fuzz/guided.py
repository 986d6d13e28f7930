"""Feed readers with bytes that a fuzzer changes, guided by the branches that they reach (atheris, on libFuzzer).

    pip install atheris        # not part of the extra [dev]
    python -m tests.fuzz.guided safetensors --seconds 600 --corpus build/guided

A reader must return or raise an error of one line for users; anything else, more than a gibibyte or more than ten
seconds for one input, ends the run, and the input stays in the folder. The corpus keeps the inputs that reached
something new.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import sys
import tempfile
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import atheris  # type: ignore[import-not-found]  # has no types, and is not needed for anything else

_INSTRUMENTED = ["config", "storage", "documents", "learning", "importing", "serve.web", "data.tokens"]
with atheris.instrument_imports(include=[f"nmt.{name}" for name in _INSTRUMENTED]):
    import nmt.config.loading
    import nmt.data.tokens.subword_files
    import nmt.documents.document
    import nmt.documents.formats.html
    import nmt.documents.formats.markdown
    import nmt.documents.formats.packages
    import nmt.documents.formats.po
    import nmt.documents.formats.srt
    import nmt.documents.formats.xliff
    import nmt.importing.marian_file
    import nmt.importing.sources
    import nmt.importing.torch_file
    import nmt.learning.tmx
    import nmt.serve.web
    import nmt.storage.saved_model
    import nmt.storage.tensor_file

from nmt.errors import NMTError  # noqa: E402 - after the modules that are instrumented
from nmt.serve.errors import RequestError  # noqa: E402

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


def _document(form: str, content: bytes, path: Path) -> None:
    document = nmt.documents.document.read_document(content, form, f"a.{form}", None, ("en", "de"))
    document.write([f"new {number} <&" for number in range(len(document.passages))])


def _packed(form: str, content: bytes, path: Path) -> None:
    """Read a document whose main part has this content: a fuzzer does not get through the compression of a zip."""
    _document(form, _zipped(form, content), path)


def _bundle(content: bytes, path: Path) -> None:
    path.write_bytes(content)
    with nmt.storage.tensor_file.reading_whole():
        nmt.storage.saved_model.load_saved_model(path)


def _subwords(content: bytes, path: Path) -> None:
    subwords = nmt.data.tokens.subword_files.read_subwords(content)
    rows = subwords.encode(["A b é", "☃ c"])
    assert len(subwords.decode(rows)) == 2
    subwords.pieces(range(subwords.vocab_size))


def _torch(content: bytes, path: Path) -> None:
    path.write_bytes(content)
    nmt.importing.torch_file.read_torch(path)


def _torch_pickle(content: bytes, path: Path) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a/data.pkl", content)
        archive.writestr("a/data/0", bytes(64))
    _torch(packed.getvalue(), path)


def _npz(content: bytes, path: Path) -> None:
    path.write_bytes(content)
    nmt.importing.sources.read_npz(path)


def _json_body(content: bytes, path: Path) -> None:
    found = nmt.serve.web.parse_json(content)
    if isinstance(found, dict):
        nmt.serve.web.text_field(found, "q")
        nmt.serve.web.count_field(found, "alternatives")
        nmt.serve.web.flag_field(found, "details")
        nmt.serve.web.glossary_field(found)


def _form_body(content: bytes, path: Path) -> None:
    nmt.serve.web.parse_pairs(nmt.serve.web.decoded(content), "body")


def _multipart_body(content: bytes, path: Path) -> None:
    from starlette.requests import Request

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": content}

    head = [(b"content-type", b"multipart/form-data; boundary=a")]
    request = Request({"type": "http", "headers": head, "nmt.room": None}, receive)
    limits = SimpleNamespace(file_bytes=10_000, body_bytes=10_000, body_seconds=10)
    service: Any = SimpleNamespace(settings=SimpleNamespace(limits=limits))
    nmt.serve.web.file_field(asyncio.run(nmt.serve.web.read_multipart(request, service)))


_MAIN_PARTS = {
    "docx": ("word/document.xml", ""),
    "pptx": ("ppt/slides/slide1.xml", ""),
    "odt": ("content.xml", "application/vnd.oasis.opendocument.text"),
    "epub": ("a.xhtml", "application/epub+zip"),
}
"""The part of a packed document that has its text, and the content of its part `mimetype`."""


def _zipped(form: str, content: bytes) -> bytes:
    name, kind = _MAIN_PARTS[form]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        if kind:
            archive.writestr("mimetype", kind)
        archive.writestr(name, content)
    return packed.getvalue()


def _seed_tensors(folder: Path) -> bytes:
    import numpy as np

    arrays = {"a": np.arange(3, dtype="f4"), "b": np.zeros(0)}
    nmt.storage.tensor_file.write_tensors(folder / "seed", arrays, {"x": [1]})
    content = (folder / "seed").read_bytes()
    (folder / "seed").unlink()
    return content


def _seed_settings(folder: Path) -> bytes:
    return (Path(__file__).parents[2] / "configs" / "quickstart.yaml").read_bytes()


def _seed_subwords(folder: Path) -> bytes:
    from tests.saved_models import write_folder

    found = write_folder(Path(tempfile.mkdtemp()) / "model")
    return next(found.glob("*.spm")).read_bytes()


def _seed_bundle(folder: Path) -> bytes:
    from tests.saved_models import write_folder

    scratch = Path(tempfile.mkdtemp())
    saved = nmt.storage.saved_model.load_saved_model(write_folder(scratch / "model"))
    nmt.storage.saved_model.save_bundle(scratch / "model.nmt", saved)
    return (scratch / "model.nmt").read_bytes()


def _seed_npz(folder: Path) -> bytes:
    import numpy as np

    made = io.BytesIO()
    np.savez(made, a=np.arange(3, dtype="f4"), b=np.zeros((2, 0)))
    return made.getvalue()


def _seed_torch(folder: Path) -> bytes:
    from tests.importing.test_toolkits import OpenNMT

    return OpenNMT("mlp").save(Path(tempfile.mkdtemp())).read_bytes()


def _seed_pickle(folder: Path) -> bytes:
    with zipfile.ZipFile(io.BytesIO(_seed_torch(folder))) as archive:
        return next(archive.read(name) for name in archive.namelist() if name.endswith(".pkl"))


_W = b"http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_A = b"http://schemas.openxmlformats.org/drawingml/2006/main"
_TEXT = b"urn:oasis:names:tc:opendocument:xmlns:text:1.0"
_SEEDS: dict[str, bytes] = {
    "html": b"<!doctype html><p title='x'>A <b>b</b> &amp; c<br><script>1<2</script><!-- d --></p>",
    "xml": b'<?xml version="1.0" encoding="utf-8"?><a b="c">d<![CDATA[e]]>&lt;<f/></a>',
    "markdown": b"# A\n\n- b `c` [d](e)\n\n| f | g |\n|---|---|\n| h | i |\n\n```\nj\n```\n> k **l**\n",
    "srt": b"1\n00:00:01,000 --> 00:00:02,000\nA <i>b</i>\nc\n\n2\n00:00:03,000 --> 00:00:04,000\nd\n",
    "vtt": b"WEBVTT\n\nNOTE a\n\nb\n00:01.000 --> 00:02.000 align:start\n<v c>d</v>\n",
    "po": b'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n#: a\nmsgid "b %s"\nmsgid_plural "c"\n'
    b'msgstr[0] ""\n',
}
_PACKED_SEEDS = {
    "docx": b'<w:document xmlns:w="' + _W + b'"><w:body><w:p><w:r><w:rPr><w:b/></w:rPr><w:t>A b</w:t></w:r></w:p>'
    b"</w:body></w:document>",
    "pptx": b'<p:sld xmlns:p="x" xmlns:a="' + _A + b'"><a:p><a:r><a:t>A b</a:t></a:r></a:p></p:sld>',
    "odt": b'<o:c xmlns:o="x" xmlns:text="' + _TEXT + b'"><text:p>A <text:span>b</text:span><text:s/></text:p></o:c>',
    "epub": b"<html xmlns='http://www.w3.org/1999/xhtml'><body><p>A <i>b</i></p></body></html>",
}
_JSON = b'{"q": ["A b", "\\ud83d\\ude00"], "alternatives": 2, "details": true, "glossary": "a\\tb"}'
_MULTIPART = (
    b'--a\r\nContent-Disposition: form-data; name="source"\r\n\r\nen\r\n--a\r\nContent-Disposition: form-data; '
    b'name="file"; filename="a.txt"\r\nContent-Type: text/plain\r\n\r\nA b\r\n--a--\r\n'
)


def _fixed(*seeds: bytes) -> list[Callable[[Path], bytes]]:
    return [partial(lambda seed, folder: seed, seed) for seed in seeds]


READERS: dict[str, tuple[Callable[[bytes, Path], None], list[Callable[[Path], bytes]]]] = {
    "safetensors": (_tensors, [_seed_tensors]),
    "foreign-safetensors": (_foreign_tensors, [_seed_tensors]),
    "settings": (_settings, [_seed_settings]),
    "tmx": (_tmx, _fixed(_TMX)),
    "xliff": (partial(_document, "xliff"), _fixed(_XLIFF, _XLIFF_2)),
    **{form: (partial(_document, form), _fixed(seed)) for form, seed in _SEEDS.items()},
    **{form: (partial(_packed, form), _fixed(seed)) for form, seed in _PACKED_SEEDS.items()},
    "zip": (partial(_document, "docx"), _fixed(*(_zipped(form, seed) for form, seed in _PACKED_SEEDS.items()))),
    "bundle": (_bundle, [_seed_bundle]),
    "subwords": (_subwords, [_seed_subwords]),
    "torch": (_torch, [_seed_torch]),
    "torch-pickle": (_torch_pickle, [_seed_pickle]),
    "npz": (_npz, [_seed_npz]),
    "json-body": (_json_body, _fixed(_JSON)),
    "form-body": (_form_body, _fixed(b"q=A+b&q=%C3%A9&alternatives=2")),
    "multipart-body": (_multipart_body, _fixed(_MULTIPART)),
}


def main() -> None:
    """Fuzz one reader for a stated time."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("reader", choices=READERS)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--length", type=int, default=4096, help="most bytes of an input")
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
        except (NMTError, RequestError) as error:
            assert "\n" not in str(error), error

    options = [f"-max_total_time={given.seconds}", f"-seed={given.seed}", "-timeout=10", "-rss_limit_mb=1024"]
    options += [f"-max_len={given.length}", "-print_final_stats=1", f"-artifact_prefix={folder}-"]
    atheris.Setup([sys.argv[0], *options, str(folder)], once)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
