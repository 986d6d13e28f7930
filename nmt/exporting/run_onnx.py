"""A translation model in ONNX: `encoder.onnx`, `decoder.onnx`, `model.json`, and this file. It needs only NumPy and
ONNX Runtime.

    echo "a b c" | python run_onnx.py      # tokens of the source, separated by spaces, to tokens of the target
    python run_onnx.py --text < test.de    # text to text; this needs the library sentencepiece too

encoder.onnx takes tokens [S, B] and lengths [B], and returns `keys` and `values` for attention and the decoder's first
states; states that it does not return start at zero. decoder.onnx takes the last tokens [B] and the states, and returns
the log-probabilities [B, V] of the next tokens and the new states.
"""

import argparse
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

PAD, UNK, BOS, EOS = 0, 1, 2, 3
BEFORE_AND_AFTER: dict[str, tuple[list[int], list[int]]] = {
    "eos": ([], [EOS]),
    "bos_eos": ([BOS], [EOS]),
    "none": ([], []),
}


class Model:
    """Both graphs, and the settings that say how to use them."""

    def __init__(self, folder: str | Path, threads: int = 0) -> None:
        """Load a model. folder: The folder of the files. threads: 0 lets ONNX Runtime choose."""
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        made = [onnxruntime.InferenceSession(str(Path(folder) / f"{name}.onnx"), options) for name in _GRAPHS]
        self.encoder, self.decoder = made
        self.encoder_outputs = [output.name for output in self.encoder.get_outputs()]
        self.decoder_outputs = [output.name for output in self.decoder.get_outputs()]
        self.decoder_inputs = {given.name for given in self.decoder.get_inputs()}
        about = json.loads((Path(folder) / "model.json").read_text("utf-8"))
        self.settings: dict[str, Any] = about["model"]
        self.units: dict[str, list[str]] = about["units"]
        self.most: dict[str, float] = about["longest"]
        self.states: dict[str, int] = about["states"]
        self.never = [PAD, BOS] if about["generate_unk"] else [PAD, UNK, BOS]

    def start(self, sources: list[list[int]]) -> dict[str, np.ndarray]:
        """Return the decoder's inputs for its first step, for a batch of source tokens."""
        before, after = BEFORE_AND_AFTER[self.settings["encoder"]["boundaries"]]
        rows = [[*before, *source, *after] for source in sources]
        lengths = np.array([len(row) for row in rows], np.int32)
        tokens = np.full((max(1, lengths.max(initial=1)), len(rows)), PAD, np.int64)
        for b, row in enumerate(rows):
            tokens[: len(row), b] = row
        outputs = self.encoder.run(None, {"tokens": tokens, "lengths": lengths})
        given = {f"state.{name}": np.zeros((len(rows), size), np.float32) for name, size in self.states.items()}
        given |= dict(zip(self.encoder_outputs, outputs, strict=True)) | {"lengths": lengths}
        return {name: value for name, value in given.items() if name in self.decoder_inputs}

    def step(self, tokens: np.ndarray, given: dict[str, np.ndarray]) -> np.ndarray:
        """Return the log-probabilities [B, V] of the tokens after `tokens` [B]; `given` is updated."""
        outputs = dict(zip(self.decoder_outputs, self.decoder.run(None, {"token": tokens} | given), strict=True))
        given.update({name.replace("next.", "state."): value for name, value in outputs.items() if "next." in name})
        return np.asarray(outputs["log_probs"])

    def score(self, source: list[int], target: list[int]) -> list[float]:
        """Return the log-probability of each token of a given target, and of its EOS."""
        given, found = self.start([source]), []
        for before, token in zip([BOS, *target], [*target, EOS], strict=True):
            found.append(float(self.step(np.array([before]), given)[0, token]))
        return found

    def translate(self, sources: list[list[int]]) -> list[list[int]]:
        """Return the targets of greedy search; padding and BOS are never produced, nor is the unknown token if the
        settings exclude it."""
        given, last = self.start(sources), np.full(len(sources), BOS)
        limits = [int(self.most["ratio"] * len(source)) + int(self.most["extra"]) for source in sources]
        said: list[list[int]] = [[] for _ in sources]
        running = [limit > 0 for limit in limits]
        while any(running):
            log_probs = self.step(last, given)
            log_probs[:, self.never] = -np.inf
            last = log_probs.argmax(axis=1)
            for b, token in enumerate(last.tolist()):
                if running[b] and token != EOS:
                    said[b].append(token)
                running[b] = running[b] and token != EOS and len(said[b]) < limits[b]
        return said


_GRAPHS = ("encoder", "decoder")


def _processor(side: str) -> Any:
    """Return the subwords of a side, read by the library sentencepiece."""
    import sentencepiece

    folder = Path(__file__).parent
    joint = folder / "joint.spm"
    return sentencepiece.SentencePieceProcessor(model_file=str(joint if joint.exists() else folder / f"{side}.spm"))


def main() -> None:
    """Translate lines from standard input: of tokens, or with --text of text."""
    parser = argparse.ArgumentParser(description="Translate lines from standard input, greedily.")
    parser.add_argument("--text", action="store_true", help="lines are text, not tokens; needs sentencepiece")
    is_text = parser.parse_args().text
    for library in ["onnxruntime", *(["sentencepiece"] if is_text else [])]:
        if importlib.util.find_spec(library) is None:
            sys.exit(f"run_onnx.py: needs the library {library}: pip install {library}")
    streams: list[Any] = [sys.stdin, sys.stdout, sys.stderr]
    for stream in streams:
        stream.reconfigure(encoding="utf-8", newline="\n")  # Windows has another code page, and other ends of lines
    model = Model(Path(__file__).parent)
    places = {unit: n for n, unit in enumerate(model.units["src"])}
    read, write = map(_processor, ("src", "tgt")) if is_text else (None, None)
    for line in sys.stdin:
        if read is not None and write is not None:
            tokens = [places.get(piece, UNK) for piece in read.encode(line.rstrip("\r\n"), out_type=str)]
            said = model.translate([tokens])[0] if tokens else []
            print(write.decode([model.units["tgt"][token] for token in said]))
            continue
        units = [unit for unit in line.rstrip("\r\n").split(" ") if unit]  # other white space may be part of a token
        if sum(unit not in places for unit in units) * 2 > len(units):
            print(
                f"warning: few subwords of the model in {line.strip()!r}; give --text to translate text",
                file=sys.stderr,
            )
        tokens = [places.get(unit, UNK) for unit in units]
        print(" ".join(model.units["tgt"][token] for token in model.translate([tokens])[0]) if tokens else "")


if __name__ == "__main__":
    main()
