"""`data.filter`: each rule leaves out what it says, counts it, and does nothing when it is off."""

from pathlib import Path

import pytest

from nmt.config import DataConfig, FilterConfig, SideConfig
from nmt.data.corpora.corpus import load_parallel
from nmt.data.corpora.prepare import load_sides, training_filter
from nmt.data.quality.filter import LineFilter, has_broken_letters
from nmt.data.tokens.characters import TextBlock
from nmt.errors import DataError
from tests.data.corpora import sentences, side, write_pair
from tests.refusals import refused
from tests.settings import texts_in

PLANTED = {
    "duplicates": ("old tree", "green house"),
    "same": ("the dog", "the dog"),
    "max_length_ratio": ("a dog", "the cat " * 9),
    "markup": ("the <b>dog</b>", "a cat"),
    "encoding": ("a dog", "the cÃ¤t"),
    "control": ("a dog\x01", "the cat"),
    "script": ("собака старая", "the cat"),
}
VALUES = {"max_length_ratio": 5.0}


@pytest.fixture
def prefix(tmp_path):
    src = list(dict.fromkeys(sentences(400, 1)))[:200]
    tgt = [f"and {line}" for line in src]
    src[3], tgt[3] = PLANTED["duplicates"]
    for number, (name, (one, other)) in enumerate(PLANTED.items()):
        src[20 + number], tgt[20 + number] = one, other
        assert name in FilterConfig.model_fields
    return write_pair(tmp_path, src, tgt)


def corpus(prefix, subwords, held_out=(), **rules):
    sides = side("de", subwords), side("en", subwords)
    settings = FilterConfig.model_validate(rules)
    return load_parallel(prefix, *sides, rules=LineFilter(settings, held_out))


@pytest.mark.parametrize("name", PLANTED)
def test_a_rule_leaves_out_its_pair_and_counts_it(prefix, subwords, name):
    number = 20 + list(PLANTED).index(name)
    found = corpus(prefix, subwords, **{name: VALUES.get(name, True)})
    assert sorted(set(range(200)) - set(found.line_numbers.tolist())) == [number]
    assert found.filtered == f"1 {name}"
    assert len(found) == 199
    lines = Path(f"{prefix}.de").read_text("utf-8").splitlines()
    for row, line in enumerate(found.line_numbers[:40].tolist()):
        assert found.src[row].tolist() == subwords.encode([lines[line]])[0] or line > 19


def test_without_rules_nothing_changes(prefix, subwords):
    sides = side("de", subwords), side("en", subwords)
    plain, off = load_parallel(prefix, *sides), corpus(prefix, subwords)
    assert (plain.src.tokens == off.src.tokens).all() and (plain.line_numbers == off.line_numbers).all()
    assert off.filtered == ""


def test_overlap_exact_and_near(prefix, subwords, tmp_path):
    lines = (tmp_path / "train.de").read_text().splitlines()
    held_out = [lines[50], lines[60].upper() + "."]
    exact = corpus(prefix, subwords, held_out, overlap="exact")
    near = corpus(prefix, subwords, held_out, overlap="near")
    left_out = [set(range(200)) - set(found.line_numbers.tolist()) for found in (exact, near)]
    same = [{i for i, line in enumerate(lines) if line == lines[place]} for place in (50, 60)]
    assert left_out[0] == same[0] and same[0] | same[1] <= left_out[1]


def test_all_rules_together_count_each_pair_once(prefix, subwords):
    found = corpus(prefix, subwords, **{name: VALUES.get(name, True) for name in PLANTED})
    assert len(found) == 200 - len(PLANTED)
    assert sum(int(part.split()[0]) for part in found.filtered.split(", ")) == len(PLANTED)


def test_rules_that_leave_nothing_are_named(tmp_path, subwords):
    prefix = write_pair(tmp_path, ["the dog"] * 3, ["the dog"] * 3)
    refused(DataError, r"none that pass data.filter \(3 same\)", corpus, prefix, subwords, same=True)


def test_subwords_are_not_made_of_what_is_left_out(tmp_path):
    lines = [*sentences(300, 1), "<zzz>qqq</zzz>"]
    write_pair(tmp_path, lines, lines)
    write_pair(tmp_path, lines[:5], lines[:5], name="dev")
    for on in (False, True):
        texts = {"src": {"lang": "de"}, "tgt": {"lang": "en"}, "subwords": {"type": "char"}, "filter": {"markup": on}}
        data = DataConfig.model_validate(texts_in(tmp_path, **texts))
        assert (1 in load_sides(data)[0].subwords.encode(["qqq"])[0]) == on
        assert (training_filter(data, (SideConfig(lang="de"), SideConfig(lang="en"))) is None) != on


GOOD = [
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich – „schön“, 5 €.",
    "Le cœur déçu mais l’âme plutôt naïve, Louÿs rêva de crapaüter en canoë « ici ».",
    *("¿Ñandú? ¡El Ñ’emabagi está aquí!", "Съешь же ещё этих мягких французских булок, да выпей чаю."),
    *("Їхав єдиний москаль. Ґанок, підїзд: «так».", "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία.", "いろはにほへと ちりぬるを"),
    *("Tiếng Việt có nhiều dấu: ă â đ ê ô ơ ư, được không?", "Koronadɔ li hã, aƒetɔa be kakaɖedzi le ƒè 2015 tɔ me."),
    *("Pchnąć w tę łódź jeża lub ośm skrzyń fig.", "Ó ní ìjọba yóò gbé ilé-iṣẹ́ kúrò", "plain letters only", ""),
]
DAMAGED = [line for line in GOOD if not line.isascii() and "ƒ" not in line and "ọ" not in line]


def test_healthy_text_of_many_languages_passes():
    assert not has_broken_letters(TextBlock(GOOD)).any()


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252"])
@pytest.mark.parametrize("line", DAMAGED)
def test_utf8_read_as_another_encoding_is_found(line, encoding):
    """Greek, Japanese and Vietnamese, which a rule for Western European letters alone does not see, too."""
    damaged = "".join(
        bytes([byte]).decode(encoding, "ignore") or bytes([byte]).decode("latin-1") for byte in line.encode()
    )
    assert has_broken_letters(TextBlock(["fine", damaged, "fine as well"])).tolist() == [False, True, False]


def test_a_replacement_sign_is_found_and_lines_stay_apart():
    assert has_broken_letters(TextBlock(["gr\ufffdn", "gr", "Ã", "¤"])).tolist() == [True, False, False, False]
