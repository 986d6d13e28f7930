"""Numbers in figures: what they denote in any usual form, and which of a translation are provably not the source's. One
is right if it denotes one of the source: with the separators of any locale, another order of a date, 12 or 24 hours, in
other figures, or with a scale word (`2.5 billion`, `2.500.000.000`). Numbers in words, and those of which nothing is
known, stay as the model wrote them."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import islice, pairwise, product
from typing import Any
from unicodedata import category, decimal, normalize

from nmt.documents.placeholders import Placeholder

_MOST_DIGITS = 40
"""The maximum number of digits of a value; longer numbers have none, and equal only themselves."""
_DIVIDED = re.compile("[:/\u2044\u2013-]")
_SPACES = "\u00a0\u2007\u2009\u202f"
_GROUPS = re.compile(rf"[.,'\u2019\u066b\u066c{_SPACES}]")
_GROUP = re.compile(r"\d{3}(?:[.,]\d+)?")
"""The last of several groups that plain spaces divide."""
_MIXED = re.compile("(?:([0-9]+) ?)?([0-9]+)[/\u2044]([0-9]+)")
_SHARES = tuple("%\u2030\u00b0")
_CURRENCY = re.compile("[$\u00a2-\u00a5\u0e3f\u20a0-\u20bf]")
_SCALES = (3, 4, 5, 6, 7, 8, 9, 12)
"""Powers of ten with a word in some language."""
_SPANS = (7, 12, 24, 60)
"""Days of a week, months of a year or pieces of a dozen, hours of a day, minutes of an hour."""
_ERAS = (543, 578, 579, 580, 581, 582, 621, 622, 1911, 1925, 1988, 2018, 3760, 3761)
"""Years by which calendars differ: Buddhist, Islamic, Persian, of Taiwan, Japan (three emperors), Jewish."""
_UNITS = (1.609344, 0.9144, 0.3048, 2.54, 25.4, 0.45359, 453.59, 28.35, 29.57, 3.7854, 0.5683, 0.40469, 2.59)
"""Metric values of a mile, yard, foot, inch (cm, mm), pound (kg, g), ounce (g, ml), gallon, pint, acre, square mile."""
_TENFOLD = re.compile(
    r"\b(?:la[ck]h?s?\b|crore|pro ?mil)|[‰十百千万萬億亿兆천만억조]|หมื่น|แสน|लाख|करोड़|अरब", re.IGNORECASE
)
"""Scale words with ten times the value of one of another language."""
_PERCENT = re.compile(rf"\d[ {_SPACES}]?[%٪％](?!\w)")
_HUNDREDTH = re.compile(
    r"[%٪％]|pe?r ?cent|pro[cs][eè]nt|pour ?cent|p[oe]r ?cie?n|процен|відсот|yüzde|százal|τοις|百分|パーセント|퍼센트"
    r"|प्रतिशत|เปอร์เซ็นต์|بالمئة|في المئة|אחוז|\bc[mlt]|\bсм\b|厘米|セント|センチ",
    re.IGNORECASE,
)
"""Percent, and units of a hundredth."""
_SCALE_WORD = re.compile(
    r"\b(?:[mb]il[lhjy]?[iaãoõ]|tri[lł]|m[rl][dn]|mio\b|mil\b|tys|thousand|tausend|hundre?[dt]|[bt]n\b"
    r"|k\b|ezer|bin\b|tuhat|тыс|тис|м[иі]л|млн|млрд|ngh?ìn|ngàn|triệu|t[ỷỉ]\b)|(?<=\d)(?:[km]|bn)\b"
    rf"|พัน|ล้าน|हज़ार|ألف|مليون|مليار|میلیون|میلیارد|אלף|מיליון|מיליארד|{_TENFOLD.pattern}",
    re.IGNORECASE,
)
_HALVES = re.compile(
    r"half|halb|halv|p[oóů]l|п[іо]л|fél|viertel|quart|cuart|čtvrt|kwadr|kvart|четверт|negyed|çeyrek|buçuk|puoli|demi|med?ia"
    r"|mezz|meia|jumătate|μισ|τέταρτο|[半刻반]|نصف|ربع|נ?חצי|רבע|साढ़े|ครึ่ง|rưỡi",
    re.IGNORECASE,
)
"""Words with an hour that mean the half or quarter before or after it."""
_METRIC = re.compile(
    r"\b(?:kilo|m[eè]t[er]|lit[er]|celsius|gram)|\b(?:k?m|[cm]m|kg|ha|[cm]?l|km/h|kmh|kph)\b|°C|кило|метр|литр|грамм|цельси"
    r"|\bкм|キロ|メートル|グラム|リットル|公里|公斤|[米升]|킬로|미터|그램|χλμ|कि|กิโล|เมตร|كيلو|\bكم|متر|ק",
    re.IGNORECASE,
)
_IMPERIAL = re.compile(
    r"\b(?:mil(?:e|l|ha|j|i)|míl|meile|mph\b|inch|zoll|palec|palc|f[oe]+t\b|fuß|pied|pies|pouce|pulgada|pound|pfund|livre|libra"
    r"|lbs?\b|oz\b|ounce|unze|gallon|pint|acre|yard|fahrenheit)|°F|мил[ьяи]|фут|фунт|дюйм|マイル|フィート|ポンド|インチ|英里"
    r"|英尺|磅|마일|피트|μίλι|मील|ไมล์|ميل|מייל",
    re.IGNORECASE,
)
_MINUS = re.compile(
    r"m[iíì]nus|miinus|moins|menos|meno\b|мінус|минус|eksi|μείον|माइनस|ऋण|マイナス|零下|氷点下|[负負]|영하|마이너스|ลบ"
    r"|سالب|ناقص|تحت|منفی|زیر|מינוס|מתחת|\bâm\b|negati[vf]|unter|under|below|sous|bajo|sotto|abaixo|ниже|нижче|poniżej"
    r"|\bpod\b|pakkas|alatt|alla\b|onder|altında|शून्य|n[uo]l[lo]|z[eé]ro|cero|нул|sıfır",
    re.IGNORECASE,
)
_MINUS_SIGNS = ("-", "\u2212", "\u2013")
_NOTHING: frozenset[Fraction | str] = frozenset((Fraction(0),))
_MOST_PAIRS, _MOST_KEYS = 1000, 16

Key = Any
"""A value, or a tuple of values, which numbers that denote the same have in common."""


@dataclass(frozen=True, eq=False)
class Figure:
    """A number at a place of a text. word: the unit of the source that it is in, or is aligned to; is_spaced: whether a
    single space divides it from the number before it."""

    place: Placeholder
    word: int
    is_spaced: bool = False

    @cached_property
    def is_negative(self) -> bool:
        """Return whether it has a minus sign."""
        return self.place.text[0] in _MINUS_SIGNS

    @cached_property
    def body(self) -> str:
        """Return it without its sign, in ASCII's digits."""
        return "".join(str(decimal(c)) if c.isdecimal() else c for c in self.place.text[self.is_negative :])

    @cached_property
    def values(self) -> frozenset[Fraction | str]:
        """Return the values that it may denote, without its sign; its digits if they are too many."""
        if found := _MIXED.fullmatch(normalize("NFKC", re.sub(r"(?<=\d)(?=[^\d\W])", " ", self.spelt))):
            return _mixed(found)
        return frozenset() if _DIVIDED.search(self.body) else _values(self.body)

    @cached_property
    def spelt(self) -> str:
        """Return it with a fraction of one sign written as three, and a space before it."""
        return "".join(f" {normalize('NFKC', c)}" if category(c) == "No" else c for c in self.body).lstrip(" ")

    @cached_property
    def parts(self) -> tuple[frozenset[Fraction | str], ...]:
        """Return the values of its parts: of a date, time, range, ratio or version; none for others."""
        if " " in self.body:  # 2 1/2
            return ()
        if _DIVIDED.search(self.body):
            texts = _DIVIDED.split(self.body)
        elif "." in self.body and _GROUPS.sub(".", self.body) == self.body:
            texts = self.body.split(".")
        else:
            return ()
        first, last = texts[0], texts[-1]
        years = (first[:-2],) * (len(first) == 4) if len(texts) == 2 else ("19", "20") * (len(texts) == 3)
        long = [_values(year + last) for year in years] if len(last) == 2 and ":" not in self.body else []
        return (*map(_values, texts[:-1]), _values(last).union(*long))  # 1990-95, 12.11.26

    @cached_property
    def is_point(self) -> bool:
        """Return whether its parts are divided by points or colons, as in a time."""
        return not set(self.body) & set("/\u2044-\u2013")

    @property
    def dated(self) -> tuple[frozenset[Fraction | str], ...]:
        """Return its parts if each may be a number by itself: of a date or a range."""
        return self.parts if len(self.parts) > 2 or not self.is_point else ()

    @cached_property
    def part_keys(self) -> list[Key]:
        """Return keys, of which numbers of equal parts have one in common."""
        return _part_keys(self.parts) if len(self.parts) > 1 else []

    @cached_property
    def keys(self) -> list[Key]:
        """Return keys, of which numbers that may denote the same have one in common."""
        own: list[Key] = list(self.values)
        own += [("clock", one) for one in _numbers(self.values) if one.denominator in (2, 4)]  # 3.5 hours
        if len(self.digits) > 8 and not set(self.body) & set(".,:"):  # of a telephone or a book, divided anywhere
            own.append(("code", self.digits))
        if len(self.parts) == 2:
            kinds = [True] * self.is_point + [False] * (":" in self.body or not self.is_point)  # 3:2, 3-2, 3/2
            clock = [key for key in self.part_keys if key[0] == "clock"]
            return [*own, *clock, *((kind, *key) for key in self.part_keys for kind in kinds)]
        dates = [key for key in self.part_keys if key[0] not in ("hours", "clock")]  # their parts have any order
        return [*own, *self.part_keys, *(("date", *sorted(key, key=str)) for key in dates)]

    @cached_property
    def digits(self) -> str:
        """Return its digits."""
        return "".join(filter(str.isdecimal, self.spelt))


