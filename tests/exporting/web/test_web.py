"""What is exported for the web translates as Python does, in Node and in a browser; what it cannot do is one line."""

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from nmt import Translator
from nmt.cli.commands.export import export
from nmt.data.tokens.letter_case import capitals_of, is_in_capitals, lowered
from nmt.data.tokens.vocabulary import Vocabulary
from nmt.documents.reading import read_passage
from nmt.errors import CheckpointError
from nmt.exporting.web.package import make_package
from nmt.exporting.web.saving import bundled, check_web, page_of
from nmt.storage.quantised_model import save_quantised
from nmt.storage.saved_model import load_saved_model
from tests.exporting.web.hosts import NODE, needs_node, run_script
from tests.saved_models import sentences, write_folder

BREAKS = ["kara\nlo", "ka\r\nra lo", "\x1ckara lo\x85", "kara\u2028 \n", "\ufeff\nkara lo", "ka\x1fra", "ka\x85\tlo"]
LINES = [*sentences(40, seed=3), "", "   ", "ka  ra ☃ lo", "x" * 40, "kara " * 60, *BREAKS]
GRU = {"rnn_type": "gru", "num_layers": 2, "residual": True}
TIED = {"conditional": True, "embeddings": {"embedding_dim": 6}}
MODELS = {
    "lstm in float32": ("float32", {"decoder": {"init_from": "mean"}}),
    "gru in int8": ("int8", {"encoder": GRU, "decoder": GRU | TIED, "tied": "softmax"}),
    "lexical": ("int8", {"decoder": {"lexical": True, "init_from": "mean"}}),
    "lexical in 4 bits": ("int8", {"decoder": {"lexical": True, "init_from": "mean"}}),
    "no product of the state": ("int8", {"decoder": {"rnn_type": "ssru", "input_feeding": False}}),
    "no product and no attention": ("float32", {"decoder": {"rnn_type": "sru", "attention": "none"}}),
    "no attention": ("int8", {"encoder": {"bidirectional": False}, "decoder": {"attention": "none"}}),
}
GROWING = "no product and no attention"
"""A model whose states grow with each word, and with them differences of rounding; a library has the same bits."""
TRANSLATE = """
import { Translator } from "./translator.js";
const translator = await Translator.load(bytes("package"));
found = await translator.translate(...given);"""
_SCORES = 2e-6
"""Sums of up to a few hundred float32 numbers are added in another order than on the processor: some units in the last
place of a float32."""


def small(folder, settings):
    """A model that has learnt nothing, whose translations are not empty because each subword earns a reward."""
    found = write_folder(folder, **settings)
    config = found / "config.yaml"
    config.write_text(config.read_text().replace("word_reward: 0.0", "word_reward: 4.0"))
    return found


@needs_node
@pytest.mark.parametrize("name", [name for name in MODELS if name != GROWING])
def test_translations_scores_and_attention_are_those_of_python(tmp_path, name):
    compute_dtype, settings = MODELS[name]
    folder = small(tmp_path / "model", settings)
    if "4 bits" in name:
        save_quantised(tmp_path / "quantised", load_saved_model(folder), 4)
        folder = tmp_path / "quantised"
    check_web(load_saved_model(folder))
    (tmp_path / "package").write_bytes(make_package(str(folder), None, (), compute_dtype))
    options = {"beam_size": 4, "n_best": 4, "details": True, "batch_size": 7}
    found = run_script(tmp_path, TRANSLATE, LINES, options)
    translator = Translator.load(folder, threads=1, compute_dtype=compute_dtype)
    expected = translator.translate_nbest(LINES, n_best=4, beam_size=4, details=True)
    assert sum(bool(line[0].text) for line in expected) > 30
    assert [[one["text"] for one in line] for line in found] == [[one.text for one in line] for line in expected]
    for line, ours in zip(found, expected, strict=True):
        for one, other in zip(line, ours, strict=True):
            assert one["score"] == pytest.approx(other.score, rel=_SCORES, abs=_SCORES)
            assert one["confidence"] == pytest.approx(other.confidence, rel=1e-4)
            assert tuple(one["warnings"]) == other.warnings
            if other.detail is not None and translator.config.model.decoder.attention != "none":
                assert one["tokens"] == other.detail.tokens
                np.testing.assert_allclose(one["attention"], other.detail.attention, atol=1e-4)
                assert [tuple(pair) for pair in one["alignment"]] == other.detail.alignment


