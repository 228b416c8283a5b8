"""The architecture of a classifier, whatever the family of its backbone."""

from keras_attn import convert
from keras_attn.errors import UserError
from keras_attn.families import BERT, OTHERS
from keras_attn.families.bert import architecture as choices


def family_of(*folders):
    """The family of the first of some folders that holds a model of one of `OTHERS`; else BERT."""
    for folder in folders:
        name = folder and convert.family_name(folder)
        for family in OTHERS:
            if family.name == name:
                return family
    return BERT


def choose_architecture(run, family):
    """Arguments of the backbone of a classifier, but for `vocabulary_size` of a BERT.

    Args:
        run: `Run`.
        family: `Family`.
    """
    pooled = run.config.model.pooling in family.poolers
    if family is BERT:
        return choices.choose_architecture(run, use_pooler=pooled)
    _check(run, family)
    if run.resumed:
        return dict(run.saved["architecture"])
    architecture = {**run.pretrained.architecture, "dropout": run.config.model.dropout,
                    "attention_dropout": None}  # the same
    if family.poolers:
        architecture.update(use_pooler=pooled, memory_length=0)
    length, positions = run.config.data.length, architecture.get("max_length")
    if None not in (length, positions) and length > positions:
        raise UserError("data.length must not exceed the position table of the model. Received: "
                        f"data.length={length}, max_length={positions}")
    return architecture


def _check(run, family):
    data, model = run.config.data, run.config.model
    if not (run.resumed or run.pretrained):
        raise UserError(f"Weights of a {family.backbone.__name__} to start from are needed: "
                        "--pretrained. Received: none")
    for name, value in {"data.vocab": data.vocab, "model.size": model.size}.items():
        if value is not None:
            raise UserError(f"{name} must be left out: it is that of the pretrained model. "
                            f"Received: {name}={value}")
    if data.pack > 1:
        raise UserError(f"data.pack must be 1 with {family.backbone.__name__}. "
                        f"Received: data.pack={data.pack}")
