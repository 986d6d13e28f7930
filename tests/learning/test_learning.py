"""A translator that learns: at once, apart from other projects, and so that it can be taken back bit for bit."""

import gc
import os
import re
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest

from nmt import LearningTranslator, NMTError, Translator
from nmt.decode.rules.options import Shortlist
from nmt.errors import DataError
from nmt.learning import projects
from nmt.learning.learning_translator import IDLE
from nmt.learning.memory import Pair, State, read_tmx, write_tmx
from nmt.learning.trainer import Recipe
from nmt.storage.saved_model import load_saved_model, save_bundle, save_quantised
from tests.learning.conftest import parameters
from tests.learning.killed import check_kills, learn_like
from tests.refusals import refused
from tests.saved_models import write_folder
from tests.waiting import beside, until

pytest.importorskip("rapidfuzz", reason="needs the extra [learn]")

MUCH = Recipe(rate=1.0, updates=100, replayed=0, neighbours=0)
"""Enough for models of six units that know nothing."""


def log_prob(translator, source, target):
    return sum(translator.score([source], [target])[0].log_probs)


def teach(one, pairs):
    """Learn these pairs; return their numbers."""
    return [one.learn(*pair).pair.number for pair in pairs]


@pytest.mark.parametrize("compute_dtype", ["float32", "int8", "bfloat16"])
def test_a_pair_is_known_at_the_next_sentence(learning, pairs, compute_dtype):
    one = learning(compute_dtype=compute_dtype, recipe=MUCH)
    source, target = pairs[0]
    before = log_prob(one.translator(), source, target)
    found = one.learn(source, target, who="Ada")
    assert log_prob(one.translator(), source, target) > before
    assert (found.pair.state, found.pair.who, found.note) == (State.LEARNT, "Ada", "")
    teach(one, [pairs[0]] * 5)
    assert one.translate(source) == target
    assert one.translator().model.in_int8 == (compute_dtype == "int8")


def test_translators_in_use_do_not_change(learning, pairs):
    one = learning()
    texts = [source for source, _ in pairs[:8]]
    former = one.translator()
    bits, answers = parameters(former), former.translate(texts)
    teach(one, pairs[:5])
    assert parameters(former) == bits and former.translate(texts) == answers
    assert parameters(one.translator()) != bits
    assert parameters(one.base) == bits


def test_former_models_are_freed_at_once(learning, pairs):
    one, former = learning(), []
    gc.disable()
    try:
        for source, target in pairs[:5]:
            former.append(weakref.ref(one.translator().model))
            one.learn(source, target)
            one.translate(source)
        assert [found() is None for found in former[1:]] == [True] * 4  # the first is the base model
    finally:
        gc.enable()


def test_every_answer_is_of_one_model_while_another_thread_learns(learning, pairs):
    one, found, stop = learning(), [], threading.Event()
    texts, versions = [source for source, _ in pairs[:6]], [one.translator()]

    def translate():
        while not stop.is_set():
            found.append(tuple(one.translate(texts)))

    with beside(*[translate] * 3):
        for source, target in pairs[:12]:
            one.learn(source, target)
            versions.append(one.translator())
        stop.set()
    assert found and set(found) <= {tuple(each.translate(texts)) for each in versions}


def test_an_undone_pair_leaves_no_bit(learning, pairs):
    one, without = learning("one"), learning("without")
    numbers = teach(one, pairs[:30])
    one.wait()  # snapshots after 20 pairs
    for gone in (27, 22, 3):  # behind the snapshot, and before it
        one.undo(numbers[gone])
    for place, pair in enumerate(pairs[:30]):
        if place not in (27, 22, 3):
            without.learn(*pair)
    assert parameters(one.translator()) == parameters(without.translator())
    assert one.progress().pairs == 27
    for place in set(range(30)) - {27, 22, 3}:
        one.undo(numbers[place])
    assert parameters(one.translator()) == parameters(one.base)
    refused(NMTError, "must not be undone yet", one.undo, numbers[0])
    refused(NMTError, "must be the number of a pair", one.undo, 10_000)


def test_what_was_learnt_is_there_again_bit_for_bit(learning, pairs):
    one = learning()
    teach(one, pairs[:25])
    one.learn("kara", "losu", project="other")
    bits = parameters(one.translator()), parameters(one.translator("other"))
    one.close()
    again = learning()
    assert (parameters(again.translator()), parameters(again.translator("other"))) == bits
    assert [(p.source, p.target) for p in again.memory.pairs("")] == pairs[:25]


