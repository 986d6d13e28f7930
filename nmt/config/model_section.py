"""The `model` section: encoder, attention decoder, and what they share."""

import json
import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, WithJsonSchema

from nmt.config.section import AnyFloat, Fraction, PositiveFloat, Section, Width, require
from nmt.errors import most_like

Layers = Annotated[int, Field(ge=1, le=1000)]
Positions = Annotated[int, Field(ge=1, le=1_000_000)]

RNN_TYPES = """lstm gru gru_reset_before rnn_tanh rnn_relu layer_norm_lstm layer_norm_gru mi_lstm mi_lstm_layer_norm
    peephole_lstm coupled_lstm projected_lstm deep_transition_gru sru ssru qrnn min_gru min_lstm slstm ind_rnn
    convolution lrn hawk mamba linear_attention retnet gla hgrn2 gated_delta_net kda mlstm rwkv7""".split()
_DOTTED = r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$"
RnnType = Annotated[
    str, WithJsonSchema({"anyOf": [{"enum": RNN_TYPES, "type": "string"}, {"pattern": _DOTTED, "type": "string"}]})
]
RECURRENT_ONLY = """rnn_type bidirectional variational_dropout residual projection input_feeding init_hidden zoneout
    init_from bridge_activation conditional attention_heads attention_bias readout readout_size lexical copy_source
    edit_actions""".split()
"""Settings of an encoder or decoder that have a meaning only with type: recurrent."""
CONV_ONLY = ("kernel_size", "max_positions")
"""Settings of an encoder or decoder that have a meaning only with type: conv."""
AttentionName = Annotated[
    Literal["bahdanau", "dot", "general", "luong", "scaled_dot", "multi_head", "none"],
    AfterValidator(lambda name: "general" if name == "luong" else name),  # other toolkits call Luong's general one so
]

_VARIATIONAL = (
    "Draw one dropout mask a sentence and use it at every time step (Gal and Ghahramani 2016), "
    "instead of a new one at each step."
)
_RESIDUAL = "Add each layer's input to its output, from the second layer on."
_KERNEL_SIZE = "With type: conv, how many positions a convolution reads{}."
_MAX_POSITIONS = "With type: conv, positions that have a learned vector; those beyond share the last one's."


class _Side(Section):
    """Settings that encoder and decoder share."""

    type: Literal["recurrent", "conv"] = "recurrent"
    """recurrent, or conv: gated convolutions with residuals and learned positions (Gehring et al. 2017, ConvS2S;
    docs/cells.md). With conv the settings of recurrent networks alone keep their defaults."""
    rnn_type: RnnType = "lstm"
    """Cell. gru resets after the product with the state (as cuDNN does), gru_reset_before before it (as in the paper
    that introduced it). rnn_tanh and rnn_relu are Elman's. docs/cells.md has the others. my_cells.MyCell is the class
    (or function) MyCell(input_size, hidden_size) of my_cells.py, in the current folder or installed. To use such a
    model, allow the module by --cells my_cells (docs/add-a-cell.md)."""

    zoneout: Fraction = 0.0
    """Probability with which a hidden unit keeps its previous value at a training step; afterwards the expectation is
    used (Krueger et al. 2017: 0.05 to 0.15)."""

    def _check_type(self) -> None:
        """Raise ValueError if a setting that belongs to the other type is not at its default."""
        other = {"conv": RECURRENT_ONLY, "recurrent": CONV_ONLY}[self.type]
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if name in other and value != field.default:
                raise ValueError(
                    f"{name} must be left at its default, {json.dumps(field.default)}, with type: {self.type}, "
                    f"which does not use it, got {json.dumps(value)}"
                )

    def _check_rnn_type(self) -> None:
        """Raise ValueError if the cell is neither a known one nor a dotted path to a custom one."""
        if self.rnn_type not in RNN_TYPES and not re.match(_DOTTED, self.rnn_type):
            meant = self.rnn_type.replace(".py:", ".")
            close = meant if re.match(_DOTTED, meant) else most_like(meant.lower(), RNN_TYPES, cutoff=0.4)
            advice = f"did you mean {close}?" if close else f"names: {', '.join(RNN_TYPES)}"
            raise ValueError(
                f"rnn_type must be the name of a cell, or a dotted path such as my_cells.MyCell, got "
                f"{self.rnn_type!r}; {advice}"
            )


