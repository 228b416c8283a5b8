"""Losses, metrics and training of BERT's pretrainer and classifier."""

import keras
import numpy as np
import pytest

from keras_attn.models import BertClassifier, BertPretrainer
from tests.support.layer_checks import JIT, check_every_weight_gets_a_gradient
from tests.support.small_bert import LENGTH, encoder, make_batch, numpy


def log_softmax(x):
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def test_loss_is_the_mean_over_masked_tokens_plus_the_mean_over_pairs():
    model, batch = BertPretrainer(encoder()), make_batch()
    outputs = model(batch)
    mlm = log_softmax(numpy(outputs["mlm_logits"]).astype("float64"))
    mlm = -np.take_along_axis(mlm, batch["mask_ids"][..., None], -1)[..., 0]
    nsp = log_softmax(numpy(outputs["nsp_logits"]).astype("float64"))
    nsp = -np.take_along_axis(nsp, batch["next_sentence_label"][:, None], -1)[:, 0]
    weights = batch["mask_weights"]
    expected = (mlm * weights).sum() / weights.sum() + nsp.mean()
    np.testing.assert_allclose(numpy(model.compute_loss(batch, y_pred=outputs)), expected, 1e-5)
    hits = numpy(outputs["mlm_logits"]).argmax(-1) == batch["mask_ids"]
    total, weight = model.metric_sums(outputs, batch)["mlm_accuracy"]
    np.testing.assert_allclose(numpy(total), (hits * weights).sum())
    np.testing.assert_allclose(numpy(weight), weights.sum())
    hits = numpy(outputs["nsp_logits"]).argmax(-1) == batch["next_sentence_label"]
    total, weight = model.metric_sums(outputs, batch)["nsp_accuracy"]
    np.testing.assert_allclose([numpy(total), numpy(weight)], [hits.sum(), 8])


@pytest.mark.parametrize("kind", ["pretrainer", "classifier", "regression"])
def test_rows_of_weight_zero_count_for_nothing_and_sums_add_up(kind):
    model = {
        "pretrainer": lambda: BertPretrainer(encoder()),
        "classifier": lambda: BertClassifier(encoder(), 3, dropout=0.0),
        "regression": lambda: BertClassifier(encoder(), 1, dropout=0.0),
    }[kind]()
    batch = make_batch()
    if kind == "regression":
        batch["label"] = batch["label"] + 0.5

    def sums(part):
        outputs = model(part)
        errors, weights = model.loss_errors(outputs, part), model.loss_weights(part)
        flat = [errors[n] for n in sorted(errors)] + [weights[n] for n in sorted(weights)]
        for pair in model.metric_sums(outputs, part).values():
            flat += pair
        return np.array([numpy(x) for x in flat])

    whole = sums(batch)
    halves = [sums({n: x[part] for n, x in batch.items()}) for part in (slice(0, 3), slice(3, 8))]
    np.testing.assert_allclose(sum(halves), whole, 1e-4)
    kept = np.array([1, 1, 1, 0, 0, 0, 0, 0], "float32")
    np.testing.assert_allclose(sums({**batch, "sample_weight": kept}), halves[0], 1e-4)
    nothing = {**batch, "sample_weight": 0 * kept}
    assert float(numpy(model.compute_loss(nothing, y_pred=model(nothing)))) == 0.0


def test_mean_pooling_averages_real_tokens_alone():
    batch = make_batch()
    model = BertClassifier(encoder(), 3, pooling="mean")
    outputs = model(batch)
    hidden, real = numpy(outputs["sequence_output"]), batch["padding_mask"][..., None]
    pooled = (hidden * real).sum(1) / real.sum(1)
    kernel, bias = (numpy(w) for w in model.logits_dense.weights)
    np.testing.assert_allclose(numpy(outputs["logits"]), pooled @ kernel + bias, 1e-5, 1e-5)
    del batch["padding_mask"]
    outputs = model(batch)
    pooled = numpy(outputs["sequence_output"]).mean(1)
    np.testing.assert_allclose(numpy(outputs["logits"]), pooled @ kernel + bias, 1e-5, 1e-5)
    assert BertClassifier.from_config(model.get_config()).pooling == "mean"
    nothing = {**make_batch(), "padding_mask": np.zeros((8, LENGTH), "int32")}
    np.testing.assert_allclose(numpy(model(nothing)["logits"]), np.tile(bias, (8, 1)), atol=1e-6)
    with pytest.raises(ValueError, match="pooling"):
        BertClassifier(encoder(), 3, pooling="max")


def test_classifier_losses_equal_their_formulas():
    batch = make_batch()
    model = BertClassifier(encoder(), 3)
    logits = numpy(model(batch)["logits"]).astype("float64")
    expected = -np.take_along_axis(log_softmax(logits), batch["label"][:, None], -1).mean()
    np.testing.assert_allclose(
        numpy(model.compute_loss(batch, y_pred=model(batch))), expected, 1e-5
    )
    batch["label"] = np.random.default_rng(0).normal(size=8).astype("float32")
    model = BertClassifier(encoder(), 1)
    logits = numpy(model(batch)["logits"]).astype("float64")
    expected = np.mean((logits[:, 0] - batch["label"]) ** 2)
    np.testing.assert_allclose(
        numpy(model.compute_loss(batch, y_pred=model(batch))), expected, 1e-5
    )


