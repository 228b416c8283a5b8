"""Attention as a page of HTML in one file."""

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
    """A page of HTML; a notebook shows it where it is the value of a cell.

    Attributes:
        html: The page.
    """

    def __init__(self, text: str) -> None:
        self.html = text

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the page to a file."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.html)

    def _repr_html_(self):
        return (f'<iframe srcdoc="{html.escape(self.html)}" width="100%" height="640" '
                'style="border:0" title="attention"></iframe>')


def attention_page(maps: Tensor | dict[str, Tensor],
                   tokens: Sequence[str] | dict[str, tuple[Sequence[str], Sequence[str]]],
                   key_tokens: Sequence[str] | None = None, row: int = 0, title: str = "Attention"
                   ) -> AttentionPage:
    """Makes a page that shows attention: whoever chooses a token sees what it attends to.

    Layers and heads can be chosen, by keyboard, too. The page is one file that loads nothing.

    Args:
        maps: Dictionary as `attention_maps` returns it, or weights alone, arrays or tensors:
            `(B, H, T, S)`, `(B, T, S)` or `(B, S)`.
        tokens: Strings of the queries, and of the keys if there are no others; what is longer,
            such as padding, is left out. Of several layers with other tokens, a dictionary from
            name to a pair of lists.
        key_tokens: Strings of the keys.
        row: Which row of the batch.
        title: Of the page.

    Returns:
        `AttentionPage`.

    Raises:
        ValueError: If there are no weights, no tokens or more than weights, no tokens of a layer,
            no such row, or weights have another number of axes, are negative or not finite.

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
        raise ValueError("maps must have the weights of a layer at least. Received: none")
    layers = []
    for name, weights in maps.items():
        if isinstance(tokens, dict) and name not in tokens:
            raise ValueError("tokens must have those of every layer of maps. Received: none of "
                             f"{name!r}, tokens of {', '.join(map(repr, tokens))}")
        queries, keys = tokens[name] if isinstance(tokens, dict) else (
            tokens, tokens if key_tokens is None else key_tokens)
        layers.append(_layer(name, _row(name, weights, row), list(queries), list(keys)))
    # "</script>" in a token must not end the script that holds it.
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
        raise ValueError(f"row must be one of the batch. Received: row={row}, {name} of shape "
                         f"{weights.shape}")
    return weights[row]


def _layer(name, weights, queries, keys):
    """What the page holds of a layer: weights as bytes, each row's largest as 255."""
    if weights.ndim == 1:
        weights, queries = weights[None], ["all"]
    if weights.ndim == 2:
        weights = weights[None]
    if weights.ndim != 3:
        raise ValueError("Weights must be (B, H, T, S), (B, T, S) or (B, S). "
                         f"Received: {name} of shape {(1, *weights.shape)}")
    if len(queries) > weights.shape[1] or len(keys) > weights.shape[2]:
        raise ValueError(
            f"There must be weights for all tokens. Received: {name} of shape "
            f"{(1, *weights.shape)}, {counted(len(queries), 'token')} of queries, "
            f"{len(keys)} of keys")
    if not queries or not keys:
        raise ValueError("There must be a token at least. Received: "
                         f"{counted(len(queries), 'token')} of queries of {name}, {len(keys)} of "
                         "keys")
    weights = weights[:, :len(queries), :len(keys)].astype("float32")
    if not (weights >= 0).all() or np.isinf(weights).any():
        raise ValueError(f"Weights must be finite and not negative. Received: {name}, from "
                         f"{weights.min()} to {weights.max()}")
    largest = weights.max(axis=-1, keepdims=True)
    shares = np.round(255 * weights / np.maximum(largest, 1e-30)).astype("uint8")
    return {"name": name, "heads": len(weights), "queries": queries, "keys": keys,
            "largest": _compress(largest.astype("<f4")), "shares": _compress(shares)}


def _compress(array):
    return base64.b64encode(zlib.compress(array.tobytes(), 6)).decode()