def _mixed(found: re.Match[str]) -> frozenset[Fraction | str]:
    """Return the value of a number with a fraction, such as 2 1/2."""
    whole, above, below = (int((digits or "0")[:_MOST_DIGITS]) for digits in found.groups())
    return frozenset((whole + Fraction(above, below),)) if below else frozenset()


def _values(body: str) -> frozenset[Fraction | str]:
    """Return the values of figures with separators of groups or of a fraction."""
    groups, signs = _GROUPS.split(body), _GROUPS.findall(body)
    digits = "".join(groups)
    if len(digits) > _MOST_DIGITS:
        return frozenset((digits,))
    found: set[Fraction | str] = set()
    sizes = [len(one) for one in groups]
    if _are_groups(sizes, signs):
        found.add(Fraction(int(digits)))
    if signs and signs[-1] in ".,\u066b" and _are_groups(sizes[:-1], signs[:-1]) and signs[-1] not in signs[:-1]:
        found.add(Fraction(int(digits), 10 ** sizes[-1]))
    return frozenset(found)


def _are_groups(sizes: Sequence[int], signs: Sequence[str]) -> bool:
    """Return whether these are groups of thousands, or of India, with one sign between them."""
    if len(set(signs)) > 1 or not all(sizes):
        return False
    return not signs or (sizes[0] <= 3 and sizes[-1] == 3 and all(2 <= size <= 3 for size in sizes[1:-1]))


