"""JoeyNMT, OpenNMT-py and Marian: the same model in each, from one description; their commands and their logs. And a
Transformer in OpenNMT-py, for CTranslate2.

Each is expected as a Python environment FOLDER/venv-NAME (NAME: onmt, joey, marian).
"""

import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import yaml

from nmt.config import Config

_NEVER = 1_000_000
"""An update that no run gets to."""

# Steps whose end comes sooner after the first report are excluded.
_WARM_SECONDS = 10.0


# We count real target tokens. The others count padding, and the longer side: 4,096 of theirs hold about
# 3,350 of ours (mean of OpenNMT-py's log on Multi30k).
_PADDED, _REAL = 4096, 3350


def padded_tokens(config: Config) -> int:
    """The batch size that gives the others as many real tokens as the configuration asks for."""
    return round(config.training.batch_size * _PADDED / _REAL)


@dataclass(frozen=True)
class Corpus:
    """Training and validation text in subwords (prefix + language), and the vocabulary, one piece a line."""

    folder: Path
    src: str
    tgt: str

    def path(self, part: str, side: str) -> str:
        """The file of `train` or `dev` on side `src` or `tgt`."""
        return str(self.folder / f"{part}.{self.src if side == 'src' else self.tgt}")


@dataclass(frozen=True)
class Speed:
    """Target tokens a second (padding not counted, end of sentence counted) over the steady part of a run."""

    tokens_per_second: float
    updates: int
    seconds: float


class Toolkit:
    """One toolkit in one environment."""

    name = ""
    program = "python"
    environment = {"TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1", "PYTHONUNBUFFERED": "1", "CUDA_VISIBLE_DEVICES": ""}

    def __init__(self, folder: Path) -> None:
        self.path = folder / f"venv-{self.name}" / "bin" / self.program

    @property
    def installed(self) -> bool:
        """Whether its program is there."""
        return self.path.exists()

    def env(self, threads: int) -> dict[str, str]:
        """Environment variables of a run."""
        return self.environment | {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}

    def train_command(
        self, config: Config, corpus: Corpus, work: Path, threads: int, updates: int | None = None
    ) -> list[str]:
        """Write what it wants to read into `work`; the command that trains and reports every update or two, and after
        so many updates (None: never) leaves its model there, at `model_path`."""
        raise NotImplementedError

    def model_path(self, work: Path, updates: int) -> Path:
        """What a run of `train_command` leaves to translate with."""
        raise NotImplementedError

    def windows(self, lines: list[str]) -> list[tuple[float, float, float, int]]:
        """From its log: (when it ended, seconds, tokens, updates) of each stretch between two reports."""
        raise NotImplementedError

    def speed(self, log: str) -> Speed | None:
        """The steady speed in a log; None where it holds too few reports."""
        found = self.windows(log.replace("\r", "\n").splitlines())
        if not found:
            return None
        first = found[0][0] - found[0][1]
        steady = [w for w in found if w[0] >= first + _WARM_SECONDS] or found
        seconds, tokens, updates = (sum(w[i] for w in steady) for i in (1, 2, 3))
        return Speed(tokens / seconds, int(updates), seconds)


def _write(path: Path, content: object) -> str:
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content, allow_unicode=True), "utf-8")
    return str(path)


def _clock(text: str) -> float:
    return datetime.strptime(text, "%Y-%m-%d %H:%M:%S,%f").timestamp()


