"""What is exported for the web translates as Python does, in Node and in a browser; what it cannot do is one line."""

import math
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from nmt import Constraints, Translator
from nmt.cli.commands.export import export
from nmt.data.tokens.characters import capitals_of, is_in_capitals, lowered
from nmt.data.tokens.vocabulary import Vocabulary
from nmt.documents.tagged_text import read_passage
from nmt.errors import CheckpointError
from nmt.exporting.c.library import save_library
from nmt.exporting.checks import OPTIONS, check_exported
from nmt.exporting.web.package import make_package
from nmt.exporting.web.saving import WORKER, bundled, compressed_package, page_of, save_page
from nmt.storage.saved_model import load_saved_model, save_quantised
from tests.exporting.web.hosts import NODE, needs_node, run_script
from tests.pages import page_in
from tests.refusals import refused
from tests.saved_models import calibrate, sentences, write_folder
from tests.search_cases import RULES

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
    "convolutions": ("int8", {"encoder": {"type": "conv", "kernel_size": 3, "hidden_size": 4}}),
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
    calibrate(found)
    return found


@needs_node
@pytest.mark.parametrize("name", [name for name in MODELS if name != GROWING])
def test_translations_scores_and_attention_are_those_of_python(tmp_path, name):
    compute_dtype, settings = MODELS[name]
    folder = small(tmp_path / "model", settings)
    if "4 bits" in name:
        save_quantised(tmp_path / "quantised", load_saved_model(folder), 4)
        folder = tmp_path / "quantised"
    check_exported(load_saved_model(folder), "the web")
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
            assert tuple(one["warnings"]) == other.warnings and tuple(one["unseen"]) == other.unseen
            if other.detail is not None and translator.config.model.decoder.attention != "none":
                assert one["tokens"] == other.detail.tokens
                np.testing.assert_allclose(one["attention"], other.detail.attention, atol=1e-4)
                assert [tuple(pair) for pair in one["alignment"]] == other.detail.alignment


@needs_node
def test_rules_samples_prefixes_and_scores_are_those_of_python(tmp_path):
    folder = small(tmp_path / "model", {})
    (tmp_path / "package").write_bytes(make_package(str(folder), None, (), "int8"))
    script = """
import { Translator } from "./translator.js";
const translator = await Translator.load(bytes("package")), [lines, rules] = given;
found = { ruled: [], scores: await translator.score(lines, lines) };
for (const one of rules) found.ruled.push(await translator.translate(lines, { beam_size: 4, n_best: 4, ...one }));
found.begun = await translator.translate(lines, { prefixes: lines.map(() => "miti lo") });
const { memory } = translator.engine.memory, grow = memory.grow;
found.failed = [];
for (let failing = 1; ; failing++) {
  let count = 0;
  memory.grow = pages => {
    if (++count === failing) throw new RangeError("failed");
    return grow.call(memory, pages);
  };
  const wish = translator.translate(lines, { beam_size: 40 * failing, batch_size: 100 });
  const failed = await wish.then(() => "", e => e.message);
  if (!failed) break;
  found.failed.push(failed);
}
memory.grow = grow;
found.after = await translator.translate(lines, { prefixes: lines.map(() => "miti lo") });
found.few = await translator.translate(lines, { prefixes: ["miti"] }).catch(e => e.message);"""
    found = run_script(tmp_path, script, LINES, [*RULES.values()])
    translator = Translator.load(folder, threads=1, compute_dtype="int8")
    expected = [translator.translate_nbest(LINES, n_best=4, beam_size=4, **rules) for rules in RULES.values()]
    expected.append(translator.translate_nbest(LINES, constraints=Constraints(prefixes="miti lo")))
    for ours, theirs in zip([*found["ruled"], found["begun"]], expected, strict=True):
        assert [[one["text"] for one in line] for line in ours] == [[one.text for one in line] for line in theirs]
        scores = [one["score"] for line in ours for one in line]
        assert scores == pytest.approx([one.score for line in theirs for one in line], rel=_SCORES, abs=_SCORES)
    for one, other in zip(found["scores"], translator.score(LINES, LINES), strict=True):
        assert one["tokens"] == other.tokens
        assert one["log_probs"] == pytest.approx(other.log_probs, rel=_SCORES, abs=_SCORES)
    assert found["after"] == found["begun"]
    assert found["failed"] and all(re.fullmatch(r"no memory for \d+ MB more; .*", one) for one in found["failed"])
    assert found["few"] == f"prefixes: must have an entry for each line, {len(LINES)}, got 1"


