import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.layers import (
    AlibiBias,
    MultiHeadAttention,
    RelativeAttention,
    RelativePositionBias,
    RotaryEmbedding,
)
from keras_attn.ops.relative import relative_distances, relative_shift, relative_shift_transpose
from tests.support.layer_checks import check_layer, run
from tests.support.quick import each_check

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(2, 5, 12)).astype("float32")
MEMORY = RANDOM.normal(size=(2, 3, 12)).astype("float32")


def numpy_rotary(x, positions, layout):
    """Multiplies pairs, seen as complex numbers, by e^(i angle)."""
    depth = x.shape[-1]
    angles = positions[:, None] * 10000.0 ** (-2.0 * np.arange(depth // 2) / depth)
    pairs = (x[..., ::2], x[..., 1::2]) if layout == "interleaved" else np.split(x, 2, axis=-1)
    turned = (pairs[0] + 1j * pairs[1]) * np.exp(1j * angles)
    if layout == "halves":
        return np.concatenate([turned.real, turned.imag], axis=-1)
    return np.stack([turned.real, turned.imag], axis=-1).reshape(x.shape)


@pytest.mark.parametrize("layout", ["interleaved", "halves"])
def test_rotary_turns_pairs_as_complex_numbers(layout):
    def reference(weights, x):
        return numpy_rotary(x, np.arange(x.shape[1]), layout)

    check_layer(lambda **kwargs: RotaryEmbedding(layout, **kwargs), {"x": X}, reference)


def test_a_rotary_product_depends_on_the_distance_alone():
    layer = RotaryEmbedding()
    query, key = X[:1, :1], X[1:, :1]
    products = [
        np.sum(
            ops.convert_to_numpy(layer(query, np.array([[p + 3]])))
            * ops.convert_to_numpy(layer(key, np.array([[p]])))
        )
        for p in (0, 5, 700)
    ]
    np.testing.assert_allclose(products, products[0], rtol=1e-4)


def test_rotary_angles_are_exact_in_half_precision():
    x = np.ones((1, 3000, 8), "float32")
    found = ops.convert_to_numpy(ops.cast(RotaryEmbedding(dtype="bfloat16")(x), "float32"))
    np.testing.assert_allclose(
        found[0], numpy_rotary(x[0], np.arange(3000), "interleaved"), atol=0.02
    )


def naive_bucket(distance, buckets, largest, bidirectional):
    """T5's rule for one pair, `distance = j - i`, in plain Python."""
    start = 0
    if bidirectional:
        buckets //= 2
        start = buckets if distance > 0 else 0
        distance = abs(distance)
    else:
        distance = max(-distance, 0)
    exact = buckets // 2
    if distance < exact:
        return start + distance
    share = np.log(distance / exact) / np.log(largest / exact)
    return start + min(exact + int(share * (buckets - exact) + 1e-6), buckets - 1)


@pytest.mark.parametrize("bidirectional", [True, False])
def test_buckets_are_those_of_t5(bidirectional):
    layer = RelativePositionBias(2, 32, 128, bidirectional)
    found = ops.convert_to_numpy(layer.buckets(np.zeros((1, 300, 4)), np.zeros((1, 280, 4)), 7))
    expected = [
        [naive_bucket(j - i - 7, 32, 128, bidirectional) for j in range(280)] for i in range(300)
    ]
    np.testing.assert_array_equal(found, expected)


def test_the_bias_is_looked_up_in_the_table():
    def reference(weights, query, key):
        buckets = [
            [naive_bucket(j - i, 8, 16, True) for j in range(key.shape[1])]
            for i in range(query.shape[1])
        ]
        return weights["table"][np.array(buckets)].transpose(2, 0, 1)

    layer = RelativePositionBias(3, 8, 16, seed=0)
    query, key = X, MEMORY
    found = ops.convert_to_numpy(layer(query, key))
    table = ops.convert_to_numpy(layer.table)
    np.testing.assert_allclose(found, reference({"table": table}, query, key))


@pytest.mark.parametrize(
    ("heads", "expected"),
    [
        (8, [2.0**-n for n in range(1, 9)]),
        (3, [2.0**-4, 2.0**-8, 2.0**-2]),  # of two heads, then the first of four
        (1, [2.0**-8]),
    ],
)
def test_alibi_slopes_are_those_of_the_paper(heads, expected):
    query, key = np.zeros((1, 2, 4)), np.zeros((1, 6, 4))
    found = ops.convert_to_numpy(AlibiBias(heads)(query, key, offset=4))
    np.testing.assert_allclose(found[:, 0, 3], [-m for m in expected])
    np.testing.assert_allclose(found[:, 1, 0], [-5 * m for m in expected])


def test_by_pair_picks_the_distance_and_by_distance_is_its_transpose():
    length, keys = 4, 7
    x = RANDOM.normal(size=(2, length, length + keys - 1)).astype("float32")
    columns = {d: r for r, d in enumerate(ops.convert_to_numpy(relative_distances(length, keys)))}
    expected = [
        [[row[columns[i + keys - length - j]] for j in range(keys)] for i, row in enumerate(matrix)]
        for matrix in x
    ]
    found = ops.convert_to_numpy(relative_shift(x))
    np.testing.assert_array_equal(found, expected)
    y = RANDOM.normal(size=found.shape).astype("float32")
    np.testing.assert_allclose(
        np.sum(found * y), np.sum(x * ops.convert_to_numpy(relative_shift_transpose(y))), rtol=1e-5
    )


def naive_relative(weights, x, memory, style, heads, depth, causal):
    """A loop over pairs, in float64."""
    full = x if memory is None else np.concatenate([memory, x], axis=1)
    batch, keys, width = full.shape
    length = x.shape[1]
    projected = full @ weights["query_key_value_kernel"] + weights["query_key_value_bias"]
    query, key, value = (
        part.reshape(batch, keys, heads, depth).transpose(0, 2, 1, 3)
        for part in np.split(projected, 3, axis=-1)
    )
    query = query[:, :, keys - length :]
    logits = np.full((batch, heads, length, keys), -np.inf)
    values = np.zeros((batch, heads, length, keys, depth))
    for i in range(length):
        for j in range(keys):
            distance = i + keys - length - j
            row = np.clip(distance, -2, 2) + 2
            values[:, :, i, j] = value[:, :, j]
            if style == "xl":
                angles = distance * 10000.0 ** (-np.arange(0, width, 2) / width)
                place = np.concatenate([np.sin(angles), np.cos(angles)])
                place = (place @ weights["position_kernel"]).reshape(heads, depth)
                score = ((query[:, :, i] + weights["content_bias"]) * key[:, :, j]).sum(-1)
                score = score + ((query[:, :, i] + weights["position_bias"]) * place).sum(-1)
            else:
                score = (query[:, :, i] * (key[:, :, j] + weights["key_table"][row])).sum(-1)
                values[:, :, i, j] += weights["value_table"][row]
            if distance >= 0 or not causal:
                logits[:, :, i, j] = score / np.sqrt(depth)
    exponents = np.exp(logits - logits.max(-1, keepdims=True))
    attention = exponents / exponents.sum(-1, keepdims=True)
    output = (attention[..., None] * values).sum(3).transpose(0, 2, 1, 3)
    output = output.reshape(batch, length, heads * depth)
    return output @ weights["output_kernel"] + weights["output_bias"]


def relative(heads, style, **kwargs):
    options = {"max_distance": 2} if style == "shaw" else {}
    return RelativeAttention(heads, 4, style, seed=1, **options, **kwargs)


@pytest.mark.parametrize(
    "check, style, heads, causal",
    each_check(
        [(style, *case) for style in ("xl", "shaw") for case in ((3, False), (3, True), (1, True))],
        ("shaw", 3, True),
    ),
)
def test_relative_attention_is_a_loop_over_pairs(check, style, heads, causal):
    def reference(weights, query):
        return naive_relative(weights, query, None, style, heads, 4, causal)

    check(
        lambda **kwargs: relative(heads, style, **kwargs),
        {"query": X},
        reference,
        arguments={"use_causal_mask": causal},
        tolerance=2e-5,
    )


@pytest.mark.parametrize("style", ["xl", "shaw"])
def test_memory_is_attended_to_and_gets_no_gradient(style):
    layer = relative(3, style)
    found = run(layer, {"query": X}, {"memory": MEMORY, "use_causal_mask": True})
    weights = {
        v.path.split("/")[-1]: ops.convert_to_numpy(v).astype("float64") for v in layer.weights
    }
    expected = naive_relative(weights, X, MEMORY, style, 3, 4, True)
    np.testing.assert_allclose(found, expected, atol=2e-5)


def test_two_segments_with_memory_equal_one_long_segment():
    layer = RelativeAttention(3, 4, seed=1)
    whole = ops.convert_to_numpy(layer(X, use_causal_mask=True))
    second = ops.convert_to_numpy(layer(X[:, 2:], memory=X[:, :2], use_causal_mask=True))
    np.testing.assert_allclose(second, whole[:, 2:], atol=1e-5)


@pytest.mark.parametrize("style", ["xl", "shaw"])
def test_padding_never_reaches_the_output_of_relative_attention(style):
    layer = relative(3, style)
    short = ops.convert_to_numpy(layer(X[:, :3]))
    mask = np.array([[1, 1, 1, 0, 0]] * 2)
    long = ops.convert_to_numpy(layer(X, query_mask=mask))
    np.testing.assert_allclose(long[:, :3], short, atol=1e-5)
    none = ops.convert_to_numpy(layer(X, query_mask=0 * mask))
    np.testing.assert_allclose(
        none, np.broadcast_to(ops.convert_to_numpy(layer.heads.output_bias), none.shape)
    )


def positions():
    return {
        "rotary": RotaryEmbedding(),
        "halves": RotaryEmbedding("halves"),
        "alibi": AlibiBias(2),
        "t5": RelativePositionBias(2, 8, 16, seed=3),
    }


@pytest.mark.parametrize("name", sorted(positions()))
def test_multi_head_attention_takes_positions(name):
    layer = MultiHeadAttention(2, 6, position=positions()[name], seed=1)
    found = ops.convert_to_numpy(layer(X, X))
    kernel, out = (ops.convert_to_numpy(v) for v in (layer.heads.kernels[0], layer.output_kernel))
    query, key, value = (
        part.reshape(2, 5, 2, 6).transpose(0, 2, 1, 3) for part in np.split(X @ kernel, 3, axis=-1)
    )
    bias = 0.0
    if isinstance(layer.position, RotaryEmbedding):
        query, key = (numpy_rotary(x, np.arange(5), layer.position.layout) for x in (query, key))
    else:
        bias = ops.convert_to_numpy(layer.position(X))
    logits = query @ key.swapaxes(-1, -2) / np.sqrt(6) + bias
    weights = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    expected = (weights @ value).transpose(0, 2, 1, 3).reshape(2, 5, 12) @ out
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("name", sorted(positions()))
def test_cached_equals_uncached_with_positions(name):
    layer = MultiHeadAttention(2, 6, position=positions()[name], seed=1)
    whole = ops.convert_to_numpy(layer(X, X, use_causal_mask=True))
    cache = layer.make_cache(2, 5)
    for index in range(5):
        one = X[:, index : index + 1]
        found, cache = layer(one, one, cache=cache, cache_index=index)
        np.testing.assert_allclose(
            ops.convert_to_numpy(found)[:, 0], whole[:, index], atol=1e-5, err_msg=str(index)
        )
    last = ops.convert_to_numpy(layer(X[:, 3:], X, use_causal_mask=True))
    np.testing.assert_allclose(last, whole[:, 3:], atol=1e-5)


@pytest.mark.parametrize("name", sorted(positions()))
def test_attention_with_positions_reloads_by_itself(name, tmp_path):
    inputs = keras.Input((None, 12))
    attended = MultiHeadAttention(2, 6, position=positions()[name], seed=1)(inputs, inputs)
    model = keras.Model(inputs, attended)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(ops.convert_to_numpy(again(X)), ops.convert_to_numpy(model(X)))


def test_a_position_that_layers_share_is_shared_after_loading(tmp_path):
    inputs = keras.Input((None, 12))
    position, x = RelativePositionBias(2, initializer="normal", seed=0), inputs
    for seed in range(2):
        x = MultiHeadAttention(2, 6, position=position, seed=seed)(x, x)
    model = keras.Model(inputs, x)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert again.layers[1].position is again.layers[2].position
    assert len(again.weights) == len(model.weights)
    np.testing.assert_array_equal(ops.convert_to_numpy(again(X)), ops.convert_to_numpy(model(X)))


@pytest.mark.parametrize("name", sorted(positions()))
def test_steps_over_a_memory_have_their_positions(name):
    layer = MultiHeadAttention(2, 6, position=positions()[name], causal_align="start", seed=1)
    memory = RANDOM.normal(size=(2, 7, 12)).astype("float32")
    whole = ops.convert_to_numpy(layer(X, memory))
    kept = layer.project_memory(ops.convert_to_tensor(memory))
    for index in range(5):
        found = layer(X[:, index : index + 1], None, memory=kept, cache_index=index)
        np.testing.assert_allclose(
            ops.convert_to_numpy(found)[:, 0], whole[:, index], atol=1e-5, err_msg=str(index)
        )


def test_rotary_positions_of_rows_are_those_of_every_head():
    heads = RANDOM.normal(size=(2, 2, 3, 4)).astype("float32")  # as many rows as heads
    places = np.array([[0, 1, 2], [5, 6, 7]])
    found = ops.convert_to_numpy(RotaryEmbedding()(heads, places))
    for row in range(2):
        np.testing.assert_allclose(
            found[row], numpy_rotary(heads[row], places[row], "interleaved"), atol=1e-5
        )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MultiHeadAttention(2, 4, position=AlibiBias(3)), "position.num_heads=3"),
        (lambda: MultiHeadAttention(2, 4, position="rotary"), "position='rotary'"),
        (lambda: RotaryEmbedding("pairs"), "layout must be"),
        (lambda: RotaryEmbedding()(np.zeros((1, 2, 3))), "depth of the inputs must be even"),
        (lambda: RotaryEmbedding(max_wavelength=0), "max_wavelength must be a positive number"),
        (lambda: RelativePositionBias(1, 7), "num_buckets must be even"),
        (lambda: RelativePositionBias(1, 32, 8), "max_distance larger than 8"),
        (lambda: AlibiBias(0), "num_heads must be a positive integer"),
        (lambda: RelativeAttention(2, 4, "t5"), "style must be one of xl, shaw"),
        (
            lambda: RelativeAttention(2, 4, max_distance=0),
            "max_distance must be a positive integer",
        ),
        (lambda: RelativeAttention(2, 4)(X, MEMORY), "value must be the query"),
        (lambda: RelativeAttention(2, 4, "xl", 2), 'with style="shaw". Received: max_distance=2'),
    ],
)
def test_wrong_arguments_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
