"""Interactive visualization of attention in a single HTML file."""

import base64
import hashlib
import html
import json
import os
import re
import zlib
from collections.abc import Sequence
from importlib import resources

import numpy as np
from keras import ops

from keras_attn.counts import counted
from keras_attn.types import Tensor


class AttentionPage:
    """An HTML page; notebooks display it as the value of a cell.

    Attributes:
        html: The source of the page.
    """

    def __init__(self, text: str) -> None:
        self.html = text

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the page to a file."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.html)

    def _repr_html_(self):
        return (
            f'<iframe srcdoc="{html.escape(self.html)}" width="100%" height="640" '
            'style="border:0" title="attention"></iframe>'
        )


def attention_page(
    maps: Tensor | dict[str, Tensor],
    tokens: Sequence[str] | dict[str, tuple[Sequence[str], Sequence[str]]],
    key_tokens: Sequence[str] | None = None,
    row: int = 0,
    title: str = "Attention",
) -> AttentionPage:
    """Creates an interactive HTML page that shows which tokens a selected token attends to.

    Layers and heads can be selected, also with the keyboard. The page is a single file that loads
    no other resources.

    Args:
        maps: Dictionary from `attention_maps`, or a single array or tensor of weights:
            `(B, H, T, S)`, `(B, T, S)` or `(B, S)`.
        tokens: Query tokens, and key tokens unless `key_tokens` is given. Positions without a
            token, such as padding, are not shown. If layers have different tokens: a dictionary
            from the name of each layer to its (query tokens, key tokens).
        key_tokens: Key tokens.
        row: Index of the row in the batch.
        title: Title of the page.

    Returns:
        `AttentionPage`.

    Raises:
        ValueError: If weights or tokens are missing, there are more tokens than weights, the row
            does not exist, or weights have an unsupported number of axes, are negative or not
            finite.

    Examples:
        >>> import numpy as np
        >>> from keras_attn.visualize import attention_page
        >>> page = attention_page(np.eye(3)[None], ["one", "two", "three"])
        >>> print(page.html.count("<script"), "https:" in page.html)
        2 False
    """
    if not isinstance(maps, dict):
        maps = {"attention": maps}
    if not maps:
        raise ValueError("maps must contain the weights of at least one layer. Received: none")
    layers = []
    for name, weights in maps.items():
        if isinstance(tokens, dict) and name not in tokens:
            raise ValueError(
                f"tokens must have an entry for every layer of maps. Add {name!r}. "
                f"Received: tokens of {', '.join(map(repr, tokens))}"
            )
        queries, keys = (
            tokens[name]
            if isinstance(tokens, dict)
            else (tokens, tokens if key_tokens is None else key_tokens)
        )
        layers.append(_layer(name, _row(name, weights, row), list(queries), list(keys)))
    # "</script>" in a token must not end the enclosing script element.
    data = json.dumps({"title": title, "layers": layers}, ensure_ascii=False)
    text = resources.files(__package__).joinpath("attention_page.html").read_text("utf-8")
    script = text.partition("<script>")[2].partition("</script>")[0]
    values = {
        "SCRIPT_HASH": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        "PAGE_TITLE": html.escape(title),
        "PAGE_DATA": data.replace("<", "\\u003c"),
    }
    segments = re.split(f"({'|'.join(values)})", text)
    text = "".join(values.get(segment, segment) for segment in segments)
    return AttentionPage(text)


def _row(name, weights, row):
    weights = ops.convert_to_numpy(weights)
    rows = len(weights) if weights.ndim else 0
    if not -rows <= row < rows:
        raise ValueError(
            f"row must be an index into the batch. Received: row={row}, {name} of "
            f"shape {weights.shape}"
        )
    return weights[row]


def _layer(name, weights, queries, keys):
    """The data of a layer: weights as bytes, scaled so that the largest of each row is 255."""
    if weights.ndim == 1:
        weights, queries = weights[None], ["all"]
    if weights.ndim == 2:
        weights = weights[None]
    if weights.ndim != 3:
        raise ValueError(
            "Weights must be of shape (B, H, T, S), (B, T, S) or (B, S). "
            f"Received: {name} of shape {(1, *weights.shape)}"
        )
    if len(queries) > weights.shape[1] or len(keys) > weights.shape[2]:
        raise ValueError(
            f"There are more tokens than weights. Received: {name} of shape "
            f"{(1, *weights.shape)}, {counted(len(queries), 'query token')}, "
            f"{counted(len(keys), 'key token')}"
        )
    if not queries or not keys:
        raise ValueError(
            "At least one query token and one key token are required. Received: "
            f"{counted(len(queries), 'query token')} and "
            f"{counted(len(keys), 'key token')} for {name}"
        )
    weights = weights[:, : len(queries), : len(keys)].astype("float32")
    if not (weights >= 0).all() or np.isinf(weights).any():
        raise ValueError(
            f"Weights must be finite and non-negative. Received: {name}, from "
            f"{weights.min()} to {weights.max()}"
        )
    largest = weights.max(axis=-1, keepdims=True)
    shares = np.round(255 * weights / np.maximum(largest, 1e-30)).astype("uint8")
    return {
        "name": name,
        "heads": len(weights),
        "queries": queries,
        "keys": keys,
        "largest": _compress(largest.astype("<f4")),
        "shares": _compress(shares),
    }


def _compress(array):
    return base64.b64encode(zlib.compress(array.tobytes(), 6)).decode()
