"""Self-attention and positions against public implementations: see golden/README.md."""

import numpy as np
import pytest
from keras import ops

from keras_attn.layers import (
    AlibiBias,
    ExpandedWindowAttention,
    MultiHeadAttention,
    RelativeAttention,
    RelativePositionBias,
    RotaryEmbedding,
    SinusoidalPositionEncoding,
)
from keras_attn.ops import scaled_dot_product_attention
from tests.support.golden_attention import GOLDEN, assign, close, golden
from tests.support.layer_checks import compiled, run


def fused(arrays, names, prefix="", suffix=""):
    """Kernel and bias of query, key and value from those of three PyTorch layers."""
    found = {"kernel": np.concatenate([arrays[f"{n}{suffix}.weight"].T for n in names], axis=1)}
    if f"{names[0]}{suffix}.bias" in arrays:
        found["bias"] = np.concatenate([arrays[f"{n}{suffix}.bias"] for n in names])
    return {f"{prefix}query_key_value_{part}": array for part, array in found.items()}


def identity(size):
    """An output projection that changes nothing, for what has none."""
    return {"output_kernel": np.eye(size), "output_bias": np.zeros(size)}


QUERY_KEY_VALUE = "query", "key", "value"


@pytest.mark.parametrize("way", ["in blocks", "by a mask"])
@pytest.mark.parametrize("name", ["window", "global"])
def test_longformer_has_the_same_window_and_global_tokens(name, way):
    arrays = golden("longformer")
    weights = fused(arrays, QUERY_KEY_VALUE) | identity(4)
    options = {}
    if name == "global":
        options = {"global_tokens": 2, "separate_global_projections": True}
        weights |= fused(arrays, QUERY_KEY_VALUE, "global_", "_global")
    layer = ExpandedWindowAttention(2, 2, window=1, extension=2, **options)
    inputs = {"query": arrays["x"], "query_mask": arrays["mask"]}
    arguments = {"return_attention_scores": way == "by a mask"}
    run(layer, inputs)
    assign(layer, weights)
    close(run(layer, inputs, arguments), arrays[name])


def test_big_bird_of_blocks_of_one_token_has_the_same_window_and_global_token():
    arrays = golden("big_bird")
    layer = ExpandedWindowAttention(2, 3, window=1, extension=1, global_tokens=1)
    inputs = {"query": arrays["x"], "query_mask": arrays["mask"]}
    run(layer, inputs)
    assign(layer, fused(arrays, QUERY_KEY_VALUE) | identity(6))
    close(run(layer, inputs), arrays["output"])


@pytest.mark.parametrize("way", [lambda function: function, compiled], ids=["eager", "XLA"])
@pytest.mark.parametrize("name", ["encoder", "decoder"])
@pytest.mark.parametrize(("buckets", "largest"), [(32, 128), (24, 300)])
def test_t5_has_the_same_buckets(name, buckets, largest, way):
    layer = RelativePositionBias(1, buckets, largest, bidirectional=name == "encoder")
    query, key = np.zeros((1, 1, 2), "float32"), np.zeros((1, 601, 2), "float32")
    found = way(lambda offset: layer.buckets(query, key, offset))(
        ops.convert_to_tensor(300, "int32")
    )
    np.testing.assert_array_equal(
        ops.convert_to_numpy(found)[0], golden("t5")[f"{name}/buckets_{buckets}_{largest}"]
    )


@pytest.mark.parametrize("name", ["encoder", "decoder"])
def test_t5_has_the_same_attention(name):
    arrays = golden("t5", f"t5/{name}")
    position = RelativePositionBias(2, 8, 16, bidirectional=name == "encoder")
    layer = MultiHeadAttention(2, 3, position=position, use_bias=False)
    inputs, arguments = (
        {"query": arrays["x"], "value": arrays["x"]},
        {"use_causal_mask": name == "decoder"},
    )
    run(layer, inputs, arguments)
    arrays["q.weight"] = arrays["q.weight"] * 3**0.5  # T5 does not divide
    assign(
        layer,
        fused(arrays, "qkv")
        | {
            "output_kernel": arrays["o.weight"].T,
            "table": arrays["relative_attention_bias.weight"],
        },
    )
    close(run(layer, inputs, arguments), arrays["output"])


def test_roformer_turns_neighbours():
    arrays = golden("roformer")
    layer = MultiHeadAttention(2, 4, position=RotaryEmbedding("interleaved"))
    inputs = {"query": arrays["x"], "value": arrays["x"], "value_mask": arrays["mask"]}
    run(layer, inputs)
    assign(layer, fused(arrays, QUERY_KEY_VALUE) | identity(8))
    close(run(layer, inputs), arrays["output"])


