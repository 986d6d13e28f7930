"""A list of words from its table to translations: nmt-train chooses edit actions, and several models translate
together."""

from pathlib import Path

from click.testing import CliRunner

from nmt.cli.commands.train import train
from nmt.cli.commands.translate import translate

SMALL = [
    *("model.encoder.hidden_size=16", "model.decoder.hidden_size=24", "training.learning_rate=0.01"),
    *("training.updates=200", "training.validation_freq=200", "training.ema_decay=0", "compute_dtype=float32"),
]


def test_two_models_of_edits_spell_words_together(tmp_path: Path) -> None:
    """Digits between spaces, which both have learned after 200 updates; a letter that they have not seen is copied."""
    table, given = tmp_path / "words.tsv", tmp_path / "in.txt"
    table.write_text("".join(f"{number:b}\t{' '.join(f'{number:b}')}\n" for number in range(200)))
    given.write_text("1010\n110110110\n\n10Ω0\n")
    words = [word for setting in SMALL for word in ("--set", setting)]
    for seed in "12":
        arguments = [str(table), "-o", str(tmp_path / seed), "--threads", "1", "--set", f"seed={seed}", *words]
        done = CliRunner().invoke(train, arguments)
        assert done.exit_code == 0, done.output
        assert "200 pairs of single words, whose targets are edits of the sources: preset edits" in done.stderr
    both = CliRunner().invoke(translate, [str(tmp_path / "1"), str(given), "--ensemble", str(tmp_path / "2")])
    assert both.exit_code == 0, both.output
    assert both.stdout.split("\n") == ["1 0 1 0", "1 1 0 1 1 0 1 1 0", "", "1 0 Ω 0", ""]


def test_what_training_never_had_is_copied(tmp_path: Path) -> None:
    """A form equals its word but for the plural: a new letter, a new feature among known ones or alone, or both."""
    table, given = tmp_path / "words.tsv", tmp_path / "in.txt"
    words = [f"{number:b}".translate({48: "a", 49: "t"}) for number in range(32, 132)]
    kinds = {"N;NOM": "", "N;ACC": "", "N;PL": "en"}.items()
    table.write_text("".join(f"{word}\t{word}{end}\t{kind}\n" for word in words for kind, end in kinds))
    given.write_text("taΩatt\tN;ACC\nΩatta\tN;PL\ntatatΩ\tN;NOM\ntaattaa\tN;LOC\ntatat\tV;NFIN\ntattaÅ\tV;LOC\n")
    settings = ["--preset", "edits", "--threads", "1", *(word for setting in SMALL for word in ("--set", setting))]
    done = CliRunner().invoke(train, [str(table), "-s", "w", "-t", "f", "-o", str(tmp_path / "1"), *settings])
    assert done.exit_code == 0, done.output
    found = CliRunner().invoke(translate, [str(tmp_path / "1"), str(given)])
    assert found.stdout.split() == ["taΩatt", "Ωattaen", "tatatΩ", "taattaa", "tatat", "tattaÅ"], found.output