def test_a_consolidation_is_a_function_of_its_pairs(learning, pairs):
    one, together = learning("one", idle=None), learning("together", idle=None)
    for place, pair in enumerate(pairs[:12]):
        one.learn(*pair)
        together.learn(*pair)
        if place == 5:
            assert one.consolidate()
    assert one.consolidate() and together.consolidate()
    bits = parameters(one.translator())
    assert bits == parameters(together.translator())
    one.learn(*pairs[12])
    together.learn(*pairs[12])
    bits = parameters(one.translator())
    assert bits == parameters(together.translator())
    together.close()
    assert parameters(learning("together").translator()) == bits
    assert one.progress().checks[0].action == "consolidated"


def test_a_pair_that_was_consolidated_is_undone_without_a_trace(learning, pairs):
    one, without = learning("one", idle=None), learning("without", idle=None)
    numbers = teach(one, pairs[:8])
    one.consolidate()
    numbers += teach(one, pairs[8:10])
    for gone in (3, 9, 7):  # 7 was the last one that was consolidated
        one.undo(numbers[gone])
    teach(without, [pairs[place] for place in (0, 1, 2, 4, 5, 6)])
    without.consolidate()
    without.learn(*pairs[8])
    bits = parameters(without.translator())
    assert parameters(one.translator()) == bits
    one.close()
    one = learning("one")
    assert parameters(one.translator()) == bits
    for place in (0, 1, 2, 4, 5, 6, 8):
        one.undo(numbers[place])
    assert parameters(one.translator()) == parameters(one.base)


def test_it_is_consolidated_when_nobody_works(learning, pairs):
    one, other = learning("one", idle=None), learning("other", idle=None)
    for each in (one, other):
        teach(each, pairs[:25])
    one.learn(*pairs[0], project="few")
    one.close()
    one = learning("one", idle=0.2)  # not before: a slow pair would be a pause
    one.learn(*pairs[25])
    other.learn(*pairs[25])
    until(lambda: one.memory.consolidated(""), 60)
    other.consolidate()
    assert parameters(one.translator()) == parameters(other.translator())
    assert not one.memory.consolidated("few")


def test_a_new_pair_cancels_a_consolidation(learning, pairs, monkeypatch):
    one, plain = learning("one", idle=0.0), learning("plain", idle=None)
    real, cancelled = one._trainer.consolidate, []

    def interrupted(all_of_them, is_cancelled):
        if not cancelled:
            one.learn(*pairs[20])
            cancelled.append(is_cancelled())
        return real(all_of_them, is_cancelled)

    monkeypatch.setattr(one._trainer, "consolidate", interrupted)
    for each in (one, plain):
        teach(each, pairs[:20])
    until(lambda: one.memory.consolidated("") >= 21, 60)
    plain.learn(*pairs[20])
    plain.consolidate()
    assert cancelled == [True]
    assert parameters(one.translator()) == parameters(plain.translator())


def test_a_consolidation_that_harms_changes_nothing(learning, pairs):
    one = learning(idle=None)
    teach(one, pairs[:9])
    bits = parameters(one.translator())
    one._projects._base_loss -= 2.0
    assert not one.consolidate()
    assert parameters(one.translator()) == bits and not one.memory.consolidated("")


def test_projects_never_see_one_another(learning, pairs):
    both, alone = learning("both"), learning("alone")
    for place in range(12):
        both.learn(*pairs[place], project="a")
        both.learn(*pairs[30 + place], project="b")
        alone.learn(*pairs[30 + place], project="b")
    for place in range(2):  # also when they are consolidated and learn on
        both.consolidate("a")
        both.consolidate("b")
        alone.consolidate("b")
        both.learn(*pairs[20 + place], project="a")
        both.learn(*pairs[50 + place], project="b")
        alone.learn(*pairs[50 + place], project="b")
    assert parameters(both.translator("b")) == parameters(alone.translator("b"))
    assert parameters(both.translator()) == parameters(both.base) == parameters(both.translator("unknown"))
    assert both.matches(pairs[0][0], project="b", least=0.99) == []
    assert both.matches(pairs[0][0], project="a", least=0.99)[0].pair.target == pairs[0][1]
    assert set(both.projects) == {"a", "b"}


