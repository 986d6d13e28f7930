"""From settings to cells."""

from nmt.config import ModelConfig
from nmt.rnn.cell import Cell
from nmt.rnn.cells import AttentionCell, DropoutCell, ElmanCell, GRUCell, LSTMCell, ResidualCell, StackCell


def recurrent_cell(rnn_type: str, input_size: int, hidden_size: int) -> Cell:
    """One layer's cell by its name in the settings."""
    match rnn_type:
        case "lstm":
            return LSTMCell(input_size, hidden_size)
        case "gru" | "gru_reset_before":
            return GRUCell(input_size, hidden_size, reset_after=rnn_type == "gru")
        case "rnn_tanh" | "rnn_relu":
            return ElmanCell(input_size, hidden_size, nonlinearity=rnn_type.removeprefix("rnn_"))
    raise ValueError(f"rnn_type must be a known cell, got {rnn_type}")


def encoder_cells(config: ModelConfig) -> list[Cell]:
    """One cell a layer, for one direction; layer above layer reads both directions of the one below."""
    encoder = config.encoder
    directions = 2 if encoder.bidirectional else 1
    cells: list[Cell] = []
    for layer in range(encoder.num_layers):
        size = encoder.hidden_size * directions if layer else encoder.embeddings.embedding_dim
        cell = recurrent_cell(encoder.rnn_type, size, encoder.hidden_size)
        rate = encoder.dropout if layer else encoder.embeddings.dropout
        cells.append(DropoutCell(cell, rate, encoder.variational_dropout) if rate else cell)
    return cells


def memory_size(config: ModelConfig) -> int:
    """Width of the encoder's output."""
    return config.encoder.hidden_size * (2 if config.encoder.bidirectional else 1)


def decoder_cell(config: ModelConfig) -> Cell:
    """Embedding to attentional vector: a stack in an attention cell, with dropout where the settings say."""
    decoder = config.decoder
    hidden, embedded = decoder.hidden_size, decoder.embeddings.embedding_dim
    layers: list[Cell] = []
    for layer in range(decoder.num_layers):
        size = hidden if layer else embedded + hidden * decoder.input_feeding
        cell = recurrent_cell(decoder.rnn_type, size, hidden)
        if layer and decoder.residual:
            cell = ResidualCell(cell)
        if layer and decoder.dropout:
            cell = DropoutCell(cell, decoder.dropout, decoder.variational_dropout)
        layers.append(cell)
    attention = AttentionCell(
        StackCell(layers),
        memory_size(config),
        hidden,
        attention=decoder.attention,
        attention_size=decoder.attention_size,
        input_feeding=decoder.input_feeding,
        dropout=decoder.hidden_dropout,
    )
    rate = decoder.embeddings.dropout
    return DropoutCell(attention, rate, decoder.variational_dropout) if rate else attention
