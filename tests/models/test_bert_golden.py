"""BertEncoder and BertPretrainer against BertForPreTraining of Hugging Face."""

import pathlib

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.models import BertEncoder, BertPretrainer
from tests.support.layer_checks import gradients

GOLDEN = pathlib.Path(__file__).parents[1] / "golden" / "bert_pretraining.npz"
# Below "bert.encoder.layer.<i>."; ours below "bert_encoder/layer_<i>/".
LAYER = {
    "attention/output_kernel": "attention.output.dense.weight",
    "attention/output_bias": "attention.output.dense.bias",
    "attention_norm/gamma": "attention.output.LayerNorm.weight",
    "attention_norm/beta": "attention.output.LayerNorm.bias",
    "feed_forward/intermediate/kernel": "intermediate.dense.weight",
    "feed_forward/intermediate/bias": "intermediate.dense.bias",
    "feed_forward/output/kernel": "output.dense.weight",
    "feed_forward/output/bias": "output.dense.bias",
    "feed_forward_norm/gamma": "output.LayerNorm.weight",
    "feed_forward_norm/beta": "output.LayerNorm.bias",
}
REST = {
    "bert_encoder/token_embedding": "bert.embeddings.word_embeddings.weight",
    "bert_encoder/position_embedding/embeddings": "bert.embeddings.position_embeddings.weight",
    "bert_encoder/segment_embedding": "bert.embeddings.token_type_embeddings.weight",
    "bert_encoder/norm/gamma": "bert.embeddings.LayerNorm.weight",
    "bert_encoder/norm/beta": "bert.embeddings.LayerNorm.bias",
    "bert_encoder/pooler/kernel": "bert.pooler.dense.weight",
    "bert_encoder/pooler/bias": "bert.pooler.dense.bias",
    "mlm_dense/kernel": "cls.predictions.transform.dense.weight",
    "mlm_dense/bias": "cls.predictions.transform.dense.bias",
    "mlm_norm/gamma": "cls.predictions.transform.LayerNorm.weight",
    "mlm_norm/beta": "cls.predictions.transform.LayerNorm.bias",
    "mlm_bias": "cls.predictions.bias",
    "nsp_dense/kernel": "cls.seq_relationship.weight",
    "nsp_dense/bias": "cls.seq_relationship.bias",
}


def ours(path, arrays, prefix):
    """The array that belongs to our variable `path`, from those named as by Hugging Face."""
    if path in REST:
        array = arrays[prefix + REST[path]]
    else:
        _, layer, rest = path.split("/", 2)
        prefix += f"bert.encoder.layer.{layer.removeprefix('layer_')}."
        if rest in LAYER:
            array = arrays[prefix + LAYER[rest]]
        else:
            kind = {"query_key_value_kernel": "weight", "query_key_value_bias": "bias"}[
                rest.removeprefix("attention/")
            ]
            parts = [
                arrays[f"{prefix}attention.self.{x}.{kind}"] for x in ("query", "key", "value")
            ]
            array = np.concatenate(parts)
    return array.T if path.endswith("kernel") else array


@pytest.fixture(scope="module")
def golden():
    with np.load(GOLDEN, allow_pickle=False) as file:
        return dict(file)


@pytest.fixture(params=["gelu_erf", "gelu_tanh"])
def activation(request):
    return request.param


@pytest.fixture
def batch(golden):
    return {k.removeprefix("inputs/"): v for k, v in golden.items() if k.startswith("inputs/")}


@pytest.fixture
def model(golden, activation):
    encoder = BertEncoder(
        89, 2, 24, 3, intermediate_dim=56, dropout=0.0, max_length=20, activation=activation
    )
    model = BertPretrainer(encoder)
    model.build()
    for variable in model.trainable_variables:
        variable.assign(ours(variable.path.removeprefix("bert_pretrainer/"), golden, "weights/"))
    return model


def test_outputs_equal_those_of_hugging_face(golden, activation, batch, model):
    outputs = model(batch)
    for name in ("sequence_output", "pooled_output", "mlm_logits", "nsp_logits"):
        found = ops.convert_to_numpy(outputs[name])
        np.testing.assert_allclose(found, golden[f"{activation}/{name}"], 1e-5, 1e-5, err_msg=name)


def test_loss_and_gradients_equal_those_of_hugging_face(golden, activation, batch, model):
    others = [v.value for v in model.non_trainable_variables]
    batch = {name: ops.convert_to_tensor(x) for name, x in batch.items()}

    def loss(weights):
        outputs, _ = model.stateless_call(weights, others, batch, training=True)
        return model.compute_loss(x=batch, y_pred=outputs)

    weights = [ops.convert_to_numpy(v) for v in model.trainable_variables]
    value = loss([ops.convert_to_tensor(w) for w in weights])
    np.testing.assert_allclose(ops.convert_to_numpy(value), golden[f"{activation}/loss"], 1e-5)
    for variable, found in zip(model.trainable_variables, gradients(loss, weights), strict=True):
        path = variable.path.removeprefix("bert_pretrainer/")
        expected = ours(path, golden, f"{activation}/gradients/")
        np.testing.assert_allclose(found, expected, 1e-5, 1e-5, err_msg=path)


def test_the_two_forms_of_gelu_differ(golden):
    difference = golden["gelu_erf/mlm_logits"] - golden["gelu_tanh/mlm_logits"]
    assert np.abs(difference).max() > 1e-4


def test_the_encoder_alone_reloads_with_the_same_output(batch, model, tmp_path):
    model.backbone.save(tmp_path / "encoder.keras")
    again = keras.saving.load_model(tmp_path / "encoder.keras")
    inputs = model.backbone.select_inputs(batch)
    expected = ops.convert_to_numpy(model.backbone(inputs)["sequence_output"])
    found = ops.convert_to_numpy(again(inputs)["sequence_output"])
    np.testing.assert_array_equal(found, expected)
