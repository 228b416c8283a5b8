"""`CRF` in models, with constraints that some rows cannot fulfil, and its loss."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn import registration
from keras_attn.layers import CRF
from keras_attn.ops import crf_loss
from tests.support.layer_checks import JIT, gradients, layer_gradients, run, with_other_padding
from tests.support.numpy_attention import normal
from tests.support.small_crf import CONSTRAINTS, TAGS, make_layer

CONSTRAINED = CONSTRAINTS["constrained"]
OUTSIDE, BEGIN, INSIDE = range(3)
IOB2 = {
    "allowed_transitions": [[True, True, False], [True, True, True], [True, True, True]],
    "allowed_start": [True, True, False],
}


def sentences(number, length, seed=0):
    """Tokens, of which those below 4 are names, and their tags: B for the first of a run of names,
    I for the others; padded with 0.
    """
    random = np.random.default_rng(seed)
    tokens = random.integers(1, 8, (number, length))
    tokens *= np.arange(length) < random.integers(1, length + 1, number)[:, None]
    name = (tokens > 0) & (tokens < 4)
    before = np.pad(name, [(0, 0), (1, 0)])[:, :-1]
    return tokens, np.where(name, np.where(before, INSIDE, BEGIN), OUTSIDE)


def tagger(**compiled):
    keras.utils.set_random_seed(1)
    tokens = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(8, 8, mask_zero=True)(tokens)
    cell = keras.layers.LSTM(8, return_sequences=True, use_cudnn=False)
    x = keras.layers.Dense(3)(keras.layers.Bidirectional(cell)(x))
    model = keras.Model(tokens, CRF(**IOB2)(x))
    model.compile(keras.optimizers.Adam(0.05), crf_loss, metrics=["accuracy"], **compiled)
    return model


@pytest.mark.parametrize("constraints", CONSTRAINTS.values(), ids=CONSTRAINTS)
def test_padding_never_reaches_the_output(constraints):
    layer, mask = make_layer(**constraints), np.array([[1, 1, 1, 0], [1, 0, 0, 0]])
    inputs = {"inputs": normal(2, 4, TAGS), "mask": mask}
    expected = run(layer, inputs)
    other, longer = with_other_padding(inputs, "mask", ["inputs"])
    nan = {**inputs, "inputs": np.where(mask[..., None] > 0, inputs["inputs"], np.float32("nan"))}
    for changed in (other, longer, nan):
        np.testing.assert_allclose(run(layer, changed)[:, :4], expected, 1e-6, 1e-6)
        assert not run(layer, changed)[~changed["mask"].astype(bool)].any()
        found = ops.convert_to_numpy(layer.marginals(changed["inputs"], changed["mask"]))
        assert np.isfinite(found).all()
        by_path, by_input = layer_gradients(layer, changed)
        assert all(np.isfinite(x).all() for x in (*by_path.values(), *by_input.values()))


@pytest.mark.thorough
def test_computes_in_float32_under_any_policy():
    emissions, mask = 3000 * normal(2, 4, TAGS), np.array([[1, 1, 1, 1], [1, 1, 0, 0]])
    layer = make_layer()
    expected = run(layer, {"inputs": emissions, "mask": mask})
    for policy in ("mixed_float16", "mixed_bfloat16"):
        half = make_layer(dtype=policy)
        found = half(emissions, mask=mask)
        assert keras.backend.standardize_dtype(found.dtype) == "float32"
        np.testing.assert_array_equal(ops.convert_to_numpy(found), expected)
        low = ops.cast(emissions, policy.removeprefix("mixed_"))
        assert keras.backend.standardize_dtype(half.decode(low, mask)[1].dtype) == "float32"
        assert half(keras.Input((None, TAGS))).dtype == "float32"


def test_what_is_not_allowed_has_probability_0_and_is_never_decoded():
    layer = make_layer(**CONSTRAINED)
    emissions = np.zeros((1, 3, TAGS), "float32")
    emissions[0, range(3), [1, 2, 2]] = 1e6  # neither start, transition nor end is allowed
    assert list(ops.convert_to_numpy(layer.decode(emissions)[0])[0]) != [1, 2, 2]
    marginals = ops.convert_to_numpy(layer.marginals(emissions))[0]
    assert marginals[0, 1] == marginals[2, 2] == 0
    for tags in ([1, 1, 1], [0, 1, 1], [0, 0, 2], [0, 0, TAGS], [TAGS + 5, 0, 0]):
        found = ops.convert_to_numpy(layer.log_likelihood(emissions * 0, np.array([tags])))
        assert found < -9e29 and np.isfinite(found), tags
        slopes = gradients(
            lambda tensors, tags=tags: ops.sum(
                crf_loss(ops.convert_to_tensor([tags]), layer(tensors[0]))
            ),
            [emissions],
        )
        assert np.isfinite(slopes[0]).all()


def test_weights_of_what_is_not_allowed_get_no_gradient():
    layer, tags = make_layer(**CONSTRAINED), np.array([[0, 2, 1, 0]])
    arrays = [ops.convert_to_numpy(v) for v in layer.weights]

    def likelihood(tensors):
        with keras.StatelessScope(list(zip(layer.weights, tensors, strict=True))):
            return ops.sum(layer.log_likelihood(normal(1, 4, TAGS), tags))

    for slope, allowed in zip(gradients(likelihood, arrays), CONSTRAINED.values(), strict=True):
        assert not slope[~np.array(allowed)].any() and slope[np.array(allowed)].all()


def test_a_row_without_an_allowed_sequence_is_finite():
    layer = make_layer(allowed_start=[True, False, False], allowed_end=[False, True, True])
    emissions, mask = normal(2, 2, TAGS), np.array([[1, 0], [1, 1]])  # the first row is too short
    inputs = {"inputs": emissions, "mask": mask}
    by_path, by_input = layer_gradients(layer, inputs)
    found = [
        run(layer, inputs),
        layer.marginals(emissions, mask),
        layer.log_likelihood(emissions, np.array([[0, 0], [0, 1]]), mask),
        *layer.decode(emissions, mask),
        *by_path.values(),
        *by_input.values(),
    ]
    assert all(np.isfinite(ops.convert_to_numpy(x)).all() for x in found)
    likelihood, marginals = ops.convert_to_numpy(found[2]), ops.convert_to_numpy(found[1])
    np.testing.assert_allclose(likelihood[0], -np.log(TAGS), 1e-5)
    np.testing.assert_allclose(marginals[1].sum(axis=-1), 1, 1e-5)


@pytest.mark.parametrize("shape", [(2, 0), (0, 3), (0, 0)])
def test_nothing_has_probability_1(shape):
    layer, emissions = make_layer(), np.zeros((*shape, TAGS), "float32")
    tags = np.zeros(shape, "int32")
    assert run(layer, {"inputs": emissions}).shape == (*shape, TAGS + TAGS**2)
    assert ops.convert_to_numpy(layer.log_likelihood(emissions, tags)).tolist() == [0] * shape[0]
    decoded, scores = layer.decode(emissions)
    assert tuple(decoded.shape) == shape and tuple(scores.shape) == shape[:1]
    assert not ops.convert_to_numpy(scores).any()
    assert tuple(layer.marginals(emissions).shape) == (*shape, TAGS)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="graphs of unknown lengths")
@pytest.mark.parametrize("jit", [False, pytest.param(True, marks=pytest.mark.runs)])
def test_one_graph_serves_every_batch_and_length(jit):
    import tensorflow as tf

    layer = make_layer(**CONSTRAINED)

    def everything(emissions, tags, mask):
        with tf.GradientTape() as tape:
            tape.watch(emissions)
            likelihood = layer.log_likelihood(emissions, tags, mask)
        slope = tape.gradient(likelihood, emissions)
        decoded = layer.decode(emissions, mask)
        return likelihood, slope, *decoded, layer.marginals(emissions, mask)

    specs = [
        tf.TensorSpec([None, None, TAGS]),
        tf.TensorSpec([None, None], tf.int32),
        tf.TensorSpec([None, None], tf.bool),
    ]
    graph = tf.function(everything, input_signature=specs, jit_compile=jit, autograph=False)
    for rows, length in ((2, 5), (3, 1), (2, 0)):
        mask = np.arange(length) < np.array([length, 1, 0])[:rows, None]
        tags = np.zeros((rows, length), "int32")
        given = [tf.constant(x) for x in (normal(rows, length, TAGS), tags, mask)]
        for found, expected in zip(graph(*given), everything(*given), strict=True):
            np.testing.assert_allclose(found, expected, 1e-5, 1e-5)


@pytest.mark.thorough
def test_a_tagger_learns_a_grammar_and_reloads(tmp_path, monkeypatch):
    tokens, tags = sentences(70, 6)
    model = tagger(jit_compile=JIT)
    losses = model.fit(tokens, tags, epochs=10, batch_size=32, verbose=0).history["loss"]
    assert losses[-1] < 0.1 * losses[0]
    new, wanted = sentences(20, 8, seed=1)
    found = model.predict(new, verbose=0)
    real = new > 0
    assert (found.argmax(-1)[real] == wanted[real]).mean() > 0.97
    assert not found[~real].any()
    model.save(tmp_path / "model.keras")
    # As in a process that imported Keras and this package alone.
    for name in ("keras_attn>CRF", "keras_attn>crf_loss"):
        monkeypatch.delitem(keras.saving.get_custom_objects(), name)
    registration._register(keras)
    again = keras.saving.load_model(tmp_path / "model.keras")
    losses = ops.convert_to_numpy(crf_loss(wanted, found))
    loss, accuracy = again.evaluate(new, wanted, verbose=0)
    np.testing.assert_allclose(loss, losses[real].mean(), 1e-4)
    assert accuracy > 0.97
    only_tags = keras.Model(again.inputs, ops.argmax(again.outputs[0], -1))
    np.testing.assert_array_equal(only_tags.predict(new, verbose=0), found.argmax(-1))


@pytest.mark.runs
@pytest.mark.skipif(keras.backend.backend() == "torch", reason="has no XLA")
def test_a_tagger_trains_under_xla_with_a_smaller_last_batch():
    tokens, tags = sentences(37, 6)
    losses = []
    for jit in (True, keras.backend.backend() == "jax"):
        model = tagger(jit_compile=jit)
        fitted = model.fit(tokens, tags, epochs=3, batch_size=16, shuffle=False, verbose=0)
        losses.append(fitted.history["loss"])
    np.testing.assert_allclose(losses[0], losses[1], 1e-3)
    assert losses[0][-1] < losses[0][0]


@pytest.mark.thorough
def test_the_loss_is_the_mean_over_known_and_unmasked_tags():
    layer, emissions = make_layer(), normal(2, 4, TAGS)
    tags = np.array([[0, 1, -1, 2], [2, 0, 1, 0]])
    mask = np.array([[1, 1, 1, 1], [1, 1, 0, 0]], bool)
    likelihood = ops.convert_to_numpy(layer.log_likelihood(emissions, tags, mask))
    loss = keras.losses.get(crf_loss)
    wrapped = keras.Model(x := keras.Input((None, TAGS)), layer(x))
    wrapped.compile(loss=loss, jit_compile=JIT)
    masked = layer(ops.convert_to_tensor(emissions), mask=ops.convert_to_tensor(mask))
    found = wrapped.compute_loss(y=ops.convert_to_tensor(tags), y_pred=masked)
    np.testing.assert_allclose(ops.convert_to_numpy(found), -likelihood.sum() / 5, 1e-5)
    plain = ops.convert_to_numpy(layer.log_likelihood(emissions, tags))
    found = wrapped.evaluate(emissions, tags, verbose=0)
    np.testing.assert_allclose(found, -plain.sum() / 7, 1e-5)
    weighted = wrapped.evaluate(
        emissions, tags, sample_weight=np.repeat([[0.0], [1.0]], 4, axis=1), verbose=0
    )
    np.testing.assert_allclose(weighted, -plain[1] / 7, 1e-5)


@pytest.mark.parametrize(
    "tags, outputs, message",
    [
        ((2, 3), (2, 3, 4), r"y_pred must be .* of shape \(2, 3, 4\)"),
        ((2, 3), (2, 12), "y_pred must be the output of a CRF"),
        ((2, 3, 1), (2, 3, 12), r"Tags must be of shape \(2, 3\), .* of shape \(2, 3, 1\)"),
        ((2, 1), (2, 3, 12), r"Tags must be of shape \(2, 3\), .* of shape \(2, 1\)"),
    ],
)
def test_a_loss_of_other_shapes_is_an_error(tags, outputs, message):
    with pytest.raises(ValueError, match=message):
        crf_loss(np.zeros(tags), np.zeros(outputs))


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"allowed_transitions": [[True, False]]}, r"of shape \(K, K\)"),
        ({"allowed_transitions": [True, False]}, r"of shape \(K, K\)"),
        ({"allowed_start": [[True]]}, r"allowed_start must be boolean, of shape \(K,\)"),
        ({"allowed_end": [False, False]}, "True somewhere. Received: allowed_end"),
        ({"allowed_end": [0.5, 1.0]}, "must be boolean"),
    ],
)
def test_constraints_that_cannot_be_right_are_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        CRF(**arguments)


def test_inputs_that_do_not_fit_are_errors():
    with pytest.raises(
        ValueError, match=r"one entry per tag. .* \(2,\), inputs of shape \(1, 2, 3"
    ):
        CRF(allowed_start=[True, False])(normal(1, 2, 3))
    for call in (CRF(), make_layer().decode):
        with pytest.raises(ValueError, match=r"inputs must be of shape \(B, T, K\)"):
            call(normal(2, 3))
    with pytest.raises(ValueError, match=r"Tags must be of shape \(2, 4\)"):
        make_layer().log_likelihood(normal(2, 4, TAGS), np.zeros((2, 1), int))
    with pytest.raises(ValueError, match="mask > 0.5"):
        CRF()(normal(1, 2, 3), mask=np.ones((1, 2), "float32"))
    with pytest.raises(ValueError, match="mask > 0.5"):
        CRF().marginals(normal(1, 2, 3), np.ones((1, 2), "float32"))