def test_a_quantised_model_learns_and_is_saved_quantised(tmp_path, pairs):
    save_quantised(tmp_path / "int8", load_saved_model(write_folder(tmp_path / "model")))
    with LearningTranslator(Translator.load(tmp_path / "int8"), recipe=Recipe(reads=0)) as one:
        teach(one, [pairs[0]] * 3)
        one.save(tmp_path / "learnt")
        expected = one.translate([source for source, _ in pairs])
    assert (tmp_path / "int8" / "learning.sqlite").is_file()
    assert Translator.load(tmp_path / "learnt").translate([source for source, _ in pairs]) == expected


def test_shortlists_follow(folder, learning, pairs):
    one = learning(recipe=MUCH)
    size = one.base.src_subwords.vocab_size
    empty = Shortlist(np.zeros(size + 1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int32), size)
    one.base.shortlist = empty
    one._projects.restore("")
    source, target = pairs[0]
    teach(one, [pairs[0]] * 5)
    found = one.translator()
    assert found.translate_nbest([source], shortlist=True)[0][0].text == target
    assert len(found.shortlist.tokens) == len(set(one._trainer.ids([one.memory.pairs("")[0]])[0][1]))
    assert one.base.shortlist is empty and len(empty.tokens) == 0


def test_what_was_learnt_is_saved_as_an_ordinary_model(learning, pairs, tmp_path):
    one = learning()
    teach(one, pairs[:10])
    one.save(tmp_path / "folder")
    one.translator().save(tmp_path / "file.nmt")
    for place in ("folder", "file.nmt"):
        assert parameters(Translator.load(tmp_path / place)) == parameters(one.translator())


def test_a_kill_loses_nothing_that_was_acknowledged(folder, learning, tmp_path):
    check_kills(folder, tmp_path / "memory.sqlite", kills=int(os.environ.get("NMT_TEST_KILLS", "4")), seed=1)
    one, other = learning(), learning("other")
    learn_like(other, one)
    assert parameters(one.translator()) == parameters(other.translator())


def test_the_rule_slows_stops_and_recovers():
    assert projects.decide(0.0, 1.0) == projects.Decision(1.0, "")
    assert projects.decide(projects.SLOWS + 0.01, 1.0).rate == 0.5
    assert projects.decide(projects.SLOWS + 0.01, 1 / 16).rate == 1 / 16
    assert projects.decide(0.0, 0.5).rate == 1.0
    assert projects.decide(projects.SLOWS * 0.9, 0.5) == projects.Decision(0.5, "")
    for much in (projects.STOPS + 0.01, float("nan"), float("inf")):
        assert projects.decide(much, 1.0).goes_back and projects.decide(much, 1.0).rate == 0.0
    assert projects.decide(9.0, 0.0) == projects.Decision(0.0, "stopped")


def test_learning_that_harms_goes_back_and_stops(learning, pairs, monkeypatch):
    one = learning()
    teach(one, pairs[:10])
    one.wait()
    good = parameters(one.translator())
    assert one.progress().checks[0].rise <= projects.SLOWS
    one._projects._base_loss -= 2.0  # as if the held-out text had suffered
    teach(one, pairs[10:20])
    one.wait()
    found = one.progress()
    assert (found.pairs, found.learnt, found.rate) == (20, 10, 0.0)
    assert "went back" in found.checks[0].action
    assert parameters(one.translator()) == good
    late = one.learn(*pairs[30])
    assert late.pair.state == State.STORED and "stopped" in late.note
    assert one.matches(pairs[30][0])[0].pair.target == pairs[30][1]
    one.close()
    again = learning()
    assert again.progress().rate == 0.0 and parameters(again.translator()) == good
    again.resume()
    assert again.learn(*pairs[31]).pair.state == State.LEARNT


