"""Make the cells that the settings describe, among them users' own, named by a dotted path such as `my_cells.MyCell`.

The settings of a model may come from a stranger, and importing runs code: a module named by a model is imported only if
its user has allowed it by name; before that it is not even searched for. The settings of a training run are written by
its user, so their cells are imported without further permission.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module, reload
from types import ModuleType
from typing import Any

from nmt.config import Config, DecoderConfig, EncoderConfig, ModelConfig
from nmt.errors import ConfigError, NMTError, most_like
from nmt.rnn.cell import LOADED_AT, Cell, belongs
from nmt.rnn.cells import (
    Attention,
    AttentionCell,
    ConditionalAttentionCell,
    ConvDecoderLayer,
    ConvEncoderLayer,
    ConvEntryCell,
    ConvMemoryCell,
    ConvOutputCell,
    DropoutCell,
    PointerCell,
    ResidualCell,
    StackCell,
    ZoneoutCell,
)
from nmt.rnn.cells.by_name import CELLS_BY_NAME
from nmt.rnn.compiler.identity import content_of
from nmt.rnn.compiler.trace import trace_step
from nmt.rnn.own_code import make_cell, not_a_maker, own_code

_imported: dict[str, tuple[str, Callable[[int, int], Cell]]] = {}
"""Imported cells by dotted path, with the setting that names each; no other code finds cells by path."""
_equations: dict[str, str] = {}
"""A digest of what the step of each cell that was made computes, by path and sizes."""
_versions: dict[str, tuple[int, int]] = {}
"""The version of the file that each module of cells was imported from, as `_version` returns it."""

_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_PAGE = "see docs/add-a-cell.md"
AFTER_AN_EDIT = "what was learned belongs to the former equations: give the edited cell another name and train it"


def named_cells(config: Config) -> dict[str, str]:
    """Return the dotted paths that the settings name, by their keys."""
    parts = {"encoder": config.model.encoder, "decoder": config.model.decoder}
    return {f"model.{name}.rnn_type": part.rnn_type for name, part in parts.items() if "." in part.rnn_type}


def check_allowed(cells: Any) -> tuple[str, ...]:
    """Return the names of modules that may be imported for a model. Raises ConfigError if `cells` is no such list."""
    is_list = isinstance(cells, list | tuple)
    wrong = [name for name in cells if not isinstance(name, str) or not _NAME.fullmatch(name)] if is_list else [cells]
    if wrong:
        got = f"{wrong[0]!r:.60}"
        raise ConfigError(f"cells: must be a list of names of modules, as my_cells, got {got}; {_PAGE}")
    return tuple(name.removesuffix(".py") for name in cells)


def import_allowed_cells(config: Config, allowed: Sequence[str], where: str) -> None:
    """Import the cells that a model's settings name. Raises ConfigError if a module is not allowed, or cannot be
    imported. `allowed`: names of modules whose cells may be imported, including their submodules; `where`: the file of
    the settings, for the error message."""
    allowed = check_allowed(allowed)
    for key, path in named_cells(config).items():
        if not belongs(path, allowed):
            module = path.rpartition(".")[0]
            raise ConfigError(
                f"{where}: {key} must be a cell of nmt or one whose module you allow ({', '.join(allowed) or 'none'} "
                f"now), got {path}, whose code would run; if you trust {module}, allow it: --cells {module}, in Python "
                f'cells=["{module}"]'
            )
    import_cells(config)


def import_cells(config: Config) -> None:
    """Import the cells that the settings of a training run name. Raises ConfigError if one cannot be imported."""
    for path, key in {path: key for key, path in reversed(named_cells(config).items())}.items():
        import_cell(path, key)


def import_cell(path: str, key: str = "rnn_type") -> None:
    """Import the object at a path such as `my_cells.MyCell` from an installed module or, if there is none, from a file
    in the current folder; a module whose file has changed since it was imported is loaded again. Raises
    ConfigError, which names the setting `key`."""
    module, _, name = path.rpartition(".")
    where, promise = f"{key}: {path}", "must be a cell of a module in the current folder or installed"
    if module == "__main__":
        raise ConfigError(
            f"{where} {promise}, got one of __main__, which no other program can import; write it to a file such as "
            f"my_cells.py, {_PAGE}"
        )
    with _current_folder(), own_code(where, promise, _PAGE, ConfigError):
        is_known, imported = module in sys.modules, import_module(module)
        if is_known and _is_outdated(imported):
            vars(imported).pop(name, None)  # a cell that the file no longer contains must not be found
            imported = reload(imported)
        if (version := _version(imported)) is not None:
            _versions[module] = version
        close = "" if hasattr(imported, name) else _nearest(imported, name)
        found: Any = None if close else getattr(imported, name)
    if close:
        raise ConfigError(
            f"{where} {promise}, got AttributeError: module {module!r} has no attribute {name!r}; did you mean "
            f"{module}.{close}?"
        )
    if (got := not_a_maker(found, module)) is not None:  # the module's own imports are no cells of it
        raise ConfigError(f"{where} must be a class of cells or a function of its module, got {got}; {_PAGE}")
    _imported[path] = key, found


def _nearest(module: ModuleType, name: str) -> str:
    """Return the name of the cell of a module that is most like this one; an empty text if none is."""
    own = [key for key, one in vars(module).items() if getattr(one, "__module__", None) == module.__name__]
    makers = [key for key in own if not_a_maker(vars(module)[key], module.__name__) is None]
    return most_like(name, makers, cutoff=0.7)


def _is_outdated(module: ModuleType) -> bool:
    """Return whether a module's file has changed since it was imported, as in a notebook after an edit; perhaps also
    True the first time for one that its user imported and whose file is younger than the class Cell in this process."""
    now, loaded = _version(module), _versions.get(module.__name__)
    if now is None or (now == loaded if loaded else now[0] <= LOADED_AT):
        return False
    # Python takes the compiled code for that of the new file if both files are as long and of the same second.
    with contextlib.suppress(OSError, TypeError):
        os.unlink(getattr(module, "__cached__", ""))
    return True


def _version(module: ModuleType) -> tuple[int, int] | None:
    """Return the time of change of a module's file and its size; None if it has no file."""
    try:
        found = os.stat(str(getattr(module, "__file__", None)))
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def own_cell(path: str, input_size: int, hidden_size: int) -> Cell:
    """Return the cell that an imported class or function makes, after tracing its step once. Raises ConfigError if it
    was not imported, makes no cell, one of other sizes, or its step does not fit."""
    if path not in _imported:
        raise ConfigError(f"rnn_type: {path} must be imported before it is used, it was not; call import_cells first")
    key, maker = _imported[path]
    where = f"{key}: {path}"
    try:
        cell = make_cell(where, maker, input_size, hidden_size)
    except NMTError as error:
        raise ConfigError(f"{error}; {_PAGE}") from error
    try:
        content = content_of(trace_step(cell, training=True))
    except NMTError as error:
        raise ConfigError(f"{where}: {error}") from error
    _equations[f"{path} {input_size} {hidden_size}"] = hashlib.sha256(repr(content).encode()).hexdigest()[:16]
    sizes = cell.input_size, cell.output_size
    if sizes != (input_size, hidden_size):
        raise ConfigError(
            f"{where} must make a cell of input_size {input_size} and output_size {hidden_size}, got {sizes[0]} and "
            f"{sizes[1]}"
        )
    return cell


