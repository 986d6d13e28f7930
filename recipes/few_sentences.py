"""Variants of the recipes for languages with few sentences, and figures that others published for them."""

# On dev: chrF of the shared task's Transformer (Mager et al. 2021, word order 0), and chrF++ of the better of two
# pretrained systems of 2024.
AMERICAS: dict[str, tuple[float, ...]] = {
    "aym": (18.8, 34.3),
    "bzd": (7.7, 25.0),
    "cni": (10.4, 26.3),
    "gn": (22.0, 34.7),
    "hch": (13.9, 28.0),
    "nah": (18.2, 26.5),
    "oto": (5.9, 13.1),
    "shp": (12.6, 30.6),
    "tar": (4.6, 17.6),
}
# How often each pair is read in a pass of one model of nine languages: so that no language has most of the text.
WEIGHTS = {"aym": 1, "bzd": 2, "cni": 3, "gn": 0.4, "hch": 1.2, "nah": 0.3, "oto": 2, "shp": 1.3, "tar": 1}
TOGETHER = {
    "data.filter.duplicates": "true",
    "data.subwords.vocab_size": "4000",
    "data.src.max_length": "80",  # sentences of dev are short, and long ones take most of the time
    "data.tgt.max_length": "80",
    "model.encoder.embeddings.embedding_dim": "384",
    "model.encoder.hidden_size": "384",
    "model.encoder.embeddings.dropout": "0.2",
    "model.encoder.dropout": "0.2",
    "model.decoder.embeddings.embedding_dim": "384",
    "model.decoder.hidden_size": "384",
    "model.decoder.embeddings.dropout": "0.2",
    "model.decoder.hidden_dropout": "0.3",
    "model.decoder.copy_source": "true",  # names and numbers
    "training.src_word_dropout": "0",
    "training.tgt_word_dropout": "0",
    "training.label_smoothing": "0",  # so that samples are of the text's own distribution
    "training.batch_size": "1024",
    "training.updates": "9000",
    "training.validation_pairs": "400",
    "training.metric": "chrf",
    "training.max_minutes": "180",
}
"""Settings of one model of all nine: there is time for about five passes, so less dropout than in the preset."""
CONSENSUS = tuple("--sampling --sampling-temperature 1 --sampling-topp 0.7 --mbr chrf --mbr-samples 256".split())
"""How it translates: of samples that which has the highest chrF with all others (results/low-resource.md)."""
# On test: the best of SMT, recurrent networks, Transformers, BERT, transfer and many languages (Zhang et al. 2020).
CHEROKEE: dict[str, tuple[float, ...]] = {"chr-en": (15.8,), "en-chr": (12.7,)}
FROM_ENGLISH = ("hau", "ibo", "lug", "luo", "pcm", "tsn", "twi", "yor", "zul")
FROM_FRENCH = ("bam", "bbj", "ewe", "fon", "mos", "wol")

Variants = dict[str, tuple[str, str, str, dict[str, str]]]


def _sizes(units: int) -> dict[str, str]:
    """Embeddings and states of both sides."""
    sizes = dict.fromkeys((f"model.{side}.embeddings.embedding_dim" for side in ("encoder", "decoder")), f"{units}")
    return sizes | dict.fromkeys((f"model.{side}.hidden_size" for side in ("encoder", "decoder")), f"{units}")


def iwslt14_sample() -> Variants:
    """About 30 minutes of a core; chosen on dev."""
    training = {"training.batch_size": "1024", "training.updates": "5500", "training.validation_pairs": "500"}
    more = _sizes(384) | training | {"training.r_drop": "5"}
    return {"de-en": ("data/iwslt14-sample", "de", "en", more)}


def cherokee() -> Variants:
    """Both directions, each for about 40 minutes of a core."""
    training = {"training.batch_size": "1024", "training.updates": "11000", "training.validation_freq": "2000"}
    more = _sizes(384) | training
    pairs = [name.split("-") for name in CHEROKEE]
    return {f"{src}-{tgt}": ("data/cherokee", src, tgt, more) for src, tgt in pairs}


def americas() -> Variants:
    """Each language from Spanish; many pairs of Guarani occur several times."""
    return {code: (f"data/americas/{code}", "es", code, {"data.filter.duplicates": "true"}) for code in AMERICAS}


def together() -> Variants:
    """One model of the nine languages of the Americas, and how it translates: the settings were chosen on dev."""
    folder = "data/americas/together"
    corpora = [f"{{path: {folder}/train_{code}, weight: {weight}, tag: <2{code}>}}" for code, weight in WEIGHTS.items()]
    return {"together": (folder, "es", "xx", {"data.train": f"[{', '.join(corpora)}]", **TOGETHER})}


def africa() -> Variants:
    """Each language from English or French."""
    pairs = [("en", code) for code in FROM_ENGLISH] + [("fr", code) for code in FROM_FRENCH]
    return {f"{src}-{tgt}": (f"data/africa/{src}-{tgt}", src, tgt, {}) for src, tgt in pairs}
