"""Pairs that are read while translating: known at once, exact, and without effect on sentences that are not similar."""

import dataclasses
import json

import numpy as np
import pytest
from click.testing import CliRunner

from nmt import Constraints, LearningTranslator, Translator
from nmt.cli.front import load_command
from nmt.errors import ConfigError, DataError
from nmt.inference.nearest import Keys, Near, Reading, projection_of
from nmt.learning.memory import Pair, State, write_tmx
from nmt.learning.trainer import Recipe
from nmt.special_tokens import EOS_ID
from tests.learning.conftest import parameters
from tests.refusals import refused
from tests.saved_models import write_folder, write_pair

pytest.importorskip("rapidfuzz", reason="needs the extra [learn]")

AT = "2026-01-01T00:00:00+00:00"
READS = Recipe(updates=0)
"""Pairs are read, and a project has the parameters of the base model."""


def found(translator, texts, **settings):
    return [(one.text, one.score) for (one, *_) in translator.translate_nbest(texts, **settings)]


@pytest.mark.parametrize("compute_dtype", ["float32", "int8", "bfloat16"])
@pytest.mark.parametrize("settings", [{}, {"beam_size": 1}, {"repetition_penalty": 1.0001}])
def test_a_confirmed_pair_is_known_at_once(learning, pairs, compute_dtype, settings):
    one = learning(compute_dtype=compute_dtype, recipe=READS)
    for source, target in pairs[:12]:
        number = one.learn(source, target).pair.number
        assert one.translate(source, **settings) == target
    source, target = pairs[11]
    other = one.learn(source, pairs[12][1]).pair.number
    assert one.translate(source, **settings) == pairs[12][1]  # the last one counts
    one.undo(other)
    assert one.translate(source, **settings) == target
    one.undo(number)
    assert parameters(one.translator()) == parameters(one.base)


def test_only_the_very_sentence_is_taken_for_it(learning, pairs):
    one = learning(recipe=READS)
    source = "ßti nuyo kara"
    for _, target in pairs[:20]:  # more than are read
        one.learn(source, target)
    assert one.translate(source) == pairs[19][1]
    assert "not read" in one.learn("kara 你好", "losu losu").note
    assert one.translator().translate_nbest(["kara 再见"])[0][0].text == one.base.translate("kara 再见")


def test_a_confirmed_translation_is_as_long_as_it_is(learning, pairs):
    one = learning(recipe=READS)
    source, target = "kara", " ".join(target for _, target in pairs[:4])
    one.learn(source, target)
    assert one.translate(source) == target
    assert one.translate([source, *(source for source, _ in pairs[:9])])[0] == target
    assert one.translator().session(source).complete("")[0].text == target


def test_a_search_keeps_nothing_of_sentences_that_have_ended(learning, pairs, monkeypatch):
    one, decoders = learning(recipe=READS), []
    for pair in pairs[:5]:
        one.learn(*pair)
    search_decoder = Reading.search_decoder
    monkeypatch.setattr(
        Reading, "search_decoder", lambda self, *sizes: decoders.append(search_decoder(self, *sizes)) or decoders[-1]
    )
    one.translate([source for source, _ in pairs[:30]], batch_size=4)
    assert [decoder._near for decoder in decoders] == [{}]


def test_pairs_that_are_only_read_take_no_parameters(learning, pairs):
    one = learning(recipe=READS, idle=0.0)
    numbers = [one.learn(*pair).pair.number for pair in pairs[:25]]
    one.wait()
    assert one.translator() is not one.base and one.translator().model is one.base.model
    assert not one.consolidate() and one.progress().learnt == 25
    one.undo(numbers[3])
    one.close()
    again = learning()  # the recipe of a memory stays
    again.learn(*pairs[25])
    assert again.translator().model is again.base.model
    known = [pair for place, pair in enumerate(pairs[:26]) if place != 3]
    assert again.translate([source for source, _ in known]) == [target for _, target in known]


