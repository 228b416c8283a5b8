"""ModernBertEncoder and BertPretrainer against ModernBertForMaskedLM of transformers."""

import pathlib

import numpy as np
import pytest
from keras import ops

from keras_attn.data.packing import pack
from keras_attn.models import BertPretrainer, ModernBertEncoder
from tests.support.layer_checks import gradients

GOLDEN = pathlib.Path(__file__).parents[1] / "golden" / "modernbert.npz"
LAYER = {
    "attention_norm/gamma": "attn_norm.weight",
    "attention/query_key_value_kernel": "attn.Wqkv.weight",
    "attention/output_kernel": "attn.Wo.weight",
    "feed_forward_norm/gamma": "mlp_norm.weight",
    "feed_forward/intermediate/kernel": "mlp.Wi.weight",
    "feed_forward/output/kernel": "mlp.Wo.weight",
}
REST = {
    "modernbert_encoder/token_embedding": "model.embeddings.tok_embeddings.weight",
    "modernbert_encoder/norm/gamma": "model.embeddings.norm.weight",
    "modernbert_encoder/final_norm/gamma": "model.final_norm.weight",
    "mlm_dense/kernel": "head.dense.weight",
    "mlm_norm/gamma": "head.norm.weight",
    "mlm_bias": "decoder.bias",
}


def ours(path, arrays, prefix):
    """The array that belongs to our variable `path`."""
    name = REST.get(path)
    if name is None:
        _, layer, rest = path.split("/", 2)
        name = f"model.layers.{layer.removeprefix('layer_')}.{LAYER[rest]}"
    array = arrays[prefix + name]
    return array.T if path.endswith("kernel") else array


@pytest.fixture(scope="module")
def golden():
    with np.load(GOLDEN, allow_pickle=False) as file:
        return dict(file)


@pytest.fixture
def batch(golden):
    return {k.removeprefix("inputs/"): v for k, v in golden.items() if k.startswith("inputs/")}


@pytest.fixture
def model(golden):
    # 90 positions and a window of 14: three blocks of queries, of which each sees 7 on either side.
    encoder = ModernBertEncoder(53, 4, 24, 3, intermediate_dim=20, window=14)
    model = BertPretrainer(encoder, next_sentence=False)
    model.build()
    for variable in model.trainable_variables:
        variable.assign(ours(variable.path.removeprefix("bert_pretrainer/"), golden, "weights/"))
    return model


def loss_and_gradients(model, batch):
    others = [v.value for v in model.non_trainable_variables]
    batch = {name: ops.convert_to_tensor(x) for name, x in batch.items()}

    def loss(weights):
        outputs, _ = model.stateless_call(weights, others, batch, training=True)
        return model.compute_loss(x=batch, y_pred=outputs)

    weights = [ops.convert_to_numpy(v) for v in model.trainable_variables]
    value = loss([ops.convert_to_tensor(w) for w in weights])
    return ops.convert_to_numpy(value), gradients(loss, weights)


def assert_equal(golden, model, batch):
    value, found = loss_and_gradients(model, batch)
    np.testing.assert_allclose(value, golden["loss"], 1e-5)
    for variable, gradient in zip(model.trainable_variables, found, strict=True):
        path = variable.path.removeprefix("bert_pretrainer/")
        expected = ours(path, golden, "gradients/")
        np.testing.assert_allclose(gradient, expected, 1e-5, 1e-5, err_msg=path)


def test_outputs_equal_those_of_transformers(golden, batch, model):
    outputs = model(batch)
    real = batch["padding_mask"] > 0
    found = ops.convert_to_numpy(outputs["sequence_output"])
    np.testing.assert_allclose(found[real], golden["sequence_output"][real], 1e-5, 1e-5)
    found = ops.convert_to_numpy(outputs["mlm_logits"])
    np.testing.assert_allclose(found, golden["mlm_logits"], 1e-5, 1e-5)


def test_loss_and_gradients_equal_those_of_transformers(golden, batch, model):
    assert_equal(golden, model, batch)


def test_rows_that_are_packed_give_the_loss_and_gradients_of_transformers(golden, batch, model):
    batch["segment_ids"] = np.zeros_like(batch["token_ids"])
    batch["mask_weights"] = batch["mask_weights"].astype("float32")
    rows = np.array([0, 0, 0])
    packed = pack(batch, rows, count=1, length=210, most=3, slots=15)
    outputs = ops.convert_to_numpy(model(packed)["sequence_output"])[0]
    real = batch["padding_mask"] > 0
    np.testing.assert_allclose(outputs[: real.sum()], golden["sequence_output"][real], 1e-5, 1e-5)
    assert_equal(golden, model, packed)


def test_the_window_ends_where_that_of_transformers_does(golden, batch, model):
    for window in (12, 16):
        other = ModernBertEncoder(53, 4, 24, 3, intermediate_dim=20, window=window)
        other.build()
        other.set_weights(model.backbone.get_weights())
        found = ops.convert_to_numpy(other(other.select_inputs(batch))["sequence_output"])
        assert np.abs(found - golden["sequence_output"])[0].max() > 1e-2