@needs_node
def test_a_module_translates_shows_progress_and_stops(tmp_path):
    folder, out = small(tmp_path / "model", {}), tmp_path / "module"
    done = CliRunner().invoke(export, [str(folder), "--to", "web-module", "-o", str(out)], catch_exceptions=False)
    assert done.exit_code == 0 and "bytes as web-module" in done.output
    assert sorted(one.name for one in out.iterdir()) == [
        *("model.nmtweb", "translator.d.mts", "translator.mjs", "worker.mjs"),
    ]
    script = """
import { load, translate } from "./module/translator.mjs";
const [lines] = given, seen = [], translator = await load(), control = new AbortController();
found = { one: await translate(lines[0]) };
found.all = await translator.translate(lines, { progress: done => seen.push(done) });
found.seen = seen;
const slow = translator.translate(Array(4000).fill(lines[0]), { signal: control.signal });
setTimeout(() => control.abort(), 20);
found.stopped = await slow.catch(e => e.name);
found.wrong = await translator.translate(lines, { beam: 3 }).catch(e => e.name + ": " + e.message);
found.much = await translator.translate(lines, { beam_size: 0 }).catch(e => e.message);
found.after = await translator.translate(lines[0]);"""
    found = run_script(tmp_path, script, LINES)
    expected = Translator.load(folder, threads=1, compute_dtype="int8").translate(LINES)
    assert found["all"] == expected
    assert found["one"] == found["after"] == expected[0]
    assert found["seen"][0] == 2 and found["seen"][-1] == len(LINES)  # two lines are blank
    assert found["stopped"] == "AbortError"
    assert found["wrong"].startswith("RangeError: options: must be of ") and found["wrong"].endswith("got beam")
    assert found["much"] == "beam_size: must be a whole number from 1 to 1000, got 0"


@needs_node
def test_a_text_is_cut_into_sentences_and_what_is_between_stays(tmp_path):
    script = """
import { passage_of, sentences_of, words_of } from "./translator.js";
const [text, long] = given;
found = [passage_of(text, "en"), sentences_of(long, "en"), words_of(["▁", "▁a", "b", "▁c"])];"""
    text = " One man. Two men!\r\n\n\u2028  WHAT NOW"
    parts, long, words = run_script(tmp_path, script, text, "word " * 500)
    assert (
        "".join(one.get("text", one.get("before", "") + one.get("source", "") + one.get("after", "")) for one in parts)
        == text
    )
    assert [one["source"] for one in parts if "source" in one] == ["One man.", "Two men!", "WHAT NOW"]
    assert "".join(long) == "word " * 500 and max(map(len, long)) <= 1000
    assert words == [0, 0, 0, 1]


def test_a_page_asks_nobody_for_anything():
    page = page_of(b"\0\1\2</script>", "de - en")
    assert not re.search(r"\b(src|href)=\"(?!data:)", page)
    assert "fetch(" not in re.sub(r"answer = await fetch\(path, sent\)|await fetch\(one\.url", "", page)
    assert "default-src 'none'" in page and "connect-src" not in page
    assert page.count("<script") == page.count("</script>") == 5
    assert "data-server" not in page and "API" not in page.split("<style")[0] and page.count(" hidden>Glossary") == 1
    assert "<title>Translate de - en</title>" in page


def test_bundles_have_neither_imports_nor_two_things_of_one_name():
    for names in (("engine.js", "subwords.js", "translator.js", "worker.js"), ("client.js", "page_link.js")):
        text = bundled(names)
        assert not re.search(r"^(import|export)\b", text, re.MULTILINE)
        declared = re.findall(r"^(?:const|let|class|function|async function) (\w+)", text, re.MULTILINE)
        assert len(declared) == len(set(declared)) > 3
    assert "export async function load" in bundled(("client.js", "module.js"), exports=True)


