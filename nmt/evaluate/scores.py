"""Score translations against references: BLEU, chrF and TER as sacrebleu computes them (Papineni et al. 2002; Popović
2015 and 2017; Snover et al. 2006), with signatures (Post 2018), without which no score can be compared with others. The
confidence of a model is compared with what became of its translations."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from nmt.errors import DataError, NMTWarning, checked_texts, how_to_install

METRICS = ("bleu", "chrf", "ter")
"""The metrics computed by default."""
ALL_METRICS = ("bleu", "chrf", "chrf++", "ter", "wer", "per", "accuracy")
"""All metrics; wer, per and accuracy are for tasks such as grapheme-to-phoneme conversion: each line is a word."""
Utility = Callable[[str, str], float]
"""A function that scores a candidate, given the correct text as the second argument."""
References = Sequence[str] | Sequence[Sequence[str | None]]
"""One reference per line; or several texts of references, with None where a line has no further reference."""
TOKENIZERS = ("13a", "intl", "char", "zh", "ja-mecab", "ko-mecab", "flores101", "flores200", "spBLEU-1K", "none")
"""sacrebleu's tokenizers for BLEU. `ja-mecab` and `ko-mecab` need the extras [ja] and [ko]; sacrebleu downloads the
sentencepiece models of `flores101`, `flores200` and `spBLEU-1K` once."""
_WITHOUT_SPACES = {
    "ja-mecab": re.compile("[\u3040-\u30ff]"),
    "zh": re.compile("[\u3400-\u9fff\U00020000-\U0003ffff]"),
    "flores200": re.compile("[\u0e00-\u0eff\u0f00-\u109f\u1780-\u17ff]"),
}
"""Signs of scripts without spaces between words, by the tokenizer for them."""
_LONG_WORD = 6
"""Signs between two spaces, on average, from which words are not set apart."""
_MECAB = {"ja-mecab": "ja", "ko-mecab": "ko"}
"""The extra that a tokenizer needs."""
NOTHING = "evaluation: the references must have at least one line, got an empty file"
"""The error if there is nothing to score."""
RESAMPLES = 1000
"""The number of bootstrap resamples for a confidence interval (Koehn 2004), as in sacrebleu."""


@dataclass(frozen=True)
class Score:
    """The score of one metric over a whole test set, in percent."""

    name: str
    """The name used in papers: `BLEU`, `chrF2`, `TER`."""
    score: float
    signature: str
    """The settings that sacrebleu needs to reproduce the score."""
    interval: float | None = None
    """Half the width of the 95 % confidence interval; None if it was not requested."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name, with the interval if there is one."""
        known = {"name": self.name, "score": self.score, "signature": self.signature}
        return known if self.interval is None else {**known, "interval": self.interval}


def score_translations(
    hypotheses: Sequence[str],
    references: References,
    *,
    lowercase: bool = False,
    tokenize: str = "13a",
    metrics: Sequence[str] = METRICS,
    confidence: bool = False,
) -> dict[str, Score]:
    """Score detokenised translations against one reference each, or several.

    Args:
        hypotheses: One translation a line, in the order of the references.
        references: The reference translations.
        lowercase: Ignore case. (sacrebleu's TER always does.)
        tokenize: The tokenizer for BLEU: one of TOKENIZERS.
        metrics: Which of ALL_METRICS to compute; TER is slow on long lines.
        confidence: Compute confidence intervals as well, by paired bootstrap over the lines (RESAMPLES).

    Returns:
        The score of each metric by its name in ALL_METRICS, in the order of `metrics`.

    Raises:
        DataError: The texts differ in length, there is nothing to score, or a metric or tokenizer is unknown.
        TypeError: An argument is one string or contains something other than texts.
    """
    hypotheses = checked_texts("evaluate", "hypotheses", hypotheses)
    metrics, texts = _checked(references, metrics, tokenize)
    for text in texts:
        if len(hypotheses) != len(text):
            raise DataError(
                f"evaluation: hypotheses and references must have the same number of lines, got {len(hypotheses)} "
                f"and {len(text)}; give the two sides of the same test set"
            )
    if not hypotheses:
        raise DataError(NOTHING)
    found = {}
    for name in metrics:
        metric = make_metric(name, lowercase, tokenize)
        result = metric.corpus_score(hypotheses, texts, RESAMPLES if confidence else 1)
        interval = float(result._ci) if confidence else None
        found[name] = Score(result.name, float(result.score), str(metric.get_signature()), interval)
    return found