def equations_of(config: Config) -> dict[str, str]:
    """Return digests of what the cells that the settings name compute, for a checkpoint; of those made so far."""
    named = set(named_cells(config).values())
    return {key: digest for key, digest in _equations.items() if key.split()[0] in named}


def edited_cells(config: Config, saved: Mapping[str, str]) -> list[str]:
    """Return the paths of cells whose equations differ from those `saved` with a model by `equations_of`."""
    now = equations_of(config)
    return sorted({key.split()[0] for key, digest in saved.items() if now.get(key, digest) != digest})


@contextlib.contextmanager
def _current_folder() -> Iterator[None]:
    """Make modules of the current folder importable inside the context, after all others: a file in the current folder,
    perhaps the folder of a model, never replaces a module of Python or an installed one."""
    try:
        folder = os.getcwd()
    except OSError:  # it was deleted
        yield
        return
    added = "" not in sys.path and folder not in sys.path
    if added:
        sys.path.append(folder)
    try:
        yield
    finally:
        if added and folder in sys.path:
            del sys.path[-1 - sys.path[::-1].index(folder)]  # the last entry, which is ours


def recurrent_cell(rnn_type: str, input_size: int, hidden_size: int) -> Cell:
    """Return the cell of one layer by its name in the settings, or by the dotted path of an imported one (see
    `own_cells`). Raises ConfigError."""
    make = CELLS_BY_NAME.get(rnn_type)
    return make(input_size, hidden_size) if make else own_cell(rnn_type, input_size, hidden_size)


