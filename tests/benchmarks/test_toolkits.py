from pathlib import Path

import pytest
import yaml

from nmt.config import load_config

CONFIG = Path(__file__).parents[2] / "configs" / "multi30k_en_de_peers.yaml"


def _onmt(second: int, update: int, tokens: int) -> str:
    return (
        f"[2026-01-01 10:00:{second:02d},500 INFO] Step  {update}/1000000; acc: 4.2; ppl: 58.6; xent: 8.7; "
        f"lr: 0.00100; sents:     607; bsz: 3327/{tokens}/304; 357/401 tok/s;     19 sec;"
    )


def test_onmt_log_gives_tokens_of_real_batches_by_the_clock() -> None:
    from _toolkits import OpenNMT

    log = "\n".join(["noise", _onmt(0, 2, 3000), _onmt(4, 4, 3000), _onmt(20, 6, 4000), _onmt(30, 8, 1000)])
    speed = OpenNMT(Path()).speed(log)
    assert speed is not None
    assert (speed.updates, speed.seconds) == (4, 26.0)  # those within ten seconds of the first are left out
    assert speed.tokens_per_second == pytest.approx((2 * 4000 + 2 * 1000) / 26)


def test_joey_log_leaves_stretches_out_that_hold_something_else() -> None:
    from _toolkits import Joey

    def line(second: int, text: str) -> str:
        return f"2026-01-01 10:00:{second:02d},000 - INFO - joeynmt.training - {text}"

    def step(n: int, rate: int) -> str:
        return f"Epoch   1, Step:   {n}, Batch Loss:  8.9, Batch Acc: 0.0, Tokens per Sec:  {rate}, Lr: 0.001000"

    lines = [
        line(0, step(1, 5)),
        line(2, step(2, 100)),
        line(3, "EPOCH 2"),
        line(30, step(3, 7)),
        line(32, step(4, 50)),
    ]
    speed = Joey(Path()).speed("\n".join(lines))
    assert speed is not None
    assert (speed.updates, speed.tokens_per_second) == (1, 50.0)


def test_marian_log_gives_words_by_its_own_seconds() -> None:
    from _toolkits import Marian

    def line(n: int, seconds: float, rate: float) -> str:
        return f"[10:00:00] Ep. 1 : Up. {n} : Sen. 1,021 : Cost 8.8 : Time {seconds}s : {rate} words/s : gNorm 1"

    speed = Marian(Path()).speed("\n".join([line(1, 9.0, 1.0), line(2, 2.0, 500.0), line(3, 12.0, 100.0)]))
    assert speed is not None
    assert (speed.updates, speed.tokens_per_second) == (1, 100.0)


@pytest.mark.parametrize("name", ["onmt", "joey", "marian"])
def test_a_log_without_reports_gives_nothing(name: str) -> None:
    from _toolkits import TOOLKITS

    assert TOOLKITS[name](Path()).speed("starting\nstopped\n") is None


def test_every_toolkit_gets_the_sizes_of_the_configuration(tmp_path: Path) -> None:
    from _toolkits import Corpus, Joey, Marian, OpenNMT

    (tmp_path / "vocab").write_text("▁a\n</s>\nb\n", "utf-8")
    config, corpus = load_config(CONFIG), Corpus(tmp_path, "en", "de")
    OpenNMT(tmp_path).train_command(config, corpus, tmp_path, 2)
    onmt = yaml.safe_load((tmp_path / "onmt.yaml").read_text("utf-8"))
    assert (onmt["hidden_size"], onmt["word_vec_size"], onmt["batch_size"]) == (512, 256, 4096)
    assert onmt["data"]["corpus_1"]["path_tgt"] == str(tmp_path / "train.de")
    Joey(tmp_path).train_command(config, corpus, tmp_path, 2)
    joey = yaml.safe_load((tmp_path / "joey.yaml").read_text("utf-8"))
    assert (joey["model"]["encoder"]["hidden_size"], joey["model"]["decoder"]["hidden_size"]) == (256, 512)
    assert joey["training"]["batch_size"] == 4096
    command = Marian(tmp_path).train_command(config, corpus, tmp_path, 2)
    assert command[command.index("--dim-rnn") + 1] == "512"
    assert command[command.index("--mini-batch-words") + 1] == "4096"
    assert yaml.safe_load((tmp_path / "vocab.yml").read_text("utf-8")) == {"</s>": 0, "<unk>": 1, "▁a": 2, "b": 3}


