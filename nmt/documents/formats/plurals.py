"""The number of plural forms of languages in gettext, and which numbers take which form."""

from __future__ import annotations

import re
from collections.abc import Callable
from gettext import c2py

_SLAVIC = "(n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2)"
_RULES = {
    "nplurals=1; plural=0;": "id ja jv km ko lo ms my su th ug vi wo yue zh",
    "nplurals=2; plural=(n > 1);": "ach ak am br fa fil fr hi hy ln mg mi oc pt ti tg tl tr uz wa",
    f"nplurals=3; plural={_SLAVIC};": "be bs hr ru sr uk",
    "nplurals=3; plural=(n==1 ? 0 : n>=2 && n<=4 ? 1 : 2);": "cs sk",
    "nplurals=3; plural=(n==1 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2);": "csb pl",
    "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && (n%100<10 || n%100>=20) ? 1 : 2);": "lt",
    "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n!=0 ? 1 : 2);": "lv",
    "nplurals=3; plural=(n==1 ? 0 : n==0 || (n%100>0 && n%100<20) ? 1 : 2);": "mo ro",
    "nplurals=4; plural=(n%100==1 ? 0 : n%100==2 ? 1 : n%100==3 || n%100==4 ? 2 : 3);": "sl dsb hsb",
    "nplurals=4; plural=(n==1 || n==11 ? 0 : n==2 || n==12 ? 1 : n>2 && n<20 ? 2 : 3);": "gd",
    "nplurals=5; plural=(n==1 ? 0 : n==2 ? 1 : n<7 ? 2 : n<11 ? 3 : 4);": "ga",
    "nplurals=4; plural=(n==1 ? 0 : n==0 || (n%100>1 && n%100<11) ? 1 : n%100>10 && n%100<20 ? 2 : 3);": "mt",
    "nplurals=4; plural=(n==1 ? 0 : n==2 ? 1 : n!=8 && n!=11 ? 2 : 3);": "cy",
    "nplurals=6; plural=(n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : n%100>=3 && n%100<=10 ? 3 : n%100>=11 ? 4 : 5);": "ar",
    "nplurals=2; plural=(n%10!=1 || n%100==11);": "is mk",
}
_BY_LANGUAGE = {language: rule for rule, languages in _RULES.items() for language in languages.split()}
_MOST_FORMS = 10
_HEADER = re.compile(r"nplurals\s*+=\s*+(\d{1,3})\s*+;\s*+plural\s*+=\s*+([^;]{1,1000}+);?+")


def plural_rule(language: str | None) -> str:
    """Return the Plural-Forms of a language; for unknown ones those of English, which are the most common."""
    code = re.split("[-_]", language or "")[0].lower()

    return _BY_LANGUAGE.get(code, "nplurals=2; plural=(n != 1);")


def plural_forms(header: str) -> tuple[int, int | None] | None:
    """Return the number of forms in a Plural-Forms header, and the form that only the number 1 takes, None if other
    numbers take it too. Return None for an invalid header."""
    found = _HEADER.fullmatch(header.strip())
    if found is None or not 1 <= int(found[1]) <= _MOST_FORMS:
        return None
    try:
        choose: Callable[[int], int] = c2py(found[2])
        forms = [choose(n) for n in range(200)]
    except (ValueError, ZeroDivisionError):
        return None
    if not 0 <= min(forms) <= max(forms) < int(found[1]):
        return None
    return int(found[1]), forms[1] if forms.count(forms[1]) == 1 else None
