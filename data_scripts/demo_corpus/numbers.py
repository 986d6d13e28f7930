"""Numbers in words, English and German: cardinals to 999,999, ordinals to 999, years 1100 to 2099.

English is written the British way ("two hundred and five"). A German number is one word, its tens
behind its ones: twenty-one is "einundzwanzig". 1 is "eins" only where it ends the number
("hunderteins") and no noun follows ("ein Uhr").
"""

_ENGLISH_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen"
).split()
_ENGLISH_TENS = "- - twenty thirty forty fifty sixty seventy eighty ninety".split()
_ENGLISH_ORDINALS = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}

_GERMAN_ONES = (
    "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn "
    "fünfzehn sechzehn siebzehn achtzehn neunzehn"
).split()
_GERMAN_TENS = "- - zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split()
_GERMAN_ORDINAL_STEMS = {1: "erst", 3: "dritt", 7: "siebt", 8: "acht"}


def english_cardinal(number: int) -> str:
    """Returns 0 to 999,999 in English: 1205 is "one thousand two hundred and five"."""
    _check_range(number, 0, 999_999)
    thousands, rest = divmod(number, 1000)
    if not thousands:
        return _english_below_thousand(rest)
    words = f"{_english_below_thousand(thousands)} thousand"
    if not rest:
        return words
    return f"{words} {'and ' if rest < 100 else ''}{_english_below_thousand(rest)}"


def english_ordinal(number: int) -> str:
    """Returns 1 to 999 as an English ordinal: 21 is "twenty-first"."""
    _check_range(number, 1, 999)
    words = english_cardinal(number)
    # Only the last word changes, be it behind a space or a hyphen.
    start = max(words.rfind(" "), words.rfind("-")) + 1
    last = words[start:]
    if last in _ENGLISH_ORDINALS:
        last = _ENGLISH_ORDINALS[last]
    elif last.endswith("y"):
        last = f"{last[:-1]}ieth"
    else:
        last += "th"
    return words[:start] + last


def english_year(year: int) -> str:
    """Returns a year as it is said: "nineteen oh five", "two thousand and five", "twenty ten"."""
    _check_range(year, 1100, 2099)
    if 2000 <= year < 2010:
        return english_cardinal(year)
    century, rest = divmod(year, 100)
    head = english_cardinal(century)
    if not rest:
        return f"{head} hundred"
    return f"{head} {'oh ' if rest < 10 else ''}{english_cardinal(rest)}"


def german_cardinal(number: int, *, one: str = "eins") -> str:
    """Returns 0 to 999,999 in German, one word: 1205 is "tausendzweihundertfünf".

    `one` is the form of a final 1: "eins" when counting, "ein", "eine" or "einen" before a noun.
    """
    _check_range(number, 0, 999_999)
    if number == 0:
        return "null"
    thousands, rest = divmod(number, 1000)
    words = ""
    if thousands:
        count = "" if thousands == 1 else _german_below_thousand(thousands, one="ein", leading=True)
        words = f"{count}tausend"
    return words + _german_below_thousand(rest, one=one, leading=not thousands)


def german_ordinal(number: int, *, ending: str) -> str:
    """Returns 1 to 999 as a German ordinal with `ending` "e" or "en": "einundzwanzigste"."""
    _check_range(number, 1, 999)
    rest = number % 100
    if rest in _GERMAN_ORDINAL_STEMS:
        head = german_cardinal(number - rest) if number > rest else ""
        return f"{head}{_GERMAN_ORDINAL_STEMS[rest]}{ending}"
    return f"{german_cardinal(number)}{'t' if 1 <= rest < 20 else 'st'}{ending}"


def german_year(year: int) -> str:
    """Returns 1100 to 2099 as years are said: 1987 is counted in hundreds, 2005 in thousands."""
    _check_range(year, 1100, 2099)
    if year >= 2000:
        return german_cardinal(year)
    century, rest = divmod(year, 100)
    return f"{german_cardinal(century)}hundert{german_cardinal(rest) if rest else ''}"


def _english_below_thousand(number: int) -> str:
    hundreds, rest = divmod(number, 100)
    if not hundreds:
        return _english_below_hundred(rest)
    words = f"{_ENGLISH_ONES[hundreds]} hundred"
    return f"{words} and {_english_below_hundred(rest)}" if rest else words


def _english_below_hundred(number: int) -> str:
    if number < 20:
        return _ENGLISH_ONES[number]
    tens, ones = divmod(number, 10)
    return f"{_ENGLISH_TENS[tens]}-{_ENGLISH_ONES[ones]}" if ones else _ENGLISH_TENS[tens]


def _german_below_thousand(number: int, *, one: str, leading: bool) -> str:
    """Returns "" for 0. A leading 100 is "hundert", one behind thousands "einhundert"."""
    hundreds, rest = divmod(number, 100)
    words = ""
    if hundreds:
        count = "ein" if hundreds == 1 else _GERMAN_ONES[hundreds]
        words = f"{'' if hundreds == 1 and leading else count}hundert"
    return words + (_german_below_hundred(rest, one=one) if rest else "")


def _german_below_hundred(number: int, *, one: str) -> str:
    if number == 1:
        return one
    if number < 20:
        return _GERMAN_ONES[number]
    tens, ones = divmod(number, 10)
    if not ones:
        return _GERMAN_TENS[tens]
    return f"{'ein' if ones == 1 else _GERMAN_ONES[ones]}und{_GERMAN_TENS[tens]}"


def _check_range(number: int, low: int, high: int) -> None:
    if not low <= number <= high:
        raise ValueError(f"number must be from {low} to {high}, got {number}")