@needs_node
@pytest.mark.parametrize(
    "names", [("engine.js", "subwords.js", "translator.js", "worker.js"), ("client.js", "page_link.js")]
)
def test_bundles_are_programs(tmp_path, names):
    (tmp_path / "bundle.js").write_text(f'"use strict";\n{bundled(names)}', "utf-8")
    done = subprocess.run([NODE, "--check", tmp_path / "bundle.js"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@needs_node
def test_capitals_are_those_of_python(tmp_path):
    """Everyday Cherokee is written in capitals of Unicode, and everyday Georgian in small letters."""
    script = """
import { asked, is_capitals } from "./translator.js";
import { capitals_of, lowered } from "./subwords.js";
found = given[0].map(text => [is_capitals(text), asked(text), lowered(text), capitals_of(text)]);"""
    lines = [
        "ᎣᏏᏲ ᏙᎯᏧ",
        "ᎣᏏᏲ NASA",
        "HELLO WORLD",
        "Hello WORLD",
        "USA",
        "გამარჯობა",
        "ᲒᲐᲛᲐᲠᲯᲝᲑᲐ",
        "日本 NASA 日本",
        "ПРИВЕТ, МИР",
        "",
    ]
    expected = []
    for line in lines:
        (sentence,) = read_passage(line).sentences or [None]
        asked = line if sentence is None else sentence.asked
        expected.append([is_in_capitals(line), asked, lowered(line), capitals_of(line)])
    assert run_script(tmp_path, script, lines) == expected


def refused(folder, match):
    with pytest.raises(CheckpointError, match=match) as info:
        check_web(load_saved_model(folder))
    assert "\n" not in str(info.value)


def test_what_a_page_cannot_do_is_one_line(tmp_path):
    changed = write_folder(tmp_path / "least")
    config = changed / "config.yaml"
    config.write_text(config.read_text().replace("min_length: 0", "min_length: 2"))
    refused(changed, r"decoding.min_length must be 0 for the web, got 2; change it")
    copying = write_folder(tmp_path / "copying", decoder={"copy_source": True})
    refused(copying, "model.decoder.copy_source must be false for the web, got true")


def test_subwords_of_another_kind_are_refused(tmp_path):
    folder = write_folder(tmp_path / "model")
    saved = load_saved_model(folder)
    words = Vocabulary([f"w{n}" for n in range(saved.src_subwords.vocab_size - 4)])
    object.__setattr__(saved, "src_subwords", words)
    with pytest.raises(
        CheckpointError, match="the source's subwords must be a sentencepiece model for the web, got a v"
    ):
        check_web(saved)


def test_options_that_do_not_go_together_are_one_line(tmp_path):
    folder = write_folder(tmp_path / "model")
    place = str(tmp_path)
    for out, arguments, message in (
        (
            place,
            ["--to", "numpy", "--compute-dtype", "int8"],
            "--compute-dtype: must come with --to web, web-module or c, got",
        ),
        (place, ["--to", "web-module"], "must be a new folder, got a folder that is not empty"),
        (place, ["--to", "web"], "must be writable, got a folder"),
        ("-", ["--to", "web"], "--output: must be a file or a folder to write, got the standard output"),
    ):
        done = CliRunner().invoke(export, [str(folder), "-o", out, *arguments])
        assert done.exit_code != 0
        assert message in done.output and done.output.count("\n") == 1


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs Chromium")
def test_a_page_translates_from_a_file_without_a_network(tmp_path):
    started = pytest.importorskip("playwright.sync_api", reason="needs the extra [browser]")
    folder, out = small(tmp_path / "model", {}), tmp_path / "translator.html"
    done = CliRunner().invoke(export, [str(folder), "--to", "web", "-o", str(out)], catch_exceptions=False)
    assert done.exit_code == 0
    translator = Translator.load(folder, threads=1, compute_dtype="int8")
    with started.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_context(offline=True).new_page()
        errors, hosts = [], set()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: hosts.add(request.url.partition(":")[0]))
        page.goto(out.as_uri())
        page.fill("#text", "kara losu\n\nmiti")
        page.wait_for_selector("#result .w")
        first, last = (translator.translate(one) for one in ("kara losu", "miti"))
        assert " ".join(page.inner_text("#result").split()) == " ".join(f"{first} {last}".split())
        page.hover("#result .w >> nth=0")
        assert page.inner_text("#where") == "kara losu" and "% sure" in page.inner_text("#sure")
        page.click("#result .w >> nth=0")
        page.wait_for_selector("#alternatives li >> nth=1")
        assert page.locator("[role=tab]:visible").all_inner_texts() == ["Alternatives", "Word by word"]
        found = page.evaluate("lines => translator.translate(lines, { beam_size: 3 })", LINES)
        assert [line[0]["text"] for line in found] == translator.translate(LINES, beam_size=3)
        browser.close()
    assert not errors and hosts == {"file", "blob"}


def test_types_name_all_options():
    types = (Path(bundled.__code__.co_filename).parent / "translator.d.ts").read_text()
    given = re.search(r"const OPTIONS = \{(.*?)\};", bundled(("translator.js",)), re.DOTALL)
    names = re.findall(r"(\w+): \[", given[1])
    assert len(names) == 7
    assert all(f"{name}?:" in types for name in names)
