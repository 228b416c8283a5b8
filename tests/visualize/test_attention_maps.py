import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.layers import (
    ABCNN2Pooling,
    Attention,
    HardAttention,
    MultiHeadAttention,
    TransformerEncoderLayer,
)
from keras_attn.models import BertClassifier, BertEncoder
from keras_attn.visualize import attention_maps, attention_page, plot_attention
from tests.support.attention_page import unpacked

RANDOM = np.random.default_rng(0)
BATCH = {
    "token_ids": RANDOM.integers(1, 50, (2, 7)).astype("int32"),
    "segment_ids": np.zeros((2, 7), "int32"),
    "padding_mask": np.array([[1] * 7, [1] * 4 + [0] * 3], "int32"),
}


def classifier():
    model = BertClassifier(BertEncoder(50, 2, 16, 4, seed=0), 3, seed=1)
    model.build()
    return model


def test_every_layer_of_bert_gives_its_weights_and_the_outputs_stay_the_same():
    model = classifier()
    plain = model(BATCH, training=False)
    returned = []

    class Kept(keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.model = model

        def call(self, batch):
            returned.append(self.model(batch, training=False))
            return returned[-1]["logits"]

    maps = attention_maps(Kept(), BATCH)
    assert [name.split("/")[-2:] for name in maps] == [
        ["layer_0", "attention"],
        ["layer_1", "attention"],
    ]
    for name, output in plain.items():
        np.testing.assert_array_equal(
            ops.convert_to_numpy(returned[0][name]), ops.convert_to_numpy(output)
        )
    for weights in maps.values():
        assert weights.shape == (2, 4, 7, 7)
        np.testing.assert_allclose(weights[0].sum(-1), 1, atol=1e-5)
        assert not weights[1, ..., 4:].any()
    again = model(BATCH, training=False)["logits"]  # nothing is left behind
    np.testing.assert_array_equal(
        ops.convert_to_numpy(again), ops.convert_to_numpy(plain["logits"])
    )


def test_maps_are_what_the_layer_returns_itself():
    layer = MultiHeadAttention(2, 4, seed=0, name="heads")
    x = RANDOM.normal(size=(2, 5, 8)).astype("float32")
    output, weights = layer(x, x, return_attention_scores=True)
    np.testing.assert_array_equal(
        attention_maps(layer, x, x)["heads"], ops.convert_to_numpy(weights)
    )

    found = {}

    class Asks(keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.inner = layer

        def call(self, x):
            found["results"] = self.inner(x, x, return_attention_scores=True)
            return found["results"][0]

    maps = attention_maps(Asks(), x)
    np.testing.assert_array_equal(maps["heads"], ops.convert_to_numpy(found["results"][1]))


def test_a_shared_layer_and_a_functional_model_give_a_map_for_each_call():
    inputs = keras.Input((None, 8))
    shared = Attention("additive", 4, seed=0, name="shared")
    model = keras.Model(inputs, shared(shared(inputs, inputs), inputs))
    x = RANDOM.normal(size=(2, 5, 8)).astype("float32")
    maps = attention_maps(model, x)
    assert list(maps) == ["shared", "shared:1"]
    first, weights = shared(x, x, return_attention_scores=True)
    np.testing.assert_allclose(maps["shared"], ops.convert_to_numpy(weights), atol=1e-6)
    _, weights = shared(first, x, return_attention_scores=True)
    np.testing.assert_allclose(maps["shared:1"], ops.convert_to_numpy(weights), atol=1e-6)


def test_only_what_was_asked_for_is_a_map():
    x, y = (RANDOM.normal(size=(2, n, 8)).astype("float32") for n in (4, 5))
    pooling = ABCNN2Pooling(2, name="pooling")  # has two outputs
    maps = attention_maps(pooling, x, y)
    expected = ops.convert_to_numpy(pooling(x, y, return_attention_scores=True)[2])
    assert list(maps) == ["pooling"]
    np.testing.assert_array_equal(maps["pooling"], expected)
    maps = attention_maps(HardAttention(name="hard"), x, y, return_draws=True)
    assert list(maps) == ["hard"] and maps["hard"].shape == (2, 4, 5)


def test_a_layer_that_is_part_of_two_is_found_once():
    x = RANDOM.normal(size=(1, 4, 8)).astype("float32")
    inner = Attention(name="inner")
    inputs = keras.Input((4, 8))
    two = [keras.Model(inputs, inner(inputs, inputs), name=name) for name in ("one", "two")]
    maps = attention_maps(keras.Model(inputs, two[1](two[0](inputs))), x)
    assert [name.rpartition("/")[2] for name in maps] == ["inner", "inner:1"]


def test_a_cache_is_returned_as_before():
    layer = MultiHeadAttention(2, 4, seed=0, name="heads")
    x = RANDOM.normal(size=(1, 1, 8)).astype("float32")
    cache = layer.make_cache(1, 3)

    class Steps(keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.inner = layer

        def call(self, x):
            output, new = self.inner(x, x, cache=cache, cache_index=0)
            assert len(new) == 2
            return output

    maps = attention_maps(Steps(), x)
    np.testing.assert_array_equal(maps["heads"][0, 0, 0], [1, 0, 0])


def test_an_error_in_the_call_leaves_the_layers_as_they_were():
    layer = TransformerEncoderLayer(2, 8)
    layer(np.zeros((1, 3, 8)))
    with pytest.raises(ValueError, match="must be boolean"):
        attention_maps(layer, np.zeros((1, 3, 8)), attention_mask=np.ones((1, 3, 3)))
    assert len(layer(np.zeros((1, 3, 8))).shape) == 3


def test_a_page_holds_the_weights_of_the_tokens_given():
    weights = RANDOM.dirichlet(np.ones(6), (2, 3, 6)).astype("float32")
    page = attention_page({"one": weights, "two": weights[:, 0]}, ["a", "b", "c", "d"], row=1)
    found = unpacked(page)
    queries, keys, held = found["one"]
    assert queries == keys == ["a", "b", "c", "d"]
    cut = weights[1, :, :4, :4]
    assert np.abs(held - cut).max() <= cut.max() / 255
    assert found["two"][2].shape == (1, 4, 4)


def test_a_page_takes_pooled_weights_and_other_keys():
    found = unpacked(attention_page(np.array([[0.25, 0.75]]), ["a", "b"]))["attention"]
    assert found[0] == ["all"] and found[1] == ["a", "b"]
    np.testing.assert_allclose(found[2], [[[0.25, 0.75]]], atol=0.01)
    crossed = unpacked(attention_page(np.ones((1, 2, 3)), ["x", "y"], ["a", "b", "c"]))
    assert crossed["attention"][:2] == (["x", "y"], ["a", "b", "c"])
    named = unpacked(attention_page({"m": np.ones((1, 1, 2))}, {"m": (["q"], ["a", "b"])}))
    assert named["m"][1] == ["a", "b"]


def test_tokens_and_title_cannot_become_part_of_the_page():
    evil = "</script><script>alert(1)</script>"
    page = attention_page(np.eye(1)[None], [evil], title=evil).html
    assert page.count("<script") == 2 and "alert(1)</script><" not in page
    assert unpacked(attention_page(np.eye(1)[None], [evil]))["attention"][0] == [evil]
    assert "default-src 'none'" in page and "http" not in page.replace("http-equiv", "")


def test_512_tokens_of_12_heads_make_a_page_of_a_few_megabytes():
    weights = RANDOM.dirichlet(np.full(512, 0.02), (1, 12, 512)).astype("float32")
    assert len(attention_page(weights, ["word"] * 512).html) < 4e6


def weights_of_a_layer(dtype):
    """Weights as a layer returns them, and as an array; on PyTorch they have a gradient."""
    layer, x = MultiHeadAttention(2, 4, dtype=dtype), RANDOM.normal(0, 1, (1, 3, 8))
    _, weights = layer(x, x, return_attention_scores=True)
    return weights, ops.convert_to_numpy(ops.cast(weights, "float32"))


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_a_page_takes_what_a_layer_returns(dtype):
    weights, wanted = weights_of_a_layer(dtype)
    held = unpacked(attention_page(weights, "abc"))["attention"][2]
    np.testing.assert_allclose(held, wanted[0], atol=1 / 255)


def test_a_notebook_shows_the_page_inside_it():
    shown = attention_page(np.eye(2)[None], ["a", 'b"'])._repr_html_()
    assert shown.startswith("<iframe srcdoc=") and shown.count('"') == 10


def test_a_page_is_saved(tmp_path):
    page = attention_page(np.eye(2)[None], ["ä", "b"])
    page.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text("utf-8") == page.html


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (({}, ["a"]), "the weights of at least one layer"),
        (
            (np.zeros((1, 2, 2)), []),
            "required. Received: 0 query tokens and 0 key tokens for attention",
        ),
        ((np.zeros((1, 0)), ["a"]), "There are more tokens than weights"),
        (
            (np.zeros((1, 2, 2)), ["a"], []),
            "required. Received: 1 query token and 0 key tokens for a",
        ),
        (
            ({"m": np.zeros((1, 2, 2))}, {"n": "ab", "o": "ab"}),
            "every layer of maps. Add 'm'. Received: tokens of 'n', 'o'",
        ),
        ((np.zeros((2, 3, 3)), ["a"], None, 2), "an index into the batch. Received: row=2, att"),
        ((np.zeros(()), ["a"]), "row must be an index into the batch"),
        ((np.zeros((1, 2, 2)), ["a", "b", "c"]), "more tokens than weights"),
        ((np.zeros((1, 1, 1, 1, 1)), ["a"]), r"must be of shape \(B, H, T, S\)"),
        ((-np.eye(2)[None], ["a", "b"]), "non-negative. Received: attention, from -1.0"),
        ((np.full((1, 1, 1), np.nan), ["a"]), "must be finite"),
    ],
)
def test_what_is_no_attention_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        attention_page(*arguments)


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_a_plot_takes_what_a_layer_returns(dtype):
    weights, wanted = weights_of_a_layer(dtype)
    for axes, head in zip(plot_attention(weights[0], "abc").axes, wanted[0], strict=True):
        np.testing.assert_array_equal(axes.images[0].get_array().astype("float32"), head)


def test_plots_label_rows_and_columns_and_show_every_head():
    weights = RANDOM.dirichlet(np.ones(5), (3, 5))
    figure = plot_attention(weights, ["a", "b", "c", "d"], ["v", "w"])
    shown = [axes for axes in figure.axes if axes.images]
    assert len(shown) == 3
    np.testing.assert_array_equal(shown[1].images[0].get_array(), weights[1, :4, :2])
    assert [label.get_text() for label in shown[0].get_xticklabels()] == ["v", "w"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.ones(3),), "scores must be"),
        (
            (np.ones((2, 3)), []),
            r"query_tokens must have .* Received: 0 tokens, scores.shape=\(2, 3\)",
        ),
        ((np.ones((2, 3)), ["a"], []), "key_tokens must have at least one token"),
        ((np.ones((2, 3)), ["a", "b", "c"]), "query_tokens must have .* Received: 3 tokens"),
        ((np.ones((1, 2, 3)), "ab", "abcd"), "key_tokens must have .* Received: 4 tokens"),
        ((np.ones((2, 0)),), "key_tokens must have at least one token"),
    ],
)
def test_what_cannot_be_drawn_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        plot_attention(*arguments)