def test_careless_and_hostile_pairs(learning, pairs, folder, tmp_path):
    one = learning()
    refused(NMTError, "source: must be a sentence", one.learn, "", "x")
    refused(NMTError, "target: must be a sentence", one.learn, "x", " \n ")
    refused(NMTError, "at most 5,000", one.learn, "x" * 6000, "x")
    refused(NMTError, "surrogate", one.learn, "\ud800", "x")
    refused(TypeError, "must be one string", one.learn, "kara", None)
    assert one.learn("kara\x00 lo'; DROP TABLE pairs; --", 'quote " <b>').pair.state == State.LEARNT
    long = one.learn("kara " * 300, "lo")
    assert long.pair.state == State.STORED and "too long" in long.note
    assert "vocabulary lacks" in one.learn("kara", "Ω").note
    refused(NMTError, "end the other process", learning)  # the same file
    (tmp_path / "text").write_text("not a database, but long enough to be read as one " * 40)
    refused(NMTError, "must be a memory", learning, "text")
    other = write_folder(tmp_path / "other", seed=9)
    one.close()
    refused(NMTError, "memory of this model", learning, model=other)
    refused(NMTError, "must be open", one.learn, "kara", "lo")
    assert one.translate("kara") == one.translator().translate("kara")  # translators go on


def test_an_interrupted_pair_is_learnt_afterwards(learning, pairs, monkeypatch):
    one, other = learning("one"), learning("other")
    one.learn(*pairs[0])
    real = one._trainer.learn

    def interrupted(*arguments):
        monkeypatch.setattr(one._trainer, "learn", real)
        raise KeyboardInterrupt

    monkeypatch.setattr(one._trainer, "learn", interrupted)
    with pytest.raises(KeyboardInterrupt):
        one.learn(*pairs[1])
    one.learn(*pairs[2])
    teach(other, pairs[:3])
    assert parameters(one.translator()) == parameters(other.translator())


def test_without_the_training_text_it_learns_too(tmp_path, pairs, caplog):
    folder = write_folder(tmp_path / "model")
    for name in ("train.xx", "dev.xx"):
        (folder / name).unlink()
    with LearningTranslator.load(folder) as one:
        assert one.learn(*pairs[0]).pair.state == State.LEARNT
    assert "is not replayed" in caplog.text and "is not scored" in caplog.text


@pytest.mark.parametrize(
    "changes",
    [
        {
            "tied": "all",
            "encoder": {"embeddings": {"embedding_dim": 6}},
            "decoder": {"embeddings": {"embedding_dim": 6}},
        },
        {"decoder": {"attention": "none"}, "encoder": {"rnn_type": "gru"}},
        {"decoder": {"hidden_dropout": 0.3, "embeddings": {"embedding_dim": 5, "dropout": 0.3}}, "joint": False},
    ],
    ids=["tied", "no-attention", "dropout"],
)
def test_other_models_learn_the_same_twice(tmp_path, pairs, changes):
    folder = write_folder(tmp_path / "model", **changes)
    save_bundle(tmp_path / "one.nmt", load_saved_model(folder))
    found = []
    for model in (folder, tmp_path / "one.nmt"):
        with LearningTranslator.load(model) as one:
            one.undo(teach(one, pairs[:6])[2])
            found.append(parameters(one.translator()))
            assert found[-1] != parameters(one.base)
    assert (tmp_path / "one.nmt.learning.sqlite").is_file()
    assert found[0] == found[1]


PAGE = (Path(__file__).resolve().parents[2] / "docs" / "learning.md").read_text("utf-8")


def test_the_page_of_learning(tmp_path, monkeypatch, capsys):
    write_folder(tmp_path / "runs" / "de-en")
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)
    exec(compile(block, "docs/learning.md", "exec"), {})
    assert "Good morning!" in capsys.readouterr().out
    assert Translator.load("runs/de-en-letters").translate("kara") is not None
    assert "Hi!" in Path("letters.tmx").read_text("utf-8")


def test_its_numbers_are_those_of_the_code():
    recipe = Recipe()
    assert f"more than {projects.SLOWS:g} |" in PAGE and f"more than {projects.STOPS:g}, or no number" in PAGE
    assert f"less than {projects.SLOWS / 2:g} again" in PAGE
    assert (projects.EVERY, projects.HELD_OUT) == (10, 100) and "every ten pairs, 100 held-out pairs" in PAGE
    assert (recipe.updates, recipe.neighbours, recipe.replayed) == (2, 2, 4)
    assert "Two updates" in PAGE and "up to two similar" in PAGE and "four pairs of the training text" in PAGE
    assert (recipe.passes, IDLE) == (6, 60)
    assert "six passes" in PAGE and "a minute without a new pair" in PAGE and "all parameters" in PAGE


