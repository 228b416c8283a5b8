"""`MixedAttention` and `ExpandedWindowAttention` over a memory, at given or predicted positions."""

import itertools

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.layers import LocalAttention, MixedAttention, MultiHeadAttention
from tests.support.layer_checks import (
    layer_gradients,
    randomize,
    run,
    weights_of,
    with_other_padding,
)
from tests.support.numpy_attention import normal, softmax
from tests.support.quick import each_check
from tests.support.small_memory_windows import (
    ALIGNMENTS,
    DEPTH,
    HEADS,
    LAYERS,
    MASK,
    MIXES,
    expanded,
    inputs_of,
    mixed,
)

EXPANDED = {
    "window": {"window": 2, "extension": 1},
    "dilation": {"window": 1, "extension": 1, "dilation": 2},
    "global": {"window": 2, "global_tokens": 1},
}


def split(x):
    return x.reshape(*x.shape[:2], HEADS, DEPTH).transpose(0, 2, 1, 3)


def projected(weights, query, key, value):
    """Heads `(B, H, T, K)`, whichever inputs share a kernel."""
    found = {}
    for name in [name.removesuffix("_kernel") for name in weights if name.endswith("_kernel")]:
        if set(name.split("_")) <= {"query", "key", "value"}:
            kernel, bias = weights[f"{name}_kernel"], weights[f"{name}_bias"]
            for i, member in enumerate(name.split("_")):
                part = slice(i * HEADS * DEPTH, (i + 1) * HEADS * DEPTH)
                found[member] = kernel[:, part], bias[part]
    return [
        split(x @ found[name][0] + found[name][1])
        for name, x in (("query", query), ("key", key), ("value", value))
    ]


def centers(weights, query, lengths, alignment, query_positions=None):
    """p of each query, `(B, T)`."""
    found = np.zeros(query.shape[:2])
    for b, t in np.ndindex(found.shape):
        p = t if query_positions is None else np.broadcast_to(query_positions, found.shape)[b, t]
        if alignment == "predictive":
            hidden = np.tanh(query[b, t] @ weights["position_kernel"])
            p = lengths[b] / (1 + np.exp(-hidden @ weights["position_vector"][:, 0]))
        found[b, t] = min(p, lengths[b] - 1)
    return found


def windows(weights, query, value_mask, alignment, sigma, left, right, dilation=1, positions=None):
    """Which keys are near, and the Gaussian: `(B, T, S)`, query by query over the real keys."""
    shape = (*query.shape[:2], value_mask.shape[1])
    near, bell = np.zeros(shape, bool), np.ones(shape)
    places = centers(weights, query, value_mask.sum(-1), alignment, positions)
    for b, t in np.ndindex(shape[:2]):
        real, p = np.flatnonzero(value_mask[b]), places[b, t]
        for s, j in enumerate(real):
            steps = s - int(p)
            near[b, t, j] = steps % dilation == 0 and -left <= steps // dilation <= right
            if alignment == "predictive":
                bell[b, t, j] = np.exp(-((s - p) ** 2) / (2 * sigma**2))
    return near[:, None], bell[:, None]


def merged(weights, attention, value):
    found = (attention @ value).transpose(0, 2, 1, 3)
    found = found.reshape(*found.shape[:2], -1)
    return found @ weights["output_kernel"] + weights["output_bias"]


def mixed_weights(
    weights, query, key, value, value_mask, alignment="monotonic", window=1, sigma=None,
    mix="gate", gate="query", positions=None,
):  # fmt: skip
    q, k, _ = projected(weights, query, key, value)
    logits, real = q @ k.swapaxes(-1, -2) / np.sqrt(DEPTH), value_mask[:, None, None] > 0
    near, bell = windows(
        weights, query, value_mask, alignment, sigma or window / 2, window, window, 1, positions
    )
    everywhere, nearby = softmax(logits, real), softmax(logits, real & near) * bell
    if mix == "heads":
        return np.concatenate([everywhere[:, :1], nearby[:, 1:]], axis=1)
    if mix == "cascade":
        return everywhere * near * bell
    share = np.broadcast_to(weights["gate_bias"], (HEADS,))[:, None, None]
    if gate == "query":
        share = share + (query @ weights["gate_kernel"]).transpose(0, 2, 1)[..., None]
    share = 1 / (1 + np.exp(-share))
    return share * everywhere + (1 - share) * nearby


def expanded_weights(
    weights, query, key, value, value_mask, alignment="monotonic", window=2, extension=1,
    dilation=1, global_tokens=0, sigma=None, positions=None,
):  # fmt: skip
    q, k, _ = projected(weights, query, key, value)
    logits, real = q @ k.swapaxes(-1, -2) / np.sqrt(DEPTH), value_mask[:, None, None] > 0
    right = extension + window - 1
    sigma = sigma or dilation * (extension + right) / 4
    near, bell = windows(
        weights, query, value_mask, alignment, sigma, extension, right, dilation, positions
    )
    is_global = real & (np.cumsum(value_mask, axis=-1) <= global_tokens)[:, None, None]
    return softmax(logits, real & (near | is_global)) * np.where(is_global, 1, bell)


