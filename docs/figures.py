"""Figures of the attention mechanisms, drawn from the weights that the layers return.

    python docs/figures.py

Writes docs/images/attention_weights.png, one panel per mechanism, for a sequence of random vectors
with random weights. Requires matplotlib: `pip install 'keras-attn[plot]'`.
"""

import pathlib

import numpy as np
from keras import ops
from matplotlib.figure import Figure

from keras_attn import layers
from keras_attn.ops import permutation_mask

IMAGES = pathlib.Path(__file__).parent / "images"
LENGTH, DEPTH = 14, 8
EXPANSION = {"extension": 1, "dilation": 2, "global_tokens": 1}
ORDER = np.array([[6, 2, 9, 0, 12, 4, 10, 7, 1, 13, 3, 8, 5, 11]])


def panels(x):
    """Returns `{title: attention weights of a layer (T, S)}`, and the masks of two streams."""
    self_attention = layers.MultiHeadAttention(2, DEPTH, kernel_initializer="orthogonal", seed=1)
    found = {}
    for title, layer, options in (
        ("soft", layers.Attention("scaled_dot"), {}),
        ("soft, causal", layers.Attention("scaled_dot"), {"use_causal_mask": True}),
        ("hard", layers.HardAttention(score="dot"), {}),
        ("multi-head", self_attention, {}),
        ("local, monotonic", layers.LocalAttention(2, "monotonic", seed=1), {}),
        ("local, predictive", layers.LocalAttention(3, "predictive", seed=1), {}),
        ("fixed window", layers.WindowAttention(1, DEPTH, window=2, seed=1), {}),
        ("expanded window", layers.ExpandedWindowAttention(1, DEPTH, 1, **EXPANSION, seed=1), {}),
        ("mixed, global and local", layers.MixedAttention(1, DEPTH, 1, seed=1), {}),
    ):
        weights = ops.convert_to_numpy(layer(x, x, return_attention_scores=True, **options)[1])[0]
        for head in range(len(weights) if weights.ndim == 3 else 0):
            found[title if len(weights) == 1 else f"{title}, head {head + 1}"] = weights[head]
        if weights.ndim == 2:
            found[title] = weights
    query_stream = ops.convert_to_numpy(permutation_mask(ORDER))[0]
    found["two streams: content"] = query_stream | np.eye(LENGTH, dtype=bool)
    found["two streams: query"] = query_stream
    return found


def main():
    x = np.random.default_rng(0).normal(size=(1, LENGTH, DEPTH)).astype("float32")
    found = panels(x)
    figure = Figure((11, 8.6), layout="constrained")
    for axis, (title, weights) in zip(figure.subplots(3, 4).flat, found.items(), strict=True):
        axis.imshow(weights, cmap="Blues", vmin=0)
        axis.set_title(title, fontsize=11)
        axis.set_xticks([])
        axis.set_yticks([])
    figure.supxlabel("key")
    figure.supylabel("query")
    figure.savefig(IMAGES / "attention_weights.png", dpi=80)


if __name__ == "__main__":
    main()
