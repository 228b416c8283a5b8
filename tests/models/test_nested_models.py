"""Models that users build around those of this package, or derive from them."""

import keras
import numpy as np
import pytest

from keras_attn.models import GPT2, BertClassifier, BertEncoder, XLNet

tf = pytest.importorskip("tensorflow")
IDS = np.array([[1, 5, 6, 2], [1, 3, 4, 6]], "int32")


class Around(keras.Model):
    def __init__(self):
        super().__init__()
        self.inner = BertClassifier(BertEncoder(20, 1, 8, 2, dropout=0.0, seed=0), 3, seed=0)

    def call(self, inputs, training=None):
        return self.inner(inputs, training=training)["logits"]


class OneOutput(BertEncoder):
    def call(self, inputs, training=None):
        return super().call(inputs, training=training)["sequence_output"]


@pytest.mark.parametrize(
    ("make", "dtype"),
    [
        (Around, "float32"),  # what Keras assumes of the inputs of any model
        pytest.param(lambda: OneOutput(20, 1, 8, 2, seed=0), "int32", marks=pytest.mark.thorough),
    ],
)
def test_models_around_and_derived_ones_are_exported(make, dtype, tmp_path):
    model = make()
    wanted = model({"token_ids": IDS})
    model.export(tmp_path / "exported", verbose=False)
    loaded = tf.saved_model.load(tmp_path / "exported")
    found = loaded.serve({"token_ids": tf.cast(IDS, dtype)})
    np.testing.assert_allclose(found, wanted, 1e-5, 1e-5)


@pytest.mark.parametrize("kind", [BertEncoder, GPT2, XLNet])
@pytest.mark.parametrize("name", ["token_ids", "padding_mask"])
def test_inputs_with_another_number_of_axes_are_named(kind, name):
    inputs = {"token_ids": IDS, "padding_mask": np.ones_like(IDS)}
    with pytest.raises(ValueError, match=rf"{kind.__name__}: {name} must be of shape \(.*\(4,\)"):
        kind(20, 1, 8, 2)({**inputs, name: inputs[name][0]})
