"""The recipes: config, texts and metrics of each, and published figures for comparison."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import few_sentences


@dataclass(frozen=True)
class Recipe:
    """Texts of one kind, and how models of them are trained and measured.

    Args:
        title: A short description.
        config: Its settings file.
        data: The command that brings its texts.
        variants: Name of a language, direction or corpus -> (folder of its texts, source, target, further settings).
        methods: Name of a method -> further settings; each language keeps the best on dev. A single one has no name.
        metrics: Of nmt-evaluate; the first is the one that is compared.
        parts: What is scored; the first is what settings are chosen by.
        answers: What the references are called where they are not the target's text.
        separator: The separator of several correct answers in one line.
        lowercase: Compare without regard to case, as the config's texts are.
        tokenize: sacrebleu's tokenizer for BLEU, empty for its own choice.
        published_names: Of the figures in `published`, whose source docs/recipes.md names.
        published: Variant -> figures of `published_part`; or part -> figures, where one model has a part a language.
        search: Options of nmt-translate.
        by_item: Whether means over variants count every line of their texts once, instead of every variant.
        is_timed: Whether single models are also scored in int8, and their translations timed.
        is_listed: Whether several models decide together by their five best answers, among which the correct one is
            also searched. So do those of a recipe with several methods.
    """

    title: str
    config: str
    data: str
    variants: dict[str, tuple[str, str, str, dict[str, str]]]
    metrics: tuple[str, ...]
    parts: tuple[str, ...] = ("dev", "test")
    answers: str = ""
    separator: str = ""
    lowercase: bool = False
    tokenize: str = ""
    published_names: tuple[str, ...] = ()
    published: dict[str, tuple[float, ...]] = field(default_factory=dict)
    published_part: tuple[str, ...] = ("test",)
    by_item: bool = False
    is_timed: bool = False
    is_listed: bool = False
    search: tuple[str, ...] = ()
    methods: dict[str, dict[str, str]] = field(default_factory=lambda: {"": {}})

    def files(self, variant: str, part: str) -> tuple[Path, Path]:
        """Source and references of a part."""
        folder, src, tgt, _ = self.variants[variant]
        ending = self.answers if self.answers and part != "train" else tgt
        return Path(folder) / f"{part}.{src}", Path(folder) / f"{part}.{ending}"

    def settings(self, variant: str, method: str) -> dict[str, str]:
        """What a variant's training by a method changes in the config."""
        folder, src, tgt, more = self.variants[variant]
        paths = {"data.train": f"{folder}/train", "data.dev": f"{folder}/dev"}
        return paths | {"data.src.lang": src, "data.tgt.lang": tgt} | more | self.methods[method]

    def cut_to(self, variants: list[str] | None, parts: list[str] | None) -> Recipe:
        """The same with some variants and parts only; None for all."""
        kept = {name: self.variants[name] for name in variants or self.variants}
        return replace(self, variants=kept, parts=tuple(parts or self.parts))


# Gorman et al. 2020, tables 2 to 4: word error rates of the LSTM baseline, and the best of 23 submissions.
SIGMORPHON2020 = {
    "arm": (14.67, 12.22),
    "bul": (31.11, 22.22),
    "fre": (6.22, 5.11),
    "geo": (26.44, 24.89),
    "gre": (18.89, 14.44),
    "hin": (6.67, 5.11),
    "hun": (5.33, 4.00),
    "ice": (10.00, 9.11),
    "kor": (46.89, 24.00),
    "lit": (19.11, 18.67),
}

OLD_TEXTS: dict[str, dict[str, str]] = {
    "german-ridges": {},
    # Chosen on dev: 91.6 in place of 91.0 with the settings of German.
    "slovene-goo300k-bohoric": {
        "training.updates": "4000",
        "model.encoder.dropout": "0.4",
        "model.encoder.embeddings.dropout": "0.3",
        "model.decoder.hidden_dropout": "0.4",
        "model.decoder.embeddings.dropout": "0.3",
    },
}

