"""docs/tour.md tells the truth: its links lead to functions, both walks come by its stops in their order, and every
shape and dtype that it promises is that of the arrays of a run."""

import difflib
import re
import sys
import threading
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest
import yaml

from docs import interface, rooms, tour
from tests.settings import texts_in

PAGE = tour.PAGE.read_text("utf-8")
STOPS = tour.stops(PAGE)
BATCH, SENTENCE, STEPS = dict.fromkeys(stop.walk for stop in STOPS)
# Sizes of the small model: all different, so that a wrong axis shows.
E, M, H, K = 6, 10, 7, 3
PAIRS = [("ab abc", "xy"), ("abcabcabc", "xyzxyzx"), ("b", "zzxyx"), ("cab da", "x")]
LINES = ["ba cab abc", "abc"]


# ---------------------------------------------------------------- the page


def test_links_lead_to_functions():
    assert len(tour.LINK.findall(PAGE)) >= len(STOPS) > 90
    assert not re.search(r"#L\d", PAGE)
    assert tour.refreshed(PAGE) == PAGE, "run make docs"


def test_a_link_follows_a_function_that_has_moved():
    moved = PAGE.replace("(../nmt/train/updates/update.py#", "(../nmt/train/run/trainer.py#")
    assert moved != PAGE
    assert tour.refreshed(moved) == PAGE
    with pytest.raises(LookupError, match="Updater.forget must be defined in nmt/train/updates/update.py"):
        tour.refreshed(PAGE.replace("`Updater.update`", "`Updater.forget`"))


def test_stops_are_numbered_and_promise_something():
    for walk in (BATCH, SENTENCE, STEPS):
        of_walk = [stop for stop in STOPS if stop.walk == walk]
        assert [stop.number for stop in of_walk] == list(range(1, len(of_walk) + 1))
    assert sum(len(stop.given) + len(stop.result) for stop in STOPS) > 200
    lines = [line for line in PAGE.splitlines() if re.match("(In|Out):", line)]
    assert sum(bool(stop.given) + bool(stop.result) for stop in STOPS) == len(lines)


def test_pages_show_the_pictures_of_rooms_and_walks():
    drawn = rooms.pictures() | tour.pictures(PAGE)
    assert len(drawn) == 5
    shown = PAGE + (tour.ROOT / "ARCHITECTURE.md").read_text("utf-8")
    assert drawn.keys() == set(re.findall(r"\((?:docs/)?pictures/(\S+\.svg)\)", shown))


# ---------------------------------------------------------------- the walks


class Walk:
    """Calls of the functions of some stops while it is entered, in their order, each with the promises it keeps."""

    def __init__(self, stops, axes):
        self.axes, self.calls, self.problems = axes, [], defaultdict(list)
        self._stops = defaultdict(list)
        for stop in stops:
            self._stops[str(tour.ROOT / stop.file), stop.name].append(stop)
        self._open = {}

    def __enter__(self):
        threading.setprofile(self._watch)
        sys.setprofile(self._watch)
        return self

    def __exit__(self, *_):
        sys.setprofile(None)
        threading.setprofile(None)

    def _watch(self, frame, event, returned):
        code = frame.f_code
        if event not in ("call", "return") or "/nmt/" not in code.co_filename:
            return
        for stop in self._stops.get((code.co_filename, code.co_qualname.replace(".<locals>", "")), ()):
            if event == "call":
                free = dict(self.axes)
                place = len(self.calls)
                self.calls.append((stop, False))
                self._open[id(frame), stop.number] = place, free, self._broken(stop.given, frame, {}, free)
            elif (id(frame), stop.number) in self._open:
                place, free, broken = self._open.pop((id(frame), stop.number))
                broken += self._broken(stop.result, frame, {"result": returned}, free)
                self.calls[place] = stop, not broken
                self.problems[stop].append(broken)

    def _broken(self, promises, frame, more, axes):
        return [text for one in promises if (text := self._problem(one, {**frame.f_locals, **more}, frame, axes))]

    def _problem(self, promise, names, frame, axes):
        """What is wrong with a value; letters that are not known stand for the size that they first meet in a call."""
        try:
            value = eval(promise.value, frame.f_globals, names)
        except Exception as error:
            return f"{promise.value}: {error!r}"
        if promise.axes is None:
            kind = {"bool": bool, "int": int, "float": float, "str": str}[promise.kind]
            right = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
            return "" if right else f"{promise.value} must be {promise.kind}, got {type(value).__name__}"
        got = f"{promise.value} must be {promise.kind} {list(promise.axes)}, got {getattr(value, 'dtype', type(value))}"
        if str(getattr(value, "dtype", "")) != promise.kind or len(value.shape) != len(promise.axes):
            return f"{got} {getattr(value, 'shape', '')}"
        for axis, size in zip(promise.axes, value.shape, strict=True):
            if axis.isidentifier():
                axes.setdefault(axis, size)
            if eval(axis, {}, axes) != size:
                return f"{got} {value.shape} with {axes}"
        return ""

    def check(self, stops):
        """Every stop but the compiled ones is called after the one before it, as its promises say."""
        at = 0
        for stop in stops:
            if stop.is_compiled:
                continue
            found = next((n for n in range(at, len(self.calls)) if self.calls[n] == (stop, True)), None)
            told = self.problems[stop] or [["never called"]]
            assert found is not None, f"{stop.walk}, stop {stop.number}, {stop.name}: {min(told, key=len)}"
            at = found + 1


