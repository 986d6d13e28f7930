"""A kernel's PTX as a table of instructions over numbered words, for `machine`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

OPERANDS = 14  # of an instruction; the address of a memory access is number ADDRESS
ADDRESS = 4
SPECIAL = [f"%{name}.{axis}" for name in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"]

_SPLIT = re.compile(r"[^,{}\[\]]+|\{[^}]*\}|\[[^\]]*\]")


class PtxError(Exception):
    """PTX that is not understood, or that does what a GPU does not check."""


@dataclass
class Program:
    """Instructions: names, guards [n, 2] (word or -1, negated), operands [n, OPERANDS] (words) and offsets [n], which
    are of addresses, or the target of a branch. A thread's words begin with the special registers and `constants`.
    `parameters`: the bytes of each."""

    name: str
    parameters: tuple[int, ...]
    shared: int
    names: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    guards: list[tuple[int, int]] = field(default_factory=list)
    operands: list[list[int]] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    words: int = 0
    constants: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint64))


def read_program(ptx: str) -> Program:
    """Return the program of PTX that has one entry point."""
    text = re.sub(r"//[^\n]*", "", ptx)
    entry = re.search(r"\.visible \.entry (\w+)\s*\((.*?)\)\s*[^{]*\{(.*)\}", text, re.DOTALL)
    if entry is None or re.search(r"^\s*(\.visible |\.weak )?\.func", text, re.MULTILINE):
        raise PtxError("PTX must have one entry point and no functions")
    kinds = re.findall(r"\.param \.[a-z](\d+)(?: \w+)", entry[2])
    shared, size = {}, 0
    for align, name, count in re.findall(r"\.shared \.align (\d+) \.b8 (\w+)\[(\d*)\]", text):
        size = -(-size // int(align)) * int(align)
        shared[name] = size
        size += int(count or 0)
    return _Reader(entry[1], tuple(int(bits) // 8 for bits in kinds), shared, size).read(entry[3])


class _Reader:
    def __init__(self, name: str, parameters: tuple[int, ...], shared: dict[str, int], size: int) -> None:
        self.program = Program(name, parameters, size)
        self.shared = shared
        self.constants: dict[int, int] = {}
        self.registers: dict[str, int] = {}
        self.labels: dict[str, int] = {}
        self.scopes: list[int] = []  # of inline assembly; their registers are named by the scope's number
        self.opened = 0

    def read(self, body: str) -> Program:
        found = []
        for statement in body.split(";"):
            rest = self._scopes_and_labels(statement.strip(), len(found))
            if rest.startswith(".reg"):
                if self.scopes:
                    self.registers[self._local(rest.split()[-1])] = len(self.registers)
            elif rest and not rest.startswith("."):
                found.append((rest, tuple(self.scopes)))
        for rest, scopes in found:
            self.scopes = list(scopes)
            self._instruction(rest)
        return self._numbered()

    def _scopes_and_labels(self, text: str, number: int) -> str:
        while True:
            if text.startswith("}"):
                self.scopes.pop()
                text = text[1:].lstrip()
            elif re.match(r"\{\s*\.reg", text):
                self.opened += 1
                self.scopes.append(self.opened)
                text = text[1:].lstrip()
            elif label := re.match(r"([$\w]+):", text):
                self.labels[label[1]] = number
                text = text[label.end() :].lstrip()
            else:
                return text

    def _local(self, name: str) -> str:
        return f"{name}@{self.scopes[-1]}"

    def _instruction(self, text: str) -> None:
        guard = re.match(r"@(!?)(%\w+)\s+", text)
        name, _, given = text[guard.end() if guard else 0 :].partition("\t" if "\t" in text else " ")
        name, program = name.strip().removesuffix(".uni"), self.program
        operands = [part.strip() for part in _SPLIT.findall(given) if part.strip()]
        words, offset = self._operands(name, operands)
        if name == "mov.b64" and len(words) == 3:  # two halves
            name += ".split" if given.lstrip().startswith("{") else ".join"
        program.names.append(name)
        program.texts.append(" ".join(text.split()))
        program.guards.append((self._register(guard[2]), int(bool(guard[1]))) if guard else (-1, 0))
        program.operands.append(words + [0] * (OPERANDS - len(words)))
        program.offsets.append(offset)

    def _operands(self, name: str, given: list[str]) -> tuple[list[int], int]:
        if name == "bra":
            return [], self.labels[given[0]]
        if name.startswith("shfl"):
            first, _, second = given[0].partition("|")
            return [self._word(first), self._word(second) if second else -1, *map(self._word, given[1:])], 0
        at = [k for k, one in enumerate(given) if one.startswith("[")]
        if not at:
            return [word for one in given for word in self._words(one)], 0
        base, offset = self._address(given[at[0]])
        values = [word for k, one in enumerate(given) if k != at[0] for word in self._words(one)]
        return [*values, *[0] * (ADDRESS - len(values)), base], offset

    def _address(self, text: str) -> tuple[int, int]:
        base, _, offset = text[1:-1].partition("+")
        if parameter := re.search(r"_param_(\d+)$", base):
            return 0, 8 * int(parameter[1])
        return self._word(base), int(offset or 0)

    def _words(self, text: str) -> list[int]:
        return [self._word(one) for one in text.strip("{}").split(",")]

    def _word(self, text: str) -> int:
        """The number of an operand's word; constants are numbered from -2 down until all are known."""
        text = text.strip()
        if text in SPECIAL:
            return SPECIAL.index(text)
        if text not in self.shared and re.match(r"%|[a-z]\w*$", text):
            return self._register(text)
        if number := re.fullmatch(r"0[fFdD]([0-9A-Fa-f]+)", text):
            value = int(number[1], 16)
        elif text in self.shared:
            value = self.shared[text]
        else:
            value = int(text.rstrip("U"), 0) % (1 << 64)
        return -2 - self.constants.setdefault(value, len(self.constants))

    def _register(self, text: str) -> int:
        if not text.startswith("%"):
            text = self._local(text)
            if text not in self.registers:
                raise PtxError(f"{self.program.name}: {text} is not declared")
        return 1_000_000 + self.registers.setdefault(text, len(self.registers))

    def _numbered(self) -> Program:
        """Words in their order: special registers, constants, registers."""
        program, first = self.program, len(SPECIAL) + len(self.constants)

        def place(word: int) -> int:
            if word >= 1_000_000:
                return word - 1_000_000 + first
            return word if word >= -1 else len(SPECIAL) - 2 - word

        program.operands = [[place(word) for word in words] for words in program.operands]
        program.guards = [(place(word), negated) for word, negated in program.guards]
        program.words = first + len(self.registers)
        program.constants = np.array([0] * len(SPECIAL) + list(self.constants), np.uint64)
        return program
