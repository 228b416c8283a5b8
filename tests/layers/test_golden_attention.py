"""Layers against public implementations with the same weights: see golden/README.md."""

import pathlib

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.layers import (
    ABCNN1Attention,
    AdditiveScore,
    AlibiBias,
    Attention,
    AttentionalInteraction,
    AttentionCell,
    CopyDistribution,
    CosineScore,
    ExpandedWindowAttention,
    LuongAttention,
    MultiHeadAttention,
    PointerAttention,
    RecurrentDecoder,
    RelativeAttention,
    RelativePositionBias,
    RotaryEmbedding,
    SinusoidalPositionEncoding,
)
from keras_attn.ops import scaled_dot_product_attention
from tests.support.layer_checks import compiled, run
from tests.support.numpy_attention import softmax

FOLDER = pathlib.Path(__file__).parents[1] / "golden"
GOLDEN = np.load(FOLDER / "attention.npz", allow_pickle=False)


def golden(*folders):
    """The arrays of these folders by the rest of their names."""
    found = {}
    for folder in folders:
        found |= {
            name.removeprefix(f"{folder}/"): GOLDEN[name]
            for name in GOLDEN.files
            if name.startswith(f"{folder}/")
        }
    return found


def assign(layer, weights):
    """Sets weights by the last part of their paths; all must be given, and no two named alike."""
    assert sorted(v.path.split("/")[-1] for v in layer.weights) == sorted(weights)
    for variable in layer.weights:
        variable.assign(weights[variable.path.split("/")[-1]])


def fused(arrays, names, prefix="", suffix=""):
    """Kernel and bias of query, key and value from those of three PyTorch layers."""
    found = {"kernel": np.concatenate([arrays[f"{n}{suffix}.weight"].T for n in names], axis=1)}
    if f"{names[0]}{suffix}.bias" in arrays:
        found["bias"] = np.concatenate([arrays[f"{n}{suffix}.bias"] for n in names])
    return {f"{prefix}query_key_value_{part}": array for part, array in found.items()}


def identity(size):
    """An output projection that changes nothing, for what has none."""
    return {"output_kernel": np.eye(size), "output_bias": np.zeros(size)}


def close(found, expected, tolerance=1e-5):
    np.testing.assert_allclose(found, expected, tolerance, tolerance)


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


def test_torch_has_the_same_cosines():
    arrays = golden("torch")
    found = CosineScore()(arrays["query"][:, 0], arrays["key"][:, 0])
    close(ops.convert_to_numpy(found), arrays["cosine"])


@pytest.mark.parametrize(
    ("name", "score", "weights"),
    [
        ("dot", "dot", {}),
        ("general", "general", {"kernel": "linear_in.weight"}),
        (
            "mlp",
            AdditiveScore(6, use_bias=True),
            {
                "query_kernel": "linear_query.weight",
                "bias": "linear_query.bias",
                "key_kernel": "linear_context.weight",
                "vector": "v.weight",
            },
        ),
    ],
)
def test_opennmt_has_the_same_global_attention(name, score, weights):
    arrays = golden("opennmt", f"opennmt/{name}")
    layer = LuongAttention(6, score, activation="linear" if name == "mlp" else "tanh")
    inputs = {"query": arrays["query"], "value": arrays["value"], "value_mask": arrays["mask"]}
    arguments = {"return_attention_scores": True}
    run(layer, inputs, arguments)
    assign(layer.attention.score, {ours: arrays[theirs].T for ours, theirs in weights.items()})
    layer.kernel.assign(arrays["linear_out.weight"].T)
    # Its mlp adds a bias in the end.
    output = arrays["output"] - arrays.get("linear_out.bias", 0)
    close(run(layer, inputs, arguments), output)
    close(run(layer, inputs, arguments, index=1), arrays["scores"])