def _is_excused(source: Figure, target: Figure, texts: tuple[str, str], powers: Sequence[int]) -> bool:
    """Return whether a number may stand for another by a scale word, an hour, a calendar or another unit."""
    has_half = any(map(_HALVES.search, texts))
    has_measure = any(_METRIC.search(one) and _IMPERIAL.search(other) for one, other in (texts, texts[::-1]))
    for a in _numbers(source.values):
        for b in _numbers(target.values):
            low, high = sorted((a, b))
            spans = _SPANS[low == 1 :] if source.digits != target.digits else ()  # a note [1] is no week of 7 days
            if _is_scale(low, high, powers) or any(high == low * span for span in spans):
                return True
            if abs(b - a) in _ERAS or (1000 <= a < 2100 and a % 100 == b):  # the '90s
                return True
            if has_measure and (_is_measure(a, b) or _is_measure(b, a)):
                return True
    one, other = (figure.parts[:2] or (figure.values, ()) for figure in (source, target))
    is_full = len(source.parts) != len(target.parts) and (has_half or _NOTHING in (one[-1], other[-1]))
    apart = [12, *[1] * has_half, *[0] * is_full]
    return any(abs(a - b) in apart and max(a, b) <= 24 for a in _numbers(one[0]) for b in _numbers(other[0]))


def _numbers(values: frozenset[Fraction | str]) -> list[Fraction]:
    return [one for one in values if isinstance(one, Fraction)]


def _is_scale(low: Fraction, high: Fraction, powers: Sequence[int]) -> bool:
    """Return whether a number is a lower one with a scale word; powers: of the words that are there."""
    is_near = any(abs(low * 10**power - high) * 20 <= high for power in powers)
    return low > 0 and (is_near or any(high == low * 10**power for power in _SCALES))


def _is_measure(imperial: Fraction, metric: Fraction) -> bool:
    """Return whether a number may be another one in metric units, rounded."""
    values = [float(imperial) * unit for unit in _UNITS]
    return any(abs(one - metric) <= 0.05 * one for one in values) or abs((imperial - 32) / 9 * 5 - metric) < 1


