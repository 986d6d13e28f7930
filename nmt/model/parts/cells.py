"""Make the cells that the settings describe."""

from functools import partial

from nmt.config import Config, DecoderConfig, EncoderConfig, ModelConfig
from nmt.model.parts.own_cells import import_cells, own_cell
from nmt.rnn.cell import Cell
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
    OutputDropoutCell,
    PointerCell,
    ResidualCell,
    StackCell,
    ZoneoutCell,
)
from nmt.rnn.cells.by_name import CELLS_BY_NAME


def recurrent_cell(rnn_type: str, input_size: int, hidden_size: int) -> Cell:
    """Return the cell of one layer by its name in the settings, or by the dotted path of an imported one (see
    `own_cells`). Raises ConfigError."""
    make = CELLS_BY_NAME.get(rnn_type)
    return make(input_size, hidden_size) if make else own_cell(rnn_type, input_size, hidden_size)


def check_cells(config: Config) -> None:
    """Make the cells that the settings of a training run name, once, so that mistakes in them show before hours are
    spent on the data. Raises ConfigError."""
    import_cells(config)
    if config.task == "lm":
        language_cells(config.model)
    else:
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
    """Return one cell per layer, without the attention around them. The layers of a convolutional decoder contain the
    attention, and are preceded by an input projection and followed by an output projection."""
    decoder = config.decoder
    if decoder.type == "conv":
        encoder, hidden, embedded = config.encoder, decoder.hidden_size, decoder.embeddings.embedding_dim
        attention = Attention(
            decoder.attention,
            encoder.output_size,
            embedded,
            decoder.attention_size or embedded,
            encoder.key_size,
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
    return _layers(decoder, decoder.embeddings.embedding_dim + read)


def language_cells(config: ModelConfig) -> list[Cell]:
    """Return one cell per layer of a language model, with all dropout: on embeddings, between layers and on the
    output."""
    decoder = config.decoder
    cells = _layers(decoder, decoder.embeddings.embedding_dim)
    if rate := decoder.embeddings.dropout:
        cells[0] = DropoutCell(cells[0], rate, decoder.variational_dropout)
    if rate := decoder.hidden_dropout:
        cells[-1] = OutputDropoutCell(cells[-1], rate, decoder.variational_dropout)
    return cells


def _layers(decoder: DecoderConfig, input_size: int) -> list[Cell]:
    """Return stacked cells with residual connections and the dropout between layers."""
    layers: list[Cell] = []
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