def _checked(references: References, metrics: Sequence[str], tokenize: str) -> tuple[list[str], list[list[str | None]]]:
    """Return the metrics and the texts of references. Raises TypeError and DataError, as `score_translations`."""
    metrics = checked_texts("evaluate", "metrics", metrics)
    is_list = isinstance(references, Sequence) and not isinstance(references, str)
    if not is_list or not all(isinstance(one, Sequence | None) for one in references):
        checked_texts("evaluate", "references", references)  # raises
    if tokenize not in TOKENIZERS:
        raise DataError(f"evaluation: tokenize must be one of {', '.join(TOKENIZERS)}, got {tokenize!r}")
    is_one = not references or isinstance(references[0], str)
    texts = [[*references]] if is_one else [list(text) for text in references if text is not None]
    for text in texts:
        checked_texts("evaluate", "references", [line for line in text if line is not None])
    if texts and "bleu" in metrics and tokenize == "13a" and (other := _tokenizer_for(texts[0])) is not None:
        warnings.warn(
            f"evaluation: BLEU counts words between spaces, which these references lack; give --tokenize {other} "
            f"(tokenize={other!r}), or judge by chrF",
            NMTWarning,
            stacklevel=3,
        )
    return metrics, texts


def _tokenizer_for(lines: Sequence[str | None]) -> str | None:
    """Return the tokenizer for lines in a script without spaces; None if most words stand apart."""
    text = " ".join(line for line in lines[:200] if line)
    found = Counter(name for name, signs in _WITHOUT_SPACES.items() for _ in signs.finditer(text))
    if 2 * found.total() < sum(map(str.isalpha, text)) or found.total() < _LONG_WORD * len(text.split()):
        return None
    return "ja-mecab" if found["ja-mecab"] else max(found, key=lambda name: found[name], default=None)


def split_references(texts: Sequence[Sequence[str | None]], separator: str) -> list[list[str | None]]:
    """Return texts with one reference per line, or None, of texts that have several between separators."""
    rows = [
        [part.strip() for line in lines if line is not None for part in line.split(separator)]
        for lines in zip(*texts, strict=True)
    ]
    most = max(map(len, rows), default=1)
    return [[row[number] if number < len(row) else None for row in rows] for number in range(most)]


def bleu_interval(hypotheses: Sequence[str], references: Sequence[str], resamples: int = 300) -> float:
    """Return half the width of the 95 % confidence interval of BLEU, by bootstrap over the lines (Koehn 2004):
    sacrebleu's, at a fraction of the time, as one multinomial draw and a matrix product give the sums of a sample."""
    import numpy as np

    metric = make_metric("bleu", False, "13a")
    lines = np.array(metric._extract_corpus_statistics(list(hypotheses), [list(references)]), dtype=np.int64)
    random = np.random.default_rng(12345)
    shares = np.full(len(lines), 1 / len(lines))
    sums = [random.multinomial(len(lines), shares) @ lines for _ in range(resamples)]
    low, high = np.quantile([metric._compute_score_from_stats(row.tolist()).score for row in sums], (0.025, 0.975))
    return float(high - low) / 2


def sentence_utility(name: str) -> Utility:
    """Return a function that scores a sentence against another in %: `chrf`, `chrf++`, `bleu` (effective order)."""
    from sacrebleu.metrics import BLEU

    metric = BLEU(effective_order=True) if name == "bleu" else make_metric(name, lowercase=False, tokenize="")
    return lambda hypothesis, reference: float(metric.sentence_score(hypothesis, [reference]).score)


