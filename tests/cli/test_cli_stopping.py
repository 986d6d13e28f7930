"""nmt-train --stop-with-stdin: the program that holds the pipe can pause a training, at no cost of a bit."""

import os
import signal
import subprocess
import sys
import time

from nmt.config import config_from_dict, dump_config
from nmt.storage.model_folder import LAST_NAME, read_checkpoint
from tests.small_models import DECODER, ENCODER
from tests.train import fake_model

UPDATES = 100


def trained(folder, pauses):
    """The checkpoint of a training that is paused after some updates, once stopped by the system on the way."""
    values = fake_model.write_setup(folder, updates=UPDATES, logging_freq=1, scheduling="linear")
    fake_model.write_corpus(folder, "train", 400, 1)
    config, log = folder / "config.yaml", folder / "model" / "metrics.jsonl"
    config.write_text(dump_config(config_from_dict({**values, "model": {"encoder": ENCODER, "decoder": DECODER}})))
    for pause in (*pauses, None):
        command = [sys.executable, "-m", "nmt", "train", str(config), "--stop-with-stdin"]
        with (folder / "log").open("wb") as output:
            child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=output)
        while pause and child.poll() is None and not (log.exists() and f'"update": {pause},' in log.read_text()):
            time.sleep(0.02)
        if pause and hasattr(signal, "SIGSTOP"):
            os.kill(child.pid, signal.SIGSTOP)
            os.kill(child.pid, signal.SIGCONT)
        if pause:
            child.stdin.close()
        code = child.wait(300)
        assert code == (130 if pause else 0), (folder / "log").read_text()
        child.stdin.close()
    return read_checkpoint(folder / "model" / LAST_NAME)


def test_a_training_that_is_paused_twice_learns_the_same_bits(tmp_path):
    for name in ("whole", "paused"):
        (tmp_path / name).mkdir()
    whole, paused = (trained(tmp_path / name, at) for name, at in (("whole", ()), ("paused", (11, 47))))
    assert whole[1]["state"]["update"] == paused[1]["state"]["update"] == UPDATES
    assert {name: array.tobytes() for name, array in whole[0].items()} == {
        name: array.tobytes() for name, array in paused[0].items()
    }
