"""Checks of model arguments that were read from files of unknown origin."""

import inspect
import math
import typing
from reprlib import repr as shorten

import keras

from keras_attn.counts import counted
from keras_attn.errors import UserError

# Bounds the work that a damaged config.json can cause; the deepest models have 48 layers.
MAX_LAYERS = 10_000


def need_fields(config, names, path):
    """Raises a `UserError` if the content of the file `path` is not a dict with these fields."""
    missing = [name for name in names if not isinstance(config, dict) or name not in config]
    if missing:
        raise UserError(f"{path} lacks the field {missing[0]}")


def read_activation(config, field, activations, path):
    """Returns our name of an activation.

    Args:
        config: Content of a file.
        field: Name of the field.
        activations: Dict from their names to ours.
        path: Path of the file.

    Raises:
        UserError: If the activation is unsupported.
    """
    found = config[field]
    if not isinstance(found, str) or found not in activations:
        raise UserError(
            f"{field} must be one of {', '.join(activations)}. Received: {shorten(found)} in {path}"
        )
    return activations[found]


def written_activation(architecture, activations, format):
    """Returns the first name that a format has for the activation of a model.

    Raises:
        UserError: If the format has none.
    """
    names = [theirs for theirs, ours in activations.items() if ours == architecture["activation"]]
    if not names:
        raise UserError(
            f"{format} supports the activations {', '.join(dict.fromkeys(activations.values()))}. "
            f"Received: activation={architecture['activation']}"
        )
    return names[0]


def check_architecture(family, architecture, source, max_layers):
    """Checks arguments of a backbone that were read from a file, and completes them.

    Args:
        family: `keras_attn.families.contract.Family`.
        architecture: Arguments of its backbone.
        source: Name of the file in messages.
        max_layers: Maximum number of layers.

    Returns:
        All arguments of the backbone, with the defaults of those that were missing.

    Raises:
        UserError: Names the first invalid argument.
    """
    check_numbers(family.backbone, architecture, source, max_layers)
    return _completed(family, architecture, source)


def check_numbers(backbone, architecture, source, max_layers):
    """Checks the types and ranges of the numbers in an architecture.

    An argument that the constructor of the backbone annotates with `int` must be an integer, one
    with `float` a number, and neither may be negative.

    Args:
        backbone: Class of the backbone.
        architecture: Arguments of its constructor.
        source: Name of the file in messages.
        max_layers: Maximum number of layers.

    Raises:
        UserError: Names the first invalid argument.
    """
    if not isinstance(architecture, dict):
        raise UserError(
            f"architecture must be an object. Received: {shorten(architecture)} in {source}"
        )
    for name, (types, optional) in _numbers_of(backbone).items():
        value = architecture.get(name)
        if value is None and (optional or name not in architecture):
            continue
        if isinstance(value, bool) or not isinstance(value, types) or not 0 <= value < 2**31:
            kind = "an integer" if types is int else "a number"
            raise UserError(
                f"{name} must be {kind} of at least 0. Received: {shorten(value)} in {source}"
            )
    if architecture.get("num_layers", 0) > max_layers:
        raise UserError(
            "num_layers exceeds the number of layers in the weights. Received: "
            f"num_layers={architecture['num_layers']} in {source}"
        )


def _numbers_of(backbone):
    """Returns `{argument: (its types, whether None is valid)}` of the numbers of a constructor."""
    found = {}
    for name, argument in inspect.signature(backbone).parameters.items():
        members = typing.get_args(argument.annotation) or (argument.annotation,)
        numbers = {int, float}.intersection(members)
        if numbers:
            types = (int, float) if float in numbers else int
            found[name] = types, type(None) in members
    return found


def require_arguments(given, needed, sentence):
    """Raises a `UserError` for an argument of a model that a format does not support.

    Args:
        given: Dict of the arguments of the model.
        needed: Dict from arguments to the only value that the format supports.
        sentence: Start of the message; `{}` stands for the argument and its supported value.
    """
    for name, value in needed.items():
        if given[name] != value:
            raise UserError(f"{sentence.format(f'{name}={value}')} Received: {name}={given[name]}")


def check_rows(tokens, rows, folder):
    """Raises a `UserError` if a vocabulary is larger than the embedding matrix.

    Args:
        tokens: List of tokens.
        rows: Number of rows of the embedding matrix.
        folder: Name of the folder, for the message.
    """
    if len(tokens) > rows:
        raise UserError(
            "The vocabulary must not be larger than the embedding matrix. Received: "
            f"{counted(len(tokens), 'token')}, {counted(rows, 'row')} in {folder}"
        )


def check_size(min_size, weights, source):
    """Checks that the weights suffice for a model, before its memory is allocated.

    Args:
        min_size: Lower bound of the number of values of the model.
        weights: Dict from paths to arrays.
        source: Name of the checkpoint in messages.

    Raises:
        UserError: If the weights have fewer values.
    """
    size = sum(math.prod(array.shape) for array in weights.values())
    if min_size > size:
        raise UserError(
            "The weights do not match config.json, which describes a model of more than "
            f"{min_size:,} values. Received: {size:,} values in {source}"
        )


def _completed(family, architecture, source):
    """Returns all arguments of a backbone, with the defaults of those that are missing."""
    try:
        backbone = family.backbone(**architecture)
    except (ValueError, TypeError) as error:
        raise UserError(f"{source} must describe a model of {family.title}. {error}") from error
    names = keras.Model().get_config().keys() | {"name", "seed"}
    return {name: value for name, value in backbone.get_config().items() if name not in names}