def test_opennmt_copies_the_same_words():
    arrays = golden("opennmt", "opennmt/copy")
    logits = arrays["query"] @ arrays["linear.weight"].T + arrays["linear.bias"]
    vocabulary = softmax(logits, np.arange(4) != 1)  # not the padding
    copy = 1 / (
        1 + np.exp(-arrays["query"] @ arrays["linear_copy.weight"].T - arrays["linear_copy.bias"])
    )
    layer = CopyDistribution(num_oov=5)
    found = ops.convert_to_numpy(
        layer(vocabulary, GOLDEN["opennmt/dot/scores"], arrays["source_ids"], 1 - copy)
    )
    close(found, arrays["output"])
    assert found[..., 7:].max() > 0.01  # some of it is of words outside the vocabulary


@pytest.mark.parametrize(
    ("name", "score", "weights"),
    [
        (
            "bahdanau",
            "additive",
            {"query_kernel": "query_layer", "key_kernel": "memory_layer", "vector": "attention_v"},
        ),
        (
            "normed",
            AdditiveScore(6, use_bias=True, normalize=True),
            {
                "query_kernel": "query_layer",
                "key_kernel": "memory_layer",
                "vector": "attention_v",
                "length": "attention_g",
                "bias": "attention_b",
            },
        ),
        ("luong", "general", {"kernel": "memory_layer"}),
    ],
)
def test_tensorflow_addons_has_the_same_weights(name, score, weights):
    arrays = golden("addons", f"addons/{name}")
    layer = Attention(score, units=6 if score == "additive" else None)
    inputs = {
        "query": arrays["query"][:, None],
        "value": arrays["value"],
        "value_mask": arrays["mask"],
    }
    arguments = {"return_attention_scores": True}
    run(layer, inputs, arguments)
    assign(
        layer.score,
        {
            ours: arrays[theirs].T
            if ours == "kernel"
            else arrays[theirs].reshape(getattr(layer.score, ours).shape)
            for ours, theirs in weights.items()
        },
    )
    close(run(layer, inputs, arguments, index=1)[:, 0], arrays["scores"])


def test_deepctr_has_the_same_interaction():
    arrays = golden("deepctr")
    layer = AttentionalInteraction(6)
    inputs, arguments = {"inputs": arrays["x"]}, {"return_attention_scores": True}
    run(layer, inputs, arguments)
    assign(
        layer,
        {
            "kernel": arrays["attention_W"],
            "bias": arrays["attention_b"],
            "vector": arrays["projection_h"],
        },
    )
    close(run(layer, inputs, arguments) @ arrays["projection_p"], arrays["output"])
    close(run(layer, inputs, arguments, index=1), arrays["scores"])


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


def test_steps_with_input_feeding_are_those_of_the_attention_wrapper_of_tensorflow_addons():
    arrays = golden("wrapper")
    cell = AttentionCell(
        keras.layers.LSTMCell(4, name="lstm"),
        LuongAttention(7, "general", activation=None, name="luong"),
    )
    cell.build((2, 3), (2, 5, 6))
    memory, states = cell.prepare_memory(arrays["memory"], arrays["mask"]), cell.start(None, 2)
    join = arrays["attention_kernel"]  # of the state, then of the context
    weights = {
        "lstm/kernel": arrays["kernel"],
        "lstm/bias": arrays["bias"],
        "lstm/recurrent_kernel": arrays["recurrent_kernel"],
        "score/kernel": arrays["memory_kernel"].T,
        "luong/kernel": np.concatenate([join[4:], join[:4]]),
    }
    assert sorted("/".join(v.path.split("/")[-2:]) for v in cell.weights) == sorted(weights)
    for variable in cell.weights:
        variable.assign(weights["/".join(variable.path.split("/")[-2:])])
    for step in range(4):
        outputs, states = cell(arrays["inputs"][:, step], states, memory)
        for ours, theirs in (("output", "output"), ("weights", "scores")):
            np.testing.assert_allclose(
                ops.convert_to_numpy(outputs[ours]),
                arrays[theirs][:, step],
                1e-5,
                1e-5,
                err_msg=theirs,
            )