class EmbeddingsConfig(Section):
    """The table that turns a subword into a vector."""

    embedding_dim: Width = 256
    """Size of the vector of one subword."""
    dropout: Fraction = 0.0
    """Share of the embedding's values set to 0 in training."""
    scale: bool = False
    """Multiply embeddings by the square root of their size."""


class EncoderConfig(_Side):
    """The network that reads the source sentence."""

    embeddings: EmbeddingsConfig = Field(default_factory=EmbeddingsConfig)
    """Source embeddings."""
    hidden_size: Width = 256
    """Size of the state, for each direction: a bidirectional encoder gives twice that; or of the layers with type:
    conv."""
    num_layers: Layers = 1
    """Layers, one on top of the other."""
    bidirectional: bool = True
    """Read the sentence from both ends and join the two states."""
    dropout: Fraction = 0.0
    """Share of the values set to 0 in training between layers and on the output."""
    variational_dropout: bool = Field(default=False, description=_VARIATIONAL)
    residual: bool = Field(default=False, description=_RESIDUAL)
    boundaries: Literal["eos", "bos_eos", "none"] = "eos"
    """Tokens read in addition to the subwords: the end token after them (eos), also a begin token before them
    (bos_eos), or none. Only imported models need another value than eos."""
    projection: Width | None = None
    """Size of a layer, tanh(W y + b), between the last outputs and attention; null for none."""
    factors: tuple[Width, ...] = Field(default=(), strict=False)
    """Sizes of the vectors of data.src_factors, in their order; they are concatenated with that of the subword."""
    kernel_size: Layers = Field(default=3, description=_KERNEL_SIZE.format(", with itself in the middle: odd"))
    max_positions: Positions = Field(default=512, description=_MAX_POSITIONS)

    @property
    def input_size(self) -> int:
        """Return the size of the first layer's input per source position: vectors of the subword and factors."""
        return self.embeddings.embedding_dim + sum(self.factors)

    @property
    def output_size(self) -> int:
        """Return the size of the output per source position: both directions, or a convolution's key and value."""
        if self.type == "conv":
            return 2 * self.embeddings.embedding_dim
        return 2 * self.hidden_size if self.bidirectional else self.hidden_size

    @property
    def key_size(self) -> int | None:
        """Return the part of the output that is the key for attention; None if key and value are the same."""
        return self.embeddings.embedding_dim if self.type == "conv" else None

    def _check_kernel_size(self) -> None:
        if self.kernel_size % 2 == 0:
            raise ValueError(f"kernel_size must be odd, to have a middle, got {self.kernel_size}")


