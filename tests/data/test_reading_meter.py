"""How far the reading of a text is: lines, rate, time left."""

import gzip

import pytest

import nmt.data.corpora.corpus as reading_meter
from nmt.config import DataConfig
from nmt.data import load_sides
from nmt.data.corpora.corpus import ReadingMeter, metered, text_bytes
from nmt.data.corpora.sources import Source
from nmt.system.notices import tell_nobody


class Clock:
    """Half a second passes each time somebody looks."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        self.now += 0.5
        return self.now


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    monkeypatch.setattr(reading_meter, "time", found)
    return found


def test_lines_pass_unchanged_and_the_meter_says_how_far_they_are(clock):
    lines, said = [f"line {number}" for number in range(10_000)], []
    size = sum(map(len, lines))
    assert list(metered(iter(lines), ReadingMeter("text", size, said.append))) == lines
    assert [text.split("[")[0] for text in said] == ["text:  82% 72.6k/88.9k "] and said[0].endswith("  8,192 lines")


def test_what_is_left_follows_from_the_bytes(clock):
    said = []
    meter = ReadingMeter("text", 4_000, said.append)
    for lines in (10, 20):
        meter.show(lines, 500)
    # A quarter was read in a second: three are left.
    assert said == ["text:  25% 1.00k/4.00k [00:01<00:03, 1.00kB/s]  20 lines"]
    clock.now += 119
    meter.show(30, 0)
    assert "<06:01," in said[-1]


def test_a_packed_text_counts_more_than_its_file(tmp_path):
    for name, write in (("a.en", open), ("b.en.gz", gzip.open)):
        with write(tmp_path / name, "wb") as file:
            file.write(b"one two three\n" * 1000)
    plain, packed = (text_bytes(Source(str(tmp_path / name)), ["en"]) for name in "ab")
    assert plain == 14_000
    assert packed == 4 * (tmp_path / "b.en.gz").stat().st_size


def test_training_subwords_tells_how_much_of_the_text_was_read(clock, tmp_path):
    for side in ("en", "de"):
        (tmp_path / f"train.{side}").write_text("ein Haus am See\n" * 9000, encoding="utf-8")
    prefix = str(tmp_path / "train")
    sides = {"src": {"lang": "de"}, "tgt": {"lang": "en"}}
    data = DataConfig.model_validate(
        {"train": prefix, "dev": prefix, "subwords": {"type": "bpe", "vocab_size": 24}} | sides
    )
    said = []
    load_sides(data, tell_nobody, said.append)
    assert [text.rsplit("  ", 1)[1] for text in said] == ["8,192 lines", "16,384 lines"]
