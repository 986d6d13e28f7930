"""What is said of tables: which side it is true of; blank lines are pairs of nothing."""

from nmt.config import config_from_dict
from nmt.data.corpora.sources import Source
from nmt.doctor.texts import Text
from nmt.train.tasks.prepare import check_data


def write(tmp_path, lines):
    (tmp_path / "t.tsv").write_text("".join(f"{line}\n" for line in lines))
    return {"path": str(tmp_path / "t.tsv")}


def test_warnings_of_a_table_say_which_side(tmp_path):
    corpus = write(tmp_path, [f"one number {n}\teine Zahl {n}" for n in range(50)] + ["<b>x</b>\ty", "x\t<i>y</i>"])
    sides = {"src": {"lang": "en"}, "tgt": {"lang": "de"}}
    config = config_from_dict({"model_dir": str(tmp_path / "m"), "data": {"train": [corpus], "dev": [corpus], **sides}})
    where = [finding.where for finding in check_data(config).findings if "tags" in finding.what]
    assert sorted(set(where)) == [f"{corpus['path']} (de)", f"{corpus['path']} (en)"]


def test_a_blank_line_of_a_table_is_a_pair_of_nothing_as_in_two_files(tmp_path):
    corpus = write(tmp_path, ["one\teins", "", "   ", "two\tzwei"])
    (part,) = Source(corpus["path"]).parts(["en", "de"])
    assert list(part.rows()) == [("one", "eins"), ("", ""), ("", ""), ("two", "zwei")]
    config = config_from_dict(
        {"model_dir": "m", "data": {"train": "x", "dev": "x", "src": {"lang": "en"}, "tgt": {"lang": "de"}}}
    )
    text = Text(Source(corpus["path"]), [config.data.src, config.data.tgt])
    assert [len(block) for block in text.blocks()] == [4]
