"""Attention from before Transformers against public implementations: see golden/README.md."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.layers import (
    ABCNN1Attention,
    AdditiveScore,
    Attention,
    AttentionalInteraction,
    AttentionCell,
    CopyDistribution,
    CosineScore,
    LuongAttention,
    PointerAttention,
    RecurrentDecoder,
)
from tests.support.golden_attention import FOLDER, GOLDEN, assign, close, golden
from tests.support.layer_checks import run
from tests.support.numpy_attention import softmax


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