# Kodner et al. 2022, the task's baseline_results/part1: accuracy of its neural baseline on test. Over all items: small
# 48.33, large 64.65.
# fmt: off
INFLECTION_SMALL = {
    "ang_small": (49.82,), "ara_small": (65.97,), "asm_small": (54.67,), "bra_small": (55.04,), "ckt_small": (6.52,),
    "evn_small": (29.26,), "gml_small": (42.74,), "goh_small": (56.42,), "guj_small": (39.98,),
    "heb_small": (39.65,), "hsb_small": (5.00,), "hsi_small": (0.00,), "hye_small": (64.75,), "itl_small": (34.26,),
    "kat_small": (60.20,), "kaz_small": (55.67,), "ket_small": (10.95,), "khk_small": (41.62,),
    "kor_small": (23.52,), "mag_small": (51.16,), "nds_small": (25.79,), "non_small": (55.90,),
    "pol_small": (59.25,), "poma_small": (51.43,), "sjo_small": (58.64,), "slk_small": (61.00,),
    "slp_small": (15.19,), "tur_small": (34.60,),
}
INFLECTION_LARGE = {
    "ang_large": (61.10,), "ara_large": (78.55,), "asm_large": (76.78,), "evn_large": (57.72,),
    "heb_large": (48.45,), "hye_large": (69.80,), "kat_large": (87.25,), "kaz_large": (55.67,),
    "khk_large": (49.14,), "kor_large": (56.16,), "non_large": (84.98,), "pol_large": (69.45,),
    "poma_large": (63.88,), "slk_large": (70.10,), "tur_large": (39.65,),
}
# fmt: on
INFLECTION_2023 = (
    *("afb", "amh", "arz", "bel", "dan", "deu", "eng", "fin", "fra", "grc", "heb", "heb_unvoc", "hun", "hye", "ita"),
    *("jap", "klr", "mkd", "rus", "sme", "spa", "sqi", "swa", "tur"),
)

# Ashby et al. 2021: word error rates of the task's baseline on test, an ensemble of transducers over edit actions.
# fmt: off
PRONUNCIATION_LOW = {
    "ice": (12.0,), "ita": (19.0,), "lav": (55.0,), "mlt_latn": (19.0,), "rum": (10.0,), "slv": (49.0,),
    "wel_sw": (10.0,),
}
PRONUNCIATION_MEDIUM = {
    "arm_e": (7.0,), "bul": (18.3,), "dut": (14.7,), "fre": (8.5,), "geo": (0.0,), "hbs_latn": (32.1,), "hun": (1.8,),
    "jpn_hira": (5.2,),
}
# fmt: on
SOME_OF_DEV = {"training.validation_pairs": "2000"}
"""For texts whose dev is large."""
NAMES = ("arabic", "chinese", "japanese", "katakana", "korean", "russian")

FEWER = {"training.updates": "2400", "training.validation_freq": "1200"}
LARGER = {
    "model.encoder.embeddings.embedding_dim": "128",
    "model.encoder.hidden_size": "256",
    "model.decoder.embeddings.embedding_dim": "128",
    "model.decoder.hidden_size": "256",
    "training.batch_size": "512",
    "training.updates": "6000",
    "training.validation_freq": "6000",
}
"""More for texts of 7,000 forms or more, which a larger model learns better."""

EDITS_OR_ATTENTION = {
    "edits": {},
    "attention": {
        "model.decoder.edit_actions": "false",
        "model.decoder.attention": "bahdanau",
        "model.decoder.attention_size": "96",
        "model.decoder.input_feeding": "true",
        "model.decoder.copy_source": "true",
        "training.batch_size": "512",
        "training.updates": "1200",
        "training.validation_freq": "1200",
        "training.ema_decay": "0.99",
    },
}
"""What forms are learned by from few words: which is better depends on the language."""
EDITS_OR_ATTENTION_LARGER = {
    "edits": LARGER,
    "attention": LARGER
    | EDITS_OR_ATTENTION["attention"]
    | {
        "model.decoder.attention_size": "128",
        "training.batch_size": "1024",
        "training.updates": "4000",
        "training.validation_freq": "4000",
        "training.ema_decay": "0.998",
    },
}
"""The same for texts of 7,000 forms or more."""

ATTENTION_OR_EDITS = {
    "attention": {"training.ema_decay": "0.99"},
    "edits": {
        "data.subwords.joint": "true",
        "model.encoder.hidden_size": "256",
        "model.encoder.num_layers": "1",
        "model.decoder.attention": "none",
        "model.decoder.attention_size": "null",
        "model.decoder.input_feeding": "false",
        "model.decoder.edit_actions": "true",
        "training.updates": "4000",
        "training.validation_freq": "4000",
        "training.ema_decay": "0.998",
    },
}
"""What sounds are learned by: which is better depends on the language here as well."""


Published = dict[str, tuple[float, ...]]


def by_edits(title: str, data: str, folder: str, published: Published, more: dict[str, str], **others: Any) -> Recipe:
    """The recipe of a setting of a shared task on words, by edit actions; `published` names its languages."""
    src, tgt = ("letters", "sounds") if "g2p" in folder else ("lemma", "form")
    variants = {name: (f"data/{folder}/{name}", src, tgt, more) for name in published}
    known = {name: figures for name, figures in published.items() if figures}
    return Recipe(title, "configs/inflection.yaml", f"python data_scripts/{data}", variants, published=known, **others)


