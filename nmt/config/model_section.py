"""The `model` section: an encoder, an attention decoder and what they share."""

import re
from difflib import get_close_matches
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, WithJsonSchema, model_validator

from nmt.config.section import Fraction, PositiveFloat, PositiveInt, Section

RNN_TYPES = (
    "lstm",
    "gru",
    "gru_reset_before",
    "rnn_tanh",
    "rnn_relu",
    "layer_norm_lstm",
    "layer_norm_gru",
    "mi_lstm",
    "mi_lstm_layer_norm",
    "peephole_lstm",
    "coupled_lstm",
    "projected_lstm",
    "deep_transition_gru",
    "sru",
    "ssru",
    "qrnn",
    "min_gru",
    "min_lstm",
    "slstm",
    "ind_rnn",
    "convolution",
)
_DOTTED = r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$"
RnnType = Annotated[
    str,
    WithJsonSchema({"anyOf": [{"enum": list(RNN_TYPES), "type": "string"}, {"pattern": _DOTTED, "type": "string"}]}),
]
AttentionName = Literal["bahdanau", "dot", "general", "luong", "scaled_dot"]

_RNN_TYPE = (
    "Cell. gru resets after the product with the state (as cuDNN does), gru_reset_before before "
    "it (as in the "
    "paper that introduced it); rnn_tanh and rnn_relu are Elman's; docs/cells.md has the others. "
    "my_cells.MyCell is the class (or function) MyCell(input_size, hidden_size) of my_cells.py, "
    "in the current folder or installed (docs/add-a-cell.md)."
)
_VARIATIONAL = (
    "Draw one dropout mask a sentence and use it at every time step (Gal and Ghahramani 2016), "
    "instead of a new one at each step."
)
_RESIDUAL = "Add each layer's input to its output, from the second layer on."


def _canonical(name: str) -> str:
    """Luong's paper has three scores; the toolkits that say `luong` mean the general one."""
    return "general" if name == "luong" else name


class _Recurrent(Section):
    """What encoder and decoder share."""

    rnn_type: RnnType = Field(default="lstm", description=_RNN_TYPE)

    @model_validator(mode="after")
    def _check_rnn_type(self) -> "_Recurrent":
        if self.rnn_type not in RNN_TYPES and not re.match(_DOTTED, self.rnn_type):
            close = get_close_matches(self.rnn_type.lower(), RNN_TYPES, n=1, cutoff=0.4)
            advice = f"; did you mean {close[0]}?" if close else ""
            raise ValueError(
                f"rnn_type must be one of {', '.join(RNN_TYPES)}, or a dotted path such as my_cells.MyCell, "
                f"got {self.rnn_type!r}{advice}"
            )
        return self


class EmbeddingsConfig(Section):
    """The table that turns a subword into a vector."""

    embedding_dim: PositiveInt = Field(default=256, description="Size of the vector of one subword.")
    dropout: Fraction = Field(default=0.0, description="Share of the embedding's values set to 0 in training.")
    scale: bool = Field(default=False, description="Multiply embeddings by the square root of their size.")


class EncoderConfig(_Recurrent):
    """The network that reads the source sentence."""

    embeddings: EmbeddingsConfig = Field(default_factory=EmbeddingsConfig, description="Source embeddings.")
    hidden_size: PositiveInt = Field(
        default=256,
        description="Size of the state, for each direction: a bidirectional encoder gives twice that.",
    )
    num_layers: PositiveInt = Field(default=1, description="Layers, one on top of the other.")
    bidirectional: bool = Field(default=True, description="Read the sentence from both ends and join the two states.")
    dropout: Fraction = Field(
        default=0.0,
        description="Share of the values set to 0 in training between layers and on the output.",
    )
    variational_dropout: bool = Field(default=False, description=_VARIATIONAL)
    residual: bool = Field(default=False, description=_RESIDUAL)

    @property
    def output_size(self) -> int:
        """Size of the vector that stands for one source position: both directions together."""
        return 2 * self.hidden_size if self.bidirectional else self.hidden_size


