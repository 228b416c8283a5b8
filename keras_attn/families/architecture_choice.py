"""Chooses the arguments of the backbone of a run."""

import inspect
from collections.abc import Mapping

from keras_attn.defaults import default_config
from keras_attn.errors import UserError, check_choice
from keras_attn.families.layer_memory import learned_positions


def named_sizes(table: Mapping[str, tuple]) -> dict[str, dict[str, int]]:
    """Returns `Family.sizes` of a table.

    Args:
        table: Dict from names to numbers of layers, hidden sizes and, for Transformers, attention
            heads and, optionally, feed-forward sizes.
    """
    names = ("num_layers", "hidden_dim", "num_heads", "intermediate_dim")
    return {size: dict(zip(names, values, strict=False)) for size, values in table.items()}


def encoder_defaults(shape: Mapping) -> dict:
    """Returns `Family.default_arguments` that encoders with the layers of BERT have in common.

    Args:
        shape: Arguments that the config sets, and the default size.
    """
    return {
        "intermediate_dim": 4 * shape["hidden_dim"],
        "max_length": 512,
        "dropout": 0.0,
        "initial_attention": "neighbours",
        # BERT's 0.02 suits hidden size 1,024; smaller models learn faster from larger weights.
        "initializer_range": min(0.05, 0.8 / shape["hidden_dim"] ** 0.5),
    }


def choose_architecture(run, family, use_pooler):
    """Returns the arguments of the backbone of a run; see `Family.choose_architecture`."""
    if not run.task.pretrains:
        _check_finetuning(run, family)
    given = _given(run, family)
    if run.resumed:
        architecture = dict(run.saved["architecture"])
    elif run.pretrained:
        architecture = _pretrained_architecture(run, family, given)
    else:
        default = next(iter(family.sizes.values()), {})
        architecture = {**default, **family.default_arguments(run, {**default, **given}), **given}
    architecture.pop("vocabulary_size", None)
    if family.has_pooler and not run.resumed:
        architecture["use_pooler"] = use_pooler
    try:
        family.backbone(vocabulary_size=1, **architecture)
    except (ValueError, TypeError) as error:
        raise UserError(f"model.* must describe a model of {family.title}. {error}") from error
    _check_length(run, family, architecture)
    return architecture


def _given(run, family):
    """Returns the arguments of the backbone that the config sets; the task reads other fields."""
    fields = {name: value for name, value in run.config.model.items() if value is not None}
    if "size" in fields:
        check_choice("model.size", fields["size"], family.sizes)
    names = inspect.signature(family.backbone).parameters
    return {
        **family.sizes.get(fields.get("size"), {}),
        **{name: value for name, value in fields.items() if name in names},
    }


def _pretrained_architecture(run, family, given):
    """Returns the architecture of the pretrained model with the config's free arguments."""
    known = run.pretrained.architecture
    free = {name: given.pop(name) for name in family.free_arguments if name in given}
    architecture = {**known, **free}
    if "attention_dropout" in known and "dropout" in free and "attention_dropout" not in free:
        architecture["attention_dropout"] = None  # the same rate
    if "intermediate_dim" in known and run.config.model.get("size") is not None:
        given.setdefault("intermediate_dim", 4 * given["hidden_dim"])  # the default of a size
    # A field at its default was not set by the user.
    defaults = default_config(run.task.name, family.name).model
    for name, value in given.items():
        if name == "max_length" and family.position_embedding_path and value > known[name]:
            run.say(f"positions {known[name] + 1} to {value} are initialized by repetition")
            architecture[name] = value
        elif value not in (known.get(name), defaults.get(name)):
            raise UserError(
                f"model.{name}={value} differs from the pretrained model, which has "
                f"{name}={known.get(name)}. Leave the fields of the architecture unset; "
                "model.size=None unsets the size in a config file"
            )
    return architecture


def _check_finetuning(run, family):
    """Raises a `UserError` if finetuning the family does not support what the config asks for."""
    data, model = run.config.data, run.config.model
    if not family.packs and data.get("pack", 1) > 1:
        raise UserError(f"data.pack must be 1 with {family.title}. Received: data.pack={data.pack}")
    if family.finetunes_from_scratch:
        return
    if not (run.resumed or run.pretrained):
        raise UserError(f"Finetuning {family.title} requires --pretrained. Received: none")
    for name, value in {"data.vocab": data.vocab, "model.size": model.size}.items():
        if value is not None:
            raise UserError(
                f"{name} must be left out: it is that of the pretrained model. "
                f"Received: {name}={value}"
            )


def _check_length(run, family, architecture):
    """Raises a `UserError` for sequences longer than the learned position embeddings."""
    length, positions = run.config.data.length, learned_positions(architecture)
    if length is None or not positions or length <= positions:
        return
    if family.position_embedding_path:
        advice = (
            f"set model.max_length={length}"
            if "max_length" in run.config.model
            else f"pretrain the model further with model.max_length={length}"
        )
        raise UserError(
            f"data.length={length} exceeds the model's {positions} positions. "
            f"Lower data.length, or {advice}"
        )
    raise UserError(
        f"data.length={length} exceeds the model's {positions} positions. Lower data.length"
    )