@dataclass
class Comparison:
    """The numbers of a translation compared with the source's. wrong: pairs of the source's and what stands for it;
    unsigned: pairs that lack the minus; lost: those of the source without any; right: those that may stand for one."""

    wrong: list[tuple[Figure, Figure]]
    unsigned: list[tuple[Figure, Figure]]
    lost: list[Figure]
    right: list[Figure]


def compared(source: Sequence[Figure], target: Sequence[Figure], texts: tuple[str, str]) -> Comparison:
    """Compare the numbers of a source with those of its translation, in order; texts: both."""
    found = Comparison([], [], [], list(target))
    if sorted(one.place.text for one in source) == sorted(one.place.text for one in target):
        return found
    left, free = dict.fromkeys(source), dict.fromkeys(target)
    codes = ["".join(one.digits for one in figures) for figures in (source, target)] if target else ["", ""]
    if codes[0] == codes[1] and len(codes[0]) > 8 and not any(set(one.body) & set(".,:") for one in (*source, *target)):
        return found
    _match(_joined(source), [*_single(target), *_joined(target)], left, free)
    _match(_single(source), _joined(target), left, free)
    for (one,), (other,) in _match(_single(source), _single(target), left, free):
        has_minus = texts[1][: other.place.start].rstrip().endswith(_MINUS_SIGNS) or other.is_negative
        if one.is_negative and not has_minus and not _MINUS.search(texts[1]):
            found.unsigned.append((one, other))
    _match(_single(left), _runs(free, 2), left, free)
    _match(_runs(left, 2), _single(free), left, free)
    for size in (2, 3, 4):
        _match(_whole(left, size), _runs(free, size), left, free)
        _match(_runs(left, size), _whole(free, size), left, free)
    _drop_parts(left, target)
    _drop_parts(free, source)
    aligned: dict[int, list[Figure]] = {}
    for one in free:
        aligned.setdefault(one.word, []).append(one)
    if not left and not free:
        return found
    has_scale = bool(free) and any(map(_SCALE_WORD.search, texts))
    powers = range(1 if any(map(_TENFOLD.search, texts)) else 3, 13) if has_scale else ()
    has_hundredth = bool(left and free) and any(map(_HUNDREDTH.search, texts))
    is_short = len(left) * len(free) <= _MOST_PAIRS
    for is_own in (True, False) if is_short else (True,):
        for one in list(left):
            for other in aligned.get(one.word, ()) if is_own else list(free):
                if other in free and _is_excused(one, other, texts, [*powers, *[2] * has_hundredth]):
                    del left[one], free[other]
                    break
    runs = [run for figures in (source, target) for run, _ in _joined(figures)]
    unmatched = left.keys() | free.keys()
    # 10 000 and 2 1/2 are no two numbers.
    groups = {one for run in runs if _GROUP.fullmatch(run[1].body) or unmatched.issuperset(run) for one in run}
    found.right = [one for one in target if one not in free]
    is_pair = len(left) == len(free) == 1
    is_part = bool(free) and (_PERCENT.search(texts[0]) is None) != (_PERCENT.search(texts[1]) is None)
    if (has_scale or is_part) and len(left) != len(free):
        return found  # several numbers may be a single one: 3億5000万, 1 in 5 (20 %)
    for one in left:
        if one.place.is_inside or one in groups or not (one.values or one.parts):
            continue
        near = [one.word, *((one.word - 1, one.word + 1) if is_pair else ())]
        others = (other for word in near if word >= 0 for other in aligned.get(word, ()))
        stands = next((other for other in others if other in free and other not in groups), None)
        if stands is not None:
            found.wrong.append((one, stands))
            del free[stands]
        elif not free:
            found.lost.append(one)
    return found


Run = tuple[tuple[Figure, ...], Iterable[Key]]
"""Numbers that follow one another, and keys of what they denote together."""


def _match(
    ours: Iterable[Run], theirs: Iterable[Run], left: dict[Figure, None], free: dict[Figure, None]
) -> list[tuple[tuple[Figure, ...], tuple[Figure, ...]]]:
    """Remove runs with a key in common from `left` and `free`, aligned ones first, and return them."""
    if not left or not free:
        return []
    places: dict[tuple[Key, int | None], deque[tuple[Figure, ...]]] = {}
    for run, keys in theirs:
        for key in keys:
            for word in (None, run[0].word):
                places.setdefault((key, word), deque()).append(run)
    found = []
    waiting = [(run, list(keys)) for run, keys in ours] if places else []
    for is_aligned in (True, False):
        for run, keys in waiting:
            for key in keys if all(one in left for one in run) else ():
                others = places.get((key, run[0].word if is_aligned else None), deque())
                while others and not all(one in free for one in others[0]):
                    others.popleft()
                if others:
                    other = others.popleft()
                    for one in run:
                        del left[one]
                    for one in other:
                        del free[one]
                    found.append((run, other))
                    break
    return found


