import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.layers import (
    AdditiveScore,
    BilinearScore,
    ConcatScore,
    CosineScore,
    DotScore,
    LocationScore,
)
from tests.support.layer_checks import (
    check_compiled,
    check_config,
    check_gradients,
    check_symbolic_and_file,
    layer_gradients,
    randomize,
    run,
    weights_of,
)
from tests.support.numpy_attention import SCORES, normal, softmax


def cosine(weights, query, key):
    return np.exp(weights.get("log_beta", np.log(2))) * SCORES["cosine"](weights, query, key)


CASES = {
    "dot": (DotScore, {"scale": 1.0}, SCORES["dot"]),
    "scaled_dot": (DotScore, {}, SCORES["scaled_dot"]),
    "bilinear": (BilinearScore, {"seed": 1}, SCORES["bilinear"]),
    "cosine": (CosineScore, {"beta": 2.0}, cosine),
    "cosine_learned": (CosineScore, {"beta": 3.0, "learn_beta": True}, cosine),
    "concat": (ConcatScore, {"units": 6, "seed": 1}, SCORES["concat"]),
    "additive": (AdditiveScore, {"seed": 1}, SCORES["additive"]),
    "additive_normalized": (
        AdditiveScore,
        {"units": 6, "use_bias": True, "normalize": True},
        SCORES["additive"],
    ),
    "location_biased": (
        LocationScore,
        {"max_length": 7, "use_bias": True},
        lambda weights, query, key: (
            SCORES["location"](weights, query, key) + weights["bias"][: key.shape[1]]
        ),
    ),
    "location": (LocationScore, {"max_length": 7, "seed": 1}, SCORES["location"]),
}


def depths(name):
    return (5, 5) if name.startswith(("dot", "scaled_dot", "cosine")) else (5, 3)


@pytest.mark.parametrize("name", CASES)
def test_every_check_of_a_score(name):
    layer_class, arguments, reference = CASES[name]

    def make(**kwargs):
        return layer_class(**arguments, **kwargs)

    query_depth, key_depth = depths(name)
    inputs = {"query": normal(2, 3, query_depth), "key": normal(2, 4, key_depth, seed=1)}
    layer = make()
    randomize(layer, inputs)
    exact = {n: x.astype("float64") for n, x in inputs.items()}
    expected = reference(weights_of(layer), **exact)
    np.testing.assert_allclose(run(layer, inputs), expected, 1e-5, 1e-5)
    check_gradients(layer, inputs, reference)
    check_config(layer, make)
    check_symbolic_and_file(layer, inputs, {}, expected, 1e-5)
    check_compiled(layer, inputs, {}, expected, 1e-5)
    for policy, share in (("mixed_float16", 0.005), ("mixed_bfloat16", 0.04)):
        half = make(dtype=policy)
        run(half, inputs)
        half.set_weights(layer.get_weights())
        found = run(half, inputs)
        np.testing.assert_allclose(found, expected, atol=share * np.abs(expected).max())


@pytest.mark.parametrize("name", CASES)
def test_one_query_and_one_key_are_enough(name):
    layer_class, arguments, _ = CASES[name]
    query_depth, key_depth = depths(name)
    assert run(
        layer_class(**arguments),
        {"query": normal(1, 1, query_depth), "key": normal(1, 1, key_depth)},
    ).shape == (1, 1, 1)


@pytest.mark.parametrize("name", ["dot", "scaled_dot", "bilinear", "cosine"])
def test_products_beyond_float16_are_finite(name):
    layer_class, arguments, reference = CASES[name]
    layer = layer_class(**arguments, dtype="mixed_float16")
    inputs = {"query": 300 * normal(1, 3, 64), "key": 300 * normal(1, 4, 64, seed=1)}
    found = run(layer, inputs)
    expected = reference(weights_of(layer), **inputs)
    assert name == "cosine" or np.abs(expected).max() > 65504
    np.testing.assert_allclose(found, expected, atol=0.005 * np.abs(expected).max())


def test_concat_is_additive_with_its_kernel_in_two():
    inputs = {"query": normal(2, 3, 5), "key": normal(2, 4, 2, seed=1)}
    concat, additive = ConcatScore(6), AdditiveScore(6)
    for layer in (concat, additive):
        randomize(layer, inputs)
    kernel = np.concatenate([additive.query_kernel, additive.key_kernel], axis=0)
    concat.kernel.assign(kernel)
    concat.vector.assign(additive.vector)
    np.testing.assert_allclose(run(concat, inputs), run(additive, inputs), 1e-5, 1e-6)


def test_a_linear_concat_would_ignore_the_query_and_ours_does_not():
    # W [q; k] = W_q q + W_k k, and the first part is the same for all keys.
    queries, key = [normal(1, 1, 5, seed=s) for s in (0, 1)], normal(1, 4, 3, seed=2)
    kernel = normal(8, seed=3)
    linear = [softmax(q @ kernel[:5, None] + (key @ kernel[5:])[:, None]) for q in queries]
    np.testing.assert_allclose(*linear, 1e-5)
    layer = ConcatScore(6)
    randomize(layer, {"query": queries[0], "key": key})
    ours = [softmax(run(layer, {"query": q, "key": key})) for q in queries]
    assert np.abs(ours[0] - ours[1]).max() > 0.01


