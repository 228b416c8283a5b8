"""Classifiers of RoBERTa and DistilBERT: their heads, packed rows and one segment."""

import keras
import numpy as np
import pytest
from keras import ops
from scipy.special import erf

from keras_attn.models import (
    BertEncoder,
    DistilBertClassifier,
    ElectraClassifier,
    RobertaClassifier,
)

LENGTHS = (3, 7, 1)
KINDS = {
    "roberta": (RobertaClassifier, 1, np.tanh),
    "distilbert": (DistilBertClassifier, 0, lambda x: np.maximum(x, 0)),
    "electra": (ElectraClassifier, 2, lambda x: x * (1 + erf(x / np.sqrt(2))) / 2),
}


def _made(kind, **options):
    task, num_segments, _ = KINDS[kind]
    backbone = BertEncoder(30, 2, 16, 2, num_segments=num_segments, use_pooler=False, seed=3)
    model = task(backbone, 3, **options)
    model.build()
    return model


def _batch():
    random = np.random.default_rng(0)
    mask = (np.arange(7) < np.array(LENGTHS)[:, None]).astype("int32")
    ids = random.integers(1, 30, (3, 7)).astype("int32")
    return {"token_ids": ids * mask, "padding_mask": mask}


def _numpy(x):
    return ops.convert_to_numpy(x).astype("float64")


@pytest.mark.parametrize("kind", KINDS)
def test_logits_come_from_a_hidden_layer_on_the_first_token(kind):
    model, batch = _made(kind), _batch()
    first = _numpy(model.backbone(batch)["sequence_output"])[:, 0]
    hidden, output = (
        [_numpy(weight) for weight in layer.weights]
        for layer in (model.hidden_dense, model.logits_dense)
    )
    wanted = KINDS[kind][2](first @ hidden[0] + hidden[1]) @ output[0] + output[1]
    np.testing.assert_allclose(_numpy(model(batch)["logits"]), wanted, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_the_mean_of_the_tokens_has_no_hidden_layer(kind):
    model, batch = _made(kind, pooling="mean"), _batch()
    hidden = _numpy(model.backbone(batch)["sequence_output"])
    pooled = np.stack([row[:n].mean(0) for row, n in zip(hidden, LENGTHS, strict=True)])
    kernel, bias = map(_numpy, model.logits_dense.weights)
    np.testing.assert_allclose(_numpy(model(batch)["logits"]), pooled @ kernel + bias, atol=1e-5)
    assert not hasattr(model, "hidden_dense")


@pytest.mark.parametrize("kind", KINDS)
def test_texts_that_share_a_row_have_the_logits_of_separate_rows(kind):
    model, batch = _made(kind), _batch()
    texts = [row[:n] for row, n in zip(batch["token_ids"], LENGTHS, strict=True)]
    packed = {
        "token_ids": np.concatenate(texts)[None],
        "pack_ids": np.repeat([1, 2, 3], LENGTHS)[None].astype("int32"),
        "position_ids": np.concatenate([np.arange(n) for n in LENGTHS])[None],
        "cls_positions": np.array([[0, 3, 10]], "int32"),
    }
    np.testing.assert_allclose(
        _numpy(model(packed)["logits"])[0], _numpy(model(batch)["logits"]), atol=1e-5
    )


@pytest.mark.parametrize(("kind", "drops"), [("roberta", 2), ("distilbert", 1)])
def test_dropout_is_applied_where_transformers_applies_it(kind, drops):
    model, batch = _made(kind, dropout=0.5), _batch()
    before = int(ops.convert_to_numpy(model.seed_generator.state)[1])
    model(batch, training=True)
    after = int(ops.convert_to_numpy(model.seed_generator.state)[1])
    assert after - before == drops
    np.testing.assert_array_equal(
        *(_numpy(model(batch, training=False)["logits"]) for _ in range(2))
    )


def test_all_tokens_have_the_only_segment_whatever_the_segment_ids():
    encoder = BertEncoder(30, 1, 16, 2, num_segments=1, dropout=0.0, seed=3)
    batch = _batch()
    alone = _numpy(encoder(batch)["sequence_output"])
    ids = (np.arange(7) > 1).astype("int32") * batch["padding_mask"]
    np.testing.assert_array_equal(
        _numpy(encoder({**batch, "segment_ids": ids})["sequence_output"]), alone
    )
    encoder.segment_embedding.assign(encoder.segment_embedding + ops.arange(16, dtype="float32"))
    assert np.abs(_numpy(encoder(batch)["sequence_output"]) - alone).max() > 0.1


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_model_has_the_hidden_layer(kind, tmp_path):
    model, batch = _made(kind), _batch()
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(_numpy(loaded(batch)["logits"]), _numpy(model(batch)["logits"]))