@needs_node
def test_a_module_translates_shows_progress_and_stops(tmp_path):
    folder, out = small(tmp_path / "model", {}), tmp_path / "module"
    done = CliRunner().invoke(export, [str(folder), "--to", "web-module", "-o", str(out)], catch_exceptions=False)
    assert done.exit_code == 0 and "bytes as web-module" in done.output
    names = ["model.nmtweb", "translator.d.mts", "translator.mjs", "worker.mjs"]
    assert sorted(one.name for one in out.iterdir()) == names
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
def test_powers_are_rounded_as_in_python(tmp_path):
    """Browsers round Math.pow each in its way; the C library's is wrong in one of some thousands."""
    script = """
import { power } from "./translator.js";
found = given[0].map(p => given[1].map(base => power(base, p)));"""
    exponents, bases = [0, 1e-5, 0.2, 0.6, 1, 1.3, 2, 7.5, 100], [(5 + n) / 6 for n in range(200)]
    for exponent, row in zip(exponents, run_script(tmp_path, script, exponents, bases), strict=True):
        expected = [math.pow(base, exponent) for base in bases]
        assert row == pytest.approx(expected, rel=2.3e-16) and sum(map(float.__eq__, map(float, row), expected)) > 195


@needs_node
def test_a_text_is_cut_into_sentences_and_what_is_between_stays(tmp_path):
    script = """
import { passage_of, sentences_of, words_of } from "./translator.js";
const [text, long] = given;
found = [passage_of(text, "en"), sentences_of(long, "en"), words_of(["▁", "▁a", "b", "▁c"])];"""
    text = " One man. Two men!\r\n\n\u2028  WHAT NOW"
    parts, long, words = run_script(tmp_path, script, text, "word " * 500)
    whole = (one.get("text", one.get("before", "") + one.get("source", "") + one.get("after", "")) for one in parts)
    assert "".join(whole) == text
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
    for names in (WORKER, ("client.js", "page_link.js")):
        text = bundled(names)
        assert not re.search(r"^(import|export)\b", text, re.MULTILINE)
        declared = re.findall(r"^(?:const|let|class|function|async function) (\w+)", text, re.MULTILINE)
        assert len(declared) == len(set(declared)) > 3
    assert "export async function load" in bundled(("client.js", "module.js"), exports=True)


@needs_node
@pytest.mark.parametrize("names", [WORKER, ("client.js", "page_link.js")])
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
    lines = ["ᎣᏏᏲ ᏙᎯᏧ", "ᎣᏏᏲ NASA", "HELLO WORLD", "Hello WORLD", "USA", "გამარჯობა", "ᲒᲐᲛᲐᲠᲯᲝᲑᲐ"]
    lines += ["日本 NASA 日本", "ПРИВЕТ, МИР", ""]
    expected = []
    for line in lines:
        (sentence,) = read_passage(line).sentences or [None]
        asked = line if sentence is None else sentence.asked
        expected.append([is_in_capitals(line), asked, lowered(line), capitals_of(line)])
    assert run_script(tmp_path, script, lines) == expected


