"""Print the number of lines of each folder of nmt, and its BUDGET, which tests/test_sizes.py enforces; `make size`."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

BUDGET = {
    "cli": 4919,  # 50 for texts in a sweep, 250 for names of other toolkits, 70 for variables and sizes of the server,
    # 14 warnings in one line, 6 that it needs Linux, 5 for threads that the system does not give, 5 a model inside a
    # library for C
    "config": 2911,  # 20 stacks of published language models; 150 are the table of names in other toolkits, 30 settings
    # for few sentences and for copying
    # and 10 for edit actions
    "data": 4515,  # 170 tokens of bytes; 173 are the edits that are learned from words; 185 the alignments that are
    # learned from sentences
    "decode": 2599,
    "doctor": 766,
    "documents": 3571,  # 500 for attributes of HTML, WebVTT, PPTX, OpenDocument, EPUB and Markdown, 9 for spaces before
    # code at the end of emphasis
    "evaluate": 711,  # 60 for the sets of sacrebleu, 30 chrF of all pairs of candidates, 20 to check the arguments of
    # nmt.evaluate
    "exporting": 2707,  # 1,050 for the web: description of a model, linker of WebAssembly, page and module; 35 the
    # lexical output model; 650 for C: the description as tables, tables of Unicode and subwords, building for levels;
    # 370 a cell as a library for C, with what it shares with that of a translation model, and a model inside one;
    # 10 lower-casing in C, 9 that a page reads its model faster
    "importing": 2700,  # 500 language models of transformers and fla
    "inference": 1922,  # 10 words without features, 20 refuse what edit actions lack, 140 are Pivot, two
    # models in a row; 30 streams and saving
    "learning": 1405,  # a memory, TMX, learning of single pairs, projects and the rule that guards them; 90 learn all
    # pairs together in idle time
    "model": 3148,  # 150 are edit actions, 230 copying of source tokens, 40 the lexical output
    # model, 40 cells whose
    # file was edited, 16 matrices of their states, 17 a warning after their edit, 24 models that share parameters and
    # are freed, 22 memory that blocks of a search share and probes that are made once
    "precompile": 296,  # 3 the preset of few sentences
    "report": 486,
    "rnn": 28056,  # 40 that tokens are sorted by buckets, 11 divisions of layers as their benchmark chooses them;
    # 240 stacks of Mamba, RWKV-7, GLA and gated DeltaNet;
    # 30 levels of Arm, 50 the pointer, 50 for the level wasm, 50 the
    # gate of copying and logits by
    # chunks, 50 for edited cells, 700 states with named axes and their checkpoints, 800 twelve recurrences with their
    # blocks, 100 matrix states that a search reads by index, 150 for threads, recordings and dropout on a GPU, 200 for
    # turns at groups of rows and weights in shared memory there, 30 for blocks of K with AMX, 45 for products of one
    # row, 145 that an update costs a GPU's host less, 38 that it costs Python less, 92 loops
    # over heads, 220 rounding to 4 bits as a kernel and products that read 4 bits,
    # 5 folders of cells
    "serve": 5080,  # 350 are learning from corrections, half of them routes; 100 pairs of models and a cache; 10
    # reloads that fail; 30 languages that the detector does not know; 200 for operators;
    # 20 sentences that are delivered together
    "storage": 1472,  # 20 bfloat16 in files of others; 90 for matrices in 4 bits
    "system": 1309,  # 10 for help(nmt.train), 3 for folders that Windows does not flush
    "torch": 763,  # the core as modules of PyTorch: LSTM, GRU, RNN and own cells
    "train": 7467,  # 22 a text that a run with a budget reads and learns from once; 4 no update in the time;
    # 18 errors of ranks that are read;
    # 190 for nmt.train, texts without a config and the loggers, 150 for folders and texts of other
    # runs, 15 for edits as targets, 70 for short validations and budgets, 80 to keep the validation text of a run, 30
    # for several grids in one folder and texts that moved, 50 updates aware of quantization
    "(top)": 648,  # the table of search settings, which config, decode, inference and cli shared out before
}
"""Most lines of each folder of nmt, comments, docstrings and blank lines counted. Raise one only with its reason."""


def lines_by_room() -> dict[str, int]:
    """Return the lines of Python in each folder of nmt; files outside the folders are `(top)`."""
    found: dict[str, int] = {}
    for path in sorted((ROOT / "nmt").rglob("*.py")):
        parts = path.relative_to(ROOT / "nmt").parts
        room = parts[0] if len(parts) > 1 else "(top)"
        found[room] = found.get(room, 0) + path.read_bytes().count(b"\n")
    return found


def main() -> None:
    """Print the table."""
    found = lines_by_room()
    for room, count in sorted(found.items(), key=lambda one: -one[1]):
        print(f"{room:12}{count:8,} of {BUDGET.get(room, 0):7,}")
    print(f"{'nmt':12}{sum(found.values()):8,} of {sum(BUDGET.values()):7,}")


if __name__ == "__main__":
    main()
