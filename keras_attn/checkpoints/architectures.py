"""Arguments of models that come from files of unknown origin."""

import math
from reprlib import repr as shorten

import keras

from keras_attn.errors import UserError

# So that a wrong config.json is no endless work; the deepest models have 48.
MOST_LAYERS = 10_000
_SIZES = (
    "vocabulary_size",
    "num_layers",
    "hidden_dim",
    "num_heads",
    "intermediate_dim",
    "max_length",
    "num_segments",
    "memory_length",
    "reuse_length",
    "max_distance",
    "target_vocabulary_size",
)
_NUMBERS = (
    "dropout",
    "attention_dropout",
    "initializer_range",
    "layer_norm_epsilon",
    "label_smoothing",
)
_OPTIONAL = (
    "intermediate_dim",
    "attention_dropout",
    "reuse_length",
    "max_distance",
    "target_vocabulary_size",
)


def need_fields(config, names, path):
    """Raises UserError if a dict, or what should be one, lacks a field; `path` is its file."""
    missing = [name for name in names if not isinstance(config, dict) or name not in config]
    if missing:
        raise UserError(f"{missing[0]} must be there. Received: {path} without it")


def read_activation(config, field, activations, path):
    """Our name of an activation.

    Args:
        config: The dict in a file.
        field: Of it.
        activations: `{theirs: ours}`.
        path: Of the file.

    Raises:
        UserError: If it is another.
    """
    found = config[field]
    if not isinstance(found, str) or found not in activations:
        raise UserError(
            f"{field} must be one of {', '.join(activations)}. Received: {shorten(found)} in {path}"
        )
    return activations[found]


def written_activation(architecture, activations, format):
    """The first name that a format has for an activation; raises UserError if it has none."""
    names = [theirs for theirs, ours in activations.items() if ours == architecture["activation"]]
    if not names:
        raise UserError(
            f"{format} needs one of {', '.join(dict.fromkeys(activations.values()))}. "
            f"Received: activation={architecture['activation']}"
        )
    return names[0]


def check_architecture(family, architecture, source, most_layers):
    """Returns arguments of a backbone that came from a file, checked; see `resolved`.

    Raises:
        UserError: Names the first that is wrong.
    """
    check_numbers(architecture, source, most_layers)
    return resolved(family, architecture, source)


def check_numbers(architecture, source, most_layers):
    """Checks that sizes are whole and shares are numbers.

    Args:
        architecture: Arguments of a model.
        source: What the message calls the file.
        most_layers: So many layers can the weights hold.

    Raises:
        UserError: Names the first that is not.
    """
    if not isinstance(architecture, dict):
        raise UserError(
            f"architecture must be an object. Received: {shorten(architecture)} in {source}"
        )
    for name in (*_SIZES, *_NUMBERS):
        value, whole = architecture.get(name), name in _SIZES
        if value is None and (name in _OPTIONAL or name not in architecture):
            continue
        kind = int if whole else (int, float)
        if isinstance(value, bool) or not isinstance(value, kind) or not 0 <= value < 2**31:
            raise UserError(
                f"{name} must be a {'whole ' * whole}number of at least 0. "
                f"Received: {shorten(value)} in {source}"
            )
    if architecture.get("num_layers", 0) > most_layers:
        raise UserError(
            "num_layers must be as many as there are weights for. Received: "
            f"{architecture['num_layers']} in {source}"
        )


def require_arguments(given, needed, sentence):
    """Raises a `UserError` for an argument of a model that a format does not have.

    Args:
        given: Dict of the arguments of the model.
        needed: Dict from arguments to the only value that the format has.
        sentence: What is wrong; `{}` stands for the argument and its value.
    """
    for name, value in needed.items():
        if given[name] != value:
            raise UserError(f"{sentence.format(f'{name}={value}')} Received: {name}={given[name]}")


def check_size(least, weights, source):
    """Checks that a model is not larger than its weights, before memory is taken for it.

    Args:
        least: Number of values that the model has at least.
        weights: `{path: array}` of a checkpoint.
        source: What the message calls the checkpoint.

    Raises:
        UserError: If the weights have fewer.
    """
    there = sum(math.prod(array.shape) for array in weights.values())
    if least > there:
        raise UserError(
            f"The weights must be those of the model that config.json describes, of "
            f"more than {least:,} values. Received: {there:,} in {source}"
        )


def resolved(family, architecture, source):
    """All arguments of a backbone, also those left to their defaults.

    Args:
        family: `keras_attn.families.contract.Family`.
        architecture: Arguments.
        source: What the message calls the file.

    Raises:
        UserError: If they describe none.
    """
    try:
        made = family.backbone(**architecture)
    except (ValueError, TypeError) as error:
        raise UserError(f"{source} must describe a model of {family.title}. {error}") from error
    names = keras.Model().get_config().keys() | {"name", "seed"}
    return {name: value for name, value in made.get_config().items() if name not in names}
