"""ELECTRA: shared embeddings, samples, losses and metrics of generator and discriminator."""

import math

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.data.packing import pack
from keras_attn.models import BertEncoder, ElectraEncoder, ElectraPretrainer
from keras_attn.models.electra.pretrainer import generator_arguments
from keras_attn.models.electra.replacement import (
    gumbel_noise,
    put_tokens,
    row_shifts,
    sample_tokens,
)

VOCABULARY, ROWS, LENGTH, PLACES = 20, 3, 7, 3
MASK = 4


def numpy(x):
    return ops.convert_to_numpy(x)


def _numbers(sums):
    """A sum, or a sum and its weight, as floats."""
    return [float(numpy(x)) for x in (sums if isinstance(sums, tuple) else (sums,))]


def _made(fraction=0.5, seed=0, **options):
    encoder = ElectraEncoder(
        VOCABULARY, 1, 16, 4, embedding_dim=6, dropout=0.0, initializer_range=0.3, seed=seed
    )
    model = ElectraPretrainer(encoder, fraction, **options)
    model.build()
    return model


def _batch():
    random = np.random.default_rng(0)
    mask = (np.arange(LENGTH) < np.array([7, 4, 5])[:, None]).astype("int32")
    original = random.integers(5, VOCABULARY, (ROWS, LENGTH)).astype("int32") * mask
    weights = np.array([[1, 1, 1], [1, 0, 0], [1, 1, 0]], "float32")
    positions = np.array([[1, 3, 6], [2, 0, 0], [3, 4, 0]], "int32")
    ids, mask_ids = original.copy(), np.zeros_like(positions)
    for row, slot in zip(*np.nonzero(weights), strict=True):
        mask_ids[row, slot] = original[row, positions[row, slot]]
        ids[row, positions[row, slot]] = MASK
    return original, {
        "token_ids": ids,
        "padding_mask": mask,
        "segment_ids": np.zeros_like(ids),
        "mask_positions": positions,
        "mask_ids": mask_ids,
        "mask_weights": weights,
    }


def test_factorized_embeddings_are_projected_after_their_norm():
    model, inputs = ElectraEncoder(VOCABULARY, 1, 8, 2, embedding_dim=6, seed=0), {}
    inputs["token_ids"] = np.array([[5, 7]])
    model.build()
    summed = numpy(model.token_embedding)[[5, 7]] + numpy(model.segment_embedding)[0]
    summed += numpy(model.position_embedding.embeddings)[:2]
    centered = summed - summed.mean(-1, keepdims=True)
    normed = centered / np.sqrt(np.square(centered).mean(-1, keepdims=True))
    kernel, bias = map(numpy, model.projection.weights)
    np.testing.assert_allclose(numpy(model.embed(inputs))[0], normed @ kernel + bias, atol=1e-5)


def test_an_encoder_with_embeddings_of_the_hidden_size_is_a_post_norm_bert():
    options = {"dropout": 0.0, "activation": "gelu_erf", "seed": 3}
    ours = ElectraEncoder(VOCABULARY, 2, 8, 2, **options)
    bert = BertEncoder(VOCABULARY, 2, 8, 2, use_pooler=False, **options)
    inputs = {"token_ids": np.array([[5, 7, 9]])}
    np.testing.assert_array_equal(
        numpy(ours(inputs)["sequence_output"]), numpy(bert(inputs)["sequence_output"])
    )
    assert ours.projection is None


@pytest.mark.parametrize("embedding_dim", [24, 64, 128, 256])
def test_heads_attend_to_neighbours_through_a_projection(embedding_dim):
    encoder = ElectraEncoder(
        VOCABULARY,
        1,
        64,
        2,
        embedding_dim=embedding_dim,
        num_segments=0,
        initial_attention="neighbours",
        initializer_range=0.05,
        seed=0,
    )
    encoder.build()
    encoder.token_embedding.assign(encoder.token_embedding * 0)
    ids = np.full((1, 20), 5)
    attention = encoder.encoder_layers[0].attention
    x = encoder.embed({"token_ids": ids})
    _, scores = attention(x, x, return_attention_scores=True)
    found = numpy(scores)[0].argmax(-1)[:, 2:-2]  # without the ends of the row
    places = np.arange(20)[2:-2]
    assert (found[0] == places - 1).mean() > 0.9
    assert (found[1] == places + 1).mean() > 0.9


