"""HTML pages of the attention of a pretrained or finetuned model to a text."""

from typing import Any

import numpy as np

from keras_attn.errors import UserError
from keras_attn.visualize.attention_maps import attention_maps
from keras_attn.visualize.attention_page import AttentionPage, attention_page


def attention_of_text(model: Any, text: str, text_pair: str | None = None) -> AttentionPage:
    """Visualizes the attention of all layers and heads of an encoder or classifier to a text.

    Args:
        model: An encoder or a classifier of any family from `keras_attn.load`.
        text: String; truncated to the maximum length of the model.
        text_pair: The second text of a pair, or None.

    Returns:
        `AttentionPage`.

    Raises:
        UserError: If the model has no attention weights, or they are between two texts of which one
            is empty.
    """
    batch = model.encode([text], None if text_pair is None else [text_pair])
    return attention_of_batch(model, batch, page_title(text, text_pair))


def attention_of_batch(model: Any, batch: dict[str, np.ndarray], title: str) -> AttentionPage:
    """Visualizes the attention of all layers and heads to the first row of a batch.

    Args:
        model: See `attention_of_text`.
        batch: Inputs of the model, with a `padding_mask`.
        title: Title of the page.

    Raises:
        UserError: See `attention_of_text`.
    """
    maps = attention_maps(model.model, batch, training=False)
    if not maps:
        raise UserError(
            "This model has no attention weights. Train a model whose layers or pooling have "
            f"attention. Received: {model.path}, a {type(model.model).__name__}"
        )
    real = np.asarray(batch["padding_mask"])[0] > 0
    ids = np.asarray(batch["token_ids"])[0][real]
    axes: Any = [model.tokenizer.vocabulary[number] for number in ids]
    attention_tokens = getattr(getattr(model.model, "backbone", None), "attention_tokens", None)
    if attention_tokens is not None:
        segments = np.asarray(batch["segment_ids"])[0][real]
        axes = {name: attention_tokens(name, axes, segments) for name in maps}
        if not all(queries and keys for queries, keys in axes.values()):
            raise UserError(f"Both texts must have tokens. Received: {title}")
    return attention_page(maps, axes, title=title)


def page_title(*texts: str | None) -> str:
    """Returns the texts, shortened, as the title of a page; None entries are ignored."""
    title = " / ".join(text for text in texts if text is not None)
    return title if len(title) < 80 else title[:79] + "…"
