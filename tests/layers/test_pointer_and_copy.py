import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.layers.copy_distribution import CopyDistribution
from keras_attn.layers.pointer_attention import PointerAttention
from keras_attn.ops.coverage import coverage_loss
from tests.support.layer_checks import (
    check_compiled,
    check_config,
    check_gradients,
    gradients,
    layer_gradients,
    randomize,
    run,
    weights_of,
)

MASK = np.array([[1, 1, 1, 0], [0, 1, 1, 1]])


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def pointer(**kwargs):
    return PointerAttention(3, **{"seed": 1, **kwargs})


def queries():
    return {"query": normal(2, 3, 5), "value": normal(2, 4, 6, seed=1)}


def logits(weights, query, value, value_mask=None):
    """Vinyals et al., eq. 3, one by one."""
    found = np.zeros((*query.shape[:2], value.shape[1]))
    for b, i, j in np.ndindex(*found.shape):
        hidden = np.tanh(
            query[b, i] @ weights["score/query_kernel"] + value[b, j] @ weights["score/key_kernel"]
        )
        found[b, i, j] = (hidden @ weights["score/vector"])[0]
    return found if value_mask is None else np.where(value_mask[:, None] > 0, found, -1e30)


@pytest.mark.parametrize("mask", [None, MASK])
def test_pointers_agree_with_a_loop(mask):
    layer, inputs = pointer(), queries()
    if mask is not None:
        inputs["value_mask"] = mask
    randomize(layer, inputs)
    expected = logits(weights_of(layer), **inputs)
    np.testing.assert_allclose(run(layer, inputs), expected, 1e-5, 1e-5)
    wanted = np.exp(expected) / np.exp(expected).sum(axis=-1, keepdims=True)
    distribution = run(layer, inputs, {"return_attention_scores": True}, index=1)
    np.testing.assert_allclose(distribution, wanted, 1e-4, 1e-6)
    check_config(layer, pointer)
    check_compiled(layer, inputs, {}, expected, 1e-5)
    if mask is None:
        check_gradients(layer, inputs, logits)


def test_logits_are_float32_under_any_policy():
    layer, inputs = pointer(), queries()
    expected = run(layer, inputs)
    for policy in ("mixed_float16", "mixed_bfloat16"):
        half = pointer(dtype=policy)
        found = half(inputs["query"], inputs["value"], value_mask=MASK)
        assert keras.backend.standardize_dtype(found.dtype) == "float32"
        found = ops.convert_to_numpy(found)
        np.testing.assert_allclose(
            np.where(MASK[:, None] > 0, found, expected), expected, atol=0.05
        )
        assert (found.transpose(0, 2, 1)[MASK == 0] < -1e29).all()


def test_what_is_pointed_at_moves_with_the_order_of_the_inputs():
    layer, inputs, order = pointer(), queries(), [2, 0, 3, 1]
    expected = run(layer, inputs)[..., order]
    moved = {**inputs, "value": inputs["value"][:, order]}
    np.testing.assert_allclose(run(layer, moved), expected, 1e-5, 1e-6)
    more = {**inputs, "value": normal(2, 9, 6)}  # any number of them
    assert run(layer, more).shape == (2, 3, 9)


def test_a_query_with_nothing_to_point_at_has_no_distribution_and_finite_gradients():
    layer, inputs = pointer(), {**queries(), "value_mask": np.array([[0] * 4, [1] * 4])}
    _, p = (run(layer, inputs, {"return_attention_scores": True}, index=i) for i in (0, 1))
    assert not p[0].any()
    np.testing.assert_allclose(p[1].sum(axis=-1), 1, 1e-5)
    by_path, by_input = layer_gradients(layer, inputs)
    assert all(np.isfinite(g).all() for g in (*by_path.values(), *by_input.values()))


def test_an_embedding_gives_the_mask_and_the_model_reloads(tmp_path):
    ids, query = keras.Input((None,), dtype="int32"), keras.Input((None, 5))
    value = keras.layers.Bidirectional(keras.layers.LSTM(2, return_sequences=True))(
        keras.layers.Embedding(9, 6, mask_zero=True)(ids)
    )
    model = keras.Model([ids, query], pointer()(query, value, return_attention_scores=True))
    arrays = [np.array([[1, 2, 0], [3, 0, 0]]), normal(2, 1, 5)]
    found = ops.convert_to_numpy(model(arrays)[1])
    assert (found[:, 0] > 0).sum(axis=1).tolist() == [2, 1]
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(ops.convert_to_numpy(again(arrays)[1]), found, 1e-6)