class DecoderConfig(_Side):
    """The network that writes the target sentence."""

    embeddings: EmbeddingsConfig = Field(default_factory=EmbeddingsConfig)
    """Target embeddings."""
    hidden_size: Width = 512
    """Size of the state, or of the layers with type: conv, and of the output layer's input."""
    num_layers: Layers = 1
    """Layers, one on top of the other."""
    dropout: Fraction = 0.0
    """Share of the values set to 0 in training between layers and on the output."""
    hidden_dropout: Fraction = 0.0
    """Share of the values set to 0 in training in the output layer's input."""
    variational_dropout: bool = Field(default=False, description=_VARIATIONAL)
    residual: bool = Field(default=False, description=_RESIDUAL)
    kernel_size: Layers = Field(default=3, description=_KERNEL_SIZE.format(": its own and those before"))
    max_positions: Positions = Field(default=512, description=_MAX_POSITIONS)
    input_feeding: bool = True
    """Give the attention vector of one step to the next as an input (Luong et al. 2015, 3.3)."""
    init_hidden: Literal["bridge", "last", "zero"] = "bridge"
    """First state: a learned layer over the encoder's last state (bridge), that state as it is (last; both must have
    one size), or zeros."""
    init_from: Literal["namesake", "top", "mean"] = "namesake"
    """The state of the encoder for init_hidden. namesake: for each state the one of the same layer and kind. top: h of
    the encoder's last layer for all. mean: the mean of the encoder's outputs for all (Sennrich et al. 2017)."""
    bridge_activation: Literal["tanh", "linear"] = "tanh"
    """With init_hidden: bridge, the activation of the learned layer."""
    attention: AttentionName = "bahdanau"
    """Score between the decoder's state and a source position: additive (bahdanau), dot product (dot), dot product
    divided by the root of the size (scaled_dot), or bilinear (general; luong is another name for it). multi_head is
    scaled_dot in several heads with layers around them. none is no attention at all: the decoder only has its first
    state from the source, and input_feeding gives it its last output."""
    attention_size: Width | None = None
    """Size of the layer inside bahdanau attention, or of all heads in total; null takes the size of the query. No
    effect otherwise."""
    attention_heads: Layers = 1
    """Heads of multi_head attention."""
    attention_bias: bool = False
    """Whether bahdanau attention adds a bias to the query. multi_head has its biases."""
    lexical: bool = False
    """Lexical output model (Nguyen and Chiang 2018, section 4): the embeddings of the source subwords, weighted by
    attention, also reach the output layer, by a layer of their own. For rare words and little text."""
    conditional: bool = False
    """Attend inside the step of the first layer: one cell reads the last subword, attention uses its state, and a
    second cell continues from that state and reads the context (Sennrich et al. 2017, Nematus, conditional GRU)."""
    readout: Literal["tanh", "linear", "recurrent", "deep"] = "tanh"
    """Input of the output layer. tanh: a layer over the context and the decoder's state (Luong et al. 2015, 3.1).
    linear: the same without tanh. recurrent: another recurrent layer of rnn_type above both. deep: a layer of the
    embedding's size with tanh, over both and the embedding of the last subword (Pascanu et al. 2014)."""
    readout_size: Width | None = None
    """Size of the output layer's input, with readout: tanh, linear or deep; null takes hidden_size, or the embedding's
    size with deep."""

    copy_source: bool = False
    """Whether a token can also be copied from the source, by attention: a learned gate mixes both distributions
    (pointer-generator, See et al. 2017, section 2.2). For words and names, where much of the source is kept; needs
    data.subwords.joint: true. Only on the CPU."""

    edit_actions: bool = False
    """Write the target by edit actions on the source, from first token to last: copy, replace or delete the token at a
    pointer, or insert one before it (neural transducer, Makarov and Clematide 2018, 2020). The decoder reads the
    encoder's output at the pointer (hard monotonic attention, Aharoni and Goldberg 2017). For words: pronunciation,
    inflection, spelling; needs data.subwords.joint: true. Only on the CPU."""

    @property
    def query_size(self) -> int:
        """Return the size of the attention query: the state or, with type: conv, an embedding."""
        return self.embeddings.embedding_dim if self.type == "conv" else self.hidden_size

    @property
    def output_size(self) -> int:
        """Return the size of the output layer's input."""
        size = self.embeddings.embedding_dim if self.readout == "deep" else self.hidden_size
        return self.readout_size or size


