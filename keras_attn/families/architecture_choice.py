"""The arguments of the backbone of a run: those of the model it starts from, or the config's."""

import inspect

from keras_attn.errors import UserError, check_choice

_SHAPE = ("num_layers", "hidden_dim", "num_heads")


def arguments_among(fields, backbone):
    """Returns the fields of `config.model` that are arguments of a backbone, in their order.

    Others are the task's.

    Args:
        fields: Dict from names to values.
        backbone: Class.
    """
    names = inspect.signature(backbone).parameters
    return {name: value for name, value in fields.items() if name in names}


def pretraining_architecture(run, family, usual, free=()):
    """Arguments of the backbone of a run that pretrains, but for `vocabulary_size`.

    Args:
        run: `Run`.
        family: `Family`.
        usual: Arguments that the config may leave unset, and their defaults.
        free: Arguments that may differ from those of a pretrained model, besides `dropout` and
            `initializer_range`.
    """
    sizes = family.sizes
    given = {name: value for name, value in run.config.model.items() if value is not None}
    shape, size = {}, given.pop("size", None)
    given = arguments_among(given, family.backbone)
    if size is not None:
        check_choice("model.size", size, sizes)
        shape = dict(zip(_SHAPE, sizes[size], strict=True))
    given = {**shape, **given}
    if run.resumed:
        architecture = dict(run.saved["architecture"])
    elif run.pretrained:
        free = [name for name in ("dropout", "initializer_range", *free) if name in given]
        architecture = {**run.pretrained.architecture, **{name: given.pop(name) for name in free}}
        if "dropout" in free:
            architecture["attention_dropout"] = None  # the same
        for name, value in given.items():
            if architecture.get(name) != value:
                raise UserError(
                    "The architecture must be that of the pretrained model; leave its fields out; "
                    "model.size=None unsets that of a config file. "
                    f"Received: {name}={value}, it has {architecture.get(name)}")
    else:
        tiny = dict(zip(_SHAPE, sizes["tiny"], strict=True))
        # Of the vocabulary nothing is known yet.
        architecture = {"vocabulary_size": 1, **tiny, **usual, **given}
    try:
        family.backbone(**architecture)
    except ValueError as error:
        raise UserError(f"model.* must describe a model of {family.title}. {error}") from error
    return architecture


def classifier_architecture(run, family, **changes):
    """Arguments of the backbone of a classifier of pretrained weights.

    Args:
        run: `Run`.
        family: `Family`.
        changes: Arguments that differ from those of the pretrained model, besides dropout rates.
    """
    _check_classifier(run, family)
    if run.resumed:
        return dict(run.saved["architecture"])
    architecture = {**run.pretrained.architecture, "dropout": run.config.model.dropout,
                    "attention_dropout": None, **changes}  # None: the same rate
    length, positions = run.config.data.length, architecture.get("max_length")
    if None not in (length, positions) and length > positions:
        raise UserError("data.length must not exceed the position table of the model. Received: "
                        f"data.length={length}, max_length={positions}")
    return architecture


def _check_classifier(run, family):
    data, model = run.config.data, run.config.model
    if not (run.resumed or run.pretrained):
        raise UserError(f"Finetuning {family.title} requires --pretrained. Received: none")
    for name, value in {"data.vocab": data.vocab, "model.size": model.size}.items():
        if value is not None:
            raise UserError(f"{name} must be left out: it is that of the pretrained model. "
                            f"Received: {name}={value}")
    if data.pack > 1:
        raise UserError(f"data.pack must be 1 with {family.title}. "
                        f"Received: data.pack={data.pack}")
