"""The architecture of a GPT-2 or an XLNet to pretrain, and what its data are."""

from keras_attn.errors import UserError, check_choice
from keras_attn.tasks.unlabelled_text import hashes_of_shards, validation_of

_SHAPE = ("num_layers", "hidden_dim", "num_heads")


def choose_architecture(run, kind, sizes, usual, free=()):
    """Arguments of the backbone: those of `pretrained`, or the config's.

    Args:
        run: `Run`.
        kind: Class of the backbone.
        sizes: Dict from a name to layers, width and heads.
        usual: Arguments where nothing is said.
        free: Arguments that may differ from those of a pretrained model, besides the usual two.
    """
    given = {name: value for name, value in run.config.model.items() if value is not None}
    shape, size = {}, given.pop("size", None)
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
        kind(**architecture)
    except ValueError as error:
        raise UserError(f"model.* must describe {kind.__name__}. {error}") from error
    return architecture


def hashes_of_splits(run):
    """SHA-256 of each split's files and shards."""
    hashes = {}
    for split, source in (("train", run.config.data.train),
                          ("validation", validation_of(run.config.data))):
        if source:
            hashes.update(hashes_of_shards(run, split, source))
    return hashes