class OpenNMT(Toolkit):
    """OpenNMT-py 3."""

    name, program = "onmt", "onmt_train"
    _LINE = re.compile(r"\[([\d\- :,]+) INFO\] Step\s+(\d+)/.*bsz:\s*\d+/\s*(\d+)/")

    def train_command(
        self, config: Config, corpus: Corpus, work: Path, threads: int, updates: int | None = None
    ) -> list[str]:
        model, training = config.model, config.training
        encoder, decoder = model.encoder, model.decoder
        pieces = (corpus.folder / "vocab").read_text("utf-8").splitlines()
        vocabulary = _write(work / "vocab.txt", "".join(f"{piece}\t1\n" for piece in pieces))
        texts = {
            name: {
                "path_src": corpus.path(part, "src"),
                "path_tgt": corpus.path(part, "tgt"),
                "transforms": ["filtertoolong"],
            }
            for name, part in (("corpus_1", "train"), ("valid", "dev"))
        }
        settings = {
            "data": texts,
            **dict.fromkeys(("src_vocab", "tgt_vocab"), vocabulary),
            **dict.fromkeys(("src_vocab_size", "tgt_vocab_size"), len(pieces)),
            **dict.fromkeys(("src_seq_length", "tgt_seq_length"), config.data.src.max_length),
            **dict.fromkeys(("train_steps", "save_checkpoint_steps"), updates or _NEVER),
            "valid_steps": _NEVER,
            **dict.fromkeys(("hidden_size", "enc_hid_size", "dec_hid_size"), decoder.hidden_size),
            "save_data": str(work / "data"),
            "save_model": str(work / "model"),
            "overwrite": True,
            "share_vocab": True,
            "vocab_size_multiple": 1,
            "seed": config.seed,
            "report_every": 2,
            "encoder_type": "brnn" if encoder.bidirectional else "rnn",
            "decoder_type": "rnn",
            "rnn_type": encoder.rnn_type.upper(),
            "enc_layers": encoder.num_layers,
            "dec_layers": decoder.num_layers,
            "word_vec_size": encoder.embeddings.embedding_dim,
            "global_attention": "mlp",
            "input_feed": int(decoder.input_feeding),
            "dropout": [0.0],
            "attention_dropout": [0.0],
            "batch_type": "tokens",
            "normalization": "tokens",
            "batch_size": padded_tokens(config),
            "bucket_size": 29000,
            "num_workers": 0,
            "optim": "adam",
            "adam_beta2": training.adam_betas[1],
            "learning_rate": training.learning_rate,
            "model_dtype": "fp32",
            **self._changes(config, updates or _NEVER),
        }
        return [str(self.path), "-config", _write(work / "onmt.yaml", settings)]

    def _changes(self, config: Config, updates: int) -> dict[str, object]:
        """Settings of another kind of model, which is trained for so many updates."""
        return {}

    def model_path(self, work: Path, updates: int) -> Path:
        """See `Toolkit`."""
        return work / f"model_step_{updates}.pt"

    def windows(self, lines: list[str]) -> list[tuple[float, float, float, int]]:
        """Reports give the mean of real target tokens a batch; the clock is that of the log."""
        found = []
        before: tuple[float, int] | None = None
        for line in lines:
            if match := self._LINE.match(line):
                now, update = _clock(match[1]), int(match[2])
                if before is not None:
                    updates = update - before[1]
                    found.append((now, now - before[0], float(match[3]) * updates, updates))
                before = now, update
        return found


