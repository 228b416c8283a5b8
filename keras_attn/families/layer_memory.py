"""Estimates of the number of values that the layers of a model store for the gradient."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from keras_attn.ops.windows import block_size


@dataclasses.dataclass(frozen=True)
class LayerMemory:
    """Numbers of values that a training step stores.

    Attributes:
        parameters: Number of parameters of the model.
        inputs: Values of the inputs of all layers, per sequence.
        activations: Values that all layers store for the gradient, per sequence.
        layer: Values that the largest layer stores, per sequence.
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
    """Estimates the memory of a stack of Transformer layers.

    Args:
        architecture: Arguments of the backbone, with `vocabulary_size`.
        length: Sequence length.
        memory: Number of preceding tokens that a sequence attends to.
        streams: Number of query streams of a layer.
        relative: Whether attention has scores of relative positions.
    """
    hidden_dim, layers = architecture["hidden_dim"], architecture["num_layers"]
    options: dict[str, Any] = {"streams": streams, "relative": relative}
    layer = layer_values(architecture, length, memory + length, **options)
    local, local_layers = 0.0, 0
    if architecture.get("local_every"):
        local_layers = layers - -(-layers // architecture["local_every"])
        # A query has logits of its block of keys and of both adjacent ones.
        keys = min(length, 3 * block_size(architecture["window"] // 2, 0))
        local = layer_values(architecture, length, keys, **options)
    kernels = (5 if relative else 4) * hidden_dim**2
    kernels += (2 + is_gated(architecture)) * hidden_dim * feed_forward_dim(architecture)
    rows = architecture["vocabulary_size"] + learned_positions(architecture)
    return LayerMemory(
        parameters=layers * kernels + rows * embedding_dim(architecture),
        inputs=int(layers * streams * length * hidden_dim),
        activations=int((layers - local_layers) * layer + local_layers * local),
        layer=int(layer),
    )


def is_gated(architecture: Mapping) -> bool:
    """Returns whether the hidden units of the feed-forward layers are gated."""
    return architecture.get("feed_forward") == "geglu"


def learned_positions(architecture: Mapping) -> int:
    """Returns the number of learned position embeddings.

    It is `max_length` unless the argument `positions` has another value than "learned".
    """
    learned = architecture.get("positions", "learned") == "learned"
    return architecture.get("max_length") or 0 if learned else 0


def embedding_dim(architecture: Mapping) -> int:
    """Returns the size of the embeddings, by default the hidden size.

    Factorized embeddings, as in ELECTRA-small, have the argument `embedding_dim`.
    """
    return architecture.get("embedding_dim") or architecture["hidden_dim"]


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
    """Returns the number of values that a layer stores for the gradient, per sequence.

    Args:
        architecture: Arguments of the backbone.
        queries, keys: Numbers of queries and keys.
        streams, relative: See `encoder_memory`.
        attentions: Number of attention sublayers.
    """
    hidden_dim, heads = architecture["hidden_dim"], architecture["num_heads"]
    dropout, attention_dropout = (
        architecture.get("dropout", 0),
        architecture.get("attention_dropout"),
    )
    if attention_dropout is None:
        attention_dropout = dropout
    inner = feed_forward_dim(architecture)
    units = 2 + 2 * is_gated(architecture)  # the gates, and the products
    tokens = streams * queries * ((4 + 8 * attentions) * hidden_dim + units * inner)
    tokens *= 1.1 if dropout else 1.0
    copies = ((5 if relative else 1) + 1.25 * (attention_dropout > 0)) * attentions
    return tokens + copies * streams * heads * queries * keys
