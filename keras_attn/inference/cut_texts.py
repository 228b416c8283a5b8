"""What commands say about texts that are longer than the model reads."""

from keras_attn.counts import counted
from keras_attn.errors import warn


def warn_of_cut_texts(model):
    """Warns of the texts that a model has cut so far.

    Args:
        model: `Embedder`, whose `cut` counts them by length.
    """
    for length, count in sorted((+model.cut).items()):
        texts = counted(count, "text was", "texts were")
        warn(
            f"warning: {texts} longer than {length} tokens; the rest was cut and is not part of "
            "the result"
        )