class DecoderConfig(_Recurrent):
    """The network that writes the target sentence."""

    embeddings: EmbeddingsConfig = Field(default_factory=EmbeddingsConfig, description="Target embeddings.")
    hidden_size: PositiveInt = Field(default=512, description="Size of the state and of the attention vector.")
    num_layers: PositiveInt = Field(default=1, description="Layers, one on top of the other.")
    dropout: Fraction = Field(
        default=0.0,
        description="Share of the values set to 0 in training between layers and on the output.",
    )
    hidden_dropout: Fraction = Field(
        default=0.0, description="Share of the values set to 0 in training in the attention vector."
    )
    variational_dropout: bool = Field(default=False, description=_VARIATIONAL)
    residual: bool = Field(default=False, description=_RESIDUAL)
    input_feeding: bool = Field(
        default=True,
        description="Give the attention vector of one step to the next as an input (Luong et al. 2015, 3.3).",
    )
    init_hidden: Literal["bridge", "last", "zero"] = Field(
        default="bridge",
        description="First state: a learned layer over the encoder's last state (bridge), that "
        "state as it is "
        "(last; both must have one size), or zeros.",
    )
    attention: Annotated[AttentionName, AfterValidator(_canonical)] = Field(
        default="bahdanau",
        description="Score between the decoder's state and a source position: additive "
        "(bahdanau), their product "
        "(dot), the same over the root of the size (scaled_dot), or with a matrix between them "
        "(general; luong "
        "is another name for it).",
    )
    attention_size: PositiveInt | None = Field(
        default=None,
        description="Size of the layer inside bahdanau attention; null takes hidden_size. Nothing else uses it.",
    )


class ModelConfig(Section):
    """Encoder, decoder, and how both start."""

    tied_embeddings: Literal["none", "softmax", "all"] = Field(
        default="none",
        description="Matrices that are one and the same: target embeddings and output layer "
        "(softmax), "
        "source embeddings too (all; needs joint subwords).",
    )
    initializer: Literal["xavier_uniform", "uniform"] = Field(
        default="xavier_uniform", description="First values of the weights; biases start at 0."
    )
    init_weight: PositiveFloat = Field(
        default=0.1,
        description="With initializer: uniform, weights are drawn between minus this and this.",
    )
    forget_bias: float = Field(
        default=1.0,
        description="First value of the bias of an LSTM's forget gate: above 0 it remembers at first.",
    )
    encoder: EncoderConfig = Field(default_factory=EncoderConfig, description="Reads the source.")
    decoder: DecoderConfig = Field(default_factory=DecoderConfig, description="Writes the target.")

    @model_validator(mode="after")
    def _check_sizes(self) -> "ModelConfig":
        encoder, decoder = self.encoder, self.decoder
        if decoder.attention in ("dot", "scaled_dot") and encoder.output_size != decoder.hidden_size:
            raise ValueError(
                f"decoder.hidden_size must be {encoder.output_size}, the encoder's output size, "
                "with "
                f"attention: {decoder.attention}, got {decoder.hidden_size}; or use attention: "
                "general"
            )
        if decoder.init_hidden == "last" and encoder.output_size != decoder.hidden_size:
            raise ValueError(
                f"decoder.hidden_size must be {encoder.output_size}, the encoder's output size, "
                "with "
                f"init_hidden: last, got {decoder.hidden_size}; or use init_hidden: bridge"
            )
        if decoder.attention_size is not None and decoder.attention != "bahdanau":
            raise ValueError(
                f"decoder.attention_size must be null with attention: {decoder.attention}, got "
                f"{decoder.attention_size}; only bahdanau has a layer of that size"
            )
        return self

    @model_validator(mode="after")
    def _check_ties(self) -> "ModelConfig":
        if self.tied_embeddings == "none":
            return self
        decoder, size = self.decoder, self.decoder.embeddings.embedding_dim
        if size != decoder.hidden_size:
            raise ValueError(
                f"decoder.embeddings.embedding_dim must be {decoder.hidden_size}, as "
                "model.decoder.hidden_size, with "
                f"tied_embeddings: {self.tied_embeddings}, got {size}; or use tied_embeddings: none"
            )
        source = self.encoder.embeddings.embedding_dim
        if self.tied_embeddings == "all" and source != size:
            raise ValueError(
                f"encoder.embeddings.embedding_dim must be {size}, as the decoder's, with "
                f"tied_embeddings: all, got {source}; or use tied_embeddings: softmax"
            )
        return self