def reference(of_weights, **options):
    def compute(weights, query, value, value_mask, key=None):
        key = value if key is None else key
        attention = of_weights(weights, query, key, value, value_mask, **options)
        return merged(weights, attention, projected(weights, query, key, value)[2])

    return compute


@pytest.mark.parametrize(
    "check, mix, alignment",
    each_check(list(itertools.product(MIXES, ALIGNMENTS)), ("gate", "predictive")),
)
def test_every_check_of_mixed_attention_to_a_memory(check, mix, alignment):
    options = {"alignment": alignment, **MIXES[mix]}
    check(lambda **k: mixed(**options, **k), inputs_of(), reference(mixed_weights, **options))


@pytest.mark.parametrize(
    "check, name, alignment",
    each_check(list(itertools.product(EXPANDED, ALIGNMENTS)), ("global", "predictive")),
)
def test_every_check_of_an_expanded_window_over_a_memory(check, name, alignment):
    options = {"alignment": alignment, **EXPANDED[name]}
    check(lambda **k: expanded(**options, **k), inputs_of(), reference(expanded_weights, **options))


@pytest.mark.parametrize("depths", [{"value_depth": 4}, {"value_depth": 4, "key_depth": 6}])
@pytest.mark.parametrize(
    "make, of_weights", [(mixed, mixed_weights), (expanded, expanded_weights)], ids=LAYERS
)
def test_depths_of_query_key_and_value_may_differ(make, of_weights, depths):
    layer, inputs = make("predictive", sigma=0.7), inputs_of(**depths)
    randomize(layer, inputs)
    wanted = reference(of_weights, alignment="predictive", sigma=0.7)(weights_of(layer), **inputs)
    np.testing.assert_allclose(run(layer, inputs), wanted, 1e-4, 1e-5)


@pytest.mark.parametrize("per_row", [False, True])
@pytest.mark.parametrize(
    "make, of_weights", [(mixed, mixed_weights), (expanded, expanded_weights)], ids=LAYERS
)
def test_given_positions_place_the_window(make, of_weights, per_row):
    layer, inputs = make(), inputs_of()
    randomize(layer, inputs)
    given = np.array([[2, 0, 99, 4], [1, 2, 0, 1]] if per_row else [2, 0, 99, 4])
    found = run(layer, inputs, {"query_positions": given, "return_attention_scores": True}, 1)
    wanted = of_weights(weights_of(layer), inputs["query"], inputs["value"], inputs["value"],
                        MASK, positions=given)  # fmt: skip
    np.testing.assert_allclose(found, wanted, 1e-4, 1e-6)


@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
def test_self_attention_at_given_positions_is_that_at_its_own(make):
    layer, x = make(), normal(2, 6, 5)
    wanted = run(layer, {"query": x})
    found = run(layer, {"query": x}, {"query_positions": np.arange(6)})
    np.testing.assert_allclose(found, wanted, 1e-5, 1e-6)
    # Another tensor of the same values is a memory; so is a memory projected before.
    np.testing.assert_allclose(run(layer, {"query": x, "value": x + 0}), wanted, 1e-5, 1e-6)
    causal = {"use_causal_mask": True}
    np.testing.assert_allclose(
        run(layer, {"query": x, "value": x + 0}, causal), run(layer, {"query": x}, causal),
        1e-5, 1e-6,
    )  # fmt: skip


@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
def test_self_attention_at_predicted_positions_is_that_to_a_copy(make):
    layer, x = make("predictive", global_tokens=1) if make is expanded else make("predictive"), None
    x, mask = normal(2, 6, 5), np.array([[1] * 6, [1] * 4 + [0] * 2])
    randomize(layer, {"query": x})
    arguments = {"query_mask": mask, "return_attention_scores": True}
    own = run(layer, {"query": x}, arguments, 1)
    other = run(layer, {"query": x, "value": x + 0}, {**arguments, "value_mask": mask}, 1)
    rows = slice(1 if make is expanded else 0, None)  # the global token attends to all positions
    np.testing.assert_allclose(own[:, :, rows], other[:, :, rows], 1e-5, 1e-6)
    if make is expanded:
        np.testing.assert_allclose(own[:, :, 0].sum(-1), 1.0, 1e-5)
        assert (own[0, :, 0] > 0).all()


