"""The architecture of a BERT: that of `pretrained`, or the config's."""

from keras_attn.errors import UserError, check_choice
from keras_attn.families.architecture_choice import arguments_among
from keras_attn.models import BertEncoder
from keras_attn.models.bert import BERT_SIZES

# May be others than those of `pretrained`: they change nothing that it learned.
FREE = ("dropout", "initial_attention", "initializer_range")
SHAPE = ("num_layers", "hidden_dim", "num_heads", "intermediate_dim")


def choose_architecture(run, use_pooler=True):
    """Arguments of the backbone, but for `vocabulary_size`.

    Fields of `config.model` that are None are left to `pretrained`, else to the size.

    Args:
        run: `Run`.
        use_pooler: Whether the task needs the pooler.
    """
    length, fields = run.config.data.length, run.config.model
    given = {name: value for name, value in fields.items() if value is not None}
    chosen = arguments_among(given, BertEncoder)
    if run.resumed:
        architecture = dict(run.saved["architecture"])
    elif run.pretrained:
        architecture = {**run.pretrained.architecture, **{
            name: chosen.pop(name) for name in FREE if name in chosen}}
        if fields.dropout is not None:
            architecture["attention_dropout"] = None  # the same
        for name, value in {**chosen, **_shape(given)}.items():
            if name == "max_length" and value > architecture[name]:
                run.say(f"positions {architecture[name] + 1} to {value} start as those before")
                architecture[name] = value
            if architecture[name] != value:
                raise UserError(
                    "The architecture must be that of the pretrained model; leave its fields out; "
                    "model.size=None unsets that of a config file. "
                    f"Received: {name}={value}, {run.pretrained.path} has {architecture[name]}"
                )
    else:
        shape = _shape({"size": "tiny", **given})
        architecture = {
            **shape, "max_length": 512, "dropout": 0.0, "activation": "gelu_tanh",
            "norm_first": True, "initial_attention": "neighbours",
            # BERT's 0.02 is for width 1,024; narrow models learn faster from larger weights.
            "initializer_range": min(0.05, 0.8 / shape["hidden_dim"] ** 0.5),
            **chosen,
        }
    architecture.pop("vocabulary_size", None)
    if not run.resumed:
        architecture["use_pooler"] = use_pooler
    try:
        BertEncoder(vocabulary_size=1, **architecture)
    except ValueError as error:
        raise UserError(f"model.* must describe a model of BERT. {error}") from error
    if length is not None and length > architecture["max_length"]:
        raise UserError(
            f"data.length={length} exceeds the position table of the model, which has "
            f"{architecture['max_length']} positions. Lower data.length, or "
            + (f"set model.max_length={length}" if "max_length" in fields else
               f"pretrain the model further with model.max_length={length}")
        )
    return architecture


def _shape(given):
    """What size and the fields that override it say of the shape."""
    shape, size = {}, given.get("size")
    if size is not None:
        check_choice("model.size", size, BERT_SIZES)
        shape = dict(zip(SHAPE, BERT_SIZES[size], strict=False))
    shape.update({name: given[name] for name in SHAPE if name in given})
    if "hidden_dim" in shape:
        shape.setdefault("intermediate_dim", 4 * shape["hidden_dim"])
    return shape