def expected_utilities(texts: Sequence[str], utility: Utility | str) -> list[float]:
    """Return the mean utility, a function or a name of `sentence_utility`, of each text against all of them, itself and
    repetitions counted (Eikema and Aziz 2020, section 5)."""
    counts = Counter(texts)
    if utility in ("chrf", "chrf++"):
        metric = make_metric(utility, lowercase=False, tokenize="")
        means = _mean_chrf(list(counts), list(counts.values()), metric)
        return [means[text] for text in texts]
    utility = sentence_utility(utility) if isinstance(utility, str) else utility
    known = {text: sum(count * utility(text, other) for other, count in counts.items()) / len(texts) for text in counts}
    return [known[text] for text in texts]


def _mean_chrf(texts: Sequence[str], counts: Sequence[int], metric: Any) -> dict[str, float]:
    """Return the mean chrF of each text against all of them, text n counted `counts[n]` times: the figures of
    `sentence_utility`, but n-grams are found once for each text instead of for each pair, and matched by arrays."""
    import numpy as np

    ngrams = metric._extract_reference_info(texts)["ref_ngrams"]  # of each text, a Counter for each order
    precision, recall, effective = (np.zeros((len(texts), len(texts))) for _ in range(3))
    for rows in zip(*ngrams, strict=True):  # of an order
        columns = {ngram: column for column, ngram in enumerate(dict.fromkeys(ngram for row in rows for ngram in row))}
        table = np.zeros((len(columns), len(texts)), np.int32)
        places = [[columns[ngram] for ngram in found] for found in rows]
        for number, (found, here) in enumerate(zip(rows, places, strict=True)):
            table[here, number] = list(found.values())
        matches = np.array([np.minimum(table[here, n, None], table[here]).sum(0) for n, here in enumerate(places)])
        lengths = table.sum(0)
        both = (lengths[:, None] > 0) & (lengths[None] > 0)
        precision += np.where(both, matches / np.maximum(lengths[:, None], 1), 0.0)
        recall += np.where(both, matches / np.maximum(lengths[None], 1), 0.0)
        effective += both
    precision, recall = precision / np.maximum(effective, 1), recall / np.maximum(effective, 1)
    divisor = 4 * precision + recall  # beta is 2
    scores = 100 * 5 * precision * recall / np.where(divisor > 0, divisor, 1.0)
    means = scores @ np.array(counts, np.float64) / sum(counts)
    return dict(zip(texts, means.tolist(), strict=True))


def format_table(scores: Sequence[Score]) -> str:
    """Return the scores as aligned lines: metric, score, its confidence interval if there is one, signature."""
    has_interval = any(score.interval is not None for score in scores)
    lines = [f"{'metric':<8}{'score':>7}{'  95 % ±' if has_interval else ''}  signature"]
    for score in scores:
        interval = "" if not has_interval else f"{'' if score.interval is None else f'{score.interval:.2f}':>8}"
        lines.append(f"{score.name:<8}{score.score:>7.2f}{interval}  {score.signature}")
    return "\n".join(lines)


