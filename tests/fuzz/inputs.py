"""Lines that nobody would write, each a function of its number: random text of every plane, mutated sentences, control
characters, endless words, nothing, bytes that are not UTF-8."""

import random

WORDS = (
    "kara",
    "losu",
    "miti",
    "nux",
    "téyo",
    "ßra",
    "unheard-of",
    "Ａ",
    "ﬁ",
    "e\u0301",
    "\u0130",
    "ŉ",
    "▁",
    "<unk>",
    "</s>",
)
CONTROLS = [
    chr(c) for c in (*range(10), *range(11, 32), *range(127, 160), 0x2028, 0x2029, 0xFEFF, 0x200B, 0x202E, 0xAD)
]
LONG_WORDS = 10_000


def line_bytes(number: int, seed: int = 0) -> bytes:
    """A line without its end; about one in twelve is not UTF-8, one in two hundred has 10,000 words."""
    rng = random.Random(f"{seed} {number}")  # noqa: S311 - not a secret
    kind = rng.random()
    if kind < 0.08:
        return broken_utf8(rng)
    return text_line(rng, kind).encode("utf-8").replace(b"\n", b" ")


def is_text(line: bytes) -> bool:
    """Whether it is UTF-8."""
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def text_line(rng: random.Random, kind: float) -> str:
    if kind < 0.085:
        return " ".join(rng.choices(WORDS, k=LONG_WORDS))
    if kind < 0.13:
        return rng.choice(["", " ", "\t", "\r", "\u2028", "\x00", "\ufeff", "\u3000 \xa0", "\x85\x0b"])
    if kind < 0.33:
        return "".join(any_character(rng) for _ in range(rng.randint(1, 40)))
    if kind < 0.40:
        return any_character(rng) * rng.randint(1, 3000)
    if kind < 0.45:
        return "a" + "".join(chr(rng.randint(0x300, 0x36F)) for _ in range(rng.randint(1, 400)))
    if kind < 0.5:
        return "".join(
            rng.choices(["\u202e", "\u2066", "\u200d", "👩", "🏽", "\ufe0f", "🇩", "x"], k=rng.randint(1, 60))
        )
    return mutated(rng, " ".join(rng.choices(WORDS, k=rng.randint(1, 14))))


def any_character(rng: random.Random) -> str:
    """A character of any plane, unassigned ones too; no surrogate, which is no text."""
    plane = rng.randint(0, 16)
    code = plane * 0x10000 + rng.randint(0, 0xFFFF)
    return "\ud7ff" if 0xD800 <= code <= 0xDFFF else chr(code)


def mutated(rng: random.Random, text: str) -> str:
    letters = list(text)
    for _ in range(rng.randint(0, 6)):
        at = rng.randint(0, len(letters))
        deed = rng.random()
        if deed < 0.4:
            letters.insert(at, rng.choice(CONTROLS))
        elif deed < 0.6:
            letters.insert(at, any_character(rng))
        elif deed < 0.8 and letters:
            del letters[min(at, len(letters) - 1)]
        else:
            letters[at:at] = letters[: rng.randint(0, 20)]
    return "".join(letters)


def broken_utf8(rng: random.Random) -> bytes:
    start = mutated(rng, " ".join(rng.choices(WORDS, k=rng.randint(0, 6)))).encode().replace(b"\n", b" ")
    wrong = rng.choice(
        [b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\x80", b"\xf8\x88\x80\x80\x80"]
    )
    return start + wrong + bytes(rng.choices(range(32, 256), k=rng.randint(0, 5)))
