"""The attentive reader: question and passage separately, attention and question vector in NumPy."""

import numpy as np
import pytest
from keras import ops

from keras_attn.models import AttentiveReader, BertQuestionAnswerer
from tests.support.layer_checks import check_depths, check_every_weight_gets_a_gradient

INPUTS = {
    "token_ids": np.array([[2, 5, 3, 7, 4, 6, 3], [2, 5, 8, 3, 4, 3, 0]], "int32"),
    "segment_ids": np.array([[0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 0, 1, 1, 0]], "int32"),
    "padding_mask": np.array([[1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 0]], "int32"),
}
QUESTION_LENGTHS, LENGTHS = (3, 4), (7, 6)


def make(question="attention", **options):
    return AttentiveReader(9, 6, question, **{"dropout": 0.0, "seed": 1, **options})


def array(x):
    return ops.convert_to_numpy(x)


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("question", ["attention", "vector"])
def test_the_second_lstm_reads_each_token_beside_the_question(question):
    model = make(question)
    found = {name: array(x) for name, x in model(INPUTS).items()}
    for row, (middle, end) in enumerate(zip(QUESTION_LENGTHS, LENGTHS, strict=True)):
        x = array(model.token_embedding)[INPUTS["token_ids"][row, :end]]
        asked, passage = (
            array(model.encoder(part[None])[0])[0] for part in (x[:middle], x[middle:])
        )
        hidden = np.concatenate([asked, passage])
        kernels = {v.path.split("/")[-1]: array(v) for v in model.attention.weights}
        if question == "attention":
            weights = softmax(hidden @ kernels["kernel"] @ asked.T)
            context = weights @ asked
            actual = found["question_attention"][row, :end]
        else:
            weights = softmax(
                (np.tanh(asked @ kernels["kernel"] + kernels["bias"]) @ kernels["context"])[:, 0]
            )
            context = np.tile(weights @ asked, (end, 1))
            actual = found["question_attention"][row]
        np.testing.assert_allclose(actual[..., :middle], weights, 1e-5, 1e-6)
        assert not actual[..., middle:].any()
        expected = model.reader(np.concatenate([hidden, context], axis=1)[None])[0]
        np.testing.assert_allclose(
            found["sequence_output"][row, :end], array(expected)[0], 1e-5, 1e-6
        )
        assert not found["sequence_output"][row, end:].any()


@pytest.mark.parametrize("question", ["attention", "vector"])
def test_every_weight_of_an_answerer_learns(question):
    check_every_weight_gets_a_gradient(
        BertQuestionAnswerer(make(question)), {**INPUTS, "label": np.array([[3, 4], [4, 4]])}
    )


def test_depths_hold_every_variable_once():
    model = make(dropout=0.1)
    check_depths(model, 4)


@pytest.mark.parametrize(
    "make_model, message",
    [
        (lambda: AttentiveReader(9, 5), "hidden_dim=5"),
        (lambda: make("word"), "question must be one of attention, vector. Received: question='w"),
        (lambda: make()({"token_ids": INPUTS["token_ids"]}), "segment_ids"),
    ],
)
def test_wrong_arguments_are_named(make_model, message):
    with pytest.raises(ValueError, match=message):
        make_model()
