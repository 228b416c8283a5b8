"""Window attention against attention with a mask in NumPy, and wrong windows."""

import numpy as np
import pytest
from keras import ops

from keras_attn.layers import ExpandedWindowAttention, MixedAttention, WindowAttention
from keras_attn.ops.windows import window_mask
from tests.support.layer_checks import check_layer
from tests.support.numpy_attention import band, normal
from tests.support.quick import each_check

X = normal(2, 9, 12)


def softmax(logits):
    exponents = np.exp(logits - logits.max(-1, keepdims=True))
    return exponents / exponents.sum(-1, keepdims=True)


def projections(weights, x, heads, depth, prefix=""):
    """Queries, keys and values `(B, H, T, K)` in NumPy."""
    kernel, bias = (weights[f"{prefix}query_key_value_{name}"] for name in ("kernel", "bias"))
    projected = x @ kernel + bias
    return [
        part.reshape(*x.shape[:2], heads, depth).transpose(0, 2, 1, 3)
        for part in np.split(projected, 3, axis=-1)
    ]


def joined(weights, heads):
    batch, _, length, _ = heads.shape
    rows = heads.transpose(0, 2, 1, 3).reshape(batch, length, -1)
    return rows @ weights["output_kernel"] + weights["output_bias"]


def masked_reference(mask, heads=2, depth=6, own=0):
    """The first `own` positions look by projections of their own; a grid is a line of its rows."""

    def looked(weights, x, prefix=""):
        q, k, v = projections(weights, x, heads, depth, prefix)
        return softmax(np.where(mask, q @ k.swapaxes(-1, -2) / np.sqrt(depth), -np.inf)) @ v

    def reference(weights, query):
        x = query.reshape(len(query), -1, query.shape[-1])
        found = looked(weights, x)
        if own:
            found[:, :, :own] = looked(weights, x, "global_")[:, :, :own]
        return joined(weights, found).reshape(query.shape)

    return reference


def grid_band(rows, columns, down, aside):
    """Pairs of places of a grid, one row after the other."""
    y, x = np.divmod(np.arange(rows * columns), columns)
    return (abs(y[:, None] - y) <= down) & (abs(x[:, None] - x) <= aside)


BANDS = {
    "window": (lambda **kwargs: WindowAttention(2, 6, 2, **kwargs), band(9, 2, 2)),
    "causal": (lambda **kwargs: WindowAttention(2, 6, 2, causal=True, **kwargs), band(9, 2, 0)),
    "extension": (
        lambda **kwargs: ExpandedWindowAttention(2, 6, window=3, extension=1, **kwargs),
        band(9, 1, 3),
    ),
    "global": (
        lambda **kwargs: ExpandedWindowAttention(
            2, 6, window=1, extension=1, global_tokens=2, **kwargs
        ),
        band(9, 1, 1) | (np.arange(9) < 2) | (np.arange(9) < 2)[:, None],
    ),
}


@pytest.mark.parametrize("check, name", each_check(BANDS, "window"))
def test_windows_are_attention_with_a_band_mask(check, name):
    make, mask = BANDS[name]
    check(lambda **kwargs: make(seed=1, **kwargs), {"query": X}, masked_reference(mask))


@pytest.mark.parametrize(
    "check, rows, columns, window",
    each_check([(6, 9, (1, 2)), (5, 6, (0, 5))]),
)
def test_windows_on_a_grid_are_attention_with_a_rectangle_as_mask(check, rows, columns, window):
    grid = np.random.default_rng(1).normal(size=(2, rows, columns, 12)).astype("float32")
    check(
        lambda **kwargs: WindowAttention(2, 6, window, seed=1, **kwargs),
        {"query": grid},
        masked_reference(grid_band(rows, columns, *window)),
    )


STEPS = np.arange(9) - np.arange(9)[:, None]


WAYS_OUT = {
    "dilation": ({"extension": 2, "dilation": 2}, (STEPS % 2 == 0) & band(9, 4, 4)),
    "own projections": ({"extension": 1, "separate_global_projections": True}, band(9, 1, 1)),
}


@pytest.mark.parametrize("check, name", each_check(WAYS_OUT))
def test_ways_out_of_a_window_are_attention_with_a_mask(check, name):
    options, near = WAYS_OUT[name]
    is_first = np.arange(9) < 2
    check(
        lambda **kwargs: ExpandedWindowAttention(
            2, 6, 1, global_tokens=2, **options, seed=1, **kwargs
        ),
        {"query": X},
        masked_reference(
            near | is_first | is_first[:, None],
            own=2 if "separate_global_projections" in options else 0,
        ),
    )