class Transformer(OpenNMT):
    """A small Transformer of OpenNMT-py 3, which CTranslate2 can read; its three tables of pieces are one, as ours are.

    What it is trained with was chosen for minutes on a processor: batches of half the size have twice the updates
    (perplexity of Multi30k's dev after four minutes of one thread: 135, with ours 223). The highest rate is printed,
    not
    the factor of "Attention Is All You Need" (section 5.3), which gives a short training, that rises for few updates, a
    rate ten times too high. The model kept is the moving mean of the last thousand updates or so, as the rate does not
    fall to nothing. A third and two thirds of the way are kept too.
    """

    dropout = 0.1
    learning_rate = 1.5e-3
    warmup = 1000

    def _changes(self, config: Config, updates: int) -> dict[str, object]:
        hidden_size = 256
        warmup = max(1, min(self.warmup, updates // 5))
        return {
            **dict.fromkeys(("encoder_type", "decoder_type"), "transformer"),
            **dict.fromkeys(("enc_layers", "dec_layers"), 3),
            **dict.fromkeys(("hidden_size", "enc_hid_size", "dec_hid_size", "word_vec_size"), hidden_size),
            **dict.fromkeys(("share_embeddings", "share_decoder_embeddings"), True),
            "heads": 4,
            "transformer_ff": 1024,
            "position_encoding": True,
            "self_attn_type": "scaled-dot",  # its default names another way to the same, which CTranslate2 refuses
            "global_attention": "general",
            "dropout": [self.dropout],
            "attention_dropout": [self.dropout],
            "label_smoothing": 0.1,
            "adam_beta2": 0.998,
            "decay_method": "noam",
            "learning_rate": self.learning_rate * (hidden_size * warmup) ** 0.5,
            "warmup_steps": warmup,
            "batch_size": padded_tokens(config) // 2,
            "average_decay": 5e-3,
            "average_every": 5,
            "save_checkpoint_steps": -(-updates // 3),
            "param_init": 0,
            "param_init_glorot": True,
        }


class Joey(Toolkit):
    """JoeyNMT 2."""

    name = "joey"
    _LINE = re.compile(r"([\d\- :,]+) - INFO - joeynmt.training - (.*)")
    _STEP = re.compile(r"Epoch\s+\d+, Step:\s*(\d+),.*Tokens per Sec:\s*(\d+)")

    def train_command(
        self, config: Config, corpus: Corpus, work: Path, threads: int, updates: int | None = None
    ) -> list[str]:
        model, training = config.model, config.training
        pieces = (corpus.folder / "vocab").read_text("utf-8").splitlines()
        special = {"<unk>", "<s>", "</s>", "<pad>"}
        vocabulary = _write(work / "vocab.txt", "".join(f"{piece}\n" for piece in pieces if piece not in special))

        def side(lang: str) -> dict[str, object]:
            return {
                "lang": lang,
                "level": "word",
                "lowercase": False,
                "max_length": config.data.src.max_length,
                "voc_file": vocabulary,
                "tokenizer_type": "basic",
            }

        def part(section: object, embedding_dim: int, hidden_size: int, **more: object) -> dict[str, object]:
            return {
                "type": "recurrent",
                "rnn_type": getattr(section, "rnn_type", "lstm"),
                "embeddings": {"embedding_dim": embedding_dim, "scale": False, "dropout": 0.0},
                "hidden_size": hidden_size,
                "num_layers": getattr(section, "num_layers", 1),
                "dropout": 0.0,
                **more,
            }

        encoder, decoder = model.encoder, model.decoder
        settings = {
            "name": "speed",
            "joeynmt_version": "2.3.0",
            "model_dir": str(work / "model"),
            "use_cuda": False,
            "fp16": False,
            "random_seed": config.seed,
            "data": {
                "train": str(corpus.folder / "train"),
                "dev": str(corpus.folder / "dev"),
                "dataset_type": "plain",
                "src": side(corpus.src),
                "trg": side(corpus.tgt),
            },
            "testing": {"batch_size": 64, "batch_type": "sentence", "max_output_length": 100, "beam_size": 1},
            "training": {
                "optimizer": "adam",
                "adam_betas": list(training.adam_betas),
                "learning_rate": training.learning_rate,
                "scheduling": "exponential",  # a constant rate; its "plateau" does not run with PyTorch 2.7 and later
                "decrease_factor": 1.0,
                "clip_grad_norm": 1.0,
                "normalization": "tokens",
                "loss": "crossentropy",
                "label_smoothing": training.label_smoothing,
                "batch_size": padded_tokens(config),
                "batch_type": "token",
                "early_stopping_metric": "ppl",
                "epochs": 1000,
                "updates": updates or _NEVER,
                "validation_freq": updates or _NEVER,
                "logging_freq": 1,
                "shuffle": True,
            },
            "model": {
                "initializer": "xavier_uniform",
                "embed_initializer": "xavier_uniform",
                "bias_initializer": "zeros",
                "tied_embeddings": False,
                "tied_softmax": False,
                "encoder": part(
                    encoder, encoder.embeddings.embedding_dim, encoder.hidden_size, bidirectional=encoder.bidirectional
                ),
                "decoder": part(
                    decoder,
                    decoder.embeddings.embedding_dim,
                    decoder.hidden_size,
                    hidden_dropout=0.0,
                    attention=decoder.attention,
                    init_hidden=decoder.init_hidden,
                    input_feeding=decoder.input_feeding,
                ),
            },
        }
        return [str(self.path), "-m", "joeynmt", "train", _write(work / "joey.yaml", settings), "-t"]

    def model_path(self, work: Path, updates: int) -> Path:
        """See `Toolkit`; its configuration, which names the folder of the model."""
        return work / "joey.yaml"

    def windows(self, lines: list[str]) -> list[tuple[float, float, float, int]]:
        """Reports give real target tokens a second of their stretch; one with an epoch's start is excluded."""
        found = []
        before: tuple[float, int] | None = None
        for line in lines:
            match = self._LINE.match(line)
            if not match:
                continue
            step = self._STEP.match(match[2])
            if not step:
                before = None
                continue
            now, update = _clock(match[1]), int(step[1])
            if before is not None and now > before[0]:
                seconds = now - before[0]
                found.append((now, seconds, float(step[2]) * seconds, update - before[1]))
            before = now, update
        return found


class Marian(Toolkit):
    """Marian 1.12, as `pymarian`."""

    name, program = "marian", "pymarian"
    _LINE = re.compile(r".*Up\. (\d+) .*?Time ([\d.]+)s : ([\d.]+) words/s")

    def train_command(
        self, config: Config, corpus: Corpus, work: Path, threads: int, updates: int | None = None
    ) -> list[str]:
        model, training = config.model, config.training
        encoder, decoder = model.encoder, model.decoder
        pieces = (corpus.folder / "vocab").read_text("utf-8").splitlines()
        special = ["</s>", "<unk>"]
        ordered = special + [piece for piece in pieces if piece not in {*special, "<s>", "<pad>"}]
        ids = {piece: number for number, piece in enumerate(ordered)}
        vocabulary = _write(work / "vocab.yml", yaml.safe_dump(ids, allow_unicode=True, sort_keys=False))
        options: dict[str, list[object]] = {
            "type": ["s2s"],
            "model": [work / "model.npz"],
            "overwrite": [],
            "train-sets": [corpus.path("train", "src"), corpus.path("train", "tgt")],
            "vocabs": [vocabulary, vocabulary],
            "dim-vocabs": [len(ids), len(ids)],
            "dim-emb": [encoder.embeddings.embedding_dim],
            "dim-rnn": [decoder.hidden_size],
            "enc-type": ["bidirectional"],
            "enc-cell": [encoder.rnn_type],
            "dec-cell": [decoder.rnn_type],
            "enc-depth": [encoder.num_layers],
            "dec-depth": [decoder.num_layers],
            "max-length": [config.data.src.max_length],
            "mini-batch-words": [padded_tokens(config)],
            "maxi-batch": [100],
            "maxi-batch-sort": ["trg"],
            "learn-rate": [training.learning_rate],
            "cost-type": ["ce-mean-words"],
            "clip-norm": [1],
            "seed": [config.seed],
            "cpu-threads": [threads],
            "workspace": [3000],
            "disp-freq": [1],
            "save-freq": [f"{_NEVER}u"],
            "after": [f"{updates or _NEVER}u"],
            "sync-sgd": [],
        }
        words = [str(word) for name, values in options.items() for word in (f"--{name}", *values)]
        return [str(self.path), "train", *words]

    def model_path(self, work: Path, updates: int) -> Path:
        """See `Toolkit`."""
        return work / "model.npz"

    def windows(self, lines: list[str]) -> list[tuple[float, float, float, int]]:
        """Each line gives the seconds since the one before, and target words a second of them."""
        found, now, before = [], 0.0, 0
        for line in lines:
            if match := self._LINE.match(line):
                update, seconds, rate = int(match[1]), float(match[2]), float(match[3])
                now += seconds
                if before:
                    found.append((now, seconds, rate * seconds, update - before))
                before = update
        return found


TOOLKITS: dict[str, type[Toolkit]] = {kind.name: kind for kind in (OpenNMT, Joey, Marian)}

PEERS: dict[str, type[Toolkit]] = TOOLKITS | {"transformer": Transformer}
"""What translates for comparison."""
