"""The architecture of BERT-like encoders in config.json of `transformers` and bert_config.json."""

from collections.abc import Mapping
from typing import Any

from keras_attn.checkpoints.architectures import (
    check_architecture,
    need_fields,
    read_activation,
    written_activation,
)

FIELDS = {
    "vocabulary_size": "vocab_size",
    "num_layers": "num_hidden_layers",
    "hidden_dim": "hidden_size",
    "num_heads": "num_attention_heads",
    "intermediate_dim": "intermediate_size",
    "max_length": "max_position_embeddings",
    "num_segments": "type_vocab_size",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
    "initializer_range": "initializer_range",
    "layer_norm_epsilon": "layer_norm_eps",
}
# Names in `transformers`.
ACTIVATIONS = {
    "gelu": "gelu_erf",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "relu2": "relu2",
}


def read_architecture(
    family: Any,
    config: Mapping,
    path: str,
    max_layers: int,
    activations: Mapping = ACTIVATIONS,
    fields: Mapping = FIELDS,
    activation_field: str = "hidden_act",
) -> dict:
    """Returns the arguments of a backbone.

    Args:
        family: `keras_attn.families.contract.Family`.
        config: Content of the file, with defaults filled in.
        path: Path of the file.
        max_layers: Maximum number of layers in the weights.
        activations: Dict from their names of activations to ours.
        fields: Dict from our arguments to their fields.
        activation_field: Name of their field with the activation.

    Raises:
        UserError: Names the field that is missing or invalid.
    """
    need_fields(config, (*fields.values(), activation_field), path)
    architecture = {ours: config[theirs] for ours, theirs in fields.items()}
    architecture["activation"] = read_activation(config, activation_field, activations, path)
    return check_architecture(family, architecture, path, max_layers)


def write_architecture(
    architecture: Mapping,
    library: str,
    activations: Mapping = ACTIVATIONS,
    fields: Mapping = FIELDS,
    activation_field: str = "hidden_act",
) -> dict:
    """Returns the fields of an architecture.

    Args:
        architecture: Arguments of a backbone.
        library: Name of the library in messages.
        activations, fields, activation_field: See `read_architecture`.

    Raises:
        UserError: If the library does not support the activation.
    """
    return {
        **{theirs: architecture[ours] for ours, theirs in fields.items()},
        activation_field: written_activation(architecture, activations, library),
    }