def pronunciation2021(what: str, published: Published, more: dict[str, str], **others: Any) -> Recipe:
    """The recipe of one setting of the shared task of 2021."""
    return by_edits(
        f"pronunciations in {what}",
        *("sigmorphon2021_g2p.py", "sigmorphon2021_g2p", published, more),
        metrics=("wer", "per"),
        published_names=("baseline, an ensemble",),
        **others,
    )


def inflection(what: str, year: int, published: Published, more: dict[str, str], **others: Any) -> Recipe:
    """The recipe of one setting of the shared task of 2022, whose scores count every form once, or of 2023."""
    return by_edits(
        f"inflected forms in {what}",
        *(f"sigmorphon_inflection.py {year}", f"inflection{year}", published, more),
        metrics=("accuracy", "per"),
        published_names=("neural baseline",) if year == 2022 else (),
        by_item=year == 2022,
        **others,
    )


CELLS = "lstm gru slstm min_gru ssru lrn hawk mamba gla mlstm gated_delta_net rwkv7".split()
"""Recurrences of 1997 to 2026 (docs/cells.md)."""


def of_cells(title: str, config: str, data: str, text: tuple[str, str, str], *metrics: str, **others: Any) -> Recipe:
    """The recipe of a text by each cell, as encoder and decoder."""
    both = ("model.encoder.rnn_type", "model.decoder.rnn_type")
    variants = {cell: (*text, dict.fromkeys(both, cell)) for cell in CELLS}
    return Recipe(
        f"twelve cells: {title}", config, f"python data_scripts/{data}", variants, metrics, is_timed=True, **others
    )