def make_metric(name: str, lowercase: bool, tokenize: str) -> Any:
    """Return sacrebleu's object for one of ALL_METRICS. Raises DataError: unknown, or its tokenizer lacks a part."""
    from sacrebleu.metrics import BLEU, CHRF, TER  # slow to import, and training may end before it scores

    from nmt.evaluate.error_rates import ErrorRate

    if name == "bleu":
        try:
            # `force` only silences a warning about text that looks tokenised; the score is the same.
            return BLEU(lowercase=lowercase, tokenize=tokenize, force=True)
        except RuntimeError:
            if (extra := _MECAB.get(tokenize)) is None:
                raise
            raise DataError(
                f"evaluation: the tokenizer {tokenize} must have the libraries of the extra [{extra}], got none; "
                + how_to_install(extra)
            ) from None
        except OSError as error:
            why = getattr(error, "reason", None) or error
            raise DataError(
                f"evaluation: the tokenizer {tokenize} must be downloaded by sacrebleu once, got "
                f"{getattr(why, 'strerror', None) or why}; connect to the network, or copy ~/.sacrebleu from a machine "
                "that has it"
            ) from None
    if name in ("chrf", "chrf++"):
        return CHRF(lowercase=lowercase, word_order=2 if name == "chrf++" else 0)
    if name == "ter":
        return TER(case_sensitive=False)
    if name in ("wer", "per", "accuracy"):
        return ErrorRate(name, lowercase)
    raise DataError(f"evaluation: metric must be one of {', '.join(ALL_METRICS)}, got {name!r}")


BINS = 10


@dataclass(frozen=True)
class Bin:
    """The lines whose confidence is in a range: mean confidence, the share that was kept, their number."""

    low: float
    high: float
    confidence: float
    kept: float
    lines: int


@dataclass(frozen=True)
class Reliability:
    """The fit of a model's confidence with its translations.

    Attributes:
        bins: Ranges of confidence that have lines.
        error: Expected calibration error: the mean distance of confidence and share kept over the bins, by lines.
        worse: Of the half of lines with the least confidence, the share in the worse half by chrF.
        kept: The share of all lines that was kept: at least `least` chrF.
    """

    bins: list[Bin]
    error: float
    worse: float
    kept: float
    least: float

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON has it, numbers rounded."""
        bins = [{key: round(number, 4) for key, number in asdict(one).items()} for one in self.bins]
        return {name: bins if name == "bins" else round(value, 4) for name, value in vars(self).items()}

    def table(self) -> str:
        """Return the bins and figures as text."""
        same = "the same as the reference" if self.least >= 100 else f"chrF of {self.least:g} or more"
        rows = [f"{'confidence':<12}{'mean':>6}{'kept':>7}{'lines':>8}   kept: {same}"]
        rows += [
            f"{one.low:>4.0%} to {one.high:>4.0%}{one.confidence:>6.0%}{one.kept:>7.0%}{one.lines:>8,}"
            for one in self.bins
        ]
        rows += [f"kept in all: {self.kept:.1%}; expected calibration error: {self.error:.1%}"]
        rows += [f"in the worse half by chrF, of the half with the least confidence: {self.worse:.0%} (by chance 50 %)"]
        return "\n".join(rows)


def reliability(confidences: Sequence[float], scores: Sequence[float], least: float) -> Reliability:
    """Return how confidences, 0 to 1, fit the sentence chrF of lines, of which those of `least` are kept."""
    import numpy as np

    sure, chrf = np.asarray(confidences, np.float64), np.asarray(scores, np.float64)
    kept, places = chrf >= least, np.minimum((sure * BINS).astype(int), BINS - 1)
    bins = []
    for number in range(BINS):
        here = places == number
        if here.any():
            ends = number / BINS, (number + 1) / BINS
            bins.append(Bin(*ends, float(sure[here].mean()), float(kept[here].mean()), int(here.sum())))
    error = sum(one.lines * abs(one.confidence - one.kept) for one in bins) / len(sure)
    return Reliability(bins, error, _worse(sure, chrf), float(kept.mean()), least)


def _worse(sure: Any, chrf: Any) -> float:
    """Return how much of the half with the least confidence is in the worse half by chrF. Of lines that are equal at
    the border of a half, each belongs to it in part."""
    import numpy as np

    half = len(sure) / 2

    def part(values: Any) -> Any:
        border = np.sort(values)[int(half)] if half >= 1 else values[0]
        below, equal = values < border, values == border
        return below + equal * ((half - below.sum()) / equal.sum())

    return float(part(sure) @ part(chrf) / max(half, 1))
