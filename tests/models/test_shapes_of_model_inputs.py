"""A model names the input whose shape does not fit the others, or that is no tensor."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn import models
from tests.support.every_model import EVERY_MODEL, ONE_OF_EACH_KIND, make
from tests.support.quick import quick

# As long as the tokens.
ALIGNED = "segment_ids", "padding_mask", "position_ids", "pack_ids", "permutation_ranks"
IDS = np.arange(1, 11).reshape(2, 5)


def _inputs(name):
    """A model and its inputs without labels, with all those that are as long as the tokens."""
    model, inputs = make(name)
    inputs = {key: x for key, x in inputs.items() if key in model.INPUTS}
    length = inputs[next(iter(model.INPUTS))].shape[:2]
    missing = [key for key in ALIGNED if key in model.INPUTS and len(model.INPUTS[key]) == 2]
    return model, {**{key: np.ones(length, "int32") for key in missing}, **inputs}


@pytest.mark.parametrize("name", quick(EVERY_MODEL, *ONE_OF_EACH_KIND))
def test_an_input_of_another_batch_or_length(name):
    model, inputs = _inputs(name)
    model(inputs)
    tokens = next(iter(model.INPUTS))
    for key in inputs.keys() - {tokens}:
        x = inputs[key]
        for other in [x[1:], *([x[:, 1:], x[:, :1]] if key in ALIGNED else [])]:
            with pytest.raises(ValueError) as error:
                model({**inputs, key: other})
            message = str(error.value)
            assert message.startswith(f"{type(model).__name__}: {key} must be of shape ("), message
            assert f"{key} of shape {other.shape}, {tokens} of shape " in message
    if len(inputs) > 1:
        with pytest.raises(ValueError, match=f"{type(model).__name__}: .* must be of shape"):
            model({**inputs, tokens: inputs[tokens][1:]})


@pytest.mark.parametrize("name", EVERY_MODEL)
def test_python_lists_in_the_dictionary(name):
    model, inputs = make(name)
    for key in model.REQUIRED:
        message = rf"{type(model).__name__}: {key} must be a tensor or an array. .*of type list"
        with pytest.raises(ValueError, match=message):
            model({**inputs, key: inputs[key].tolist()})


@pytest.mark.parametrize(
    "make_model, inputs, message",
    [
        (
            lambda: models.BertPretrainer(models.BertEncoder(12, 1, 8, 2)),
            {"mask_positions": np.zeros((1, 2), "int32")},
            r"mask_positions must be of shape \(2, P\)",
        ),
        (
            lambda: models.XLNetPretrainer(models.XLNet(12, 1, 8, 2)),
            {
                "permutation_mask": np.ones((2, 5, 4), "int32"),
                "mask_positions": np.zeros((2, 1), "int32"),
            },
            r"permutation_mask must be of shape \(2, 5, 5\)",
        ),
        (
            lambda: models.XLNet(12, 1, 8, 2, memory_length=3),
            {"memory": [np.zeros((3, 3, 8), "float32")]},
            r"memory must be of shape \(2, M, D\)",
        ),
        (
            lambda: models.XLNet(12, 1, 8, 2, memory_length=3),
            {"memory": [np.zeros((2, 3, 8), "float32")], "memory_mask": np.ones((2, 4), "int32")},
            r"memory_mask must be of shape \(2, 3\)",
        ),
        (lambda: models.BertEncoder(12, 1, 8, 2), {"token_ids": 5}, "token_ids must be a tensor"),
        (
            lambda: models.BertEncoder(12, 1, 8, 2),
            {"token_ids": "text"},
            "token_ids must be a tensor",
        ),
        (
            lambda: models.BertEncoder(12, 1, 8, 2),
            {"segment_ids": [[0] * 5, [0] * 5]},
            "segment_ids must be a tensor or an array. Convert it with numpy.array",
        ),
        (
            lambda: models.BertEncoder(12, 1, 8, 2),
            {"token_ids": IDS[0]},
            r"token_ids must be of shape \(B, T\). Received: token_ids of shape \(5,\)",
        ),
    ],
)
def test_inputs_that_are_not_accepted(make_model, inputs, message):
    with pytest.raises(ValueError, match=message):
        make_model()({"token_ids": IDS, **inputs})


@pytest.mark.parametrize(
    "make_model, names",
    [
        (lambda: models.BertEncoder(12, 1, 8, 2, seed=0), ALIGNED[:4]),
        (lambda: models.GPT2(12, 1, 8, 2, seed=0), ALIGNED[1:4]),
        (lambda: models.XLNet(12, 1, 8, 2, seed=0), ("segment_ids", "padding_mask", "pack_ids")),
    ],
)
def test_one_row_of_an_input_is_that_of_all_rows(make_model, names):
    model = make_model()
    row = {name: np.array([[1, 1, 1, 1, 0]]) for name in names}
    rows = {name: np.repeat(x, 2, axis=0) for name, x in row.items()}
    found, expected = (model({"token_ids": IDS, **x}) for x in (row, rows))
    for name in expected:
        np.testing.assert_allclose(
            *(ops.convert_to_numpy(x[name]) for x in (found, expected)), atol=1e-6
        )


@pytest.mark.parametrize(
    "name",
    quick(
        EVERY_MODEL,
        *("BertClassifier", "TokenClassifier", "Transformer", "BahdanauSeq2Seq", "ABCNN"),
        *("HierarchicalAttentionNetwork", "PointerGenerator"),
    ),
)
def test_sizes_that_are_unknown_fit(name):
    model, inputs = _inputs(name)
    symbols = {}
    # On other backends Keras traces every unknown size as the same number.
    traced = keras.backend.backend() != "tensorflow"
    for key, x in inputs.items():
        known = {"B": None if symbols or traced else 3, "F": x.shape[1], "D": x.shape[-1]}
        shape = [
            known.get(axis, size if traced else None)
            for axis, size in zip(model.INPUTS[key], x.shape, strict=True)
        ]
        symbols[key] = keras.Input(batch_shape=shape, dtype=x.dtype.name)
    assert model(symbols)


@pytest.mark.parametrize("name", [name for name in EVERY_MODEL if "Seq2Seq" in name])
def test_a_mask_of_floats_is_named_as_its_input(name):
    model, inputs = _inputs(name)
    inputs["padding_mask"] = inputs["padding_mask"].astype("float32")
    with pytest.raises(ValueError, match="^padding_mask must be boolean or integer"):
        model(inputs)


@pytest.mark.parametrize("model", [models.BertClassifier, models.RecurrentClassifier])
def test_a_backbone_that_is_no_model(model):
    with pytest.raises(ValueError, match=f"{model.__name__}: backbone must be a model"):
        model("bert", 2)


@pytest.mark.parametrize(
    "model",
    [
        models.BertClassifier,
        models.BertPretrainer,
        models.GPT2LanguageModel,
        models.RecurrentLanguageModel,
        models.XLNetPretrainer,
    ],
)
def test_a_backbone_of_another_class(model):
    heads = {"num_classes": 2} if "Classifier" in model.__name__ else {}
    with pytest.raises(ValueError, match="a model with .*Received: backbone=<AttentiveCNN"):
        model(models.AttentiveCNN(9, 8), **heads)