@pytest.mark.parametrize(
    ("name", "score"),
    [("luong", {"score": "general"}), ("bahdanau", {"score": "additive", "attention_units": 4})],
)
def test_a_decoder_with_input_feeding_is_that_of_joeynmt(name, score):
    arrays = dict(np.load(FOLDER / "joeynmt_decoder.npz", allow_pickle=False))
    theirs = {key.removeprefix(f"{name}/"): x for key, x in arrays.items()}
    decoder = RecurrentDecoder(
        AttentionCell(
            keras.layers.LSTMCell(4, name="lstm"), LuongAttention(4, name="luong", **score)
        ),
        7,
        2,
    )
    decoder.build((3, 5), (3, 6, 3))
    join = theirs["att_vector_layer.weight"].T  # of the state, then of the context
    scores = (
        {"score/kernel": theirs["attention.key_layer.weight"]}
        if name == "luong"
        else {
            f"score/{ours}": theirs[f"attention.{part}_layer.weight"].T
            for ours, part in (
                ("query_kernel", "query"),
                ("key_kernel", "key"),
                ("vector", "energy"),
            )
        }
    )
    weights = {
        "embedding": theirs["embedding"],
        "output_kernel": theirs["output_layer.weight"].T,
        "lstm/kernel": theirs["rnn.weight_ih_l0"].T,
        "lstm/recurrent_kernel": theirs["rnn.weight_hh_l0"].T,
        "lstm/bias": theirs["rnn.bias_ih_l0"] + theirs["rnn.bias_hh_l0"],
        "luong/kernel": np.concatenate([join[4:], join[:4]]),
        **scores,
    }
    weights |= {f"{decoder.name}/{key}": weights.pop(key) for key in ("embedding", "output_kernel")}
    assert sorted("/".join(v.path.split("/")[-2:]) for v in decoder.trainable_weights) == sorted(
        weights
    )
    for variable in decoder.trainable_weights:
        variable.assign(weights["/".join(variable.path.split("/")[-2:])])
    found = decoder(
        theirs["target_ids"],
        theirs["memory"].astype("float32"),
        theirs["mask"],
        initial_state=list(theirs["state"].astype("float32")),
    )
    for ours, part in zip(found, ("logits", "alignments"), strict=True):
        np.testing.assert_allclose(ops.convert_to_numpy(ours), theirs[part], 1e-5, 1e-5)


@pytest.mark.parametrize(("index", "name"), [(0, "first"), (1, "second")])
def test_attention_before_a_convolution_is_that_of_codykala(index, name):
    arrays = golden("abcnn")
    layer = ABCNN1Attention(6, share_weights=False)
    inputs = {part: arrays[part] for part in ("first", "second")}
    run(layer, inputs)
    assign(layer, {"first_kernel": arrays["W1"], "second_kernel": arrays["W2"]})
    # (B, 2, T, D) -> (B, T, 2 D)
    expected = arrays[f"{name}_output"].swapaxes(1, 2).reshape(2, 6, 10)
    np.testing.assert_allclose(run(layer, inputs, index=index), expected, 1e-5, 1e-5)


def test_sines_before_cosines_are_those_of_marian():
    table = golden("marian")["table"]
    layer = SinusoidalPositionEncoding(layout="concat")
    found = ops.convert_to_numpy(layer(np.zeros((1, *table.shape), "float32")))[0]
    np.testing.assert_allclose(found, table, 1e-5, 1e-6)


def test_pointing_is_the_additive_attention_of_joeynmt():
    arrays = np.load(FOLDER / "joeynmt_attention.npz", allow_pickle=False)
    layer = PointerAttention(7)
    inputs = {
        "query": arrays["query"].astype("float32"),
        "value": arrays["value"].astype("float32"),
        "value_mask": arrays["value_mask"],
    }
    arguments = {"return_attention_scores": True}
    run(layer, inputs, arguments)
    names = {"query_kernel": "query", "key_kernel": "key", "vector": "energy"}
    assign(
        layer, {ours: arrays[f"bahdanau/{theirs}_layer.weight"].T for ours, theirs in names.items()}
    )
    found = run(layer, inputs, arguments, index=1)
    np.testing.assert_allclose(found, arrays["bahdanau/scores"], 1e-5, 1e-6)
