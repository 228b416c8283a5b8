"""How many values the layers of a model keep of a row for the gradient."""

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True)
class LayerMemory:
    """Values that a training step holds of the layers of a model.

    Attributes:
        parameters: Of the model.
        inputs: Inputs of all layers, for a row.
        activations: What all layers keep of a row for the gradient.
        layer: What the largest layer keeps.
    """

    parameters: int
    inputs: int
    activations: int
    layer: int


def encoder_memory(
    architecture: Mapping,
    length: int,
    *,
    memory: int = 0,
    streams: float = 1.0,
    relative: bool = False,
) -> LayerMemory:
    """Returns the values of a stack of Transformer layers.

    Args:
        architecture: Arguments of the backbone, with `vocabulary_size`.
        length: Tokens of a row.
        memory: Tokens before a row that it attends to.
        streams: Rows of queries that a layer computes.
        relative: Whether attention has scores of relative positions.
    """
    width, layers = architecture["hidden_dim"], architecture["num_layers"]
    inner = feed_forward_dim(architecture)
    part = layer_values(architecture, length, memory + length, streams=streams, relative=relative)
    kernels = (5 if relative else 4) * width**2 + 2 * width * inner
    rows = architecture.get("max_length", 0) + architecture["vocabulary_size"]
    return LayerMemory(
        parameters=layers * kernels + rows * width,
        inputs=int(layers * streams * length * width),
        activations=int(layers * part),
        layer=int(part),
    )


def feed_forward_dim(architecture: Mapping) -> int:
    """Returns the feed-forward size, by default four times the hidden size."""
    return architecture.get("intermediate_dim") or 4 * architecture["hidden_dim"]


def layer_values(
    architecture: Mapping,
    queries: int,
    keys: int,
    *,
    streams: float = 1.0,
    attentions: int = 1,
    relative: bool = False,
) -> float:
    """Returns the values that a layer keeps of a row: of its tokens, and weights of attention.

    Args:
        architecture: Arguments of the backbone.
        queries, keys: Tokens.
        streams, relative: See `encoder_memory`.
        attentions: Attention layers in the layer.
    """
    width, heads = architecture["hidden_dim"], architecture["num_heads"]
    dropout, attention_dropout = (
        architecture.get("dropout", 0),
        architecture.get("attention_dropout"),
    )
    if attention_dropout is None:
        attention_dropout = dropout
    inner = feed_forward_dim(architecture)
    tokens = streams * queries * ((4 + 8 * attentions) * width + 2 * inner)
    tokens *= 1.1 if dropout else 1.0
    copies = ((5 if relative else 1) + 1.25 * (attention_dropout > 0)) * attentions
    return tokens + copies * streams * heads * queries * keys
