"""Losses of `TextEmbedder`, and of parts of a global batch."""

import pathlib

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.models import BertEncoder
from keras_attn.models.text_embedder import LOSSES, TextEmbedder
from keras_attn.ops.contrastive import (
    cosent_loss,
    cosine_similarity,
    in_batch_losses,
    similarity_divergences,
)

ROWS = 6
GOLDEN = pathlib.Path(__file__).parents[1] / "golden"


def make(loss="in_batch_negatives", **options):
    backbone = BertEncoder(20, 1, 8, 2, dropout=0.0, use_pooler=False, seed=0)
    model = TextEmbedder(backbone, loss=loss, seed=1, **options)
    model.build()
    return model


def batch_of(texts=2):
    random = np.random.default_rng(0)
    mask = (np.arange(5) < random.integers(1, 6, (ROWS, texts, 1))).astype("int32")
    return {
        "token_ids": random.integers(1, 20, (ROWS, texts, 5)).astype("int32") * mask,
        "padding_mask": mask,
        "label": np.linspace(0, 1, ROWS).astype("float32"),
        "sample_weight": np.array([1, 1, 0.5, 1, 2, 0], "float32"),
    }


def embeddings_of(model, batch):
    return ops.convert_to_numpy(model(batch)["embedding"])


@pytest.mark.parametrize("name", ["pairs", "triplets", "symmetric", "cosent", "cosine", "triplet"])
def test_losses_and_gradients_are_those_of_sentence_transformers(name):
    with np.load(GOLDEN / "embedding_losses.npz", allow_pickle=False) as file:
        golden = dict(file)
    loss = {"cosent": "cosent", "cosine": "cosine", "triplet": "triplet"}.get(name, LOSSES[0])
    temperature = 1 / 20 if name == "triplets" else 1 / 5
    model = make(loss, temperature=temperature, symmetric=name == "symmetric", margin=1.0)
    texts = golden[f"{name}/gradient"].shape[1]
    embeddings = golden["embeddings"][:, :texts].astype("float32")
    batch = {"label": golden["scores"].astype("float32"), "sample_weight": np.ones(6, "float32")}

    def value(x):
        return float(model.loss_errors({"embedding": x}, batch)["embedding"]) / 6

    assert value(embeddings) == pytest.approx(float(golden[f"{name}/loss"]), rel=1e-5)
    gradient, step = golden[f"{name}/gradient"], 1e-2
    for place in ((0, 0, 0), (2, 1, 3), (5, texts - 1, 7)):
        change = np.zeros_like(embeddings)
        change[place] = step
        found = (value(embeddings + change) - value(embeddings - change)) / (2 * step)
        assert found == pytest.approx(gradient[place], rel=2e-2, abs=2e-4)


def test_each_text_is_embedded_on_its_own():
    model, batch = make(pooling=["mean", "max"], steps=[{"type": "normalize"}]), batch_of(3)
    found = embeddings_of(model, batch)
    assert found.shape == (ROWS, 3, 16)
    for text in range(3):
        alone = model({name: batch[name][:, text] for name in ("token_ids", "padding_mask")})
        np.testing.assert_allclose(
            found[:, text], ops.convert_to_numpy(alone["embedding"]), atol=1e-6
        )


def test_losses_are_weighted_means():
    batch, weights = batch_of(3), batch_of()["sample_weight"]
    for loss in ("in_batch_negatives", "cosent", "cosine", "triplet"):
        model = make(loss, temperature=0.1, margin=1.0)
        outputs = model(batch)
        x = ops.convert_to_numpy(outputs["embedding"])
        similarities = np.asarray(cosine_similarity(x[:, 0], x[:, 1]))
        if loss == "cosent":
            expected = float(cosent_loss(similarities, batch["label"], weights, 0.1))
        else:
            distances = [np.linalg.norm(x[:, 0] - x[:, k], axis=-1) for k in (1, 2)]
            errors = {
                "in_batch_negatives": np.asarray(in_batch_losses(x, weights, 0.1)[0]),
                "cosine": (similarities - batch["label"]) ** 2,
                "triplet": np.maximum(distances[0] - distances[1] + 1.0, 0),
            }[loss]
            expected = (errors * weights).sum() / weights.sum()
        error = float(model.loss_errors(outputs, batch)["embedding"])
        weight = float(model.loss_weights(batch)["embedding"])
        assert weight == weights.sum() and error / weight == pytest.approx(expected, rel=1e-4)


def with_teacher(batch):
    teacher = np.random.default_rng(3).normal(size=(ROWS, 2, 3)).astype("float32")
    numbers = np.arange(2 * ROWS, dtype="int32").reshape(ROWS, 2) % 9
    return {**batch, "teacher_embedding": teacher, "text_numbers": numbers}


def gathered(model, batch, whole):
    names = [name for name in model.gathered_inputs if name in batch]
    return {"gathered_embedding": whole, **{f"gathered_{name}": batch[name] for name in names}}


