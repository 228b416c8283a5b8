"""The maps of every model are the attention that it returns."""

import inspect

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.layers import HardAttention
from keras_attn.models import (
    ABCNN,
    AttentionalFactorizationMachine,
    AttentiveLSTMClassifier,
    BahdanauSeq2Seq,
    HierarchicalAttentionNetwork,
    LuongSeq2Seq,
    PointerGenerator,
    PointerNetwork,
)
from keras_attn.visualize import attention_maps
from tests.support.quick import quick

SOURCE = np.array([[4, 7, 3, 9, 2], [5, 6, 0, 0, 0]])
PAIR = {
    "token_ids": SOURCE,
    "padding_mask": (SOURCE > 0).astype("int32"),
    "target_ids": np.array([[2, 9, 8], [2, 4, 0]]),
}
ELEMENTS = {
    "elements": np.random.default_rng(0).normal(size=(2, 4, 3)).astype("float32"),
    "padding_mask": np.array([[1, 1, 1, 1], [1, 1, 0, 0]]),
    "label": np.array([[1, 2], [0, 1]]),
}
# Two documents of three sentences of two words, one of them with a sentence alone.
DOCUMENTS = np.array([[[4, 7], [3, 0], [8, 9]], [[5, 6], [0, 0], [0, 0]]])


def luong(**options):
    return LuongSeq2Seq(20, 6, seed=0, **options)


# A model, its inputs, and for each map the output that it is, its shape, and whether rows sum to 1.
MODELS = {
    "Bahdanau": (
        lambda: BahdanauSeq2Seq(20, 6, seed=0),
        PAIR,
        {"decoder": ("alignments", (2, 3, 5), True)},
    ),
    "Luong": (luong, PAIR, {"decoder": ("alignments", (2, 3, 5), True)}),
    "Luong at once": (
        lambda: luong(input_feeding=False, score="additive"),
        PAIR,
        {"decoder": ("alignments", (2, 3, 5), True)},
    ),
    "Luong hard": (
        lambda: luong(attention="hard"),
        PAIR,
        {"decoder": ("alignments", (2, 3, 5), True)},
    ),
    "Luong without": (lambda: luong(attention=None), PAIR, {}),
    "documents": (
        lambda: HierarchicalAttentionNetwork(20, 3, 4, 3, 3, 4, seed=0),
        {"token_ids": DOCUMENTS},
        {
            "attention/word_attention": ("word_attention", (2, 3, 2), DOCUMENTS.any(-1)),
            "attention/sentence_attention": ("sentence_attention", (2, 3), True),
        },
    ),
    "pooled LSTM": (
        lambda: AttentiveLSTMClassifier(20, 3, 4, 3, seed=0),
        {"token_ids": SOURCE},
        {"attention": ("attention", (2, 5), True)},
    ),
    "self-attentive LSTM": (
        lambda: AttentiveLSTMClassifier(20, 3, 4, 4, "self_attention", seed=0),
        {"token_ids": SOURCE},
        {"attention": ("attention", (2, 2, 5, 5), SOURCE[:, None] > 0)},
    ),
    "pairs": (
        lambda: ABCNN(20, 2, 5, 3, 4, 3, 2, seed=0),
        {"token_ids": SOURCE, "second_token_ids": SOURCE[:, :3]},
        {
            "attention_0": ("input_attention_0", (2, 5, 3), False),
            "pooling_0": ("pooling_attention_0", (2, 6, 4), False),
        },
    ),
    "features": (
        lambda: AttentionalFactorizationMachine(9, 3, 4, seed=0),
        {"feature_ids": np.array([[1, 4, 7], [2, 5, 8]])},
        {"interaction": ("attention", (2, 3), True)},
    ),
    "pointers": (
        lambda: PointerNetwork(3, 6, seed=0),
        ELEMENTS,
        {"pointer": ("attention", (2, 2, 4), True)},
    ),
    "copies": (
        lambda: PointerGenerator(9, 2, 4, 4, seed=0),
        PAIR,
        {"pointer_generator": ("attention", (2, 3, 5), True)},
    ),
    "copies at once": (
        lambda: PointerGenerator(9, 2, 4, 4, coverage=False, seed=0),
        PAIR,
        {"pointer_generator": ("attention", (2, 3, 5), True)},
    ),
}


class Kept(keras.layers.Layer):
    """Keeps what a model returned."""

    def __init__(self, model):
        super().__init__()
        self.model = model
        self.returned = []

    def call(self, *args, **kwargs):
        self.returned.append(self.model(*args, **kwargs))
        return self.returned[-1]


def maps_and_outputs(model, inputs, **options):
    kept = Kept(model)
    kept.built = True  # one call alone
    maps = attention_maps(kept, inputs, **options)
    (outputs,) = kept.returned
    prefix = f"{model.name}/"
    return {name.removeprefix(prefix): one for name, one in maps.items()}, {
        name: ops.convert_to_numpy(one) for name, one in outputs.items()
    }


@pytest.mark.parametrize("training", quick([False, True], False))
@pytest.mark.parametrize("name", MODELS)
def test_maps_are_what_a_model_returns_itself(name, training):
    make, inputs, expected = MODELS[name]
    plain, model = make(), make()
    for one in plain, model:
        one.build()
    options = {}
    if training:
        if "training" not in inspect.signature(model.call).parameters:
            pytest.skip("is never in training")
        options = {"training": True}
    maps, outputs = maps_and_outputs(model, inputs, **options)
    assert maps.keys() == expected.keys()
    for layer, (output, shape, sums) in expected.items():
        assert maps[layer].shape == shape
        np.testing.assert_array_equal(maps[layer], outputs[output])
        if sums is not False:
            found = maps[layer].sum(-1)
            np.testing.assert_allclose(found, np.broadcast_to(sums, found.shape), atol=1e-5)
    for output, value in plain(inputs, **options).items():
        np.testing.assert_array_equal(outputs[output], ops.convert_to_numpy(value), err_msg=output)


def test_a_decoder_that_forces_no_word_shows_the_steps_of_its_last_loop():
    model = luong(teacher_forcing_ratio=0.0)
    model.build()
    maps, outputs = maps_and_outputs(model, PAIR, training=True)
    np.testing.assert_array_equal(maps["decoder"], outputs["alignments"])


@pytest.mark.parametrize("estimator", ["gumbel", "reinforce"])
def test_the_map_of_a_draw_is_that_of_the_output(estimator):
    x = np.random.default_rng(0).normal(size=(2, 6, 3)).astype("float32")
    value = np.eye(6, dtype="float32")[None].repeat(2, 0)  # so the output is the weights
    layer = HardAttention(estimator, score="dot", seed=1, name="hard")
    layer.build(x.shape, value.shape, x.shape)
    kept = Kept(layer)
    kept.built = True
    maps = attention_maps(kept, x, value, x, training=True)
    np.testing.assert_allclose(maps["hard"], ops.convert_to_numpy(kept.returned[0]), atol=1e-6)
    again = HardAttention(estimator, score="dot", seed=1)
    np.testing.assert_array_equal(  # as without anyone looking
        ops.convert_to_numpy(again(x, value, x, training=True)),
        ops.convert_to_numpy(kept.returned[0]),
    )
    np.testing.assert_array_equal(  # also at the next draw
        ops.convert_to_numpy(again(x, value, x, training=True)),
        ops.convert_to_numpy(layer(x, value, x, training=True)),
    )
