"""The attentive CNN against its layer on unpadded rows."""

import numpy as np
import pytest
from keras import ops

from keras_attn.models import AttentiveCNN, RecurrentClassifier
from tests.support.layer_checks import check_depths, check_every_weight_gets_a_gradient

IDS = np.array([[3, 5, 2, 7], [4, 6, 0, 0]], "int32")
MASK = np.sign(IDS)


def make(**options):
    return AttentiveCNN(9, 8, **{"embedding_dim": 5, "dropout": 0.0, "seed": 1, **options})


def array(x):
    return ops.convert_to_numpy(x)


def test_each_row_equals_the_layer_on_the_row_without_padding():
    model = make()
    found = {name: array(x) for name, x in model({"token_ids": IDS, "padding_mask": MASK}).items()}
    for row, length in enumerate(MASK.sum(axis=1)):
        x = array(model.token_embedding)[IDS[row, :length]][None]
        vector, weights = model.pooling(x, return_attention_scores=True)
        np.testing.assert_allclose(found["pooled_output"][row], array(vector)[0], 1e-5, 1e-6)
        np.testing.assert_allclose(
            found["pooling_attention"][row, :length], array(weights)[0], 1e-5, 1e-6
        )
        # The pooled vector is that average of the token vectors, beside the last states.
        tokens = found["sequence_output"][row]
        average = (found["pooling_attention"][row][:, None] * tokens).sum(axis=0)
        np.testing.assert_allclose(found["pooled_output"][row, :4], average[:4], 1e-5, 1e-6)
        np.testing.assert_allclose(
            found["pooled_output"][row, 4:], [*tokens[length - 1, 4:6], *tokens[0, 6:]], 1e-5, 1e-6
        )
        assert not tokens[length:].any()


def test_every_weight_of_a_classifier_learns():
    check_every_weight_gets_a_gradient(
        RecurrentClassifier(make(), 3, dropout=0.0),
        {"token_ids": IDS, "padding_mask": MASK, "label": np.array([0, 2])},
    )


def test_depths_hold_every_variable_once():
    model = make(dropout=0.1)
    check_depths(model, 3)


@pytest.mark.parametrize(
    "make_model, message",
    [
        (lambda: AttentiveCNN(0), "vocabulary_size=0"),
        (lambda: AttentiveCNN(9, 6), "hidden_dim=6"),
        (lambda: make(kernel_size=0), "kernel_size=0"),
    ],
)
def test_wrong_arguments_are_named(make_model, message):
    with pytest.raises(ValueError, match=message):
        make_model()