def test_one_local_head_is_local_attention():
    inputs = {"query": normal(2, 4, 5), "value": normal(2, 7, 5, seed=1), "value_mask": MASK}
    layer = MixedAttention(1, 5, 2, "heads", global_heads=0, alignment="predictive", seed=1)
    local = LocalAttention(2, "predictive", score="scaled_dot")
    for one in (layer, local):
        randomize(one, inputs)
    for name in ("position_kernel", "position_vector"):
        getattr(local, name).assign(getattr(layer, name))
    layer.query_key_value_kernel.assign(np.concatenate([np.eye(5)] * 3, axis=1))
    layer.query_key_value_bias.assign(np.zeros(15))
    scores = {"return_attention_scores": True}
    np.testing.assert_allclose(
        run(layer, inputs, scores, 1)[:, 0], run(local, inputs, scores, 1), 1e-4, 1e-6
    )


def test_a_wide_expanded_window_over_a_memory_is_multi_head_attention():
    layer, inputs = expanded(window=20, extension=20), inputs_of(4)
    randomize(layer, inputs)
    plain = MultiHeadAttention(HEADS, DEPTH, fused="kv")
    run(plain, inputs)
    plain.set_weights(layer.get_weights())
    for index, arguments in enumerate(({}, {"return_attention_scores": True})):
        np.testing.assert_allclose(
            run(layer, inputs, arguments, index), run(plain, inputs, arguments, index), 1e-4, 1e-5
        )


@pytest.mark.parametrize("alignment", ALIGNMENTS)
@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
def test_content_amount_and_side_of_padding_change_nothing(make, alignment):
    layer, inputs = make(alignment), inputs_of()
    randomize(layer, inputs)
    wanted = run(layer, inputs)
    for other in with_other_padding(inputs, "value_mask", ["value"]):
        np.testing.assert_allclose(run(layer, other), wanted, 1e-4, 1e-5)
    left = {**inputs}
    for name in ("value", "value_mask"):
        sides = [(0, 0), (2, 0), (0, 0)][: inputs[name].ndim]
        left[name] = np.pad(inputs[name], sides)
    np.testing.assert_allclose(run(layer, left), wanted, 1e-4, 1e-5)
    queries = {**inputs, "query": np.pad(inputs["query"], ((0, 0), (2, 1), (0, 0)))}
    mask = np.pad(np.ones((2, 4), int), ((0, 0), (2, 1)))
    found = run(layer, queries, {"query_mask": mask})
    np.testing.assert_allclose(found[:, 2:6], wanted, 1e-4, 1e-5)
    bias = ops.convert_to_numpy(layer.heads.output_bias)
    np.testing.assert_allclose(found[:, [0, 1, 6]], np.broadcast_to(bias, (2, 3, 5)), 1e-6)


