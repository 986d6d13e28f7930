"""nmt-bundle --card: a page that machines and people can read, which says what is in the file and nothing of the
machine that made it."""

import errno
import json
import os
from dataclasses import replace

import pytest
import yaml
from click.testing import CliRunner

from nmt.cli.commands.bundle import bundle
from nmt.errors import CheckpointError
from nmt.storage.saved_model import load_saved_model
from nmt.storage.trained_settings import model_card, write_card
from tests.saved_models import write_folder, write_language_folder


def call(folder, path, *words):
    return CliRunner().invoke(bundle, [str(word) for word in (folder, "-o", path, *words)])


def front_matter(text):
    before, front, page = text.split("---\n", 2)
    assert before == ""
    return yaml.safe_load(front), page


def with_scores(saved, **scores):
    saved.content["scores"] = scores
    return saved


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("card") / "model")


def test_a_card_is_written_beside_the_file(folder, tmp_path):
    path = tmp_path / "small.nmt"
    result = call(folder, path, "--card")
    assert result.exit_code == 0, result.output
    front, page = front_matter((tmp_path / "small.md").read_text("utf-8"))
    assert front["library_name"] == "recurrent-nmt" and front["pipeline_tag"] == "translation"
    assert front["language"] == ["xx", "yy"] and "lstm" in front["tags"]
    saved = load_saved_model(path)
    assert f"{path.stat().st_size:,} bytes" in page and saved.digest in page and "computed in float32" in page
    saved.content["quantization"] = {}
    assert "computed in int8" in model_card(saved, path)
    assert "nmt-translate small.nmt" in page and "**Licence**" in page
    assert "- vocabulary: 48 and 48 units (unigram)" in page
    settings = json.loads(page.split("```json\n")[1].split("```")[0])
    assert settings["model"] == saved.config.model.to_dict()
    assert str(folder.parent) not in page
    assert page.index("**Licence**") < page.index("```json"), "what people read comes first"


@pytest.mark.parametrize(("read", "sample"), [(178, "178 of 500 pairs of "), (500, ""), (0, ""), ("all", "")])
def test_scores_say_on_how_many_pairs_they_are(folder, tmp_path, read, sample):
    saved = with_scores(load_saved_model(folder), bleu=41.0)
    saved.content["state"] |= {"validation_pairs": read, "dev": [500, 17]}
    (tmp_path / "m.nmt").write_bytes(b"12345")
    front, page = front_matter(model_card(saved, tmp_path / "m.nmt"))
    assert f"| on {sample}the validation text |" in page
    assert front["model-index"][0]["results"][0]["dataset"]["name"] == f"{sample}dev"


def test_scores_become_an_index_that_hubs_read(folder, tmp_path):
    saved = with_scores(load_saved_model(folder), update=7, bleu=41.237, ppl=3.0)
    (tmp_path / "m.nmt").write_bytes(b"12345")
    front, page = front_matter(model_card(saved, tmp_path / "m.nmt"))
    result = front["model-index"][0]["results"][0]
    assert [(one["type"], one["value"]) for one in result["metrics"]] == [("bleu", 41.24), ("ppl", 3.0)]
    assert result["task"] == {"type": "translation"} and result["dataset"]["name"] == "dev"
    assert "| BLEU | 41.24 |" in page and "5 bytes" in page
    front, page = front_matter(model_card(with_scores(saved, update=7), tmp_path / "m.nmt"))
    assert "model-index" not in front and "None are known." in page


def test_sides_that_are_no_languages_are_not_called_so(tmp_path):
    folder = write_folder(tmp_path / "model")
    saved = load_saved_model(folder)
    data = saved.config.data
    sounds = data.model_copy(update={"tgt": data.tgt.model_copy(update={"lang": "phoneme"})})
    object.__setattr__(saved, "config", saved.config.model_copy(update={"data": sounds}))
    (tmp_path / "m.nmt").write_bytes(b"")
    front, page = front_matter(model_card(saved, tmp_path / "m.nmt"))
    assert front["language"] == ["xx"] and "turns `xx` into `phoneme`" in page


def test_a_language_model_has_a_card_of_its_own(folder, tmp_path):
    language = write_language_folder(tmp_path / "lm", load_saved_model(folder).tgt_subwords)
    assert call(language, tmp_path / "lm.nmt", "--card").exit_code == 0
    front, page = front_matter((tmp_path / "lm.md").read_text("utf-8"))
    assert front["pipeline_tag"] == "text-generation" and front["language"] == ["yy"]
    assert "A recurrent language model of `yy`." in page and "nmt-generate lm.nmt" in page
    assert "- vocabulary: 48 units (" in page


def test_a_card_that_is_there_is_kept_and_nothing_is_written(folder, tmp_path):
    (tmp_path / "m.md").write_text("mine")
    result = call(folder, tmp_path / "m.nmt", "--card")
    assert result.exit_code == 1 and "must be a new file" in result.output
    assert (tmp_path / "m.md").read_text() == "mine" and not (tmp_path / "m.nmt").exists()


def test_a_card_has_no_place_of_the_machine_and_replaces_no_other(folder, tmp_path):
    saved = load_saved_model(folder)
    training = saved.config.training.model_copy(update={"load_model": "/home/me/model"})
    saved = replace(saved, config=saved.config.model_copy(update={"training": training}))
    (tmp_path / "m.nmt").write_bytes(b"12345")
    write_card(tmp_path / "m.md", saved, tmp_path / "m.nmt")
    text = (tmp_path / "m.md").read_text("utf-8")
    assert "/home/me" not in text and '"learning_rate"' in text
    with pytest.raises(CheckpointError, match="must be a new file, got one that is there"):
        write_card(tmp_path / "m.md", saved, tmp_path / "m.nmt")


def test_a_card_that_cannot_be_written_leaves_no_bundle(folder, tmp_path, monkeypatch):
    def full(path, data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("nmt.storage.trained_settings.write_bytes", full)
    result = call(folder, tmp_path / "m.nmt", "--card")
    assert result.exit_code == 1 and "m.md" in result.output and "Traceback" not in result.output
    assert not list(tmp_path.glob("m.*"))
