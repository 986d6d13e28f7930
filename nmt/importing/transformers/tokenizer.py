"""Read the tokens of a language model: byte-level BPE from tokenizer.json, or the list of RWKV's World models."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nmt.data.tokens.byte_tokens import ByteTokens, as_letters
from nmt.errors import CheckpointError
from nmt.importing.settings_text import check_settings, read_settings
from nmt.importing.unit_lists import read_lines
from nmt.system.paths import is_file, listed

_FILE = "tokenizer.json"
_WORLD = "rwkv_vocab"
_MUST = {
    "ignore_merges": (False, None),
    "byte_fallback": (False, None),
    "dropout": (None,),
    "continuing_subword_prefix": ("", None),
    "end_of_word_suffix": ("", None),
}


@dataclass(frozen=True)
class Tokens:
    """The tokens by their number in the model, one for each row of its tables; the number of the end; and the options
    of `ByteTokens`."""

    units: list[str]
    eos: int
    merges: list[tuple[str, str]] | None
    options: dict[str, Any]

    def subwords(self, units: list[str]) -> ByteTokens:
        """Return a vocabulary of these tokens, in our order."""
        return ByteTokens(units, self.merges, **self.options)


def read_tokens(folder: Path, rows: int, eos: Any) -> Tokens:
    """Return the tokens of a model with so many rows and this end. Raises CheckpointError: The file is missing,
    damaged, or of another kind; or the end is no token."""
    world = [path for path in listed(folder) if path.name.startswith(_WORLD) and path.suffix == ".txt"]
    if len(world) == 1 and not is_file(folder / _FILE):
        return Tokens(_all_rows(world[0], _world(world[0]), rows), 0, None, {})
    path = folder / _FILE
    found = read_settings(path)
    if not isinstance(eos, int) or isinstance(eos, bool) or not 0 <= eos < rows:
        raise CheckpointError(f"{folder}/config.json: eos_token_id must be the number of one token, got {eos!r:.40}")
    by_number, merges, options = _byte_level(path, found)
    return Tokens(_all_rows(path, by_number, rows), eos, merges, options)


def _all_rows(path: Path, by_number: dict[int, str], rows: int) -> list[str]:
    """Return a token for each row; one that the list lacks has a name that no text contains. Raises CheckpointError for
    tokens without a row."""
    if by_number and not (0 <= min(by_number) and max(by_number) < rows):
        wrong = max(by_number) if min(by_number) >= 0 else min(by_number)
        raise CheckpointError(f"{path}: must have tokens 0 to {rows - 1:,}, as the tables have rows, got {wrong:,}")
    return [by_number.get(n, f"\u27e8unused{n}\u27e9") for n in range(rows)]


def _world(path: Path) -> dict[int, str]:
    """Return the tokens of a list that has a number, a text or bytes as Python writes them, and a length in each
    line. Raises CheckpointError."""
    found = {}
    for number, line in enumerate(read_lines(path), 1):
        first, _, rest = line.partition(" ")
        try:
            token = ast.literal_eval(rest.rpartition(" ")[0])
            content = token.encode() if isinstance(token, str) else bytes(token)
            found[int(first)] = as_letters(content)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            raise CheckpointError(
                f"{path}:{number}: must be a number, a token as Python writes it, and its length, got {line!r:.40}"
            ) from None
    return found


def _byte_level(path: Path, found: dict[str, Any]) -> tuple[dict[int, str], list[tuple[str, str]], dict[str, Any]]:
    """Return tokens by number, merges and options of a byte-level BPE. Raises CheckpointError for other tokenizers."""
    names = "model", "pre_tokenizer", "normalizer"
    model, before, normalizer = (one if isinstance(one := found.get(name), dict) else {} for name in names)
    kinds = {name: part.get("type") for name, part in zip(names, (model, before, normalizer), strict=True)}
    check_settings(path, kinds, {"model": ("BPE",), "pre_tokenizer": ("ByteLevel",), "normalizer": (None, "NFC")})
    check_settings(path, before, {"use_regex": (True,)})
    check_settings(path, model, _MUST)
    try:
        added = [(int(one["id"]), str(one["content"]), bool(one["special"])) for one in found["added_tokens"]]
        stripped = [one for one in found["added_tokens"] if one["lstrip"] or one["rstrip"] or one["single_word"]]
        by_number = {int(number): str(unit) for unit, number in model["vocab"].items()}
        pairs = [one.split(" ") if isinstance(one, str) else one for one in model["merges"]]
        merges = [(str(a), str(b)) for a, b in pairs]
        "".join([*by_number.values(), *(content for _, content, _ in added)]).encode()
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):  # ValueError: half of a character, too
        raise CheckpointError(
            f"{path}: must have vocab, merges and added_tokens, as the library tokenizers saves them, got others; "
            "restore a copy"
        ) from None
    if stripped:
        raise CheckpointError(
            f"{path}: added_tokens must not take spaces around them, got {stripped[0]['content']!r:.40}, which does; "
            "it cannot be represented exactly"
        )
    by_number |= {number: as_letters(content.encode()) for number, content, _ in added}
    options = {"prefixed": before.get("add_prefix_space") is True, "normal": kinds["normalizer"] == "NFC"}
    return by_number, merges, {"whole": [content for _, content, special in added if not special], **options}