def test_parts_of_the_additive_score_make_the_whole():
    layer = AdditiveScore(6, use_bias=True)
    inputs = {"query": normal(2, 3, 5), "key": normal(2, 4, 3, seed=1)}
    randomize(layer, inputs)
    found = layer.from_projected(
        layer.project_query(inputs["query"]), layer.project_key(inputs["key"])
    )
    np.testing.assert_allclose(ops.convert_to_numpy(found), run(layer, inputs), 1e-6, 1e-6)


def test_a_normalized_vector_keeps_its_direction_alone():
    layer = AdditiveScore(4, normalize=True)
    inputs = {"query": normal(2, 3, 5), "key": normal(2, 4, 3, seed=1)}
    expected = run(layer, inputs)
    assert float(ops.convert_to_numpy(layer.length)) == 0.5
    layer.vector.assign(9.0 * layer.vector)
    np.testing.assert_allclose(run(layer, inputs), expected, 1e-5, 1e-6)


def test_lengths_of_query_and_key_do_not_matter_to_the_cosine():
    query, key = normal(2, 3, 5), normal(2, 4, 5, seed=1)
    expected = run(CosineScore(), {"query": query, "key": key})
    assert np.abs(expected).max() <= 1
    for a, b in ((1e-3, 1e4), (1e4, 1e-3)):
        found = run(CosineScore(), {"query": a * query, "key": b * key})
        np.testing.assert_allclose(found, expected, 1e-5, 1e-6)


def test_zero_vectors_have_a_cosine_of_0_and_finite_gradients():
    inputs = {"query": np.zeros((1, 2, 3), "float32"), "key": normal(1, 3, 3)}
    inputs["key"][0, 1] = 0
    layer = CosineScore()
    np.testing.assert_array_equal(run(layer, inputs), 0.0)
    _, by_input = layer_gradients(layer, inputs)
    assert all(np.isfinite(g).all() for g in by_input.values())


def test_a_learned_beta_starts_as_given_in_a_compiled_first_call_too():
    query, key = normal(2, 3, 5), normal(2, 4, 5, seed=1)
    expected = run(CosineScore(4.0), {"query": query, "key": key})
    layer = CosineScore(4.0, learn_beta=True)
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        found = tf.function(layer)(query, key).numpy()
    else:
        found = ops.convert_to_numpy(layer(query, key))
    np.testing.assert_allclose(found, expected, 1e-5, 1e-6)
    layer.log_beta.assign(-30.0)
    assert 0 < np.abs(run(layer, {"query": query, "key": key})).max() < 1e-12


def test_a_location_score_sees_the_number_of_keys_alone():
    layer = LocationScore(4)
    query = normal(2, 3, 5)
    randomize(layer, {"query": query, "key": normal(2, 4, 3)})
    full = run(layer, {"query": query, "key": normal(2, 4, 3, seed=1)})
    np.testing.assert_array_equal(run(layer, {"query": query, "key": normal(2, 4, 3)}), full)
    shorter = run(layer, {"query": query, "key": normal(2, 2, 3)})
    np.testing.assert_allclose(shorter, full[..., :2], 1e-6)
    with pytest.raises(ValueError, match="max_length=4"):
        run(layer, {"query": query, "key": normal(2, 5, 3)})
    model = keras.Model(inputs := [keras.Input((None, 5)), keras.Input((None, 3))], layer(*inputs))
    with pytest.raises(ValueError, match="max_length=4"):
        model([query, normal(2, 5, 3)])


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="a graph of TensorFlow")
@pytest.mark.parametrize("jit_compile", [False, True])
def test_a_graph_for_all_lengths_has_no_location_score_of_more_keys_either(jit_compile):
    import tensorflow as tf

    layer = LocationScore(4)
    query = normal(2, 3, 5)
    full = run(layer, {"query": query, "key": normal(2, 4, 3)})
    graph = tf.function(
        layer, [tf.TensorSpec((None, None, depth)) for depth in (5, 3)], jit_compile=jit_compile
    )
    np.testing.assert_allclose(graph(query, normal(2, 3, 3)), full[..., :3], 1e-6)
    with pytest.raises(tf.errors.InvalidArgumentError, match="shape"):
        graph(query, normal(2, 5, 3))


@pytest.mark.parametrize("name", ["bilinear", "concat", "additive", "location"])
def test_initial_weights_repeat_by_seed_and_differ_from_one_another(name):
    layer_class, arguments, _ = CASES[name]
    shapes = (None, None, 4), (None, None, 4)
    found = []
    for seed in (1, 1, 2):
        layer = layer_class(**{**arguments, "seed": seed})
        layer.build(*shapes)
        found.append(layer.get_weights())
    for one, same, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, same)
        assert np.abs(one - other).max() > 0.01
    if name == "additive":  # two kernels of one shape
        assert np.abs(found[0][0] - found[0][1]).max() > 0.01


@pytest.mark.parametrize(
    "layer_class,arguments,message",
    [
        (AdditiveScore, {"units": 0}, "units=0"),
        (ConcatScore, {"units": -1}, "units=-1"),
        (CosineScore, {"beta": 0.0}, "beta=0.0"),
        (LocationScore, {"max_length": 0}, "max_length=0"),
    ],
)
def test_arguments_out_of_range_are_errors_that_name_them(layer_class, arguments, message):
    with pytest.raises(ValueError, match=message):
        layer_class(**arguments)


@pytest.mark.parametrize("layer_class", [DotScore, CosineScore])
def test_query_and_key_of_two_depths_are_an_error(layer_class):
    expected = rf"{layer_class.__name__}: key must be of shape \(1, S, 3\)"
    with pytest.raises(ValueError, match=expected):
        layer_class()(normal(1, 2, 3), normal(1, 2, 4))