def test_what_a_page_cannot_do_is_one_line(tmp_path):
    changed = write_folder(tmp_path / "risk")
    config = changed / "config.yaml"
    config.write_text(config.read_text().replace("mbr: none", "mbr: chrf").replace("sampling: false", "sampling: true"))
    line = "decoding.mbr must be none for the web, got chrf; change it"
    refused(CheckpointError, line, check_exported, load_saved_model(changed), "the web")
    saved = load_saved_model(write_folder(tmp_path / "conv", decoder=MODELS["convolutions"][1]["encoder"]))
    line = "one program, got one where the decoder reads an embedding"
    refused(CheckpointError, line, check_exported, saved, "the web")


def test_subwords_of_another_kind_are_refused(folder):
    saved = load_saved_model(folder)
    words = Vocabulary([f"w{n}" for n in range(saved.src_subwords.vocab_size - 4)])
    object.__setattr__(saved, "src_subwords", words)
    line = "source's subwords must be a sentencepiece model for the web, got a v"
    refused(CheckpointError, line, check_exported, saved, "the web")


def test_options_that_do_not_go_together_are_one_line(tmp_path):
    folder = write_folder(tmp_path / "model")
    place = str(tmp_path)
    for out, arguments, message in (
        (place, ["--to", "numpy", "--compute-dtype", "int8"], "--compute-dtype: must come with --to web, web-module"),
        (place, ["--to", "web-module"], "must be a new folder, got a folder that is not empty"),
        (place, ["--to", "web"], "must be writable, got a folder"),
        ("-", ["--to", "web"], "--output: must be a file or a folder to write, got the standard output"),
    ):
        done = CliRunner().invoke(export, [str(folder), "-o", out, *arguments])
        assert done.exit_code != 0
        assert message in done.output and done.output.count("\n") == 1


def test_a_page_shows_progress_with_a_document_and_answers_meanwhile(browser, tmp_path):
    folder, out = small(tmp_path / "model", {}), tmp_path / "translator.html"
    config = folder / "config.yaml"
    config.write_text(config.read_text().replace("max_length_ratio: 2.0", "max_length_ratio: 0.5"))
    saved = load_saved_model(folder)
    save_page(out, saved, compressed_package(str(folder), None, saved, "int8"))
    lines = sentences(500, seed=4)
    page = browser.new_page()
    page.goto(out.as_uri())
    watch = """() => {
        window.seen = [];
        const note = () => window.seen.push([document.getElementById("status").textContent, window.turns]);
        new MutationObserver(note).observe(document.getElementById("status"), { childList: true });
        window.turns = 0;
        const turn = () => { window.turns++; setTimeout(turn); };
        turn();
    }"""
    page.evaluate(watch)
    page.fill("#text", "\n".join(lines))
    page.locator("#status", has_text="Translated in").wait_for(timeout=0)
    seen = [(text, turns) for text, turns in page.evaluate("window.seen") if "of 500 sentences" in text]
    shown = page.inner_text("#result").split("\n")
    page.close()
    assert len(seen) > 10 and seen[0][1] < seen[-1][1]  # the page has had turns of its own
    translator = Translator.load(folder, threads=1, compute_dtype="int8")
    expected = [" ".join(one.split()) for one in translator.translate([line for line in lines if line.strip()])]
    assert [" ".join(line.split()) for line in shown if line.strip()] == [one for one in expected if one]


def test_a_page_translates_from_a_file_without_a_network(browser, tmp_path):
    folder, out = small(tmp_path / "model", {}), tmp_path / "translator.html"
    done = CliRunner().invoke(export, [str(folder), "--to", "web", "-o", str(out)], catch_exceptions=False)
    assert done.exit_code == 0
    translator = Translator.load(folder, threads=1, compute_dtype="int8")
    with page_in(browser, offline=True) as page:
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
    assert not page.errors and page.hosts == {"file", "blob"}


def test_types_name_all_options():
    types = (Path(bundled.__code__.co_filename).parent / "translator.d.ts").read_text()
    header = (Path(save_library.__code__.co_filename).parent / "translator.h").read_text()
    for name in [row.name for row in OPTIONS]:
        assert f"{name}?:" in types and re.search(rf"\b{name}[,;]", header), name