def test_work_of_a_training_step_is_counted_by_the_formula() -> None:
    from train_step import operations

    model = load_config(CONFIG).model
    S, T, V = 3 + 2, 4 + 1, 100
    pairs, E, h, H = 3 * 4 + 2 * 1, 256, 256, 512
    encoder = 2 * S * 2 * (E + h) * 4 * h
    bridge = 2 * (2 * 2 * H * H)
    decoder = 2 * T * (E + H + H) * 4 * H
    attention = 2 * S * H * H + 2 * T * H * H + 2 * pairs * H + 2 * pairs * H
    rest = 2 * T * (H + H) * H + 2 * T * H * V
    assert operations(model, V, [3, 2], [4, 1]) == 3 * (encoder + bridge + decoder + attention + rest)


def test_a_run_of_some_updates_leaves_a_model_and_does_not_validate(tmp_path: Path) -> None:
    from _toolkits import PEERS, Corpus

    (tmp_path / "vocab").write_text("▁a\nb\n", "utf-8")
    config, corpus = load_config(CONFIG), Corpus(tmp_path, "en", "de")
    for name in ("onmt", "transformer"):
        PEERS[name](tmp_path).train_command(config, corpus, tmp_path, 2, 390)
        settings = yaml.safe_load((tmp_path / "onmt.yaml").read_text("utf-8"))
        assert (settings["train_steps"], settings["save_checkpoint_steps"]) == (390, 390 if name == "onmt" else 130)
        assert settings["valid_steps"] > 390 and settings["encoder_type"] == ("brnn" if name == "onmt" else name)
    command = PEERS["marian"](tmp_path).train_command(config, corpus, tmp_path, 2, 390)
    assert command[command.index("--after") + 1] == "390u"
    assert [PEERS[name](tmp_path).model_path(tmp_path, 390).name for name in ("onmt", "marian", "joey")] == [
        "model_step_390.pt",
        "model.npz",
        "joey.yaml",
    ]


def test_minutes_become_the_updates_that_fit_into_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import train_peers
    from _toolkits import OpenNMT

    class Steady(OpenNMT):
        def train_command(self, *_: object) -> list[str]:
            return []

    steps = "\n".join(_onmt(second, 2 * second, 3000) for second in range(0, 40, 2))

    def fake_run(command: list[str], log: Path, env: dict[str, str]) -> None:
        log.write_text(steps)

    monkeypatch.setattr(train_peers, "run", fake_run)
    # Two updates a second, for one and a half minutes.
    assert train_peers.updates_in(1.5, Steady(tmp_path), load_config(str(CONFIG)), None, tmp_path, 1) == 180
    steps = "no report"
    with pytest.raises(SystemExit, match="must tell the speed of 60 updates"):
        train_peers.updates_in(1.5, Steady(tmp_path), load_config(str(CONFIG)), None, tmp_path, 1)


@pytest.mark.parametrize("updates", [60, 800, 10_000])
def test_the_transformer_never_learns_faster_than_it_should(tmp_path: Path, updates: int) -> None:
    # A factor as of the paper gave a training of 800 updates a rate of 0.0099 at its highest, and 4.8 BLEU.
    from _toolkits import Corpus, Transformer

    (tmp_path / "vocab").write_text("▁a\n</s>\nb\n", "utf-8")
    config = load_config(CONFIG)
    Transformer(tmp_path).train_command(config, Corpus(tmp_path, "en", "de"), tmp_path, 2, updates)
    settings = yaml.safe_load((tmp_path / "onmt.yaml").read_text("utf-8"))
    warmup = settings["warmup_steps"]
    assert 0 < warmup <= updates // 5
    highest = settings["learning_rate"] * settings["hidden_size"] ** -0.5 * warmup**-0.5
    assert highest == pytest.approx(Transformer.learning_rate)
    assert highest <= 2e-3
    assert updates // 3 <= settings["save_checkpoint_steps"] <= updates // 3 + 1