def test_it_goes_on_with_what_is_similar_and_leaves_the_rest(learning):
    one = learning(recipe=READS)
    one.learn("kara losu miti nuyo kara", "losu losu miti kayo nuyo")
    similar, other = "kara losu miti nuyo losu", "ßx ßx ßx"
    assert one.matches(similar, least=0.8) and not one.matches(other, least=0.4)
    target = "losu losu miti kayo nuyo"
    with_it, without = (found(each, [similar], constraints=Constraints(prefixes=["losu losu"])) for each in
                        (one.translator(), one.base))  # fmt: skip
    assert with_it != without
    assert found(one.translator(), [other]) == found(one.base, [other])
    assert one.translate(similar) == target or one.translate(similar) != one.base.translate(similar)


def test_batches_threads_and_restarts_change_nothing(learning, pairs, folder):
    one, texts = learning(idle=None), [source for source, _ in pairs[:20]] + [source for source, _ in pairs[40:]]
    for pair in pairs[:15]:
        one.learn(*pair)
    expected = found(one.translator(), texts)
    assert [found(one.translator(), [text])[0] for text in texts] == expected
    assert found(one.translator(), texts, batch_size=3) == expected
    one.close()
    again = learning(idle=None)
    again.base.num_threads = 2
    assert found(again.translator(), texts) == expected
    without = learning("other", idle=None)
    gone = [again.learn(*pairs[place]).pair.number for place in (15, 16)]
    for number in gone:
        again.undo(number)
    for pair in pairs[:15]:
        without.learn(*pair)
    assert found(without.translator(), texts) == found(again.translator(), texts) == expected
    for each in (again, without):
        each.consolidate()
    assert found(without.translator(), texts) == found(again.translator(), texts) != expected


def test_pairs_that_are_only_remembered_are_read(learning, pairs, tmp_path, monkeypatch):
    one, changed = learning(idle=None), []
    with one._projects.turn:
        one._projects._changed = lambda name, translator: changed.append(translator)
    write_tmx(tmp_path / "old.tmx", [one.memory.add("x", [pair])[0] for pair in pairs[:4]], "xx", "yy")
    one.import_tmx(tmp_path / "old.tmx", project="old")
    assert one.translate([source for source, _ in pairs[:4]], project="old") == [target for _, target in pairs[:4]]
    assert one.progress("old").learnt == 0 and changed[-1] is one.translator("old")
    assert parameters(one.translator("old")) == parameters(one.base)
    one._projects.get("old").rate = 0.0
    assert "only remembered" in one.learn(*pairs[5], project="old").note
    assert one.translate(pairs[5][0], project="old") == pairs[5][1]
    assert found(one.translator(), [pairs[0][0]]) == found(one.base, [pairs[0][0]])  # other projects know nothing
    none = learning("none", recipe=dataclasses.replace(READS, reads=0))
    none.learn(*pairs[0])
    assert found(none.translator(), [pairs[0][0]]) == found(none.base, [pairs[0][0]])


def test_sessions_samples_shortlists_and_ensembles(learning, pairs, folder, tmp_path):
    one = learning(recipe=READS)
    for source, target in pairs[:6]:
        one.learn(source, target)
    translator = one.translator()
    for source, target in pairs[:6]:
        session = translator.session(source)
        for typed in ("", target.split()[0], target):
            expected = found(translator, [source], constraints=Constraints(prefixes=[typed]))
            assert [(best.text, best.score) for best in session.complete(typed)][:1] == expected
            assert expected[0][0] == target
        samples = translator.translate_nbest([source], n_best=4, sampling=True, sampling_topk=1)[0]
        assert {sample.text for sample in samples} == {target}
    together = translator.together_with([one.base], "prob")
    assert together.recall is None and together.translate([source]) == one.base.together_with(
        [one.base], "prob"
    ).translate([source])
    translator.save(tmp_path / "saved")
    assert found(Translator.load(tmp_path / "saved"), [source]) == found(one.base, [source])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("updates", -1),
        ("updates", "2"),
        ("updates", True),
        ("reads", -1),
        ("reads", None),
        ("reads", 1.5),
        ("alike", -0.1),
        ("alike", 1.1),
        ("rate", float("nan")),
        ("rate", float("inf")),
        ("least", "0.5"),
    ],
)
def test_a_recipe_is_checked_before_a_memory_keeps_it(name, value):
    with pytest.raises(ConfigError, match=f"^recipe.{name}: must be a .*, got {value!r}; correct it$"):
        Recipe(**{name: value})


