"""The recurrent encoder against Keras's layers on unpadded rows, and its pooling in NumPy."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.models import RecurrentClassifier, RecurrentEncoder, RecurrentLanguageModel
from keras_attn.models.recurrent import RECURRENT_SIZES
from keras_attn.models.recurrent.encoder import REDUCTIONS
from tests.support.layer_checks import check_depths, check_every_weight_gets_a_gradient

IDS = np.array([[3, 5, 2, 7], [0, 4, 0, 6]], "int32")
MASK = np.sign(IDS)


def make(reduce="attention", **options):
    return RecurrentEncoder(9, **{"hidden_dim": 6, "reduce": reduce, "dropout": 0.0, **options})


def array(x):
    return ops.convert_to_numpy(x)


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def pooled(model, pooling, hidden, last):
    """The pooled output of one row without padding."""
    if pooling == "last":
        return last
    if pooling in ("mean", "max"):
        return getattr(hidden, pooling)(axis=0)
    weights = {v.path.split("/")[-1]: array(v) for v in model.reduction.weights}
    query = last if pooling == "query_attention" else weights["context"][:, 0]
    return softmax(np.tanh(hidden @ weights["kernel"] + weights["bias"]) @ query) @ hidden


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_each_row_equals_the_row_without_padding(reduce):
    model = make(reduce, num_layers=2, embedding_dim=5, cell="gru", seed=1)
    found = model({"token_ids": IDS, "padding_mask": MASK})
    for row, real in enumerate(MASK > 0):
        x = array(model.token_embedding)[IDS[row][real]][None]
        for layer in model.recurrent_layers:
            ahead, *last_ahead = layer.forward_layer(x)
            back, *last_back = layer.backward_layer(x)  # in the order that it reads
            x = np.concatenate([array(ahead), array(back)[:, ::-1]], axis=-1)
        last = np.concatenate([array(last_ahead[0]), array(last_back[0])], axis=-1)[0]
        hidden = array(found["sequence_output"])[row]
        np.testing.assert_allclose(hidden[real], x[0], 1e-5, 1e-6)
        assert not hidden[~real].any()
        np.testing.assert_allclose(
            array(found["pooled_output"])[row], pooled(model, reduce, x[0], last), 1e-5, 1e-6
        )
    assert ("pooling_attention" in found) == reduce.endswith("attention")


def test_lstmn_is_its_cell_in_both_directions():
    model = make("last", cell="lstmn", tape_length=2, seed=1)
    found = array(model({"token_ids": IDS[:1]})["sequence_output"])[0]
    x = array(model.token_embedding)[IDS[0]]
    directions = []
    for name, steps in (("forward", x), ("backward", x[::-1])):
        cell = getattr(model.recurrent_layers[0], f"{name}_layer").cell
        states, outputs = cell.get_initial_state(1), []
        for step in steps:
            output, states = cell(step[None], states)
            outputs.append(array(output)[0])
        directions.append(np.array(outputs[:: 1 if name == "forward" else -1]))
    np.testing.assert_allclose(found, np.concatenate(directions, axis=1), 1e-5, 1e-6)


def test_depths_hold_every_variable_once():
    model = make(num_layers=2)
    check_depths(model, 4)


@pytest.mark.parametrize("cell", ["lstm", "gru", "lstmn"])
def test_every_weight_of_a_classifier_learns(cell):
    model = RecurrentClassifier(make(cell=cell), 3, dropout=0.0)
    check_every_weight_gets_a_gradient(
        model, {"token_ids": IDS, "padding_mask": MASK, "label": np.array([0, 2])}
    )


def test_the_classifier_pools_like_its_backbone_or_by_the_mean():
    inputs = {"token_ids": IDS, "padding_mask": MASK}
    backbone = make("last", seed=1)
    for pooling, expected in (
        (None, array(backbone(inputs)["pooled_output"])),
        ("mean", array(make("mean", seed=1)(inputs)["pooled_output"])),
    ):
        model = RecurrentClassifier(backbone, 2, pooling=pooling)
        logits = array(model(inputs)["logits"])
        np.testing.assert_allclose(logits, expected @ array(model.logits_dense.kernel), 1e-5, 1e-6)


@pytest.mark.parametrize(
    "make_model, message",
    [
        (lambda: RecurrentEncoder(0), "vocabulary_size=0"),
        (lambda: make(hidden_dim=5), "hidden_dim=5"),
        (lambda: make("cls"), "reduce must be one of attention, .* Received: reduce='cls'"),
        (lambda: make(cell="rnn"), "cell='rnn'"),
        (lambda: make(tape_length=3), 'tape_length is only supported with cell="lstmn"'),
        (lambda: RecurrentEncoder.from_size("base", 9), "size must be one of tiny, mini, small"),
    ],
)
def test_wrong_arguments_are_named(make_model, message):
    with pytest.raises(ValueError, match=message):
        make_model()


def test_a_size_stands_for_layers_and_hidden_size():
    model = RecurrentEncoder.from_size("small", 9, dropout=0.0)
    assert (model.num_layers, model.hidden_dim) == RECURRENT_SIZES["small"]
    assert (
        keras.saving.deserialize_keras_object(
            keras.saving.serialize_keras_object(model)
        ).get_config()
        == model.get_config()
    )


@pytest.mark.parametrize("cell", ["lstm", "gru", "lstmn"])
def test_decoding_with_left_padding_continues_the_states(cell):
    model = RecurrentLanguageModel(
        make(num_layers=2, cell=cell, bidirectional=False, dropout=0.3, seed=1)
    )
    ids = np.array([[3, 5, 2, 7], [0, 4, 8, 6]], "int32")
    mask = np.array([[1, 1, 1, 1], [0, 1, 1, 1]], "int32")
    whole = array(model({"token_ids": ids, "padding_mask": mask})["logits"])
    alone = array(model({"token_ids": ids[1:, 1:]})["logits"])
    np.testing.assert_allclose(whole[1:, 1:], alone, 1e-5, 1e-6)
    logits, cache = model.decode(ids[:, :2], 0, model.make_cache(2, 4), mask)
    np.testing.assert_allclose(array(logits), whole[:, 1], 1e-5, 1e-6)
    # Two hypotheses of each row, in the other order after the first step.
    cache = model.share_cache(cache, 2, 2)
    _, cache = model.decode_beams(np.array([2, 1, 8, 1]), 0, cache)
    cache = model.reorder_cache(cache, np.array([1, 0, 3, 2]))
    logits, _ = model.decode_beams(np.array([7, 7, 6, 6]), 1, cache)
    np.testing.assert_allclose(array(logits)[[1, 3]], whole[:, 3], 1e-5, 1e-6)


def test_the_language_model_learns_every_weight_and_shares_its_embeddings():
    model = RecurrentLanguageModel(make("last", bidirectional=False, embedding_stddev=0.1))
    check_every_weight_gets_a_gradient(model, {"token_ids": IDS, "padding_mask": MASK})
    hidden = array(model({"token_ids": IDS})["sequence_output"])
    np.testing.assert_allclose(
        array(model({"token_ids": IDS})["logits"]),
        hidden @ array(model.backbone.token_embedding).T,
        1e-5,
        1e-6,
    )
    with pytest.raises(ValueError, match="bidirectional=True"):
        RecurrentLanguageModel(make())