RECIPES = {
    "letters-to-sounds": Recipe(
        title="pronunciations in ten languages, 3,600 words each",
        config="configs/sigmorphon2020_g2p.yaml",
        data="python data_scripts/sigmorphon2020_g2p.py",
        variants={name: (f"data/sigmorphon2020_g2p/{name}", "letters", "sounds", {}) for name in SIGMORPHON2020},
        metrics=("wer", "per"),
        published_names=("LSTM baseline", "best submission"),
        methods=ATTENTION_OR_EDITS,
        published=SIGMORPHON2020,
    ),
    "cmudict": Recipe(
        title="pronunciations of English, 121,406 words",
        config="configs/cmudict_g2p.yaml",
        data="python data_scripts/cmudict.py --from FOLDER",
        variants={"en": ("data/cmudict", "grapheme", "phoneme", {})},
        metrics=("wer", "per"),
        answers="answers",
        separator=" | ",
    ),
    # Bollmann 2019, table 6 of the appendix: word accuracy of cSMTiser with a language model, and of the better of two
    # neural systems, on his test texts after 25,000 words of training.
    "old-spelling": Recipe(
        title="old spelling to new: German of 1482-1652, Slovene in the Bohorič alphabet",
        config="configs/histnorm.yaml",
        data="python data_scripts/histnorm.py",
        variants={name: (f"data/histnorm/{name}", "old", "new", more) for name, more in OLD_TEXTS.items()},
        metrics=("accuracy", "per"),
        parts=("dev",),
        published_names=("cSMTiser", "neural"),
        published={"german-ridges": (85.86, 84.24), "slovene-goo300k-bohoric": (91.05, 89.77)},
        published_part=("dev",),
    ),
    "captions": Recipe(
        title="Multi30k, image captions in three directions",
        config="configs/multi30k_de_en.yaml",
        data="python data_scripts/multi30k.py",
        variants={
            f"{src}-{tgt}": ("data/multi30k", src, tgt, {"data.test": "null"})
            for src, tgt in (("de", "en"), ("en", "de"), ("en", "fr"))
        },
        metrics=("bleu", "chrf"),
        lowercase=True,
    ),
    "travel": Recipe(
        title="EuTrans, travel sentences, Spanish to English",
        config="configs/eutrans_es_en.yaml",
        data="python data_scripts/eutrans.py --from FOLDER",
        variants={"es-en": ("data/eutrans", "es", "en", {})},
        metrics=("bleu", "chrf"),
    ),
    "japanese": Recipe(
        title="50,000 short sentences of the Tanaka corpus, Japanese to English",
        config="configs/enja50k_ja_en.yaml",
        data="python data_scripts/enja50k.py --from FOLDER",
        variants={"ja-en": ("data/enja50k", "ja", "en", {})},
        metrics=("bleu", "chrf"),
        parts=("dev",),
    ),
    "cherokee": Recipe(
        title="Cherokee and English, 11,639 pairs, both directions",
        config="configs/low_resource.yaml",
        data="python data_scripts/low_resource.py cherokee --from FOLDER",
        variants=few_sentences.cherokee(),
        search=("--memory", "data/cherokee/train"),  # scripture repeats itself
        metrics=("bleu", "chrf++"),
        parts=("dev", "out_dev"),
        published_names=("best published, test",),
        published=few_sentences.CHEROKEE,
        published_part=("dev",),
    ),
    "americas": Recipe(
        title="Spanish to nine languages of the Americas, 3,883 to 26,032 pairs",
        config="configs/low_resource.yaml",
        data="python data_scripts/low_resource.py americas --from FOLDER",
        variants=few_sentences.americas(),
        metrics=("chrf++", "bleu"),
        parts=("dev",),
        published_names=("the task's Transformer, chrF", "pretrained, 2024"),
        published=few_sentences.AMERICAS,
        published_part=("dev",),
    ),
    "americas-together": Recipe(
        title="the same nine languages by one model, a tag of the target language before each source",
        config="configs/low_resource.yaml",
        data="python data_scripts/low_resource.py americas --from FOLDER",
        variants=few_sentences.together(),
        metrics=("chrf++", "chrf", "bleu"),
        parts=tuple(f"dev_{code}" for code in few_sentences.AMERICAS),
        search=few_sentences.CONSENSUS,
        published_names=("the task's Transformer, chrF", "pretrained, 2024"),
        published={f"dev_{code}": figures for code, figures in few_sentences.AMERICAS.items()},
    ),
    "africa": Recipe(
        title="news from English or French to fifteen languages of Africa, 2,026 to 6,998 pairs",
        config="configs/low_resource.yaml",
        data="python data_scripts/low_resource.py africa --from FOLDER",
        variants=few_sentences.africa(),
        metrics=("bleu", "chrf++"),
        parts=("dev",),
    ),
    # Sennrich and Zhang 2019, on another sample of that size; to be checked against their table 2.
    "iwslt14-sample": Recipe(
        title="4,600 pairs of IWSLT14, German to English, lower-cased and tokenised",
        config="configs/low_resource.yaml",
        data="python data_scripts/low_resource.py iwslt14-sample --from FOLDER",
        variants=few_sentences.iwslt14_sample(),
        metrics=("bleu", "chrf++"),
        parts=("dev",),
        tokenize="none",
        published_names=("SMT", "best recurrent"),
        published={"de-en": (15.87, 16.57)},
        published_part=("dev",),
    ),
    "pronunciation-2021-low": pronunciation2021(
        "seven languages, 800 words each", PRONUNCIATION_LOW, FEWER, is_listed=True
    ),
    "pronunciation-2021-medium": pronunciation2021(
        "eight languages, 8,000 words each", PRONUNCIATION_MEDIUM, {}, methods=EDITS_OR_ATTENTION_LARGER
    ),
    "inflection-2022-small": inflection(
        "28 languages, at most 700 each", 2022, INFLECTION_SMALL, {}, methods=EDITS_OR_ATTENTION
    ),
    "inflection-2022-large": inflection(
        "15 languages, 7,000 each", 2022, INFLECTION_LARGE, {}, methods=EDITS_OR_ATTENTION_LARGER
    ),
    "inflection-2023": inflection(
        "24 languages, 10,000 each", 2023, dict.fromkeys(INFLECTION_2023, ()), {}, methods=EDITS_OR_ATTENTION_LARGER
    ),
    "names": Recipe(
        title="names of persons from English into six scripts",
        config="configs/histnorm.yaml",
        data="python data_scripts/names.py",
        variants={name: (f"data/names/{name}", "latin", "script", SOME_OF_DEV) for name in NAMES},
        metrics=("accuracy", "per"),
        is_listed=True,
    ),
    "cells-captions": of_cells(
        "Multi30k, German to English", "configs/multi30k_de_en.yaml", "multi30k.py", ("data/multi30k", "de", "en"),
        "bleu", "chrf", lowercase=True,
    ),
    "cells-cherokee": of_cells(
        "Cherokee to English", "configs/low_resource.yaml", "low_resource.py cherokee --from FOLDER",
        ("data/cherokee", "chr", "en"), "bleu", "chrf++", parts=("dev", "out_dev"),
    ),
    "cells-inflection": of_cells(
        "inflected forms of Turkish, 700 to learn from", "configs/inflection.yaml", "sigmorphon_inflection.py 2022",
        ("data/inflection2022/tur_small", "lemma", "form"), "accuracy", "per",
    ),
}  # fmt: skip

MINUTES = {
    "letters-to-sounds": 3, "cmudict": 60, "old-spelling": 20, "captions": 60, "travel": 4, "japanese": 12,
    "cherokee": 40, "americas": 30, "americas-together": 80, "africa": 20, "iwslt14-sample": 30,
    "pronunciation-2021-low": 1, "pronunciation-2021-medium": 3, "inflection-2022-small": 1,
    "inflection-2022-large": 3, "inflection-2023": 3, "names": 6, "cells-captions": 10, "cells-cherokee": 8,
    "cells-inflection": 2,
}  # fmt: skip
"""Minutes of one core that a model of a recipe takes, about: by these `--all --hours` shares the time out."""
