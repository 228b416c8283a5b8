"""The golden XLNet, and batches for it."""

import pathlib

import numpy as np
from keras import ops

from keras_attn.models import XLNet, XLNetPretrainer

GOLDEN = pathlib.Path(__file__).parents[1] / "golden" / "xlnet.npz"
GENERATED = GOLDEN.with_name("xlnet_generation.npz")
# Below "transformer.layer.<i>."; ours below "xlnet/layer_<i>/".
LAYER = {
    "attention/position_kernel": "rel_attn.r",
    "attention/segment_table": "rel_attn.seg_embed",
    "attention/content_bias": "rel_attn.r_w_bias",
    "attention/position_bias": "rel_attn.r_r_bias",
    "attention/segment_bias": "rel_attn.r_s_bias",
    "attention_norm/gamma": "rel_attn.layer_norm.weight",
    "attention_norm/beta": "rel_attn.layer_norm.bias",
    "feed_forward/intermediate/kernel": "ff.layer_1.weight",
    "feed_forward/intermediate/bias": "ff.layer_1.bias",
    "feed_forward/output/kernel": "ff.layer_2.weight",
    "feed_forward/output/bias": "ff.layer_2.bias",
    "feed_forward_norm/gamma": "ff.layer_norm.weight",
    "feed_forward_norm/beta": "ff.layer_norm.bias",
}
REST = {
    "token_embedding": "transformer.word_embedding.weight",
    "query_embedding": "transformer.mask_emb",
}


def ours(variable, arrays, prefix):
    """Returns the array of a variable from the tensors of Hugging Face."""
    if variable.path.endswith("output_bias"):
        return arrays[f"{prefix}lm_loss.bias"]
    path = variable.path.split("xlnet/", 1)[1]
    if path in REST:
        return arrays[f"{prefix}{REST[path]}"].reshape(variable.shape)
    layer, rest = path.split("/", 1)
    below = f"{prefix}transformer.layer.{layer.removeprefix('layer_')}."
    if rest == "attention/query_key_value_kernel":
        parts = [arrays[f"{below}rel_attn.{name}"].reshape(24, 24) for name in "qkv"]
        return np.concatenate(parts, axis=1)
    if rest == "attention/output_kernel":  # width, heads, depth
        return arrays[f"{below}rel_attn.o"].reshape(24, 24).T
    found = arrays[f"{below}{LAYER[rest]}"]
    turned = rest.endswith(("intermediate/kernel", "output/kernel"))
    return found.T if turned else found.reshape(variable.shape)


def batch_of(inputs, *names):
    """The entries of a batch: tokens, padding, segments, and others."""
    names = ("token_ids", "padding_mask", "segment_ids", "mask_positions", "mask_ids", *names)
    batch = {name: inputs[name] for name in names}
    return {**batch, "mask_weights": np.ones(batch["mask_ids"].shape, "float32")}


def make_model(**options):
    model = XLNetPretrainer(
        XLNet(89, 2, 24, 3, intermediate_dim=56, **{"dropout": 0.0, "seed": 1, **options})
    )
    model.build()
    return model


def as_golden(golden, **options):
    model = make_model(**{"memory_length": 7, **options})
    for variable in model.trainable_variables:
        variable.assign(ours(variable, golden, "weights/"))
    return model


def array(x):
    return ops.convert_to_numpy(ops.cast(x, "float32"))