def test_losses_and_accuracy_of_several_labels_equal_their_formulas():
    batch = make_batch()
    random = np.random.default_rng(1)
    batch["label"] = (random.random((8, 3)) < 0.4).astype("float32")
    model = BertClassifier(encoder(), 3, multilabel=True)
    logits = numpy(model(batch)["logits"]).astype("float64")
    shares = 1 / (1 + np.exp(-logits))
    errors = -np.log(np.where(batch["label"] > 0, shares, 1 - shares)).mean(axis=1)
    right = ((shares > 0.5) == (batch["label"] > 0)).all(axis=1)
    for weights in (None, random.random(8).astype("float32")):
        given = batch if weights is None else {**batch, "sample_weight": weights}
        loss = model.compute_loss(given, y_pred=model(given))
        np.testing.assert_allclose(numpy(loss), np.average(errors, weights=weights), 1e-5)
        found, weight = (numpy(x) for x in model.metric_sums(model(given), given)["accuracy"])
        np.testing.assert_allclose(found / weight, np.average(right, weights=weights), 1e-5)
    copy = BertClassifier.from_config(model.get_config())
    assert copy.multilabel and copy.metric_names == ["label_loss", "accuracy"]


def batches(batch, times=1):
    """A dataset of dictionaries without y."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return tf.data.Dataset.from_tensors(batch).repeat(times)
    return ((batch,) for _ in range(times))


@pytest.mark.runs
def test_pretrainer_learns_by_plain_fit():
    batch = make_batch()
    model = BertPretrainer(encoder(dropout=0.1))
    model.compile(keras.optimizers.Adam(3e-3))
    first = model.evaluate(batches(batch), verbose=0, return_dict=True)
    log = model.fit(batches(batch, 60), verbose=0)
    last = model.evaluate(batches(batch), verbose=0, return_dict=True)
    assert set(log.history) == {"loss", "mlm_loss", "nsp_loss", "mlm_accuracy", "nsp_accuracy"}
    np.testing.assert_allclose(first["loss"], first["mlm_loss"] + first["nsp_loss"], 1e-5)
    outputs = model(batch)
    hits = (numpy(outputs["mlm_logits"]).argmax(-1) == batch["mask_ids"]) * batch["mask_weights"]
    accuracy = hits.sum() / batch["mask_weights"].sum()
    np.testing.assert_allclose(last["mlm_accuracy"], accuracy, 1e-5)
    assert last["loss"] < 0.5 * first["loss"]
    assert last["nsp_accuracy"] > 0.8


@pytest.mark.runs
@pytest.mark.parametrize("classes", [3, 1])
def test_classifier_learns_by_plain_fit(classes):
    batch = make_batch()
    if classes == 1:
        batch["label"] = batch["label"].astype("float32")
    model = BertClassifier(encoder(dropout=0.1), classes)
    model.compile(keras.optimizers.Adam(3e-3), jit_compile=JIT)
    log = model.fit(batch, batch_size=8, epochs=40, verbose=0).history
    assert set(log) == (
        {"loss", "label_loss", "accuracy"} if classes == 3 else {"loss", "label_loss"}
    )
    assert log["loss"][-1] < 0.5 * log["loss"][0]


def test_next_sentence_can_be_left_out():
    model, batch = BertPretrainer(encoder(), next_sentence=False), make_batch()
    del batch["next_sentence_label"]
    outputs = model(batch)
    assert "nsp_logits" not in outputs
    assert list(model.loss_weights(batch)) == list(model.loss_errors(outputs, batch)) == ["mlm"]
    assert list(model.metric_sums(outputs, batch)) == ["mlm_accuracy"]
    assert not [v.path for v in model.variables if "nsp" in v.path]


def test_mlm_logits_follow_the_positions_of_each_row():
    model, batch = BertPretrainer(encoder()), make_batch()
    batch["mask_positions"] = np.random.default_rng(0).integers(0, LENGTH, (8, 3)).astype("int32")
    found = numpy(model(batch)["mlm_logits"])
    everywhere = {**batch, "mask_positions": np.tile(np.arange(LENGTH, dtype="int32"), (8, 1))}
    del everywhere["mask_ids"]
    every = numpy(model(everywhere)["mlm_logits"])
    expected = np.take_along_axis(every, batch["mask_positions"][..., None], 1)
    np.testing.assert_allclose(found, expected, 1e-4, 1e-5)
    assert "mlm_logits" not in model(model.backbone.select_inputs(batch))


def test_every_weight_of_the_pretrainer_gets_a_gradient():
    model, batch = BertPretrainer(encoder()), make_batch()
    check_every_weight_gets_a_gradient(model, batch)


def test_labels_outside_the_dictionary_are_an_error():
    model, batch = BertClassifier(encoder(), 3), make_batch()
    model.compile("sgd")
    with pytest.raises(ValueError, match="dictionary"):
        model.fit(batch, batch["label"], verbose=0)


@pytest.mark.thorough
def test_weights_that_change_count_at_once():
    model, batch = BertClassifier(encoder(), 3), make_batch()
    before = numpy(model(batch)["logits"])
    model.compile(keras.optimizers.Adam(3e-3), jit_compile=JIT)
    model.evaluate(batch, batch_size=8, verbose=0)
    intermediate = model.backbone.encoder_layers[0].feed_forward.intermediate
    was = numpy(intermediate.kernel)
    model.fit(batch, batch_size=8, epochs=3, verbose=0)
    assert np.abs(numpy(intermediate.kernel) - was).max() > 1e-3
    found = model.evaluate(batch, batch_size=8, verbose=0, return_dict=True)
    outputs = model(batch)
    loss = numpy(model.compute_loss(batch, y_pred=outputs))
    np.testing.assert_allclose(found["loss"], loss, 1e-4)
    for variable in intermediate.variables:
        variable.assign(np.zeros(variable.shape))
    changed = numpy(model(batch)["logits"])
    assert np.abs(changed - before).max() > 1e-3
    assert np.abs(changed - numpy(outputs["logits"])).max() > 1e-4
