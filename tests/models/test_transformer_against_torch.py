"""The Transformer against torch.nn.Transformer: see golden/README.md."""

import pathlib

import numpy as np
import pytest
from keras import ops

from keras_attn.models import Transformer
from tests.support.layer_checks import gradients

GOLDEN = np.load(
    pathlib.Path(__file__).parents[1] / "golden" / "transformer.npz", allow_pickle=False
)


def _names(layers=2, norm_first=False):
    """Our paths -> (theirs, whether the matrix is turned, which third of it)."""
    found = {"token_embedding": ("table", False, None)}
    for side in ("encoder", "decoder"):
        for i in range(layers):
            ours, theirs = f"{side}_layer_{i}", f"{side}.layers.{i}"
            attention = "attention" if side == "encoder" else "self_attention"
            found |= _attention(f"{ours}/{attention}", f"{theirs}.self_attn")
            norms = [f"{attention}_norm", "feed_forward_norm"]
            if side == "decoder":
                found |= _cross(f"{ours}/cross_attention", f"{theirs}.multihead_attn")
                norms.insert(1, "cross_attention_norm")
            for number, part in enumerate(("intermediate", "output"), 1):
                found[f"{ours}/feed_forward/{part}/kernel"] = (
                    f"{theirs}.linear{number}.weight",
                    True,
                    None,
                )
                found[f"{ours}/feed_forward/{part}/bias"] = (
                    f"{theirs}.linear{number}.bias",
                    False,
                    None,
                )
            for number, norm in enumerate(norms, 1):
                found |= _norm(f"{ours}/{norm}", f"{theirs}.norm{number}")
        if norm_first:
            found |= _norm(f"{side}_norm", f"{side}.norm")
    return found


def _norm(ours, theirs):
    return {
        f"{ours}/gamma": (f"{theirs}.weight", False, None),
        f"{ours}/beta": (f"{theirs}.bias", False, None),
    }


def _attention(ours, theirs):
    return {
        f"{ours}/query_key_value_kernel": (f"{theirs}.in_proj_weight", True, None),
        f"{ours}/query_key_value_bias": (f"{theirs}.in_proj_bias", False, None),
        **_output(ours, theirs),
    }


def _cross(ours, theirs):
    return {
        f"{ours}/query_kernel": (f"{theirs}.in_proj_weight", True, slice(0, 12)),
        f"{ours}/query_bias": (f"{theirs}.in_proj_bias", False, slice(0, 12)),
        f"{ours}/key_value_kernel": (f"{theirs}.in_proj_weight", True, slice(12, None)),
        f"{ours}/key_value_bias": (f"{theirs}.in_proj_bias", False, slice(12, None)),
        **_output(ours, theirs),
    }


def _output(ours, theirs):
    return {
        f"{ours}/output_kernel": (f"{theirs}.out_proj.weight", True, None),
        f"{ours}/output_bias": (f"{theirs}.out_proj.bias", False, None),
    }


def _theirs(kind, order, name):
    theirs, turned, part = name
    array = GOLDEN[f"{order}/{kind}/{theirs}"]
    array = array if part is None else array[part]
    return array.T if turned else array


@pytest.mark.parametrize("order", ["post", "pre"])
def test_logits_loss_and_gradients_are_those_of_torch(order):
    model = Transformer(17, 2, 12, 3, 20, dropout=0.0, norm_first=order == "pre")
    model.build()
    names = _names(norm_first=order == "pre")
    paths = [variable.path.removeprefix("transformer/") for variable in model.trainable_variables]
    assert sorted(paths) == sorted(names)
    for path, variable in zip(paths, model.trainable_variables, strict=True):
        variable.assign(_theirs("weights", order, names[path]))
    batch = {
        name.removeprefix("inputs/"): GOLDEN[name].astype("int32")
        for name in GOLDEN.files
        if name.startswith("inputs/")
    }
    batch["padding_mask"] = (batch["token_ids"] != 0).astype("int32")
    batch["sample_weight"] = (batch["label"] != 0).astype("float32")
    batch = {name: ops.convert_to_tensor(array) for name, array in batch.items()}
    logits = ops.convert_to_numpy(model(batch)["logits"])
    wanted = GOLDEN[f"{order}/logits"]
    real = ops.convert_to_numpy(batch["sample_weight"]) > 0
    np.testing.assert_allclose(logits[real], wanted[real], rtol=1e-5, atol=1e-5)

    others = [variable.value for variable in model.non_trainable_variables]

    def loss(tensors):
        outputs, _ = model.stateless_call(tensors, others, batch)
        errors, weights = model.loss_errors(outputs, batch), model.loss_weights(batch)
        return errors["token"] / weights["token"]

    arrays = [ops.convert_to_numpy(variable) for variable in model.trainable_variables]
    np.testing.assert_allclose(
        float(loss([ops.convert_to_tensor(a) for a in arrays])), GOLDEN[f"{order}/loss"], rtol=1e-5
    )
    for path, gradient in zip(paths, gradients(loss, arrays), strict=True):
        np.testing.assert_allclose(
            gradient, _theirs("gradients", order, names[path]), rtol=1e-5, atol=1e-5, err_msg=path
        )