TIED = {"embeddings": {"embedding_dim": 6}}


@pytest.mark.parametrize(
    "changes",
    [
        {"tied": "all", "encoder": TIED, "decoder": TIED | {"lexical": True}},
        {"decoder": {"attention": "none"}, "encoder": {"rnn_type": "gru"}},
        {"decoder": {"copy_source": True}},
        {"decoder": {"type": "conv"}},
    ],
    ids=["tied", "no-attention", "copies", "convolutional"],
)
def test_other_models_read(tmp_path, pairs, changes):
    folder = write_folder(tmp_path / "model", **changes)
    with LearningTranslator(Translator.load(folder), tmp_path / "memory", recipe=READS) as one:
        for source, target in pairs[:5]:
            one.learn(source, target)
        assert one.translate([source for source, _ in pairs[:5]]) == [target for _, target in pairs[:5]]
        assert one.translator().score([pairs[0][0]], [pairs[0][1]])[0].log_probs  # of the model alone


def keys_of(rng, count, dtype=np.float32):
    keys = rng.normal(size=(count, 64)).astype(dtype)
    tokens = np.append(rng.integers(4, 30, count - 1), EOS_ID)
    return Keys(keys, tokens, np.full(count, -3.0, dtype), np.full(count, -1.0, dtype))


@pytest.mark.parametrize("similarity", [40.0, 75.0, 95.0, 100.0])
def test_a_mixture_is_a_distribution(similarity):
    rng = np.random.default_rng(0)
    pairs = [keys_of(rng, count) for count in (7, 5, 9)]
    near = Near(pairs[:1] if similarity == 100 else pairs, similarity)
    scores = rng.normal(size=(6, 30)).astype(np.float32)
    scores[:, 3] -= 20
    log_probs = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    outputs = np.concatenate([pairs[0].keys[:5], 50 + rng.normal(size=(1, 64)).astype(np.float32)])
    mixed = near.mix(log_probs, outputs)
    assert mixed.dtype == log_probs.dtype
    np.testing.assert_allclose(np.exp(mixed).sum(axis=1), 1, rtol=1e-5)
    places = np.arange(5), pairs[0].tokens[:5]
    assert (mixed[places] > log_probs[places]).all()
    np.testing.assert_array_equal(mixed[5], log_probs[5])  # nothing is near
    if similarity < 100:
        assert (mixed[:, EOS_ID] <= log_probs[:, EOS_ID]).all()  # the model alone ends sentences
    else:
        assert (mixed[places] > np.log(0.97)).all()


def test_similar_pairs_teach_how_far_they_are_trusted():
    rng = np.random.default_rng(0)
    one = keys_of(rng, 12)
    good = [one, dataclasses.replace(one, keys=one.keys + 0.01)]
    bad = [one, dataclasses.replace(good[1], tokens=np.roll(one.tokens, 1))]
    log_probs = np.full((12, 30), np.log(1 / 30), np.float32)
    of_next = [
        Near(pairs, 90.0).mix(log_probs, one.keys)[np.arange(11), one.tokens[:11]].mean() for pairs in (good, bad)
    ]
    assert of_next[0] > of_next[1] > log_probs[0, 0]
    near = [
        Near(good, similarity).mix(log_probs, one.keys)[np.arange(11), one.tokens[:11]].mean()
        for similarity in (50.0, 90.0)
    ]
    assert near[1] > near[0]