# Losses of the batch, and whether there is a teacher.
OF_BATCH = [
    ("in_batch_negatives", False),
    ("cosent", False),
    ("in_batch_negatives", True),
    ("cosine", True),
]


def distilled(loss, teacher):
    model = make(loss, symmetric=loss != "cosent", distillation=0.4 if teacher else 0.0)
    return model, with_teacher(batch_of()) if teacher else batch_of()


def test_the_distillation_loss_is_a_weighted_mean():
    for loss in ("in_batch_negatives", "cosent", "cosine"):
        model = make(loss, distillation=0.4, distillation_temperature=3.0, temperature=0.1)
        batch, weights = with_teacher(batch_of()), batch_of()["sample_weight"]
        outputs = model(batch)
        alone = float(model.loss_errors(outputs, batch_of())["embedding"])
        divergences = similarity_divergences(
            outputs["embedding"],
            batch["teacher_embedding"],
            batch["text_numbers"],
            weights,
            0.1,
            3.0,
        )
        expected = 0.6 * alone + 0.4 * np.sum(ops.convert_to_numpy(divergences) * weights)
        assert float(model.loss_errors(outputs, batch)["embedding"]) == pytest.approx(expected)
        assert model.gathered_outputs == ("embedding",)


@pytest.mark.parametrize("loss, teacher", OF_BATCH)
def test_the_parts_of_a_batch_sum_to_the_whole(loss, teacher):
    model, batch = distilled(loss, teacher)
    whole = embeddings_of(model, batch)
    rows = gathered(model, batch, whole)
    expected = float(model.loss_errors({"embedding": whole}, batch)["embedding"])
    total, right = 0.0, 0.0
    for start in (0, 2, 4):
        part = {name: x[start : start + 2] for name, x in batch.items()}
        part |= {**rows, "gathered_start": np.int32(start)}
        outputs = {"embedding": whole[start : start + 2]}
        total += float(model.loss_errors(outputs, part)["embedding"])
        right += float(model.metric_sums(outputs, part).get("accuracy", (0.0,))[0])
    assert total == pytest.approx(expected, rel=1e-5)
    sums = model.metric_sums({"embedding": whole}, batch)
    assert right == pytest.approx(float(sums["accuracy"][0]) if sums else 0.0)


def test_the_gradient_of_a_part_is_that_of_the_whole():
    tf = pytest.importorskip("tensorflow")
    if keras.backend.backend() != "tensorflow":
        pytest.skip("differentiates with TensorFlow")
    for loss, teacher in OF_BATCH:
        model, batch = distilled(loss, teacher)
        whole = tf.constant(embeddings_of(model, batch))
        with tf.GradientTape() as tape:
            tape.watch(whole)
            error = model.loss_errors({"embedding": whole}, batch)["embedding"]
        expected = tape.gradient(error, whole).numpy()
        part = {name: x[2:4] for name, x in batch.items()} | {
            **gathered(model, batch, whole),
            "gathered_start": np.int32(2),
        }
        own = tf.constant(whole[2:4])
        with tf.GradientTape() as tape:
            tape.watch(own)
            error = model.loss_errors({"embedding": own}, part)["embedding"]
        np.testing.assert_allclose(
            tf.convert_to_tensor(tape.gradient(error, own)), expected[2:4], 1e-4, 1e-6
        )


@pytest.mark.thorough
def test_fit_brings_pairs_together():
    random = np.random.default_rng(1)
    ids = random.integers(1, 20, (32, 1, 4))
    pairs = np.concatenate([ids, ids[:, :, ::-1]], axis=1).astype("int32")
    batch = {"token_ids": pairs, "padding_mask": np.ones_like(pairs)}
    model = make(symmetric=True)
    model.compile(keras.optimizers.Adam(0.01))
    first = model.evaluate(batch, batch_size=32, verbose=0, return_dict=True)
    model.fit(batch, batch_size=32, epochs=30, verbose=0)
    last = model.evaluate(batch, batch_size=32, verbose=0, return_dict=True)
    assert last["loss"] < 0.5 * first["loss"] and last["accuracy"] > first["accuracy"]


def test_fit_on_several_devices_is_an_error_for_losses_over_the_batch(monkeypatch):
    from keras_attn.models import task

    if task._KERNELS is None:
        pytest.skip("devices of TensorFlow")
    monkeypatch.setattr(task._KERNELS.replicas, "count", lambda: 2)
    monkeypatch.setattr(task._KERNELS.replicas, "summed", lambda values: values)
    batch = batch_of()
    make("cosine").compute_loss(batch, None, make("cosine")(batch))
    with pytest.raises(ValueError, match="on one device only"):
        make().compute_loss(batch, None, make()(batch))


def test_arguments_are_checked():
    for options, message in (
        ({"loss": "other"}, "loss must be one of"),
        ({"temperature": 0.0}, "temperature"),
        ({"distillation": -0.5}, "distillation"),
        ({"distillation_temperature": 0.0}, "distillation_temperature"),
    ):
        with pytest.raises(ValueError, match=message):
            make(**options)
