import json

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.models import BertEncoder, BertQuestionAnswerer
from tests.support.layer_checks import JIT, check_every_weight_gets_a_gradient, compiled

LENGTH, MASKED = 11, -1e30
# Of each row: tokens of the question and of the passage.
SHAPES = [(3, 4), (0, 8), (2, 0), (4, 4)]


def model_of(dtype=None, **kwargs):
    encoder = BertEncoder(
        40,
        2,
        16,
        2,
        max_length=32,
        seed=1,
        initializer_range=0.2,
        dtype=dtype,
        use_pooler=False,
        **{"dropout": 0.0, **kwargs},
    )
    return BertQuestionAnswerer(encoder)


def make_batch(seed=0):
    random = np.random.default_rng(seed)
    batch = {
        name: np.zeros((len(SHAPES), LENGTH), "int32")
        for name in ("token_ids", "segment_ids", "padding_mask")
    }
    labels = np.zeros((len(SHAPES), 2), "int32")
    for row, (question, passage) in enumerate(SHAPES):
        end = question + passage + 3
        batch["token_ids"][row, :end] = random.integers(5, 40, end)
        batch["segment_ids"][row, question + 2 : end] = 1
        batch["padding_mask"][row, :end] = 1
        if passage and row != 1:
            labels[row] = question + 2 + np.sort(random.integers(0, passage, 2))
    return {**batch, "label": labels}


def numpy(tensor):
    return ops.convert_to_numpy(ops.cast(tensor, "float32"))


def answerable():
    """Where an answer may be, by the shapes of the rows."""
    mask = np.zeros((len(SHAPES), LENGTH), bool)
    mask[:, 0] = True
    for row, (question, passage) in enumerate(SHAPES):
        mask[row, question + 2 : question + 2 + passage] = True
    return mask


def cross_entropies(logits, labels):
    """`(B, 2)` in float64, over the positions that may be."""
    logits = np.where(answerable()[:, :, None], logits.astype("float64"), -np.inf)
    most = logits.max(1, keepdims=True)
    log_shares = logits - most - np.log(np.exp(logits - most).sum(1, keepdims=True))
    return -np.take_along_axis(log_shares, labels[:, None, :], 1)[:, 0]


def test_logits_are_a_dense_layer_on_each_token_of_the_passage_and_the_first():
    model, batch = model_of(), make_batch()
    outputs = model(batch)
    kernel, bias = (numpy(weight) for weight in model.span_dense.weights)
    wanted = numpy(outputs["sequence_output"]) @ kernel + bias
    found = numpy(outputs["span_logits"])
    np.testing.assert_allclose(found[answerable()], wanted[answerable()], 1e-4, 1e-5)
    np.testing.assert_array_equal(found[~answerable()], np.float32(MASKED))


def test_rows_that_are_full_need_no_padding_mask():
    batch = {name: array[3:] for name, array in make_batch().items()}
    shorter = {name: batch[name][:, :11] for name in ("token_ids", "segment_ids")}
    assert SHAPES[3][0] + SHAPES[3][1] + 3 == LENGTH
    model = model_of()
    np.testing.assert_allclose(
        numpy(model(shorter)["span_logits"]), numpy(model(batch)["span_logits"]), 1e-5, 1e-5
    )


def test_the_loss_is_the_mean_of_both_cross_entropies():
    model, batch = model_of(), make_batch()
    outputs = model(batch)
    wanted = cross_entropies(numpy(outputs["span_logits"]), batch["label"])
    np.testing.assert_allclose(
        numpy(model.compute_loss(batch, y_pred=outputs)), wanted.mean(), 1e-5
    )
    weighted = {**batch, "sample_weight": np.array([1.0, 0.5, 0.0, 2.0], "float32")}
    np.testing.assert_allclose(
        numpy(model.compute_loss(weighted, y_pred=outputs)),
        (wanted.mean(1) * weighted["sample_weight"]).sum() / 3.5,
        1e-5,
    )
    predicted = numpy(outputs["span_logits"]).argmax(1)
    right = (predicted == batch["label"]).all(1)
    total, weight = model.metric_sums(outputs, {**batch, "label": predicted})["span_accuracy"]
    assert (numpy(total), numpy(weight)) == (4, 4)
    total, _ = model.metric_sums(outputs, batch)["span_accuracy"]
    assert numpy(total) == right.sum()


def test_an_empty_row_of_weight_zero_counts_for_nothing():
    model, batch = model_of(), make_batch()
    more = {
        name: np.concatenate([array, np.zeros_like(array[:1])]) for name, array in batch.items()
    }
    more["sample_weight"] = np.array([1, 1, 1, 1, 0], "float32")
    np.testing.assert_allclose(
        numpy(model.compute_loss(more, y_pred=model(more))),
        numpy(model.compute_loss(batch, y_pred=model(batch))),
        1e-5,
    )


def test_padding_changes_nothing():
    model, batch = model_of(), make_batch()
    longer = {
        name: np.pad(array, ((0, 0), (0, 6 * (name != "label")))) for name, array in batch.items()
    }
    outputs, more = model(batch), model(longer)
    found = numpy(more["span_logits"])
    np.testing.assert_allclose(found[:, :LENGTH], numpy(outputs["span_logits"]), 1e-4, 1e-5)
    np.testing.assert_array_equal(found[:, LENGTH:], np.float32(MASKED))
    np.testing.assert_allclose(
        numpy(model.compute_loss(longer, y_pred=more)),
        numpy(model.compute_loss(batch, y_pred=outputs)),
        1e-4,
    )


@pytest.mark.runs
def test_it_learns_by_plain_fit_and_reloads_from_its_file_and_config(tmp_path):
    model, batch = model_of(dropout=0.05), make_batch()
    config = model.get_config()
    assert BertQuestionAnswerer.from_config(json.loads(json.dumps(config))).get_config() == config
    model.compile(keras.optimizers.Adam(6e-3), jit_compile=JIT)
    log = model.fit(batch, batch_size=4, epochs=40, verbose=0).history
    assert set(log) == {"loss", "span_loss", "span_accuracy"}
    assert log["loss"][-1] < 0.2 * log["loss"][0] and max(log["span_accuracy"]) == 1.0
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(
        numpy(again(batch)["span_logits"]), numpy(model(batch)["span_logits"])
    )
    assert [v.path for v in again.variables] == [v.path for v in model.variables]


def test_every_weight_gets_a_finite_gradient():
    model, batch = model_of(), make_batch()
    check_every_weight_gets_a_gradient(model, batch)


def test_a_compiled_call_equals_a_plain_one():
    model = model_of()
    batch = {name: ops.convert_to_tensor(array) for name, array in make_batch().items()}
    wanted = numpy(model(batch)["span_logits"])
    weights = [ops.convert_to_tensor(v) for v in model.trainable_variables]
    call = compiled(lambda: model.stateless_call(weights, [], batch)[0]["span_logits"])
    np.testing.assert_allclose(numpy(call()), wanted, 1e-4, 1e-5)


@pytest.mark.parametrize("policy,tolerance", [("mixed_float16", 0.02), ("mixed_bfloat16", 0.15)])
def test_half_precision_is_near_and_logits_are_float32(policy, tolerance):
    batch = make_batch()
    wanted, found = (model_of(dtype)(batch)["span_logits"] for dtype in ("float32", policy))
    assert keras.backend.standardize_dtype(found.dtype) == "float32"
    wanted, found = numpy(wanted)[answerable()], numpy(found)[answerable()]
    np.testing.assert_allclose(found, wanted, atol=tolerance * np.abs(wanted).max())
