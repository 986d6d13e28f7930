"""Words one by one: what does a call cost, compared with NumPy without a toolkit?

The model of the package g2p-en (letters to sounds, a GRU of 256 on either side) or e2k (letters to katakana, GRUs of
256 and attention), imported by `nmt-import` and asked for one word at a time and for many at once, compared with the
package's
own code, NumPy by hand, in the same process: all take turns, the fastest turn of each counts. Checks first that every
word is the same to both. The words are those of a file with one a line, or of g2p-en's list of homographs. What g2p-en
imports for other things than its network (nltk, inflect) need not be there.

Run: python benchmarks/words.py g2p_en-2.1.0-py3-none-any.whl [--words FILE] [--threads N] [--quick] [--profile]
     python benchmarks/words.py e2k-0.8.1-py3-none-any.whl --words FILE
     after: pip download --no-deps g2p-en==2.1.0 e2k==0.8.1
"""

import cProfile
import importlib
import pstats
import re
import sys
import tempfile
import types
import zipfile
from collections.abc import Callable
from pathlib import Path

from _machine import describe
from _timing import Turns, note, options

from nmt import Translator
from nmt.importing.sources import import_model
from nmt.importing.writing import save_imported

_BATCHES = (1, 8, 64, 512)
_PROFILED = 2000


def _without(name: str, **attributes: object) -> types.ModuleType:
    """A module of this name that has nothing but these."""
    module = types.ModuleType(name)
    vars(module).update(attributes)
    sys.modules[name] = module
    return module


def package_code(wheel: Path, folder: Path) -> Callable[[str], str]:
    """The package's own function from a word to what it says of it, from its wheel."""
    with zipfile.ZipFile(wheel) as file:
        file.extractall(folder)
    sys.path.insert(0, str(folder))
    if wheel.name.startswith("e2k"):
        katakana: Callable[[str], str] = importlib.import_module("e2k").C2K()
        return katakana
    nothing = types.SimpleNamespace
    data = nothing(find=lambda name: name)
    _without("inflect", engine=lambda: None)
    corpus = _without("nltk.corpus", cmudict=nothing(dict=dict))
    tokenize = _without("nltk.tokenize", TweetTokenizer=lambda: nothing(tokenize=str.split))
    _without("nltk", pos_tag=None, data=data, corpus=corpus, tokenize=tokenize)
    predict: Callable[[str], list[str]] = importlib.import_module("g2p_en.g2p").G2p().predict
    return lambda word: " ".join(predict(word))


def read_words(path: Path, most: int) -> list[str]:
    """Words of small letters at the begin of lines, each once, spread over the whole file."""
    lines = path.read_text("utf-8").splitlines()
    found = dict.fromkeys(m[0].lower() for line in lines if (m := re.match(r"[A-Za-z]+(?=$|[|\s])", line)))
    words = list(found)
    return words[:: -(-len(words) // most)]


def check_equal(words: list[str], translator: Translator, predict: Callable[[str], str]) -> None:
    """Ends the script where a word is another one to the package, or in another batch."""
    together = translator.translate(words, beam_size=1, batch_size=512)
    for word, found in zip(words, together, strict=True):
        expected, alone = predict(word), translator.translate([word], beam_size=1)[0]
        if not found == alone == expected:
            raise SystemExit(f"{word}: must be {expected}, got {found} among others and {alone} alone")


def profile(words: list[str], translator: Translator) -> None:
    """Print where the time of single calls goes."""
    profiler = cProfile.Profile()
    profiler.enable()
    for n in range(_PROFILED):
        translator.translate([words[n % len(words)]], beam_size=1)
    profiler.disable()
    pstats.Stats(profiler).sort_stats("tottime").print_stats(40)


def main() -> None:
    """Print the table."""
    parser = options(__doc__)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--words", type=Path, help="one a line; g2p-en's homographs where it is not given")
    parser.add_argument("--profile", action="store_true", help="print where the time of single calls goes, no table")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        predict = package_code(given.wheel, folder / "package")
        of_e2k = given.wheel.name.startswith("e2k")
        if of_e2k and given.words is None:
            parser.error("e2k has no list of words; name one by --words")
        member = "model-c2k.safetensors" if of_e2k else None
        save_imported(folder / "model", import_model(given.wheel, member=member))
        translator = Translator.load(folder / "model", threads=given.threads)
        words = read_words(given.words or folder / "package" / "g2p_en" / "homographs.en", 100 if given.quick else 1000)
        check_equal(words, translator, predict)
        note(f"{len(words)} words are the same to both")
        if given.profile:
            profile(words, translator)
            return
        calls: dict[str, Callable[[], object]] = {
            "the package, one by one": lambda: [predict(word) for word in words],
            "nmt, one by one": lambda: [translator.translate([word], beam_size=1) for word in words],
        }
        for size in _BATCHES:
            calls[f"nmt, all, {size} in work"] = lambda n=size: translator.translate(words, beam_size=1, batch_size=n)
        seconds = Turns(calls).take(2 if given.quick else 10)
        print(", ".join(f"{name} {value}" for name, value in describe(given.threads).items()))
        first = seconds["the package, one by one"]
        print("| | words/s | relative to the package |\n|---|---|---|")
        for name, taken in seconds.items():
            print(f"| {name} | {len(words) / taken:,.0f} | {first / taken:.2f}x |")


if __name__ == "__main__":
    main()