TEXTS = [
    ("Guten Morgen!", "Good morning!"),
    ("a < b & c > d \"q\" 'r'", "x ]]> y"),
    ("<b>fett</b>", "&amp; stays"),
    ("日本語 עברית 😀", "café\u0301"),
]

OTHER = """<?xml version="1.0" encoding="utf-16"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header creationtool="x" srclang="de-DE" datatype="xml"/>
<body>
<tu><tuv xml:lang="de-AT"><seg>Ein <bpt i="1">&lt;b&gt;</bpt>Haus<ept i="1">&lt;/b&gt;</ept>
 am <hi>See</hi></seg></tuv>
<tuv xml:lang="EN-US"><seg>A house <ph>{0}</ph>by the <![CDATA[<lake>]]></seg></tuv>
<tuv xml:lang="fr"><seg>Une maison</seg></tuv></tu>
<tu><tuv lang="de"><seg>nur Deutsch</seg></tuv></tu>
<tu><tuv lang="de"><prop type="n">1</prop><seg>alt</seg></tuv><tuv lang="en"><seg>old</seg></tuv></tu>
</body></tmx>"""


def pairs():
    return [
        Pair(n, "p", source, target, 'A & "B"', "2026-11-25T10:00:00+00:00", State.LEARNT, 1.0)
        for n, (source, target) in enumerate(TEXTS, start=1)
    ]


def test_what_is_written_is_read_again(tmp_path):
    write_tmx(tmp_path / "a.tmx", pairs(), "de", "en")
    assert read_tmx(tmp_path / "a.tmx", "de", "en") == TEXTS
    assert read_tmx(tmp_path / "a.tmx", "en", "de-CH") == [(target, source) for source, target in TEXTS]
    assert 'creationdate="20261125T100000Z"' in (tmp_path / "a.tmx").read_text("utf-8")


def test_characters_that_xml_cannot_hold_are_left_out(tmp_path):
    odd = Pair(1, "", "a\x00b\x1b", "\uffffc", "", "2026-11-25T10:00:00+00:00", State.LEARNT, 1.0)
    write_tmx(tmp_path / "a.tmx", [odd], "de", "en")
    assert read_tmx(tmp_path / "a.tmx", "de", "en") == [("ab", "c")]


def test_a_file_of_another_tool(tmp_path):
    (tmp_path / "o.tmx").write_bytes(OTHER.encode("utf-16"))
    assert read_tmx(tmp_path / "o.tmx", "de", "en") == [("Ein Haus am See", "A house by the <lake>"), ("alt", "old")]


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "must be"),
        (b"not XML", "must be"),
        (b"<html><tu/></html>", "must be XML whose first element is tmx"),
        (b"<tmx><body/></tmx>", "no translation unit"),
        (b'<tmx><tu><tuv lang="fr"><seg>x</seg></tuv></tu></tmx>', "got fr"),
        (b'<!DOCTYPE t [<!ENTITY a "b">]><tmx><tu><tuv lang="de"><seg>&a;</seg></tuv></tu></tmx>', "entities"),
        (b"<tmx>" + b"<a>" * 500 + b"</a>" * 500 + b"</tmx>", "deep"),
        (b'<tmx><tu><tuv lang="de"><seg>x</seg>', "must be"),
    ],
)
def test_other_files_are_one_line(tmp_path, content, match):
    (tmp_path / "o.tmx").write_bytes(content)
    refused(DataError, match, read_tmx, tmp_path / "o.tmx", "de", "en")


def test_no_other_file_is_replaced(tmp_path):
    (tmp_path / "a.txt").write_text("a text of mine\n")
    with pytest.raises(DataError, match="a.txt: must be a new file or a TMX file, got another file"):
        write_tmx(tmp_path / "a.txt", [], "de", "en")
    assert (tmp_path / "a.txt").read_text() == "a text of mine\n"
    for _ in range(2):
        write_tmx(tmp_path / "a.tmx", [], "de", "en")


def test_a_missing_file_is_one_line(tmp_path):
    refused(DataError, "no such file", read_tmx, tmp_path / "no.tmx", "de", "en")
    refused(DataError, "must be written", write_tmx, tmp_path / "no" / "a.tmx", [], "de", "en")