@pytest.mark.parametrize(
    ("size", "fraction", "hidden", "heads", "inner"),
    [("small", 1 / 4, 64, 1, 256), ("base", 1 / 3, 256, 4, 1024), ("large", 1 / 4, 256, 4, 1024)],
)
def test_generators_have_the_sizes_of_the_paper(size, fraction, hidden, heads, inner):
    encoder = ElectraEncoder.from_size(size, 30522)
    found = generator_arguments(encoder.get_config(), fraction)
    assert [found[name] for name in ("hidden_dim", "num_heads", "intermediate_dim")] == [
        hidden,
        heads,
        inner,
    ]
    assert found["num_layers"] == encoder.num_layers
    assert found["embedding_dim"] == encoder.embedding_dim


@pytest.mark.parametrize("fraction", np.linspace(0.01, 1, 30).tolist())
def test_a_generator_of_any_fraction_has_whole_heads(fraction):
    found = generator_arguments({"hidden_dim": 60, "num_heads": 5}, fraction)
    assert found["hidden_dim"] % found["num_heads"] == 0
    assert abs(found["hidden_dim"] - 60 * fraction) <= max(1, found["num_heads"])


def test_generator_and_discriminator_share_the_embeddings():
    model = _made()
    generator, discriminator = model.generator.backbone, model.backbone
    assert generator.token_embedding is discriminator.token_embedding
    assert generator.segment_embedding is discriminator.segment_embedding
    assert generator.position_embedding is discriminator.position_embedding
    paths = [variable.path for variable in model.trainable_variables]
    assert sum("token_embedding" in path for path in paths) == 1
    assert len({id(variable) for variable in model.variables}) == len(model.variables)


def test_gumbel_noise_and_the_chosen_tokens_equal_their_formulas():
    random = np.random.default_rng(0)
    uniform, logits = random.random((50, 9)).astype("float32"), random.normal(size=(50, 9))
    noise = -np.log(-np.log(uniform.astype("float64")))
    np.testing.assert_allclose(numpy(gumbel_noise(uniform)), noise, 1e-4, 1e-5)
    for temperature in (1.0, 0.5):
        found = sample_tokens(logits.astype("float32"), noise.astype("float32"), temperature)
        np.testing.assert_array_equal(numpy(found), (logits / temperature + noise).argmax(-1))
    assert numpy(gumbel_noise(np.zeros(1, "float32")))[0] == -math.inf


def test_samples_have_the_distribution_of_the_generator():
    probabilities = np.array([0.5, 0.3, 0.15, 0.05])
    uniform = np.random.default_rng(0).random((20_000, 4)).astype("float32")
    logits = np.broadcast_to(np.log(probabilities), (20_000, 4)).astype("float32")
    found = numpy(sample_tokens(logits, numpy(gumbel_noise(uniform))))
    frequencies = np.bincount(found, minlength=4) / len(found)
    np.testing.assert_allclose(frequencies, probabilities, atol=0.012)  # over 3 standard errors


def test_samples_of_an_evaluation_have_the_distribution_of_the_generator():
    # Of all rows: a row always has the same noise.
    model, random = _made(), np.random.default_rng(0)
    ids = random.integers(5, VOCABULARY, (20_000, LENGTH)).astype("int32")
    inputs = {"token_ids": ids, "mask_positions": np.full((20_000, 1), 2, "int32")}
    noise = numpy(model._noise(inputs, (20_000, VOCABULARY), training=False))
    probabilities = random.dirichlet(np.ones(VOCABULARY))
    chosen = (np.log(probabilities) + noise).argmax(-1)
    # All rows have rotations of one table of noise: the frequencies are those of 20 rotations.
    table = noise[0]
    rotated = np.stack([np.roll(table, k) for k in range(VOCABULARY)])
    expected = np.bincount((np.log(probabilities) + rotated).argmax(-1), minlength=VOCABULARY)
    frequencies = np.bincount(chosen, minlength=VOCABULARY) / len(chosen)
    np.testing.assert_allclose(frequencies, expected / VOCABULARY, atol=0.02)


def test_only_used_slots_are_written():
    ids = np.arange(12).reshape(2, 6)
    positions, tokens = np.array([[1, 5, 0], [2, 0, 0]]), np.array([[30, 31, 32], [33, 34, 35]])
    used = np.array([[1, 1, 0], [1, 0, 0]]) > 0
    expected = ids.copy()
    expected[0, 1], expected[0, 5], expected[1, 2] = 30, 31, 33
    np.testing.assert_array_equal(numpy(put_tokens(ids, positions, tokens, used)), expected)