def test_llama_turns_halves():
    arrays = golden("llama")
    position = RotaryEmbedding("halves", max_wavelength=500.0)
    layer = MultiHeadAttention(2, 4, position=position, use_bias=False)
    inputs, arguments = {"query": arrays["x"], "value": arrays["x"]}, {"use_causal_mask": True}
    run(layer, inputs, arguments)
    assign(
        layer, fused(arrays, "qkv", suffix="_proj") | {"output_kernel": arrays["o_proj.weight"].T}
    )
    close(run(layer, inputs, arguments), arrays["output"])
    close(ops.convert_to_numpy(position(arrays["heads"], arrays["positions"])), arrays["turned"])


@pytest.mark.parametrize("name", ["alone", "with_memory"])
def test_xlnet_has_the_same_relative_attention(name):
    arrays = golden("xlnet")
    layer = RelativeAttention(2, 4, use_bias=False)
    memory, mask = None, arrays["mask"]
    if name == "with_memory":
        memory, mask = arrays["memory"], np.concatenate([np.ones((2, 3), bool), mask], axis=1)
    inputs, arguments = {"query": arrays["x"], "value_mask": mask}, {"memory": memory}
    run(layer, inputs, arguments)
    flat = {part: arrays[part].reshape(8, 8) for part in "qkvor"}
    assign(
        layer,
        {
            "query_key_value_kernel": np.concatenate([flat[part] for part in "qkv"], axis=1),
            "output_kernel": flat["o"].T,
            "position_kernel": flat["r"],
            "content_bias": arrays["r_w_bias"],
            "position_bias": arrays["r_r_bias"],
        },
    )
    close(run(layer, inputs, arguments), arrays[name])


def test_transformer_xl_has_the_same_relative_attention():
    arrays = golden("transformer_xl")
    layer = RelativeAttention(2, 3, use_bias=False)
    inputs = {"query": arrays["x"]}
    arguments = {"memory": arrays["memory"], "use_causal_mask": True}
    run(layer, inputs, arguments)
    assign(
        layer,
        {
            "query_key_value_kernel": arrays["qkv_net.weight"].T,
            "output_kernel": arrays["o_net.weight"].T,
            "position_kernel": arrays["r_net.weight"].T,
            "content_bias": arrays["r_w_bias"],
            "position_bias": arrays["r_r_bias"],
        },
    )
    close(run(layer, inputs, arguments), arrays["output"])


@pytest.mark.parametrize("heads", [1, 3, 8, 12])
def test_bloom_has_the_same_slopes(heads):
    # Its bias is m j, whatever the query: -m (i - j) but for what is the same for all keys.
    expected = golden("alibi")[f"heads_{heads}"]
    x = np.zeros((1, 7, 4))
    found = ops.convert_to_numpy(AlibiBias(heads)(x))
    seen = np.tri(7, dtype=bool)
    close(found[:, seen], (expected[:, None] - expected[..., None])[:, seen], 1e-6)


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [("float32", 1e-5), ("float16", 2e-3), ("bfloat16", 2e-2)]
)
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("masked", {"mask": GOLDEN["torch/mask"]}),
        ("causal", {"causal": "start"}),
        ("scaled", {"scale": 0.3}),
    ],
)
def test_torch_has_the_same_scaled_dot_products(name, options, dtype, tolerance):
    arrays = golden("torch")
    heads = [ops.cast(arrays[part], dtype) for part in QUERY_KEY_VALUE]
    found = scaled_dot_product_attention(*heads, **options)
    close(ops.convert_to_numpy(ops.cast(found, "float32")), arrays[name], tolerance)


def test_opennmt_has_the_same_relative_attention_of_shaw():
    arrays = golden("shaw")
    layer = RelativeAttention(2, 3, style="shaw", max_distance=3)
    inputs = {"query": arrays["x"], "value_mask": arrays["mask"]}
    arguments = {"return_attention_scores": True}
    run(layer, inputs, arguments)
    parts = [f"linear_{part}" for part in ("query", "keys", "values")]
    # Its table, one for keys and values, is of the distance the other way around.
    table = arrays["relative_positions_embeddings.weight"][::-1]
    assign(
        layer,
        {
            "query_key_value_kernel": np.concatenate(
                [arrays[f"{p}.weight"].T for p in parts], axis=1
            ),
            "query_key_value_bias": np.concatenate([arrays[f"{p}.bias"] for p in parts]),
            "output_kernel": arrays["final_linear.weight"].T,
            "output_bias": arrays["final_linear.bias"],
            "key_table": table,
            "value_table": table,
        },
    )
    for index, name in enumerate(("output", "scores")):
        found = run(layer, inputs, arguments, index=index)
        np.testing.assert_allclose(found, arrays[name], 1e-5, 1e-5, err_msg=name)


def test_sines_before_cosines_are_those_of_marian():
    table = golden("marian")["table"]
    layer = SinusoidalPositionEncoding(layout="concat")
    found = ops.convert_to_numpy(layer(np.zeros((1, *table.shape), "float32")))[0]
    np.testing.assert_allclose(found, table, 1e-5, 1e-6)
