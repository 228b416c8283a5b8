import json

import keras
import numpy as np
import pytest
from keras import ops
from layer_checks import check_every_weight_gets_a_gradient, compiled

from keras_attn.models import BertClassifier, BertEncoder, BertPretrainer

VOCABULARY, LENGTH = 50, 12


def encoder(**kwargs):
    defaults = {"dropout": 0.0, "max_length": 32, "seed": 1, "initializer_range": 0.2}
    return BertEncoder(VOCABULARY, 2, 16, 2, **{**defaults, **kwargs})


def make_batch(rows=8, seed=0, length=LENGTH, places=3):
    random = np.random.default_rng(seed)
    lengths = random.integers(places + 2, length + 1, rows)
    real = np.arange(length) < lengths[:, None]
    return {
        "token_ids": np.where(real, random.integers(5, VOCABULARY, (rows, length)), 0).astype(
            "int32"
        ),
        "segment_ids": (np.arange(length) >= lengths[:, None] // 2).astype("int32") * real,
        "padding_mask": real.astype("int32"),
        "mask_positions": np.tile(np.arange(1, places + 1, dtype="int32"), (rows, 1)),
        "mask_ids": random.integers(5, VOCABULARY, (rows, places)).astype("int32"),
        "mask_weights": (np.arange(places) < random.integers(1, places + 1, (rows, 1))).astype(
            "float32"
        ),
        "next_sentence_label": random.integers(0, 2, rows).astype("int32"),
        "label": random.integers(0, 3, rows).astype("int32"),
    }


def numpy(tensor):
    return ops.convert_to_numpy(ops.cast(tensor, "float32"))


def log_softmax(x):
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


@pytest.mark.parametrize("norm_first", [False, True])
def test_padding_never_reaches_a_real_output(norm_first):
    model, batch = encoder(norm_first=norm_first), make_batch()
    outputs = model(batch)
    real = batch["padding_mask"] > 0
    other = {
        **batch,
        "token_ids": np.where(real, batch["token_ids"], 7),
        "segment_ids": 1 - real + batch["segment_ids"],
    }
    longer = {
        name: np.pad(batch[name], ((0, 0), (0, 5)))
        for name in ("token_ids", "segment_ids", "padding_mask")
    }
    for changed in (other, longer):
        found = model(changed)
        np.testing.assert_allclose(
            numpy(found["sequence_output"])[:, :LENGTH][real],
            numpy(outputs["sequence_output"])[real],
            1e-4,
            1e-5,
        )
        np.testing.assert_allclose(
            numpy(found["pooled_output"]), numpy(outputs["pooled_output"]), 1e-4, 1e-5
        )


def test_a_row_of_padding_alone_stays_finite():
    batch = make_batch()
    batch["padding_mask"][2] = 0
    for dtype in ("float32", "mixed_float16", "mixed_bfloat16"):
        for output in encoder(dtype=dtype)(batch).values():
            assert np.isfinite(numpy(output)).all()


def test_optional_inputs_default_to_one_segment_no_padding_and_counted_positions():
    model = encoder()
    ids = make_batch()["token_ids"]
    full = {
        "token_ids": ids,
        "segment_ids": np.zeros_like(ids),
        "padding_mask": np.ones_like(ids),
        "position_ids": np.tile(np.arange(LENGTH), (len(ids), 1)),
        "pack_ids": np.zeros_like(ids),
    }
    expected = numpy(model({"token_ids": ids})["sequence_output"])
    np.testing.assert_allclose(numpy(model(full)["sequence_output"]), expected, 1e-5, 1e-5)


def test_examples_packed_into_a_row_equal_the_examples_alone():
    model = encoder()
    first, second = make_batch(2, seed=1, length=6), make_batch(2, seed=2, length=7)
    keys = ("token_ids", "segment_ids", "padding_mask")
    packed = {name: np.concatenate([first[name], second[name]], axis=1) for name in keys}
    packed["position_ids"] = np.tile(np.r_[np.arange(6), np.arange(7)], (2, 1))
    packed["pack_ids"] = np.tile(np.repeat([1, 2], [6, 7]), (2, 1))
    found = numpy(model(packed)["sequence_output"])
    for part, alone in ((found[:, :6], first), (found[:, 6:], second)):
        real = alone["padding_mask"] > 0
        expected = numpy(model({name: alone[name] for name in keys})["sequence_output"])
        np.testing.assert_allclose(part[real], expected[real], 1e-4, 1e-5)


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


@pytest.mark.parametrize("classes", [3, 1])
def test_classifier_learns_by_plain_fit(classes):
    batch = make_batch()
    if classes == 1:
        batch["label"] = batch["label"].astype("float32")
    model = BertClassifier(encoder(dropout=0.1), classes)
    model.compile(keras.optimizers.Adam(3e-3))
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


def make_models(**kwargs):
    return [
        encoder(**kwargs),
        BertPretrainer(encoder(**kwargs)),
        BertClassifier(encoder(**kwargs), 3),
    ]


@pytest.mark.parametrize("index", [0, 1, 2])
def test_models_reload_from_their_file_and_config(index, tmp_path):
    arguments = {"norm_first": True, "activation": "gelu_erf", "attention_dropout": 0.2}
    model, batch = make_models(**arguments)[index], make_batch()
    config = model.get_config()
    assert type(model).from_config(json.loads(json.dumps(config))).get_config() == config
    if index:
        model.compile("sgd")
        model.fit(batch, epochs=1, verbose=0)
    expected = model(batch)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    found = again(batch)
    assert set(found) == set(expected)
    for name in expected:
        np.testing.assert_array_equal(numpy(found[name]), numpy(expected[name]))
    assert [v.path for v in again.variables] == [v.path for v in model.variables]
    if index:
        again.fit(batch, epochs=1, verbose=0)


@pytest.mark.parametrize("index", [0, 1, 2])
def test_build_without_data_makes_every_variable(index):
    one, two, three = (make_models(dropout=0.1)[index] for _ in range(3))
    one(make_batch())
    two.build()
    three.build({"token_ids": (None, None), "padding_mask": (None, None)})
    paths = [v.path for v in one.variables]
    assert [v.path for v in two.variables] == [v.path for v in three.variables] == paths
    assert len(set(paths)) == len(paths)
    for first, second in zip(one.trainable_variables, two.trainable_variables, strict=True):
        np.testing.assert_array_equal(numpy(first), numpy(second))


def test_another_seed_gives_other_weights_and_equal_shapes_differ():
    one, two = BertPretrainer(encoder(seed=1)), BertPretrainer(encoder(seed=2))
    for model in (one, two):
        model.build()
    kernels = [numpy(v) for v in one.trainable_variables if v.path.endswith("kernel")]
    others = [numpy(v) for v in two.trainable_variables if v.path.endswith("kernel")]
    for first, second in zip(kernels, others, strict=True):
        assert np.abs(first - second).max() > 0.1
    square = [k for k in kernels if k.shape == (16, 16)]
    assert len(square) == 4
    assert len({k.tobytes() for k in square}) == 4


@pytest.mark.parametrize("index", [0, 1, 2])
def test_a_compiled_stateless_step_draws_its_masks_from_the_seeds_it_is_given(index):
    model, batch = make_models(dropout=0.3)[index], make_batch()
    model.build()
    weights = [ops.convert_to_tensor(v) for v in model.trainable_variables]
    seeds = [v.value for v in model.non_trainable_variables]
    assert all(v.path.endswith("seed_generator_state") for v in model.non_trainable_variables)
    batch = {name: ops.convert_to_tensor(x) for name, x in batch.items()}

    @compiled
    def step(others):
        outputs, _ = model.stateless_call(weights, others, batch, training=True)
        return outputs["sequence_output"]

    first, second = numpy(step(seeds)), numpy(step(seeds))
    other = numpy(step([s + 1 for s in seeds]))
    np.testing.assert_array_equal(first, second)
    assert np.abs(first - other).max() > 1e-2


@pytest.mark.parametrize("policy,tolerance", [("mixed_float16", 0.02), ("mixed_bfloat16", 0.15)])
def test_half_precision_is_near_float32_and_logits_stay_float32(policy, tolerance):
    batch = make_batch()
    model, half = BertPretrainer(encoder()), BertPretrainer(encoder(dtype=policy))
    expected, found = model(batch), half(batch)
    for name in expected:
        scale = np.abs(numpy(expected[name])).max()
        np.testing.assert_allclose(
            numpy(found[name]), numpy(expected[name]), atol=tolerance * scale
        )
    for name in ("mlm_logits", "nsp_logits"):
        assert keras.backend.standardize_dtype(found[name].dtype) == "float32"
    assert all(v.dtype == "float32" for v in half.trainable_variables)


def test_every_weight_of_the_pretrainer_gets_a_gradient():
    model, batch = BertPretrainer(encoder()), make_batch()
    check_every_weight_gets_a_gradient(model, batch)


def test_sizes_have_the_numbers_of_parameters_of_the_released_models():
    # google-research/bert: 4.4, 11.2, 28.8, 41.4 and 110 million, with pooler.
    counts = {"tiny": 4_385_920, "mini": 11_170_560}
    for size, count in counts.items():
        model = BertEncoder.from_size(size, 30522)
        model.build()
        assert model.count_params() == count
    large = BertEncoder.from_size("large", 30522, dropout=0.0)
    assert (large.num_layers, large.hidden_dim, large.num_heads) == (24, 1024, 16)
    assert large.intermediate_dim == 4096
    with pytest.raises(ValueError, match="tiny, mini, small, medium, base, large"):
        BertEncoder.from_size("huge", 30522)


@pytest.mark.parametrize(
    "make,message",
    [
        (lambda: BertEncoder(10, 2, 15, 2), "hidden_dim=15, num_heads=2"),
        (lambda: BertEncoder(0, 2, 16, 2), "vocabulary_size=0"),
        (lambda: BertEncoder(10, 2, 16, 2, dropout=1.0), "dropout=1.0"),
        (lambda: BertEncoder(10, 2, 16, 2, activation="gelu"), "gelu_tanh"),
        (lambda: BertClassifier(encoder(), 0), "num_classes=0"),
        (lambda: BertClassifier(encoder(), 2, dropout=-0.1), "dropout=-0.1"),
        (lambda: encoder(max_length=8)(make_batch()), "max_length=8"),
    ],
)
def test_arguments_out_of_range_are_errors_that_name_them(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_labels_outside_the_dictionary_are_an_error():
    model, batch = BertClassifier(encoder(), 3), make_batch()
    model.compile("sgd")
    with pytest.raises(ValueError, match="dictionary"):
        model.fit(batch, batch["label"], verbose=0)


def test_weights_that_change_count_at_once():
    model, batch = BertClassifier(encoder(), 3), make_batch()
    before = numpy(model(batch)["logits"])
    model.compile(keras.optimizers.Adam(3e-3))
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
