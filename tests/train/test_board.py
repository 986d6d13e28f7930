"""training.tensorboard: the numbers of metrics.jsonl, in files that TensorBoard reads."""

import json
import sys
from collections.abc import Callable

import pytest

from nmt.errors import ConfigError
from nmt.train.run.trainer import Trainer


def test_curves_are_those_of_the_metrics(make_trainer: Callable[..., Trainer]) -> None:
    pytest.importorskip("tensorboardX", reason="the extra [tensorboard] is not installed")
    from tensorboardX.event_file_writer import EventsWriter  # noqa: F401 - what writes is there
    from tensorboardX.proto.event_pb2 import Event
    from tensorboardX.record_writer import masked_crc32c  # noqa: F401

    trainer = make_trainer(tensorboard=True)
    trainer.run()
    scalars: dict[tuple[str, int], float] = {}
    for path in (trainer.folder / "tensorboard").iterdir():
        raw, place = path.read_bytes(), 0
        while place < len(raw):  # length, its checksum, the event, its checksum
            size = int.from_bytes(raw[place : place + 8], "little")
            event = Event.FromString(raw[place + 12 : place + 12 + size])
            scalars |= {(value.tag, event.step): value.simple_value for value in event.summary.value}
            place += 16 + size
    events = [json.loads(line) for line in (trainer.folder / "metrics.jsonl").read_text().splitlines()]
    for event in events:
        if event["event"] in ("train", "validation"):
            assert scalars[(f"{event['event']}/loss", event["update"])] == pytest.approx(event["loss"], rel=1e-5)
    assert ("validation/bleu", 8) in scalars and not any(tag.endswith("/update") for tag, _ in scalars)


def test_without_the_setting_nothing_is_written(make_trainer: Callable[..., Trainer]) -> None:
    trainer = make_trainer()
    trainer.run()
    assert not (trainer.folder / "tensorboard").exists()


def test_without_the_library_a_line_says_what_to_install(
    make_trainer: Callable[..., Trainer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(ConfigError, match=r"pip install -e '.\[tensorboard\]'"):
        make_trainer(tensorboard=True).run()