@pytest.mark.parametrize("policy", ["float32", "mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("alignment", ALIGNMENTS)
@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
def test_a_row_with_no_key_has_weights_0_and_finite_gradients(make, alignment, policy):
    layer = make(alignment, dtype=policy)
    inputs = {**inputs_of(), "value_mask": np.array([[0] * 7, [1, 1, 0, 0, 0, 0, 0]])}
    randomize(layer, inputs)
    weights = run(layer, inputs, {"return_attention_scores": True}, 1)
    np.testing.assert_array_equal(weights[0], 0.0)
    assert weights[1].sum(-1).min() > 0
    bias = ops.convert_to_numpy(layer.heads.output_bias)
    np.testing.assert_allclose(run(layer, inputs)[0], np.broadcast_to(bias, (4, 5)), 1e-2)
    for found in layer_gradients(layer, inputs):
        for name, gradient in found.items():
            assert np.isfinite(np.asarray(gradient, "float32")).all(), name


@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
def test_v_and_w_learn_through_the_gaussian_alone(make):
    for sigma, moved in ((None, True), (1e9, False)):
        layer, inputs = make("predictive", sigma=sigma), inputs_of()
        randomize(layer, inputs)
        by_path, _ = layer_gradients(layer, inputs)
        for name in ("position_kernel", "position_vector"):
            assert (np.abs(by_path[name]).max() > 1e-4) == moved


@pytest.mark.parametrize("alignment", ALIGNMENTS)
@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
def test_a_memory_projected_once_gives_the_same(make, alignment):
    layer, inputs = make(alignment), inputs_of(4)
    randomize(layer, inputs)
    wanted = run(layer, inputs)
    memory = layer.project_memory(ops.convert_to_tensor(inputs["value"]))
    assert [tuple(x.shape) for x in memory] == [(2, HEADS, 7, DEPTH)] * 2
    query = ops.convert_to_tensor(inputs["query"])
    found = layer(query, memory=memory, value_mask=MASK)
    np.testing.assert_allclose(ops.convert_to_numpy(found), wanted, 1e-5, 1e-6)
    for t in range(4):  # word by word
        found = layer(
            query[:, t : t + 1], memory=memory, value_mask=MASK, query_positions=np.array([t])
        )
        np.testing.assert_allclose(ops.convert_to_numpy(found)[:, 0], wanted[:, t], 1e-5, 1e-6)


@pytest.mark.parametrize("one", ["query", "value"])
@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
def test_a_batch_of_one_broadcasts(make, one):
    layer, inputs = make("predictive"), inputs_of()
    del inputs["value_mask"]
    randomize(layer, inputs)
    inputs[one] = inputs[one][:1]
    wanted = run(layer, {name: np.broadcast_to(x, (2, *x.shape[1:])) for name, x in inputs.items()})
    np.testing.assert_allclose(run(layer, inputs), wanted, 1e-5, 1e-6)


@pytest.mark.parametrize("alignment", ALIGNMENTS)
@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
def test_masks_of_keras_work_without_an_argument(make, alignment):
    ids = np.array([[3, 4, 6, 0], [5, 0, 0, 0]])
    embedding, tokens = keras.layers.Embedding(9, 5, mask_zero=True), keras.Input((None,))
    queries, layer = keras.Input((None, 5)), make(alignment)
    model = keras.Model(
        [queries, tokens], layer(queries, embedding(tokens), return_attention_scores=True)
    )
    x = normal(2, 3, 5)
    _, scores = model([x, ids])
    wanted = run(
        layer,
        {"query": x, "value": ops.convert_to_numpy(embedding(ids))},
        {"value_mask": ids > 0, "return_attention_scores": True},
        1,
    )
    np.testing.assert_allclose(ops.convert_to_numpy(scores), wanted, 1e-5, 1e-6)
    np.testing.assert_array_equal(wanted[0, ..., 3], 0.0)


def test_configs_of_earlier_versions_load_and_have_the_same_weights():
    for make in LAYERS.values():
        layer, other = make(), make("predictive", sigma=0.5)
        config = layer.get_config()
        old = {name: config[name] for name in config.keys() - {"alignment", "sigma"}}
        assert type(layer).from_config(old).get_config() == config
        assert other.get_config()["sigma"] == 0.5
        for one in (layer, other):
            one.build((None, 3, 5))
        names = [v.name for v in layer.weights]
        assert not any("position" in name for name in names)
        assert [v.name for v in other.weights] == [*names, "position_kernel", "position_vector"]


def cached(layer, **kwargs):
    return layer(X, cache=layer.make_cache(2, 4), cache_index=0, **kwargs)


X, VALUE = normal(2, 3, 4), normal(2, 5, 4, seed=1)
MEMORY = tuple(normal(2, HEADS, 5, DEPTH, seed=s) for s in (1, 2))


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize(
    "call, message",
    [
        (lambda make: make("random"), "alignment must be one of .*'random'"),
        (lambda make: make(sigma=1.0), 'with alignment="predictive". Received: sigma=1.0'),
        (lambda make: make("predictive", sigma=0.0), "sigma=0.0"),
        (lambda make: make()(X, key=X + 1), "key requires value"),
        (lambda make: make()(X, VALUE, memory=MEMORY), "memory and value"),
        (lambda make: cached(make(), memory=MEMORY), "memory and cache"),
        (lambda make: cached(make("predictive")), "a cache requires .*'predictive'"),
        (lambda make: cached(make(), value=VALUE), "a cache requires .* a value"),
        (lambda make: cached(make(), query_positions=np.arange(3)), "a cache, .*query_positions"),
        (lambda make: make()(X, cache=make().make_cache(2, 4)), "only cache"),
        (lambda make: make()(X, VALUE, value_mask=np.ones((2, 5))), "value_mask must be boolean"),
        (lambda make: make()(X, VALUE, value_mask=np.ones((2, 3), bool)), r"of shape \(2, 5\)"),
        (lambda make: make()(X, normal(3, 5, 4)), r"value of shape \(3, 5, 4\)"),
    ],
)
def test_wrong_calls_are_errors_that_say_what_is_wrong(name, call, message):
    with pytest.raises(ValueError, match=message):
        call(LAYERS[name])


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: mixed("predictive", window=0), "sigma must be .* window=0"),
        (
            lambda: expanded("predictive", window=1, extension=0),
            "sigma must be .* window=1, extension=0",
        ),
        (lambda: expanded("predictive", random_blocks=1), "is not supported with random_blocks"),
        (
            lambda: expanded(random_blocks=1)(X, VALUE),
            "a memory is not supported with random_blocks",
        ),
        (
            lambda: expanded(global_tokens=1, separate_global_projections=True)(
                X, query_positions=np.arange(3)
            ),
            "query_positions is not supported with separate_global_projections",
        ),
    ],
)
def test_options_that_exclude_each_other_are_errors(make, message):
    with pytest.raises(ValueError, match=message):
        make()
