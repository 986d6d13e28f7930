"""Mistakes in the arguments of the commands: one line, nothing on standard output, an exit code."""

from pathlib import Path

import pytest

from tests.cli.conftest import Run

ENDLESS = "line 1 must have at most 8,388,608 bytes"
FULL = "Error: /dev/full: must be writable, got no space left on device; free some space and run again\n"
MISTAKES = [
    ("nmt-translate nowhere", 1, "nowhere: no such folder"),
    ("nmt-translate {setup}", 1, "without config.yaml"),
    ("nmt-translate {model} nowhere.txt", 1, "nowhere.txt: no such file"),
    ("nmt-translate {model} {setup}", 2, "Tables, folders and shards need -o"),
    ("nmt-translate {model} {model}", 2, "must be a text to translate, got the model"),
    ("nmt-translate {setup}/dev.xx {model}", 2, "model; name it first: "),
    ("nmt-translate {model} -o nowhere/out", 1, ": no such folder nowhere; make it"),
    ("nmt-translate {model} --n-best 3 --beam-size 2", 2, "needs --beam"),
    ("nmt-translate {model} --beamsize 3", 2, "--beam-size"),
    ("nmt-translate {model} --beam-size 0", 2, "it must be a whole number of at least 1 and of at most 1,000, got 0"),
    ("nmt-translate {model} --beam-size 1" + 30 * "0", 2, "it must be a whole number of at least 1 and of at most 1,"),
    ("nmt-translate {model} --length-penalty long", 2, "it must be one of none, average, or a number of at least 0"),
    ("nmt-translate {model} --compute-dtype half", 2, "'half' is not one of 'float32', 'bfloat16'"),
    ("nmt-translate", 2, "Missing argument 'MODEL'"),
    ("nmt-translate {model} --resume", 2, "--resume needs -o FILE"),
    ("nmt-translate {model} --glossary {setup}/dev.xx", 1, "must be a phrase, a tab and its translation"),
    ("nmt-translate {model} --n-best 3 --output-format text", 2, "--n-best 3 needs --output-format"),
    ("nmt-translate {model} --constraint-text x", 2, "it is not there any more; --glossary FILE with a high"),
    ("nmt-translate {model} --beam-groups 2", 2, "it is not there any more; sampling with n_best"),
    ("nmt-translate {model} --lm x", 2, "it is not there any more; nmt-backtranslate brings in text of one language"),
    ("nmt-score {model} --independent", 2, "it is not there any more; a library of language models"),
    ("nmt-translate {model} --sampling-topp 0", 2, "it must be a number above 0 and of at most 1, got 0"),
    ("nmt-translate {model} --word-reward nan", 2, "it must be a number, got 'nan'"),
    ("nmt-translate {model} --glossary-bonus inf", 2, "it must be a number of at least 0, got 'inf'"),
    ("nmt-translate {model} --glossary-bonus .inf", 2, "it must be a number of at least 0 and of at most"),
    ("nmt-translate {model} --repetition-penalty .nan", 2, "it must be a number above 0, got nan"),
    ("nmt-translate {model} --threads 100000", 2, "it must be a whole number of at least 1 and of at most 1,024,"),
    ("nmt-evaluate --ref {ref}", 2, "Give MODEL and --src"),
    ("nmt-evaluate {model} --ref {ref}", 2, "Give MODEL and --src"),
    ("nmt-evaluate {model} --hyp x --ref {ref}", 2, "Give either"),
    ("nmt-evaluate --hyp nowhere --ref {ref}", 1, "nowhere: no such file"),
    ("nmt-evaluate --hyp {setup}/train.yy --ref {ref}", 1, "must have the same number of lines, got 10 and 200"),
    ("nmt-evaluate {model} --src {setup}/train.xx --ref {ref}", 1, "got 200 and 10"),
    ("nmt-evaluate --hyp x --tokenize 13b --ref {ref}", 2, "13a"),
    ("nmt-evaluate --hyp x --metric bleu,rouge --ref {ref}", 2, "is none of bleu, chrf"),
    ("nmt-evaluate --hyp x --metric bleu,comet --ref {ref}", 2, "by comet-score: docs/comparing.md"),
    ("nmt-evaluate --compare a b --ref {ref}", 2, "sacrebleu REF -i A B"),
    ("nmt-translate {model} --prefix -", 1, "INPUT and --prefix: must not both be standard input"),
    ("nmt-evaluate --hyp - --ref -", 1, "--hyp and --ref: must not both be standard input"),
    ("nmt-train /dev/zero", 1, "Error: /dev/zero: must be a file of settings, got more than 16,777,216 bytes"),
    ("nmt-train nowhere.yaml", 1, "nowhere.yaml"),
    ("nmt-train {config} --set training.epoch=3", 1, "did you mean training.epochs?"),
    ("nmt-train {config} --set training.optimizer=adm", 1, "did you mean adam"),
    ("nmt-train {config} --set data.dev=nowhere", 1, "nowhere.xx"),
    ("nmt-train {config} --set data.dev={folder}/unequal", 1, "the same number of lines"),
    ("nmt-train {config} --set data.dev={folder}/latin", 1, "latin.xx: line 1 must be UTF-8"),
    ("nmt-train {config} --set data.train={folder}/empty", 1, "got none"),
    ("nmt-train {config} --set data.subwords.type=unigram", 1, "vocab_size must be at most"),
    ("nmt-train {setup}/c.yaml --set model.encoder.num_layers=2", 1, "num_layers must stay 1"),
    ("nmt-train {setup}/c.yaml --json", 2, "--json goes with --check-data"),
    ("nmt-train {setup}/c.yaml --sed 3", 2, "Did you mean"),
    ("nmt-train a.de a.en", 2, "-o DIR, a folder for the model, must be given"),
    ("nmt-train t.tsv runs/m", 2, "must be given with SRC TGT or a table; did you mean -o runs/m?"),
    ("nmt-train a.de a.en b.en -o m", 2, "one table, got 3 files and 0 --dev; docs/tables.md has"),
    ("nmt-train a.de a.en -o m --dev d.de d.en", 2, "1 --dev; give --dev twice, once for each"),
    ("nmt-train c.yaml --seed many", 2, "must be a whole number of at least 0, got 'many'"),
    ("nmt-train c.yaml --dev d", 2, "--dev goes with SRC TGT or a table"),
    ("nmt-train t.chr.gz -o m", 2, "one file must be settings (CONFIG.yaml) or a table (.tsv .csv .xlsx"),
    ("nmt-train t.txt -o m", 2, "give the files of SRC and TGT"),
    ("nmt-train bible.chr -o m", 2, "give the files of SRC and TGT"),
    ("nmt-train a.de a.en -o m --dev {setup}/dev.xx", 2, "--dev must be given twice with SRC TGT"),
    ("nmt-evaluate {model} --src {setup}/dev.xx --ref {setup}/dev.xx", 1, "must be two files, source and target"),
    ("nmt-score {model} --src {setup}/dev.xx --tgt {setup}/dev.xx", 1, "must be two files, source and target"),
    ("nmt-translate {model} /dev/zero", 1, ENDLESS),
    ("nmt-translate {model} --forbid /dev/zero", 1, ENDLESS),
    ("nmt-score {model} --src {setup}/dev.xx --tgt /dev/zero", 1, ENDLESS),
    ("nmt-evaluate --hyp /dev/full --ref {setup}/dev.yy", 1, ENDLESS),
    ("nmt-evaluate --hyp /dev/zero --ref {setup}/dev.yy", 1, ENDLESS),
    ("nmt-translate {model} {setup}/dev.xx -o /dev/full", 1, FULL),
    ("nmt-translate {model} {setup}/dev.xx -o {folder}/out --alignments /dev/full", 1, FULL),
    ("nmt-score {model} --src {setup}/dev.xx --tgt {setup}/dev.yy -o /dev/full", 1, FULL),
    ("nmt-evaluate {model} --src {setup}/dev.xx --ref {setup}/dev.yy -o /dev/full", 1, FULL),
]


@pytest.mark.parametrize(("words", "code", "message"), MISTAKES)
def test_mistakes_are_one_line(
    words: str, code: int, message: str, model: Path, setup: Path, run: Run, tmp_path: Path
) -> None:
    contents = {"unequal": (b"a\nb\n", b"a\n"), "latin": ("é\n".encode("latin-1"), b"a\n"), "empty": (b"", b"")}
    for prefix, sides in contents.items():
        for lang, content in zip(("xx", "yy"), sides, strict=True):
            (tmp_path / f"{prefix}.{lang}").write_bytes(content)
    config = f"{setup}/c.yaml --set model_dir={tmp_path}/m"
    words = words.format(model=model, setup=setup, ref=setup / "test.yy", folder=tmp_path, config=config)
    result = run(*words.split(), stdin=b"w1\n", code=code)
    assert message in result.err and result.out == b"" and "Traceback" not in result.err
    if code == 1:
        assert result.err.splitlines()[-1:] == [line for line in result.err.splitlines() if line.startswith("Error: ")]
        assert words.startswith("nmt-train") or result.err.count("\n") == 1
    else:
        assert result.err.count("\n") == 1 and result.err.endswith(f" See {words.split()[0]} --help.\n")