def _tokens_of(logits, noise, original, batch):
    """The rows that the discriminator reads, by a loop."""
    replaced, number = original.copy(), 0
    for row in range(ROWS):
        for slot in range(PLACES):
            if batch["mask_weights"][row, slot]:
                chosen = np.argmax(logits[row, slot] + noise[number])
                replaced[row, batch["mask_positions"][row, slot]] = chosen
            number += 1
    return replaced


def test_losses_labels_and_metrics_equal_their_formulas(monkeypatch):
    model, (original, batch) = _made(seed=1, discriminator_weight=7.0), _batch()
    noise = np.random.default_rng(1).gumbel(size=(ROWS * PLACES, VOCABULARY)).astype("float32")
    noise[0, batch["mask_ids"][0, 0]] += 50  # one sample is the original token
    monkeypatch.setattr(model, "_noise", lambda *_, **__: ops.convert_to_tensor(noise))
    batch["sample_weight"] = np.array([1, 0.5, 0], "float32")
    outputs = model(batch)
    generated = model.generator({**batch}, training=False)
    logits = numpy(generated["mlm_logits"]).astype("float64")
    replaced = _tokens_of(logits, noise, original, batch)
    labels = (replaced != original).astype("float64")
    np.testing.assert_array_equal(numpy(outputs["rtd_labels"]), labels)
    assert 0 < labels.sum() < batch["mask_weights"].sum()

    hidden = numpy(model.backbone({**batch, "token_ids": replaced})["sequence_output"])
    (kernel, bias), (last, last_bias) = (
        map(numpy, layer.weights) for layer in (model.rtd_dense, model.rtd_output)
    )
    inner = hidden @ kernel + bias
    inner = inner * (1 + np.vectorize(math.erf)(inner / np.sqrt(2))) / 2
    found = (inner @ last + last_bias)[..., 0]
    np.testing.assert_allclose(numpy(outputs["rtd_logits"]), found, atol=1e-5)

    weights = batch["padding_mask"] * batch["sample_weight"][:, None]
    probability = 1 / (1 + np.exp(-found.astype("float64")))
    errors = -(labels * np.log(probability) + (1 - labels) * np.log(1 - probability))
    masked = batch["mask_weights"] * batch["sample_weight"][:, None]
    log_probability = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    own = np.take_along_axis(log_probability, batch["mask_ids"][..., None], axis=-1)[..., 0]
    mlm, rtd = -(own * masked).sum() / masked.sum(), (errors * weights).sum() / weights.sum()
    loss = model.compute_loss(x=batch, y_pred=outputs)
    np.testing.assert_allclose(numpy(loss), mlm + 7 * rtd, 1e-5)

    predicted = (found > 0).astype("float64")
    both = (weights * predicted * labels).sum()
    metrics = {
        name: numpy(total) / numpy(weight)
        for name, (total, weight) in model.metric_sums(outputs, batch).items()
    }
    assert (weights * predicted).sum() > 0
    pairs = [
        (weight, (first > second) + (first == second) / 2)
        for row, weight in enumerate(batch["sample_weight"])
        for first in found[row][(labels[row] > 0)]
        for second in found[row][(labels[row] == 0) & (batch["padding_mask"][row] > 0)]
    ]
    assert len(pairs) > 10
    expected = {
        "mlm_accuracy": ((logits.argmax(-1) == batch["mask_ids"]) * masked).sum() / masked.sum(),
        "rtd_cross_entropy": rtd,
        "rtd_accuracy": (weights * (predicted == labels)).sum() / weights.sum(),
        "rtd_precision": both / (weights * predicted).sum(),
        "rtd_recall": both / (weights * labels).sum(),
        "rtd_auc": np.average([right for _, right in pairs], weights=[w for w, _ in pairs]),
    }
    assert metrics.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(metrics[name], value, 1e-5, err_msg=name)


