"""Warnings about truncated texts."""

from keras_attn.counts import counted
from keras_attn.errors import warn


def warn_of_cut_texts(model):
    """Prints a warning about the texts that a model has truncated.

    Args:
        model: `Embedder`, whose `cut` counts the truncated texts by maximum length.
    """
    for length, count in sorted((+model.cut).items()):
        texts = counted(count, "text was", "texts were")
        warn(f"warning: {texts} truncated to the maximum length of {length} tokens")
