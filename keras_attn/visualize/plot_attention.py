"""Static plots of attention weights."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from keras import ops

from keras_attn.counts import counted
from keras_attn.types import Tensor

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot_attention(
    scores: Tensor,
    query_tokens: Sequence[str] | None = None,
    key_tokens: Sequence[str] | None = None,
    ax: "Axes | None" = None,
) -> "Figure":
    """Plots attention weights as a matrix, with one row per query.

    Args:
        scores: Array or tensor `(T, S)`, or `(H, T, S)` for one plot per head.
        query_tokens: Labels of the rows. Positions without a label, such as padding, are not shown.
        key_tokens: Labels of the columns, likewise; defaults to `query_tokens`.
        ax: matplotlib axes for a single plot; if None, a new figure is created.

    Returns:
        The matplotlib figure.

    Raises:
        ValueError: If scores have an unsupported number of axes or are empty, the number of tokens
            is 0 or exceeds the scores, or `ax` is given for several heads.
        ImportError: If matplotlib is missing; `pip install 'keras-attn[plot]'` installs it.

    Examples:
        >>> import numpy as np
        >>> from keras_attn.visualize import plot_attention
        >>> figure = plot_attention(np.eye(2), ["a", "b"])
        >>> print([label.get_text() for label in figure.axes[0].get_yticklabels()])
        ['a', 'b']
    """
    from matplotlib.figure import Figure

    scores = ops.convert_to_numpy(scores)
    if scores.ndim not in (2, 3) or (scores.ndim == 3 and ax is not None):
        raise ValueError(
            "scores must be of shape (T, S), or (H, T, S) without ax. "
            f"Received: scores.shape={scores.shape}, ax={ax}"
        )
    key_tokens = query_tokens if key_tokens is None else key_tokens
    heads = scores if scores.ndim == 3 else scores[None]
    for name, tokens, size in (
        ("query_tokens", query_tokens, heads.shape[1]),
        ("key_tokens", key_tokens, heads.shape[2]),
    ):
        count = size if tokens is None else len(tokens)
        if not 0 < count <= size:
            raise ValueError(
                f"{name} must have at least one token and at most as many as scores. "
                f"Received: {counted(count, 'token')}, scores.shape={scores.shape}"
            )
    heads = heads[:, : _count(query_tokens), : _count(key_tokens)]
    if ax is None:
        wide = min(len(heads), 4)
        tall = -(-len(heads) // wide)
        # 0.22 inches per token leave room for the labels.
        size = [min(max(2.5, 1.2 + 0.22 * n), 12.0) for n in heads.shape[:0:-1]]
        figure = Figure((wide * size[0], tall * size[1]), layout="constrained")
        axes = figure.subplots(tall, wide, squeeze=False).ravel()
    else:
        figure, axes = ax.figure, [ax]  # type: ignore[assignment]
    for number, (one, weights) in enumerate(zip(axes, heads, strict=False)):
        one.imshow(weights, cmap="Blues", vmin=0.0, vmax=max(float(heads.max()), 1e-9))
        if key_tokens is not None:
            one.set_xticks(range(weights.shape[1]), key_tokens, rotation=90)
        if query_tokens is not None:
            one.set_yticks(range(weights.shape[0]), query_tokens)
        if scores.ndim == 3:
            one.set_title(f"head {number}", fontsize="medium")
    for one in axes[len(heads) :]:
        one.set_axis_off()
    return figure


def _count(tokens):
    return None if tokens is None else len(tokens)