@pytest.mark.thorough
def test_random_blocks_are_attention_with_a_mask():
    x = np.random.default_rng(1).normal(size=(2, 106, 12)).astype("float32")
    # Which blocks are drawn is `window_mask`'s to say; tests/ops/test_windows.py counts them.
    is_first = np.arange(106) < 2
    near = band(106, 1, 1) | is_first | is_first[:, None]
    drawn = ops.convert_to_numpy(window_mask(106, 1, 1, random_blocks=1, seed=1))
    assert (drawn & ~near)[2:].sum(axis=1).min() >= 10  # the last block is of 10
    check_layer(
        lambda **kwargs: ExpandedWindowAttention(
            2, 6, 1, 1, random_blocks=1, global_tokens=2, seed=1, **kwargs
        ),
        {"query": x},
        masked_reference(near | drawn),
    )


@pytest.mark.parametrize("check, gate", each_check(["query", "head", "scalar"], "query"))
def test_a_gate_mixes_global_and_local_attention(check, gate):
    def reference(weights, query):
        q, k, v = projections(weights, query, 2, 6)
        logits = q @ k.swapaxes(-1, -2) / np.sqrt(6)
        everywhere = softmax(logits)
        nearby = softmax(np.where(band(9, 2, 2), logits, -np.inf))
        share = np.broadcast_to(weights["gate_bias"], (2,))[None, :, None, None]
        if gate == "query":
            share = share + (query @ weights["gate_kernel"]).transpose(0, 2, 1)[..., None]
        share = 1 / (1 + np.exp(-share))
        return joined(weights, (share * everywhere + (1 - share) * nearby) @ v)

    check(
        lambda **kwargs: MixedAttention(2, 6, 2, gate=gate, seed=1, **kwargs),
        {"query": X},
        reference,
    )


@pytest.mark.parametrize("check, mix", each_check(["heads", "cascade"], "cascade"))
def test_mixes_without_a_gate_equal_numpy(check, mix):
    def reference(weights, query):
        q, k, v = projections(weights, query, 2, 6)
        logits = q @ k.swapaxes(-1, -2) / np.sqrt(6)
        near = band(9, 2, 2)
        if mix == "cascade":
            attention = np.where(near, softmax(logits), 0)
        else:
            attention = np.stack(
                [softmax(logits[:, 0]), softmax(np.where(near, logits[:, 1], -np.inf))], axis=1
            )
        return joined(weights, attention @ v)

    check(
        lambda **kwargs: MixedAttention(2, 6, 2, mix=mix, seed=1, **kwargs), {"query": X}, reference
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: WindowAttention(2, 6, -1), "window must be"),
        (lambda: WindowAttention(2, 6, (1, 2, 3)), "a pair of them"),
        (lambda: WindowAttention(2, 6, (1, 2), causal=True), "causal is not supported on a grid"),
        (lambda: WindowAttention(2, 6, 1)(X, X + 1), "value must be the query"),
        (lambda: WindowAttention(2, 6, 1)(X, query_mask=np.ones((2, 9))), "must be boolean"),
        (lambda: ExpandedWindowAttention(2, 6, 0), "window must be a positive integer"),
        (lambda: ExpandedWindowAttention(2, 6, 2.0), "window=2.0"),
        (lambda: ExpandedWindowAttention(2, 6, 2, dilation=1.5), "dilation=1.5"),
        (lambda: WindowAttention(2, 6, 1.5), "window=1.5"),
        (lambda: WindowAttention(2, 6, (1, 1.5)), r"window=\(1, 1.5\)"),
        (lambda: MixedAttention(2, 6, 1.5), "window=1.5"),
        (lambda: WindowAttention(2, 6, 1)(np.ones((2, 3, 4, 5))), r"shape \(2, 3, 4, 5\)"),
        (
            lambda: WindowAttention(2, 6, (1, 1))(np.ones((2, 3, 4))),
            r"query must be of shape \(B, Y, X, D\)",
        ),
        (
            lambda: ExpandedWindowAttention(2, 6, 1, separate_global_projections=True),
            "global_tokens",
        ),
        (lambda: ExpandedWindowAttention(2, 6, 1, dilation=2, random_blocks=1), "with dilation"),
        (lambda: MixedAttention(2, 6, 1, mix="both"), "mix must be one of"),
        (lambda: MixedAttention(2, 6, 1, gate="row"), "gate must be one of"),
        (lambda: MixedAttention(2, 6, 1, "heads", global_heads=3), "global_heads must be in"),
        (lambda: MixedAttention(4, 6, 1, global_heads=3), 'with mix="heads". .* global_heads=3'),
        (lambda: MixedAttention(2, 6, 1, "cascade", "head"), "with mix=\"gate\". .* gate='head'"),
        (lambda: MixedAttention(1, 6, 1, "heads"), "at least two heads.* num_heads=1"),
    ],
)
def test_wrong_windows_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
