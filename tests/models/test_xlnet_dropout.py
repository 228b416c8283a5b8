"""XLNet's dropout: where it is, by XLNetLMHeadModel of Hugging Face, and how it is drawn."""

import numpy as np
import pytest
from keras import ops

from keras_attn.layers import TwoStreamAttention, positionwise_feed_forward, two_stream_attention
from keras_attn.models.xlnet import encoder, layer
from keras_attn.ops.relative import relative_position_vectors
from tests.support.golden_xlnet import GOLDEN, array, as_golden, batch_of, make_model, ours
from tests.support.layer_checks import gradients

KEPT = 0.8
# For each call of ours which of theirs it is: two streams of tokens, the vectors of distances,
# eight calls of each layer, and the output, where theirs has the query stream alone.
NUMBERS = [
    0,
    1,
    2,
    *(3 + 8 * number + part for number in (0, 1) for part in (0, 2, 1, 6, 7, 3, 4, 5)),
    None,
    19,
]


@pytest.fixture
def golden():
    with np.load(GOLDEN, allow_pickle=False) as file:
        return dict(file)


def inputs_of(golden):
    inputs = {k.removeprefix("inputs/"): v for k, v in golden.items() if k.startswith("inputs/")}
    batch = batch_of(inputs, "permutation_mask")
    memory = as_golden(golden).backbone({"token_ids": inputs["memory_ids"]})["memory"]
    return {
        **{name: ops.convert_to_tensor(x) for name, x in batch.items()},
        "memory": [ops.convert_to_tensor(array(x)) for x in memory],
    }


def test_with_the_same_entries_dropped_it_is_that_of_hugging_face(golden, monkeypatch):
    batch, model, numbers = inputs_of(golden), as_golden(golden, dropout=1 - KEPT), []

    def dropped(x, rate, generator, training):
        number = numbers.pop(0)
        if number is None:
            return x
        assert training and abs(rate - 1 + KEPT) < 1e-9
        random = np.random.default_rng(number)
        if len(x.shape) == 4:  # weights of attention
            kept = random.random((*x.shape[:2], 1, x.shape[3]))
        else:
            places = int(np.prod(x.shape)) // (3 * x.shape[-1])
            farther = number == 2  # theirs begin with one more, which no pair has
            kept = random.random((3, places + farther, x.shape[-1]))[:, farther:].reshape(x.shape)
        return x * ops.convert_to_tensor((kept < KEPT) / np.float32(KEPT))

    for module in (encoder, layer, two_stream_attention, positionwise_feed_forward):
        monkeypatch.setattr(module, "drop", dropped)
    others = [v.value for v in model.non_trainable_variables]

    def outputs_of(weights):
        numbers[:] = NUMBERS
        outputs, _ = model.stateless_call(weights, others, batch, training=True)
        assert not numbers
        return outputs

    weights = [ops.convert_to_numpy(v) for v in model.trainable_variables]
    found = outputs_of([ops.convert_to_tensor(w) for w in weights])
    np.testing.assert_allclose(array(found["logits"]), golden["dropped/logits"], 1e-5, 1e-5)
    found = gradients(
        lambda weights: model.compute_loss(x=batch, y_pred=outputs_of(weights)), weights
    )
    for variable, gradient in zip(model.trainable_variables, found, strict=True):
        if variable.path.endswith("position_kernel"):
            np.testing.assert_allclose(
                gradient, ours(variable, golden, "dropped/gradients/"), 1e-4, 1e-5
            )


def given_vectors(model, batch, training, monkeypatch):
    """The vectors of distances that each layer gets."""
    found, call = [], TwoStreamAttention.call

    def recorded(self, *args, position_vectors=None, **kwargs):
        found.append(array(position_vectors))
        return call(self, *args, position_vectors=position_vectors, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(TwoStreamAttention, "call", recorded)
        model(batch, training=training)
    return found


@pytest.mark.parametrize("reversed_rows", [None, [0, 1, 1]])
def test_each_row_drops_other_entries_of_its_distances_in_all_layers_alike(
    golden, monkeypatch, reversed_rows
):
    batch = inputs_of(golden)
    if reversed_rows:
        batch["reversed_rows"] = np.array(reversed_rows, "int32")
    whole = array(relative_position_vectors(11, 16, 24, reversed_rows=batch.get("reversed_rows")))
    whole = np.broadcast_to(whole, (3, 26, 24))
    model = make_model(dropout=0.25)
    first, second = given_vectors(model, batch, True, monkeypatch)
    np.testing.assert_array_equal(first, second)
    kept = first != 0
    assert abs(kept[whole != 0].mean() - 0.75) < 0.05
    np.testing.assert_allclose(first, np.where(kept, whole / 0.75, 0.0), 1e-6)
    assert (kept[0] != kept[1]).mean() > 0.2 and (kept[1] != kept[2]).mean() > 0.2
    assert (given_vectors(model, batch, True, monkeypatch)[0] != first).any()


@pytest.mark.parametrize("dropout, training", [(0.0, True), (0.25, False)])
def test_without_dropout_rows_share_one_set_of_distances(golden, monkeypatch, dropout, training):
    first, _ = given_vectors(make_model(dropout=dropout), inputs_of(golden), training, monkeypatch)
    np.testing.assert_array_equal(first, array(relative_position_vectors(11, 16, 24)))
