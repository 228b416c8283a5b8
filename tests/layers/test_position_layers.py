import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.layers import LearnedPositionEmbedding, SinusoidalPositionEncoding
from tests.support.layer_checks import check_layer, randomize, run


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def sinusoids(positions, depth, wavelength=10000.0, layout="interleaved"):
    table = np.zeros((*positions.shape, depth))
    for i in range(depth):
        pair, phase = divmod(i, 2)
        if layout == "concat":
            sines = (depth + 1) // 2
            pair, phase = (i, 0) if i < sines else (i - sines, 1)
        angle = positions / wavelength ** (2 * pair / depth)
        table[..., i] = np.cos(angle) if phase else np.sin(angle)
    return table


@pytest.mark.parametrize("layout", ["interleaved", "concat"])
@pytest.mark.parametrize("depth", [6, 7])
def test_every_check_of_the_sinusoidal_layer(layout, depth):
    check_layer(
        lambda **k: SinusoidalPositionEncoding(layout=layout, max_wavelength=100.0, **k),
        {"inputs": normal(2, 4, depth)},
        lambda weights, inputs: inputs + sinusoids(np.arange(4), depth, 100.0, layout),
    )


def test_sinusoids_take_the_positions_they_are_given():
    positions = np.array([[0, 0, 1, 2], [5, 0, 3, 400]])
    check_layer(
        SinusoidalPositionEncoding,
        {"inputs": normal(2, 4, 6), "position_ids": positions},
        lambda weights, inputs, position_ids: inputs + sinusoids(position_ids, 6),
    )


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_sinusoids_of_large_positions_survive_half_precision(dtype):
    layer = SinusoidalPositionEncoding(dtype=dtype)
    found = run(layer, {"inputs": np.zeros((1, 600, 16), "float32")})
    np.testing.assert_allclose(found[0], sinusoids(np.arange(600), 16), atol=5e-3)


def test_a_shift_of_position_is_one_rotation_of_all_encodings():
    layer = SinusoidalPositionEncoding(max_wavelength=50.0)
    table = run(layer, {"inputs": np.zeros((1, 50, 8), "float32")})[0]
    rotation, *_ = np.linalg.lstsq(table[:-7], table[7:], rcond=None)
    np.testing.assert_allclose(table[:-7] @ rotation, table[7:], atol=1e-4)
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(8), atol=1e-3)


def test_every_check_of_the_learned_layer():
    check_layer(
        lambda **k: LearnedPositionEmbedding(9, seed=1, **k),
        {"inputs": normal(2, 4, 5)},
        lambda weights, inputs: inputs + weights["embeddings"][:4],
    )


def test_learned_positions_take_the_positions_they_are_given():
    positions = np.array([[0, 0, 1, 2], [5, 0, 3, 8]])
    check_layer(
        lambda **k: LearnedPositionEmbedding(9, seed=1, **k),
        {"inputs": normal(2, 4, 5), "position_ids": positions},
        lambda weights, inputs, position_ids: inputs + weights["embeddings"][position_ids],
    )


def test_inputs_longer_than_the_table_are_an_error():
    layer = LearnedPositionEmbedding(3)
    with pytest.raises(ValueError, match="max_length=3"):
        layer(np.zeros((1, 4, 2), "float32"))
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        unknown = tf.function(layer, input_signature=[tf.TensorSpec((None, None, 2))])
        assert unknown(tf.zeros((1, 3, 2))).shape == (1, 3, 2)
        with pytest.raises(tf.errors.InvalidArgumentError):
            unknown(tf.zeros((1, 4, 2)))


def test_keras_masks_pass_through():
    ids = np.array([[3, 4, 0]])
    for layer in (LearnedPositionEmbedding(9), SinusoidalPositionEncoding()):
        tokens = keras.Input((None,), dtype="int32")
        x = layer(keras.layers.Embedding(9, 4, mask_zero=True)(tokens))
        pooled = keras.layers.GlobalAveragePooling1D()(x)
        every, mean = keras.Model(tokens, [x, pooled])(ids)
        expected = ops.convert_to_numpy(every)[:, :2].mean(1)
        np.testing.assert_allclose(ops.convert_to_numpy(mean), expected, 1e-5, 1e-6)


def test_the_initial_table_repeats_by_seed():
    tables = []
    for seed in (4, 4, 5):
        layer = LearnedPositionEmbedding(3, seed=seed)
        layer.build((None, None, 2))
        tables.append(ops.convert_to_numpy(layer.embeddings))
    np.testing.assert_array_equal(tables[0], tables[1])
    assert np.abs(tables[0] - tables[2]).max() > 0


@pytest.mark.parametrize(
    "make,message",
    [
        (lambda: LearnedPositionEmbedding(0), "max_length=0"),
        (lambda: SinusoidalPositionEncoding(max_wavelength=0), "max_wavelength=0"),
        (lambda: SinusoidalPositionEncoding(layout="mixed"), "layout='mixed'"),
    ],
)
def test_arguments_out_of_range_are_errors_that_name_them(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_randomize_reaches_the_table():
    # The checks above mean little if the weights they compare stay at their start.
    layer = LearnedPositionEmbedding(3, initializer="zeros")
    randomize(layer, {"inputs": normal(1, 2, 2)})
    assert np.abs(ops.convert_to_numpy(layer.embeddings)).min() > 0
