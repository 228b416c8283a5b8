"""Classifiers on GPT-2 and XLNet: which vector they read, padding, packed rows, learning."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.models import GPT2, GPT2Classifier, XLNet, XLNetClassifier
from tests.support.layer_checks import JIT, gradients

SIZES = {"vocabulary_size": 30, "num_layers": 2, "hidden_dim": 16, "num_heads": 2, "seed": 3}
KINDS = {
    "gpt2": (GPT2Classifier, lambda: GPT2(max_length=24, **SIZES)),
    "xlnet": (XLNetClassifier, lambda: XLNet(use_pooler=True, **SIZES)),
}
LENGTHS = (3, 7, 1)


def _made(kind, num_classes=3, **options):
    task, backbone = KINDS[kind]
    model = task(backbone(), num_classes, **options)
    model.build()
    return model


def _batch():
    random = np.random.default_rng(0)
    mask = (np.arange(7) < np.array(LENGTHS)[:, None]).astype("int32")
    return {
        "token_ids": random.integers(1, 30, (3, 7)).astype("int32") * mask,
        "padding_mask": mask,
    }


def _numpy(x):
    return ops.convert_to_numpy(x).astype("float64")


@pytest.mark.parametrize("pooling", ["last", "mean"])
@pytest.mark.parametrize("kind", KINDS)
def test_logits_are_of_the_last_real_token_or_the_mean(kind, pooling):
    model, batch = _made(kind, pooling=pooling), _batch()
    hidden = _numpy(model.backbone(batch)["sequence_output"])
    if pooling == "mean":
        pooled = np.stack([row[:n].mean(0) for row, n in zip(hidden, LENGTHS, strict=True)])
    else:
        pooled = np.stack([row[n - 1] for row, n in zip(hidden, LENGTHS, strict=True)])
        if kind == "xlnet":
            kernel, bias = map(_numpy, model.backbone.pooler.weights)
            pooled = np.tanh(pooled @ kernel + bias)
    kernel, bias = map(_numpy, model.logits_dense.weights)
    np.testing.assert_allclose(_numpy(model(batch)["logits"]), pooled @ kernel + bias, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_alone_or_in_a_row_with_others_has_the_same_logits(kind):
    model, batch = _made(kind), _batch()
    wanted = _numpy(model(batch)["logits"])
    texts = [row[:n] for row, n in zip(batch["token_ids"], LENGTHS, strict=True)]
    for text, logits in zip(texts, wanted, strict=True):
        np.testing.assert_allclose(
            _numpy(model({"token_ids": text[None]})["logits"])[0], logits, atol=1e-5
        )
    packed = {
        "token_ids": np.concatenate(texts)[None],
        "pack_ids": np.repeat([1, 2, 3], LENGTHS)[None].astype("int32"),
        "position_ids": np.concatenate([np.arange(n) for n in LENGTHS])[None],
        "cls_positions": np.cumsum(LENGTHS)[None].astype("int32") - 1,
    }
    np.testing.assert_allclose(_numpy(model(packed)["logits"])[0], wanted, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_is_that_of_the_formula_and_reaches_every_weight(kind):
    model, batch = _made(kind, dropout=0.0), _batch()
    batch = {**batch, "label": np.array([2, 0, 1]), "sample_weight": np.float32([1, 0.5, 2])}
    logits = _numpy(model(batch)["logits"])
    shares = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    wanted = -(shares[np.arange(3), batch["label"]] * batch["sample_weight"]).sum()
    np.testing.assert_allclose(
        _numpy(model.loss_errors(model(batch), batch)["label"]), wanted, rtol=1e-5
    )

    def loss(values):
        outputs, _ = model.stateless_call(
            values, [v.value for v in model.non_trainable_variables], batch
        )
        return model.loss_errors(outputs, batch)["label"]

    found = gradients(loss, [_numpy(v).astype("float32") for v in model.trainable_variables])
    without = {
        v.path
        for v, gradient in zip(model.trainable_variables, found, strict=True)
        if not np.abs(gradient).max() > 0
    }
    # The query stream is of pretraining, and there is one segment only.
    assert {path.rpartition("/")[2] for path in without} <= {
        "query_embedding",
        "segment_bias",
        "segment_table",
    }


@pytest.mark.runs
@pytest.mark.parametrize("kind", KINDS)
def test_it_learns_by_plain_fit_and_reloads(kind, tmp_path):
    random = np.random.default_rng(1)
    ids = random.integers(2, 30, (64, 7)).astype("int32")
    ids[:, 2] = random.integers(2, 5, 64)
    batch = {"token_ids": ids, "label": ids[:, 2] - 2}
    model = _made(kind, dropout=0.0)
    model.compile(keras.optimizers.Adam(1e-2), jit_compile=JIT)
    model.fit(batch, batch_size=16, epochs=30, verbose=0, shuffle=False)
    predicted = np.argmax(_numpy(model({"token_ids": ids})["logits"]), axis=1)
    assert (predicted == batch["label"]).mean() > 0.9
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert type(again) is KINDS[kind][0]
    np.testing.assert_array_equal(
        _numpy(again({"token_ids": ids})["logits"]), _numpy(model({"token_ids": ids})["logits"])
    )


def test_pooling_is_what_it_can_be():
    with pytest.raises(ValueError, match="pooling must be 'last' or 'mean'. Received.*'cls'"):
        _made("gpt2", pooling="cls")