@pytest.mark.parametrize("average", ["log_prob", "prob"])
@pytest.mark.parametrize("changes", [{}, {"decoder": {"attention": "none", "hidden_size": 9}}], ids=["same", "wide"])
def test_a_translator_reads_pairs(folder, pairs, tmp_path, average, changes):
    translator = Translator.load(folder)
    one = translator.reading(*zip(*pairs[:9], strict=True))
    assert one.translate([source for source, _ in pairs[:9]]) == [target for _, target in pairs[:9]]
    assert translator.recall is None and found(translator, [pairs[0][0]]) != found(one, [pairs[0][0]])
    refused(DataError, "as many sources as targets, got 1 and 2", translator.reading, ["a"], ["b", "c"])
    refused(
        DataError, "must have pairs of sentences that the model can read", translator.reading, ["", "你"], ["a", "b"]
    )
    refused(TypeError, "sources must be a list of strings", translator.reading, "a", ["b"])
    others = [Translator.load(write_folder(tmp_path / f"{n}", seed=n, **changes)) for n in (1, 2)]
    together = others[0].together_with(others[1:], average)
    read = together.reading(*zip(*pairs[:9], strict=True))
    assert read.translate([source for source, _ in pairs[:9]]) == [target for _, target in pairs[:9]]
    assert found(read, ["ßx"]) == found(together, ["ßx"])
    sizes = [one.model.decoder.cell.output_size for one in others]
    whole, parts = projection_of(together.model), [projection_of(one.model) for one in others]
    np.testing.assert_array_equal(whole[: sizes[0], : parts[0].shape[1]], parts[0])
    np.testing.assert_array_equal(whole[sizes[0] :, 64:][:, : parts[1].shape[1]], parts[1])
    copying = Translator.load(write_folder(tmp_path / "copying", decoder={"copy_source": True}))
    refused(ConfigError, "models that do not copy", copying.together_with([copying], "prob").reading, ["a"], ["b"])


@pytest.mark.parametrize("kind", ["tsv", "tmx", "files"])
def test_nmt_translate_reads_a_memory(pairs, tmp_path, kind):
    folder = write_pair(tmp_path / "model", "de", "en")
    known, lines, memory = pairs[:5], tmp_path / "lines", tmp_path / "memory"
    if kind == "files":
        for at, end in enumerate(("de", "en")):
            memory.with_suffix(f".{end}").write_text("".join(f"{pair[at]}\n" for pair in known), "utf-8")
    elif kind == "tsv":
        memory = memory.with_suffix(".tsv")
        memory.write_text("de\ten\n" + "".join(f"{source}\t{target}\n" for source, target in known), "utf-8")
    else:
        memory = memory.with_suffix(".tmx")
        write_tmx(memory, [Pair(n, "", *pair, "", AT, State.STORED, 1.0) for n, pair in enumerate(known)], "de", "en")
    for at, name in enumerate(("lines", "ref")):
        (tmp_path / name).write_text("".join(f"{pair[at]}\n" for pair in known), "utf-8")
    out, given = tmp_path / "out", ["--memory", str(memory), "-o", str(tmp_path / "out")]

    def run(command, *words):
        return CliRunner().invoke(load_command(command), [str(folder), *map(str, words)])

    done = run("translate", lines, *given, "--resume")
    assert done.exit_code == 0 and "5 pairs are read while translating" in done.stderr, done.output
    assert ("line 1 has headings" in done.stderr) == (kind == "tsv")
    assert out.read_text("utf-8").splitlines() == [target for _, target in known]
    done = run("translate", lines, "-o", out, "--resume")  # without the memory it is another run
    assert done.exit_code == 1 and "memory" in done.output
    done = run("evaluate", "--src", lines, "--ref", tmp_path / "ref", "--metric", "accuracy", "--json", *given[:2])
    assert json.loads(done.stdout)["metrics"]["accuracy"]["score"] == 100.0
    for words, match in (
        ([lines, *given[:2], "--then", folder], "--memory is for one model"),
        ([lines, "--memory", tmp_path / "none.tsv"], "none.tsv: no such file"),
        ([lines, *given[:2], "-o", memory if kind != "files" else lines], "must be a file of its own"),
    ):
        done = run("translate", *words)
        assert done.exit_code != 0 and match in done.output


def test_distances_of_keys_are_those_of_scores(learning):
    model = learning().base.model
    matrix = projection_of(model)
    layer, width = model.output_layer, model.decoder.cell.output_size
    h = np.random.default_rng(0).normal(size=(2, width)).astype(np.float32)
    rows = layer.weights[layer.matrix] if layer.tied else layer.weights[layer.matrix].T
    scores = h @ rows.T
    difference = (scores - scores.mean(axis=1, keepdims=True))[0] - (scores - scores.mean(axis=1, keepdims=True))[1]
    keys = h @ matrix
    np.testing.assert_allclose(((keys[0] - keys[1]) ** 2).sum(), (difference**2).mean(), rtol=1e-4)
