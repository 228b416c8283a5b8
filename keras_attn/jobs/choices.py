"""The vocabulary and the architecture of a run: those of `pretrained`, or the config's."""

from keras_attn.errors import UserError
from keras_attn.models import BertEncoder
from keras_attn.models.bert import BERT_SIZES
from keras_attn.text.vocabulary import read_vocabulary, write_vocabulary
from keras_attn.text.wordpiece import WordPieceTokenizer

SHAPE = ("num_layers", "hidden_dim", "num_heads", "intermediate_dim")


def choose_tokenizer(run, start, train_one):
    """Writes the run's vocab.txt and returns its tokenizer.

    Args:
        run: `Run`.
        start: `Saved` of the pretrained model, or None.
        train_one: Function that trains a vocabulary; called if none is given.
    """
    data, path = run.config.data, run.workdir / "vocab.txt"
    given = read_vocabulary(data.vocab) if data.vocab else None
    if start and given and given != start.tokenizer.vocabulary:
        raise UserError("data.vocab must be the vocabulary of the pretrained model, or be left "
                        f"out. Received: data.vocab={data.vocab}, pretrained={start.path}")
    if run.chief and not run.resumed:
        write_vocabulary(path, start.tokenizer.vocabulary if start else given or train_one())
    run.meet()
    return WordPieceTokenizer.from_file(path, data.lowercase)


def choose_architecture(fields, length, vocabulary_size, start):
    """Arguments of the backbone.

    Args:
        fields: `config.model`; fields that are None are left to `pretrained`, else to the size.
        length: `config.data.length`, which the position table must reach.
        vocabulary_size: Of the tokenizer.
        start: `Saved` of the pretrained model, or None.
    """
    given = {name: value for name, value in fields.items() if value is not None}
    chosen = {name: value for name, value in given.items()
              if name not in ("size", "pooling", "initial_bias")}
    if start:
        architecture = {**start.architecture, "dropout": fields.dropout}
        for name, value in {**chosen, **_shape(given)}.items():
            if architecture[name] != value:
                raise UserError(
                    "The architecture must be that of the pretrained model; leave its fields out. "
                    f"Received: {name}={value}, {start.path} has {architecture[name]}"
                )
    else:
        shape = _shape({"size": "tiny", **given})
        architecture = {
            "vocabulary_size": vocabulary_size, **shape,
            "max_length": 512, "activation": "gelu_tanh", "norm_first": True,
            "initial_attention": "neighbours",
            # BERT's 0.02 is for width 1,024; narrow models learn faster from larger weights.
            "initializer_range": min(0.05, 0.8 / shape["hidden_dim"] ** 0.5),
            **chosen,
        }
    try:
        BertEncoder(**architecture)
    except ValueError as error:
        raise UserError(f"model.* must describe a BERT. {error}") from error
    if length > architecture["max_length"]:
        raise UserError(
            "data.length must not exceed the position table of the model. Received: "
            f"data.length={length}, max_length={architecture['max_length']}"
        )
    return architecture


def _shape(given):
    """What size and the fields that override it say of the shape."""
    shape, size = {}, given.get("size")
    if size is not None:
        if size not in BERT_SIZES:
            raise UserError(f"model.size must be one of {', '.join(BERT_SIZES)}. "
                            f"Received: model.size={size}")
        shape = dict(zip(SHAPE, BERT_SIZES[size], strict=False))
    shape.update({name: given[name] for name in SHAPE if name in given})
    if "hidden_dim" in shape:
        shape.setdefault("intermediate_dim", 4 * shape["hidden_dim"])
    return shape
