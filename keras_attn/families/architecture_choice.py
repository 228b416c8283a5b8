"""The arguments of the backbone of a run: those of the model it starts from, or the config's."""

import inspect

from keras_attn.defaults import default_config
from keras_attn.errors import UserError, check_choice

_SHAPE = ("num_layers", "hidden_dim", "num_heads", "intermediate_dim")


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
        tiny = _shape_of(family, "tiny")
        architecture = {**tiny, **family.default_arguments(run, tiny | given), **given}
    architecture.pop("vocabulary_size", None)
    if family.has_pooler and not run.resumed:
        architecture["use_pooler"] = use_pooler
    try:
        family.backbone(vocabulary_size=1, **architecture)
    except ValueError as error:
        raise UserError(f"model.* must describe a model of {family.title}. {error}") from error
    _check_length(run, family, architecture)
    return architecture


def _given(run, family):
    """The arguments of the backbone that the config sets; its other fields are the task's."""
    fields = {name: value for name, value in run.config.model.items() if value is not None}
    if "size" in fields:
        check_choice("model.size", fields["size"], family.sizes)
    names = inspect.signature(family.backbone).parameters
    return {
        **_shape_of(family, fields.get("size")),
        **{name: value for name, value in fields.items() if name in names},
    }


def _shape_of(family, size):
    """The arguments that a size stands for; not every family lists feed-forward sizes."""
    return dict(zip(_SHAPE, family.sizes.get(size, ()), strict=False))


def _pretrained_architecture(run, family, given):
    """The architecture of the pretrained model, with the arguments that may differ from it."""
    known = run.pretrained.architecture
    free = {name: given.pop(name) for name in family.free_arguments if name in given}
    architecture = {**known, **free}
    if "dropout" in free and "attention_dropout" not in free:
        architecture["attention_dropout"] = None  # the same rate
    if run.config.model.get("size") is not None:  # which stands for this feed-forward size, too
        given.setdefault("intermediate_dim", 4 * given["hidden_dim"])
    # A field at its default was not set by the user.
    defaults = default_config(run.task.name, family.name).model
    for name, value in given.items():
        if name == "max_length" and family.position_table and value > known[name]:
            run.say(f"positions {known[name] + 1} to {value} start as those before")
            architecture[name] = value
        elif value not in (known.get(name), defaults.get(name)):
            raise UserError(
                "The architecture must be that of the pretrained model; leave its fields out; "
                "model.size=None unsets that of a config file. "
                f"Received: {name}={value}, it has {known.get(name)}"
            )
    return architecture


def _check_finetuning(run, family):
    """Raises a `UserError` for what finetuning of the family does not support."""
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
    """Raises a `UserError` for rows longer than a table of learned positions."""
    length, positions = run.config.data.length, architecture.get("max_length")
    learned = architecture.get("positions", "learned") == "learned"
    if None in (length, positions) or length <= positions or not learned:
        return
    if family.position_table:
        advice = (
            f"set model.max_length={length}"
            if "max_length" in run.config.model
            else f"pretrain the model further with model.max_length={length}"
        )
        raise UserError(
            f"data.length={length} exceeds the position table of the model, which has "
            f"{positions} positions. Lower data.length, or {advice}"
        )
    raise UserError(
        "data.length must be at most the positions of the model. Received: "
        f"data.length={length}, it has {positions} (max_length={positions})"
    )