class ModelConfig(Section):
    """Encoder, decoder, and how both start."""

    tied_embeddings: Literal["none", "softmax", "all"] = "none"
    """Shared matrices: target embeddings and output layer (softmax), source embeddings too (all; needs joint
    subwords)."""
    initializer: Literal["xavier_uniform", "uniform"] = "xavier_uniform"
    """Initialisation of the weights; biases start at 0."""
    init_weight: PositiveFloat = 0.1
    """With initializer: uniform, weights are drawn between minus this and this."""
    forget_bias: AnyFloat = 1.0
    """Initial bias of an LSTM's forget gate: above 0 it remembers at first."""
    encoder: EncoderConfig = Field(default_factory=EncoderConfig)
    """Reads the source."""
    decoder: DecoderConfig = Field(default_factory=DecoderConfig)
    """Writes the target."""

    def _check_sizes(self) -> None:
        """Raise ValueError if sizes do not fit the attention or the initial state."""
        encoder, decoder = self.encoder, self.decoder
        keys = encoder.key_size or encoder.projection or encoder.output_size
        if decoder.type == "conv":
            require(self, {"encoder.projection": None}, "with decoder.type: conv")
        if decoder.attention in ("dot", "scaled_dot") and keys != decoder.query_size:
            name = "embeddings.embedding_dim" if decoder.type == "conv" else "hidden_size"
            promise = "the encoder's output size"
            if encoder.projection or encoder.type == "conv":
                promise = "the encoder's projection" if encoder.projection else "the encoder's embedding_dim"
            raise ValueError(
                f"decoder.{name} must be {keys}, {promise}, with attention: {decoder.attention}, got "
                f"{decoder.query_size}; or use attention: general"
            )
        if decoder.init_hidden == "last" and encoder.type == "conv":
            raise ValueError(
                "decoder.init_hidden must be zero or bridge: a convolutional encoder has no state, got last"
            )
        if decoder.init_hidden == "last" and encoder.output_size != decoder.hidden_size:
            raise ValueError(
                f"decoder.hidden_size must be {encoder.output_size}, the encoder's output size, with "
                f"init_hidden: last, got {decoder.hidden_size}; or use init_hidden: bridge"
            )
        if decoder.attention not in ("bahdanau", "multi_head"):
            why = "only bahdanau and multi_head have a layer of that size"
            require(self, {"decoder.attention_size": None}, f"with attention: {decoder.attention}", why)

    def _check_attention(self) -> None:
        """Raise ValueError if a setting does not fit the kind of attention, or the kind does not fit the decoder."""
        decoder, kind = self.decoder, self.decoder.attention
        if decoder.type == "conv" and kind in ("none", "multi_head"):
            raise ValueError(f"decoder.attention must be another one with type: conv, got {kind}")
        if kind != "multi_head":
            require(self, {"decoder.attention_heads": 1}, f"with attention: {kind}", "only multi_head has several")
        size = decoder.attention_size or decoder.query_size
        if size % decoder.attention_heads:
            raise ValueError(
                f"decoder.attention_heads must divide the total size of all heads, {size}, got "
                f"{decoder.attention_heads}"
            )
        if decoder.readout == "recurrent":
            require(self, {"decoder.readout_size": None}, "with readout: recurrent, whose cells have hidden_size")
        if kind != "bahdanau":
            require(self, {"decoder.attention_bias": False}, f"with attention: {kind}")
        if kind != "none":
            return
        wanted = {"decoder.conditional": False, "decoder.readout": "tanh", "decoder.readout_size": None}
        wanted |= {"decoder.copy_source": False, "encoder.projection": None}
        require(self, wanted, "with decoder.attention: none")
        if decoder.init_hidden == "zero" and not decoder.edit_actions:
            raise ValueError(
                "decoder.init_hidden must be bridge or last with decoder.attention: none, got zero; the decoder would "
                "not see the source"
            )

    def _check_ties(self) -> None:
        """Raise ValueError if sizes do not fit tied embeddings."""
        if self.tied_embeddings == "none":
            return
        decoder, size = self.decoder, self.decoder.embeddings.embedding_dim
        if size != decoder.output_size:
            raise ValueError(
                f"decoder.embeddings.embedding_dim must be {decoder.output_size}, as "
                f"model.decoder.{'readout_size' if decoder.readout_size else 'hidden_size'}, with "
                f"tied_embeddings: {self.tied_embeddings}, got {size}; or use tied_embeddings: none"
            )
        source = self.encoder.embeddings.embedding_dim
        if self.tied_embeddings == "all" and source != size:
            raise ValueError(
                f"encoder.embeddings.embedding_dim must be {size}, as the decoder's, with "
                f"tied_embeddings: all, got {source}; or use tied_embeddings: softmax"
            )