def of_walk(walk):
    return [stop for stop in STOPS if stop.walk == walk]


def steps_of(texts):
    """The most steps of texts that are cut into letters: one for each letter and space, one at the begin, one EOS."""
    return max(map(len, texts)) + 2


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with a small model in `model`, and the walk of its training."""
    from nmt.cli.commands.train import train

    folder = tmp_path_factory.mktemp("tour")
    for part in ("train", "dev"):
        for lang, texts in zip(("xx", "yy"), zip(*PAIRS, strict=True), strict=True):
            (folder / f"{part}.{lang}").write_text("\n".join(texts) + "\n")
    side = {"rnn_type": "lstm", "embeddings": {"embedding_dim": E}}
    settings = {
        "model_dir": str(folder / "model"),
        "data": texts_in(folder, subwords={"type": "char", "vocab_size": 50, "joint": False}),
        "model": {
            "tied_embeddings": "none",
            "encoder": side | {"hidden_size": M // 2, "num_layers": 1, "bidirectional": True},
            "decoder": side | {"hidden_size": H, "num_layers": 1, "init_hidden": "bridge", "attention": "bahdanau"},
        },
        "training": {"updates": 2, "validation_freq": 2, "batch_type": "sentence", "batch_size": len(PAIRS)},
    }
    (folder / "c.yaml").write_text(yaml.safe_dump(settings))
    sources, targets = zip(*PAIRS, strict=True)
    axes = {"B": len(PAIRS), "S": steps_of(sources), "T": steps_of(targets), "E": E, "M": M, "H": H, "V": 8}
    assert len(set(axes.values())) == len(axes)
    words = [str(folder / "c.yaml"), "--threads", "1"]
    # First whatever has to be compiled, unwatched: a compiler that is watched takes more than twice as long.
    train.main([*words, "--set", f"model_dir={folder / 'other'}"], standalone_mode=False)
    with Walk(of_walk(BATCH), axes) as walk:
        train.main(words, standalone_mode=False)
    return folder, walk


def test_a_batch_comes_by_all_stops(trained):
    trained[1].check(of_walk(BATCH))


@cache
def compile_first(command, words):
    """Run a command unwatched, once: the walks of it compile nothing."""
    command.main(list(words), standalone_mode=False)


def translated(folder: Path, stops, *options):
    """The walk of a translation, and what was written."""
    from nmt.cli.commands.translate import translate

    (folder / "lines.de").write_text("\n".join(LINES) + "\n")
    axes = {"B": len(LINES), "S": steps_of(LINES), "E": E, "M": M, "H": H, "V": 8, "K": K}
    assert len(set(axes.values())) == len(axes)
    words = [folder / "model", folder / "lines.de", "-o", folder / "out.en", "--threads", 1, "--beam-size", K, *options]
    compile_first(translate, tuple(map(str, words)))
    with Walk(stops, axes) as walk:
        translate.main(list(map(str, words)), standalone_mode=False)
    return walk, (folder / "out.en").read_text().splitlines()


def test_a_sentence_comes_by_all_stops(trained):
    walk, lines = translated(trained[0], of_walk(SENTENCE))
    walk.check(of_walk(SENTENCE))
    assert len(lines) == len(LINES)


def test_a_search_step_by_step_comes_by_all_stops(trained):
    walk, _ = translated(trained[0], of_walk(STEPS), "--repetition-penalty", "1.1")
    walk.check(of_walk(STEPS))


def test_a_wrong_promise_and_a_wrong_order_are_found(trained):
    stops = [stop for stop in of_walk(SENTENCE) if stop.name in ("pad_sources", "Stepper.admit")]
    walk, _ = translated(trained[0], stops)
    walk.check(stops)
    with pytest.raises(AssertionError, match="pad_sources"):
        walk.check(stops[::-1])
    for text in (
        "`result[0]` int64 [S, B]",
        "`result[0]` int32 [B, S]",
        "`result[0]` int32 [S, B + 1]",
        "`nothing` int",
    ):
        wrong = tour.stops(f"## {SENTENCE}\n\n### 19. [`pad_sources`](../nmt/model/batch_pass.py#L1)\n\nOut: {text}.\n")
        with pytest.raises(AssertionError, match="pad_sources"):
            translated(trained[0], wrong)[0].check(wrong)


def test_the_interface_is_the_one_that_was_written_down():
    written, found = interface.PAGE.read_text("utf-8"), interface.interface_page()
    changes = list(difflib.unified_diff(written.splitlines(), found.splitlines(), n=0, lineterm=""))
    changes = [line for line in changes if line[0] != "@"]
    assert not changes, "\n".join(
        ["the public interface has changed: run make docs, and say in CHANGELOG.md what users notice", *changes[2:]]
    )