def mixture():
    random = np.random.default_rng(2)
    words, attention = random.dirichlet(np.ones(5), (2, 3)), random.dirichlet(np.ones(4), (2, 3))
    return {
        "vocabulary_probabilities": words.astype("float32"),
        "attention": attention.astype("float32"),
        "source_ids": np.array([[5, 1, 5, 5], [6, 0, 4, 0]]),  # duplicates; 5, 6 unknown
        "generation_probability": random.uniform(size=(2, 3, 1)).astype("float32"),
    }


def scattered(
    weights, vocabulary_probabilities, attention, source_ids, generation_probability, num_oov=2
):
    """See et al., eq. 9, place by place."""
    b, t, v = vocabulary_probabilities.shape
    found = np.zeros((b, t, v + num_oov))
    found[..., :v] = generation_probability * vocabulary_probabilities
    for i, j, s in np.ndindex(*attention.shape):
        if 0 <= source_ids[i, s] < v + num_oov:
            found[i, j, source_ids[i, s]] += (1 - generation_probability[i, j, 0]) * attention[
                i, j, s
            ]
    return found


def test_copies_add_up_as_in_a_loop():
    layer, inputs = CopyDistribution(2), mixture()
    expected = scattered({}, **inputs)
    np.testing.assert_allclose(run(layer, inputs), expected, 1e-5, 1e-6)
    np.testing.assert_allclose(run(layer, inputs).sum(axis=-1), 1, 1e-5)
    check_gradients(layer, inputs, scattered)
    check_config(layer, lambda: CopyDistribution(2))
    check_compiled(layer, inputs, {}, expected, 1e-5)


def test_ids_out_of_range_are_left_out_and_reach_no_other_row():
    inputs = mixture()
    inputs["source_ids"] = np.array([[7, 70, -1, 2], [6, -(2**31), 2**31 - 1, 0]])
    np.testing.assert_allclose(run(CopyDistribution(2), inputs), scattered({}, **inputs), 1e-5)


def test_probabilities_stay_float32_under_a_half_precision_policy():
    inputs = mixture()
    inputs["vocabulary_probabilities"] = np.full((2, 3, 5), 1e-9, "float32")
    layer = CopyDistribution(2, dtype="mixed_float16")
    outputs = layer(**{name: ops.convert_to_tensor(x) for name, x in inputs.items()})
    assert keras.backend.standardize_dtype(outputs.dtype) == "float32"
    np.testing.assert_allclose(ops.convert_to_numpy(outputs), scattered({}, **inputs), 1e-5)


def test_a_functional_model_copies_and_reloads(tmp_path):
    inputs = mixture()
    symbols = {
        name: keras.Input(
            (None,) if x.ndim == 2 else (None, x.shape[-1]), name=name, dtype=x.dtype.name
        )
        for name, x in inputs.items()
    }
    symbols["attention"] = keras.Input((None, None), name="attention")
    output = CopyDistribution(2)(**symbols)
    assert output.shape == (None, None, 7)
    model = keras.Model(symbols, output)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(
        ops.convert_to_numpy(again(inputs)), scattered({}, **inputs), 1e-5, 1e-6
    )


def test_coverage_loses_by_what_is_attended_twice():
    attention = np.random.default_rng(0).dirichlet(np.ones(4), (2, 5)).astype("float32")
    coverage, losses = np.zeros((2, 4)), np.zeros((2, 5))
    every = np.zeros(attention.shape, "float32")
    for t in range(5):
        every[:, t] = coverage
        for b in range(2):
            losses[b, t] = sum(min(attention[b, t, s], coverage[b, s]) for s in range(4))
        coverage = coverage + attention[:, t]
    np.testing.assert_allclose(
        ops.convert_to_numpy(coverage_loss(attention, every)), losses, 1e-5, 1e-6
    )
    for gradient in gradients(lambda t: ops.sum(coverage_loss(*t)), [attention, every]):
        assert np.isfinite(gradient).all()


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: PointerAttention(0), "units=0"),
        (lambda: CopyDistribution(-1), "num_oov=-1"),
        (
            lambda: pointer()(normal(1, 1, 2), normal(1, 2, 2), value_mask=np.ones((1, 2))),
            "value_mask",
        ),
        (lambda: pointer()(normal(1, 2), normal(1, 2, 2)), r"query must be of shape \(B, T, Q\)"),
        (lambda: pointer()(normal(1, 1, 2), normal(1, 2)), r"value must be of shape \(1, S, V\)"),
    ],
)
def test_wrong_arguments_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