def check_cells(config: Config) -> None:
    """Make the cells that the settings of a training run name, once, so that mistakes in them show before hours are
    spent on the data. Raises ConfigError."""
    import_cells(config)
    encoder_cells(config.model)
    decoder_cell(config.model)


def encoder_cells(config: ModelConfig) -> list[Cell]:
    """Return one cell per layer, for one direction; each layer reads both directions of the layer below. The layers of
    a convolutional encoder are preceded by an input projection and followed by the cell that computes keys and
    values."""
    encoder = config.encoder
    if encoder.type == "conv":
        hidden, embedded = encoder.hidden_size, encoder.embeddings.embedding_dim
        return [
            ConvEntryCell(embedded, hidden, encoder.embeddings.dropout),
            *(
                ConvEncoderLayer(hidden, embedded, encoder.kernel_size, encoder.dropout)
                for _ in range(encoder.num_layers)
            ),
            ConvMemoryCell(hidden, embedded),
        ]
    directions = 2 if encoder.bidirectional else 1
    cells: list[Cell] = []
    for layer in range(encoder.num_layers):
        size = encoder.hidden_size * directions if layer else encoder.input_size
        cell = _regularized(recurrent_cell(encoder.rnn_type, size, encoder.hidden_size), encoder)
        rate = encoder.dropout if layer else encoder.embeddings.dropout
        cells.append(DropoutCell(cell, rate, encoder.variational_dropout) if rate else cell)
    return cells


def decoder_layers(config: ModelConfig) -> list[Cell]:
    """Return one cell per layer, with residual connections and the dropout between layers, without the attention around
    them. The layers of a convolutional decoder contain the attention, and are preceded by an input projection and
    followed by an output projection."""
    decoder = config.decoder
    if decoder.type == "conv":
        encoder, hidden, embedded = config.encoder, decoder.hidden_size, decoder.embeddings.embedding_dim
        attention = Attention(
            decoder.attention, encoder.output_size, embedded, decoder.attention_size or embedded, encoder.key_size
        )
        return [
            ConvEntryCell(embedded, hidden, decoder.embeddings.dropout),
            *(
                ConvDecoderLayer(hidden, attention, decoder.kernel_size, decoder.dropout)
                for _ in range(decoder.num_layers)
            ),
            ConvOutputCell(hidden, embedded, decoder.hidden_dropout),
        ]
    read = decoder.output_size * decoder.input_feeding + config.encoder.output_size * decoder.edit_actions
    input_size, layers = decoder.embeddings.embedding_dim + read, list[Cell]()
    for layer in range(decoder.num_layers):
        size = decoder.hidden_size if layer else input_size
        cell = _regularized(recurrent_cell(decoder.rnn_type, size, decoder.hidden_size), decoder)
        if layer and decoder.residual:
            cell = ResidualCell(cell)
        if layer and decoder.dropout:
            cell = DropoutCell(cell, decoder.dropout, decoder.variational_dropout)
        layers.append(cell)
    return layers


def _regularized(cell: Cell, side: EncoderConfig | DecoderConfig) -> Cell:
    """Return a layer's cell, with zoneout if the settings have it."""
    return ZoneoutCell(cell, side.zoneout) if side.zoneout else cell


def decoder_cell(config: ModelConfig) -> Cell:
    """Return the cell from the target embedding to the input of the output layer: a stack in an attention cell, with
    dropout as configured; or the stack of convolutions."""
    decoder = config.decoder
    if decoder.type == "conv":
        return StackCell(decoder_layers(config))
    layers, make = decoder_layers(config), partial(recurrent_cell, decoder.rnn_type)
    around = (
        partial(ConditionalAttentionCell, layers, make)
        if decoder.conditional
        else partial(AttentionCell, StackCell(layers))
    )
    attention = around(
        config.encoder.output_size,
        decoder.output_size,
        key_size=config.encoder.key_size,
        attention=decoder.attention,
        attention_size=decoder.attention_size,
        heads=decoder.attention_heads,
        bias=decoder.attention_bias,
        projection=config.encoder.projection,
        readout=make if decoder.readout == "recurrent" else decoder.readout,
        input_feeding=decoder.input_feeding,
        dropout=decoder.hidden_dropout,
        words=config.encoder.input_size * decoder.lexical,
        generates=decoder.copy_source,
    )
    rate = decoder.embeddings.dropout
    if decoder.edit_actions:
        return PointerCell(attention, config.encoder.output_size, rate, variational=decoder.variational_dropout)
    return DropoutCell(attention, rate, decoder.variational_dropout) if rate else attention