def test_the_discriminator_does_not_train_the_generator():
    if keras.backend.backend() != "tensorflow":
        pytest.skip("differentiates with TensorFlow")
    import tensorflow as tf

    model, (_, batch) = _made(), _batch()
    variables = model.trainable_variables
    own = [v for v in variables if "/generator/" in v.path]
    assert own
    with tf.GradientTape(persistent=True) as tape:
        outputs = model(batch, training=True)
        errors = model.loss_errors(outputs, batch)
    for name, trained in (("rtd", False), ("mlm", True)):
        gradients = tape.gradient(errors[name], [v.value for v in own])
        assert all((gradient is not None) == trained for gradient in gradients)
    # Both reach the shared embeddings, and only one the discriminator.
    shared = model.backbone.token_embedding.value
    assert all(tape.gradient(error, shared) is not None for error in errors.values())
    kernel = model.rtd_dense.kernel.value
    assert tape.gradient(errors["mlm"], kernel) is None


def test_samples_of_training_depend_on_the_seed_and_those_of_evaluation_on_the_row():
    model, (_, batch) = _made(), _batch()
    logits = [numpy(model(batch, training=True)["rtd_logits"]) for _ in range(2)]
    assert np.abs(logits[0] - logits[1]).max() > 1e-3
    whole = model(batch)
    for number in range(ROWS):
        row = {name: x[number : number + 1] for name, x in batch.items()}
        alone = model(row)
        for name in ("rtd_labels", "rtd_logits"):
            np.testing.assert_allclose(
                numpy(alone[name])[0], numpy(whole[name])[number], atol=1e-5, err_msg=name
            )


def test_the_shift_of_a_row_does_not_depend_on_padding():
    _, batch = _batch()
    ids, mask, positions = (batch[name] for name in ("token_ids", "padding_mask", "mask_positions"))
    expected = row_shifts(ids, mask, positions, 13)
    padded = np.pad(ids, ((0, 0), (0, 2)), constant_values=9) + 5 * np.pad(
        1 - mask, ((0, 0), (0, 2))
    )
    found = row_shifts(padded, np.pad(mask, ((0, 0), (0, 2))), positions, 13)
    np.testing.assert_array_equal(numpy(found), numpy(expected))
    assert (numpy(found) >= 0).all() and (numpy(found) < 13).all()


def test_examples_that_share_a_row_have_the_losses_of_separate_rows():
    # With the most probable tokens, as samples differ between rows.
    model, (_, batch) = _made(temperature=0), _batch()
    packed = pack(batch, [0, 0, 1], count=2, length=12, most=2, slots=5)
    assert packed["sample_weight"].shape == (2, 2)
    apart, together = ((model(given), given) for given in (batch, packed))
    assert numpy(apart[0]["rtd_labels"]).sum() > 0
    for measure in ("loss_errors", "metric_sums"):
        expected, found = (getattr(model, measure)(*pair) for pair in (apart, together))
        for name, value in expected.items():
            np.testing.assert_allclose(_numbers(found[name]), _numbers(value), 1e-5, err_msg=name)
    for name, value in model.loss_weights(batch).items():
        assert float(numpy(model.loss_weights(packed)[name])) == float(numpy(value))


def test_without_original_tokens_the_discriminator_reads_the_row():
    model, (_, batch) = _made(), _batch()
    given = {name: batch[name] for name in ("token_ids", "padding_mask", "mask_positions")}
    outputs = model(given)
    assert outputs["mlm_logits"].shape == (ROWS, PLACES, VOCABULARY)
    expected = model.backbone(model.backbone.select_inputs(given))["sequence_output"]
    np.testing.assert_array_equal(numpy(outputs["sequence_output"]), numpy(expected))
    assert "rtd_labels" not in outputs


def test_a_discriminator_alone_has_no_generator():
    model, (_, batch) = _made(None), _batch()
    assert model.generator is None
    assert not any("generator" in variable.path for variable in model.variables)
    outputs = model(batch)
    assert "rtd_logits" in outputs and "mlm_logits" not in outputs
    assert model.head_names(generator_fraction=None) == ["rtd_dense", "rtd_output"]


def test_a_saved_model_has_the_same_outputs(tmp_path):
    model, (_, batch) = _made(), _batch()
    model.save(tmp_path / "electra.keras")
    loaded = keras.saving.load_model(tmp_path / "electra.keras")
    assert loaded.generator.backbone.token_embedding is loaded.backbone.token_embedding
    expected, found = model(batch), loaded(batch)
    for name, value in expected.items():
        np.testing.assert_allclose(numpy(found[name]), numpy(value), 1e-6, err_msg=name)
