"""Text is cleaned and cut in JavaScript as in Python, for all kinds of models and whatever a line contains."""

import io
import json
import random

import numpy as np
import sentencepiece

from nmt.data.corpora.corpus import clean_line
from nmt.data.tokens.subwords import Subwords, train_subwords
from nmt.data.tokens.vocabulary import Vocabulary
from nmt.exporting.subword_tables import obstacle_of, tables_of
from nmt.exporting.web.package import START, pack
from tests.exporting.web.hosts import needs_node, run_script
from tests.saved_models import sentences

TEXT = [
    *sentences(400, longest=12),
    *["Größe Ärger ﬁnden Straße ½ ² １２３ ＡＢＣ", "naïve café — “quoted” …", "日本語 テキスト ｶﾞ"] * 20,
    *["مرحبا بالعالم", "हिन्दी में", "ein einer eins der dern"] * 20,
]
OPTIONS = {
    "unigram": {},
    "bpe": {"model_type": "bpe"},
    "char": {"model_type": "char"},
    "word": {"model_type": "word"},
    "nfkc": {"normalization_rule_name": "nmt_nfkc"},
    "folded": {"normalization_rule_name": "nmt_nfkc_cf", "model_type": "bpe"},
    "bytes": {"byte_fallback": True, "vocab_size": 480},
    "bpe of bytes": {"byte_fallback": True, "vocab_size": 480, "model_type": "bpe"},
    "symbols": {"user_defined_symbols": ["<2de>", "▁der", "ein", "..."]},
    "bpe of symbols": {
        "user_defined_symbols": ["<2de>", "ein", "..."],
        "model_type": "bpe",
        "normalization_rule_name": "nmt_nfkc",
    },
    "all spaces": {"remove_extra_whitespaces": False, "add_dummy_prefix": False},
    "other ids": {"pad_id": -1, "unk_id": 0, "bos_id": 1, "eos_id": 2, "model_type": "bpe"},
}
HOSTILE = [
    *["", "   ", " a", "a ", "a  b", "\t tab\nnew\r\n", "\u2028x\u2029", "▁▁a ▁b", "<s> </s> <unk> <pad>", "<0x41>"],
    *["ein<2de>ein...der Mann....", "\u200b", "\ufeffbom", "a\u0301 e\u0301 A\u030a", "ﬁ ﬂ ½ ² Ⅷ ㌔ ﷺ"],
    *["\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea", "\ud800 lone \udfff", "İstanbul ǅ ß ẞ ΣΑΣ"],
    *["x" * 3000, "kara " * 800, "\x00\x01\x7f\x9f", "\u3000ideographic\u3000space", "\xa0nbsp\xa0", "ｶﾞｷﾞ", "가 각 각"],
    *["مرحبا \u200fبالعالم", "हिन्दी क्षत्रिय", "\U000e0001tag", "\ufffc\ufff9\ufffa", "\u202ertl\u202c"],
    "'\"`<script>&amp;",
]
_RANGES = [(32, 126), (32, 126), (0xA0, 0x24F), (0x300, 0x36F), (0x2000, 0x2FFF), (0x3040, 0x30FF), (0xAC00, 0xD7A3)]
_RANGES += [(0xFB00, 0xFFFF), (0x1D400, 0x1D7FF), (0x1F300, 0x1FAFF)]


def noise(count):
    drawn = random.Random(5)
    line = [[chr(drawn.randint(*drawn.choice(_RANGES))) for _ in range(drawn.randint(1, 40))] for _ in range(count)]
    return [" ".join(["".join(one[:9]), "".join(one[9:])]) for one in line]


def trained(options):
    given = {
        **{"pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3, "unk_surface": "", "minloglevel": 5},
        **{"normalization_rule_name": "identity", "vocab_size": 220, "hard_vocab_limit": False},
        **{"character_coverage": 0.9995, **options},
    }
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(TEXT), model_writer=model, **given)
    return Subwords(model.getvalue())


@needs_node
def test_all_kinds_of_models_give_the_ids_the_pieces_and_the_text(tmp_path):
    models = {name: trained(options) for name, options in OPTIONS.items()}
    facts, arrays = {}, {}
    for name, one in models.items():
        facts[name], more = tables_of(one, name)
        arrays |= more
    (tmp_path / "package").write_bytes(pack(facts, arrays))
    lines = [*sentences(300, seed=4), *HOSTILE, *noise(300)]
    forms = [(False, "nfc"), (True, "nfkc"), (False, "none")]
    script = """
import { read_package } from "./engine.js";
import { Subwords, clean_line } from "./subwords.js";
const made = read_package(bytes("package")), [lines, forms, names] = given;
found = forms.map(form => lines.map(line => clean_line(line, ...form))).map(cleaned => [cleaned, names.map(name => {
  const model = new Subwords(made, made.facts[name]);
  return cleaned.map(line => { const { ids, pieces } = model.cut(line); return [ids, pieces, model.join(ids)]; });
})]);"""
    found = run_script(tmp_path, script, lines, forms, list(models))
    for form, (cleaned, by_model) in zip(forms, found, strict=True):
        assert cleaned == [clean_line(line, *form) for line in lines]
        for (name, model), rows in zip(models.items(), by_model, strict=True):
            ids, pieces = model.encode(cleaned), model.cut(cleaned)
            assert rows == [list(one) for one in zip(ids, pieces, model.decode(ids), strict=True)], name


def test_tables_have_what_sentencepiece_says():
    model = trained(OPTIONS["bpe of symbols"])
    facts, arrays = tables_of(model, "it")
    own = sentencepiece.SentencePieceProcessor(model_proto=model.model_bytes)
    count = own.vocab_size()
    assert facts["pieces"] == [own.id_to_piece(n) for n in range(count)]
    assert arrays["it.scores"].tolist() == [np.float32(own.get_score(n)) for n in range(count)]
    assert arrays["it.ids"].tolist() == list(range(count))
    assert facts["kind"] == "bpe" and facts["prefix"] and facts["trims"] and not facts["bytes"]
    assert [facts["pieces"][n] for n in range(count) if arrays["it.types"][n] == 4] == ["<2de>", "ein", "..."]
    assert len(arrays["it.map"]) > 100_000  # the replacements of NFKC


def test_other_subwords_are_named():
    assert obstacle_of(train_subwords(TEXT, vocab_size=100)) == ""
    assert obstacle_of(trained({"treat_whitespace_as_suffix": True})) == "spaces at the end of words"
    assert "without sentencepiece" in obstacle_of(Vocabulary(["<pad>", "<unk>", "<s>", "</s>", "a", "b"]))


def test_a_package_has_its_arrays_at_multiples_of_a_cache_line():
    arrays = {"a": np.arange(3, dtype=np.float32), "b": np.array([7, 8], np.int8), "c": np.zeros(0, np.float32)}
    made = pack({"name": "é"}, arrays)
    assert made.startswith(START)
    size = int.from_bytes(made[8:12], "little")
    facts = json.loads(made[12 : 12 + size])
    assert facts == {"name": "é", "arrays": {"a": [0, "f4", 3], "b": [64, "i1", 2], "c": [128, "f4", 0]}}
    start = -(-(12 + size) // 64) * 64
    assert made[start : start + 12] == arrays["a"].tobytes()
    assert made[start + 64 : start + 66] == b"\7\x08"