def _single(figures: Iterable[Figure]) -> Iterator[Run]:
    return (((one,), one.keys) for one in figures)


def _joined(figures: Sequence[Figure]) -> list[Run]:
    """Return numbers that plain spaces divide: groups of thousands, and a number with a fraction."""
    found: list[Run] = []
    for one, other in pairwise(figures):
        whole = normalize("NFKC", f"{one.body} {other.spelt}") if other.is_spaced and one.body.isdecimal() else ""
        if mixed := _MIXED.fullmatch(whole):
            found.append(((one, other), _mixed(mixed)))
    at = 0
    for n in range(1, len(figures) + 1):
        if n < len(figures) and figures[n].is_spaced and _GROUP.fullmatch(figures[n].body):
            if figures[n - 1].body.isdecimal():
                continue
        run, at = tuple(figures[at:n]), n
        run = run[len(run[0].body) > 3 :]
        if len(run) > 1:
            found.append((run, _values("".join(one.body for one in run))))
    return found


def _whole(figures: Iterable[Figure], size: int) -> Iterator[Run]:
    """Return dates, times and ranges of `size` parts."""
    return (((one,), one.part_keys) for one in figures if len(one.parts) == size)


def _runs(figures: Iterable[Figure], size: int) -> Iterator[Run]:
    """Return runs of `size` numbers, as the parts of one."""
    order = list(figures)
    runs = (tuple(order[n : n + size]) for n in range(len(order) - size + 1))
    return ((run, _part_keys([one.values for one in run])) for run in runs)


def _drop_parts(figures: dict[Figure, None], others: Sequence[Figure]) -> None:
    """Drop numbers that are parts of a date or range of the other side, and dates of which that side has a part."""
    if not figures or not others:
        return
    parts = {value for one in others for part in one.dated for value in part}
    values = {value for one in others for value in one.values}
    for one in list(figures):
        if one.values & parts or any(part & values for part in one.dated):
            del figures[one]


def _part_keys(parts: Sequence[frozenset[Fraction | str]]) -> list[Key]:
    """Return the keys of a sequence of numbers; times are equal on clocks of 12 and 24 hours."""
    rows: list[Any] = list(islice(product(*parts), _MOST_KEYS)) if all(parts) else []
    hours = [row for row in rows if len(row) <= 3 and isinstance(row[0], Fraction) and row[0] <= 24]
    clock = [("clock", row[0] + row[1] / 60) for row in hours if len(row) == 2 and row[1] in (15, 30, 45)]
    return [*rows, *(("hours", row[0] % 12, *row[1:]) for row in hours), *clock]


def are_one_number(before: str, after: str) -> bool:
    """Return whether words that follow one another may be parts of one number: 10 000, minus 5, 2.5 billion, 5 %."""
    is_behind, is_before = before[-1:].isdigit(), after[:1].isdigit()
    if is_behind == is_before:
        return is_behind
    if is_before:
        return _CURRENCY.match(before, len(before) - 1) is not None or _MINUS.search(before) is not None
    is_sign = after[:1] in _SHARES or _CURRENCY.match(after) is not None
    return is_sign or _SCALE_WORD.search(after) is not None


def priced(source: Placeholder, text: str, target: Placeholder, translation: str) -> tuple[int, int, str]:
    """Return a range and its new text, by which a number becomes the source's, with its sign of currency."""
    (a, b), (start, end) = _with_currency(source, text), _with_currency(target, translation)
    own = {c for c in text[a : source.start] + text[source.end : b]}
    other = {c for c in translation[start : target.start] + translation[target.end : end]}
    if own and other and own != other:
        return start, end, text[a:b]
    return target.start, target.end, source.text


def with_sign(place: Placeholder, text: str) -> Placeholder:
    """Return a number with the sign of currency, percent or degrees that touches it."""
    start, end = _with_currency(place, text)
    if text[end : end + 1] in _SHARES and end == place.end:
        end += 1
    return replace(place, start=start, end=end, text=text[start:end])


def _with_currency(place: Placeholder, text: str) -> tuple[int, int]:
    """Return the bounds of a number with the sign of currency that touches it."""
    start, end = place.start, place.end
    if start and _CURRENCY.match(text, start - 1):
        start -= 1
    elif _CURRENCY.match(text, end):
        end += 1
    return start, end
