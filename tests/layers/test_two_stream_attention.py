"""XLNet's attention against a loop over pairs; against Hugging Face: tests/models/test_xlnet.py."""

import numpy as np
import pytest
from keras import ops

from keras_attn.layers import TwoStreamAttention
from tests.support.layer_checks import check_layer, randomize, run, weights_of
from tests.support.numpy_attention import normal

CONTENT, QUERY, MEMORY = normal(2, 5, 6), normal(2, 2, 6, seed=1), normal(2, 3, 6, seed=2)
PLACES = np.array([[1, 4], [3, 0]])
SEGMENTS = np.array([[0, 0, 1, 1, 1], [0, 1, 1, 0, 0]])
SEEN = np.random.default_rng(3).random((2, 5, 5)) < 0.6


def naive(
    weights,
    content,
    query=None,
    query_positions=None,
    segment_ids=None,
    content_mask=None,
    query_mask=None,
    memory=None,
    reversed_rows=None,
    position_vectors=None,
    heads=2,
    depth=3,
    farthest=None,
):
    """Both streams, in float64."""
    full = content if memory is None else np.concatenate([memory, content], axis=1)
    before = full.shape[1] - content.shape[1]
    kernels = np.split(weights["query_key_value_kernel"], 3, axis=1)
    outputs = []
    for stream, mask in ((content, content_mask), (query, query_mask)):
        if stream is None:
            continue
        output = np.zeros((*stream.shape[:2], heads * depth))
        for row, head, i in np.ndindex(len(stream), heads, stream.shape[1]):
            part = slice(head * depth, (head + 1) * depth)
            own = stream[row, i] @ kernels[0][:, part]
            place = i if stream is content else query_positions[row, i]
            scores, values = [], []
            for j in range(full.shape[1]):
                if (
                    mask is not None
                    and not np.broadcast_to(mask, (len(full), stream.shape[1], full.shape[1]))[
                        row, i, j
                    ]
                ):
                    continue
                distance = place + before - j
                if farthest:
                    distance = np.clip(distance, -farthest, farthest)
                if reversed_rows is not None and reversed_rows[row]:
                    distance = -distance
                width = full.shape[2]
                angles = distance * 10000.0 ** (-np.arange(0, width, 2) / width)
                where = np.concatenate([np.sin(angles), np.cos(angles)])
                if position_vectors is not None:  # the farthest key before comes first
                    where = position_vectors[row, full.shape[1] - 1 - distance]
                where = where @ weights["position_kernel"][:, part]
                score = (own + weights["content_bias"][head]) @ (full[row, j] @ kernels[1][:, part])
                score += (own + weights["position_bias"][head]) @ where
                if segment_ids is not None:
                    other = 0 if j < before else segment_ids[row, j - before]
                    which = int(segment_ids[row, place] != other)
                    score += (own + weights["segment_bias"][head]) @ (
                        weights["segment_table"][which, head]
                    )
                scores.append(score / np.sqrt(depth))
                values.append(full[row, j] @ kernels[2][:, part])
            if scores:
                shares = np.exp(np.array(scores) - max(scores))
                output[row, i, part] = shares / shares.sum() @ np.array(values)
        outputs.append(output @ weights["output_kernel"])
    return outputs


@pytest.mark.parametrize("heads, inputs", [(2, {}), (1, {"segment_ids": SEGMENTS})])
def test_the_content_stream_is_a_loop_over_pairs(heads, inputs):
    def reference(weights, **inputs):
        return naive(weights, **inputs, heads=heads, depth=6 // heads)[0]

    check_layer(
        lambda **kwargs: TwoStreamAttention(heads, 6 // heads, seed=1, **kwargs),
        {"content": CONTENT, **inputs},
        reference,
    )


@pytest.mark.parametrize(
    "options, inputs",
    [
        ({}, {}),
        ({"max_distance": 2}, {"segment_ids": SEGMENTS}),
        ({}, {"memory": MEMORY, "segment_ids": SEGMENTS}),
        ({}, {"memory": MEMORY, "reversed_rows": np.array([0, 1])}),
        ({}, {"memory": MEMORY, "position_vectors": normal(2, 12, 6, seed=4)}),
        (
            {},
            {
                "content_mask": SEEN,
                "query_mask": np.take_along_axis(SEEN, PLACES[:, :, None], 1).astype("int32"),
            },
        ),
    ],
)
def test_both_streams_are_loops_over_pairs(options, inputs):
    layer = TwoStreamAttention(2, 3, seed=1, **options)
    inputs = {"content": CONTENT, "query": QUERY, "query_positions": PLACES, **inputs}
    randomize(layer, inputs)
    expected = naive(weights_of(layer), farthest=options.get("max_distance"), **inputs)
    for index in (0, 1):
        np.testing.assert_allclose(run(layer, inputs, index=index), expected[index], 1e-5, 1e-5)


def test_weights_are_of_both_streams_and_sum_to_one():
    layer = TwoStreamAttention(2, 3, seed=1)
    _, _, content, query = layer(
        CONTENT, QUERY, PLACES, memory=MEMORY, return_attention_scores=True
    )
    assert content.shape == (2, 2, 5, 8) and query.shape == (2, 2, 2, 8)
    for weights in (content, query):
        np.testing.assert_allclose(ops.convert_to_numpy(ops.sum(weights, axis=-1)), 1.0, 1e-5)
    _, weights = layer(CONTENT, return_attention_scores=True)
    assert weights.shape == (2, 2, 5, 5)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: TwoStreamAttention(0, 3), "num_heads must be a positive integer"),
        (
            lambda: TwoStreamAttention(2, 3, max_distance=0),
            "max_distance must be a positive integer",
        ),
        (lambda: TwoStreamAttention(2, 3, dropout=1.0), "dropout must be a number in"),
        (lambda: TwoStreamAttention(2, 3)(CONTENT, QUERY), "given together"),
        (
            lambda: TwoStreamAttention(2, 3)(CONTENT, content_mask=np.ones((2, 5, 5), "float32")),
            "content_mask must be boolean or integer",
        ),
        (
            lambda: TwoStreamAttention(2, 3)(
                CONTENT, reversed_rows=np.array([0, 1]), position_vectors=normal(9, 6)
            ),
            "reversed_rows must be omitted",
        ),
    ],
)
def test_wrong_arguments_are_errors(make, message):
    with pytest.raises(ValueError, match=message):
        make()
