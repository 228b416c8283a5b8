"""Labels and weights in the shapes that users have them in, and what unlikely labels cost."""

import numpy as np
import pytest
from keras import ops

from keras_attn.models import (
    AttentionalFactorizationMachine,
    AttentiveLSTMClassifier,
    LuongSeq2Seq,
    PointerGenerator,
    PointerNetwork,
)

ROWS = 4  # as many as labels of a row, so that wrong shapes would fit each other
RANDOM = np.random.default_rng(0)
IDS = RANDOM.integers(1, 6, (ROWS, 4)).astype("int32")
ORDER = np.argsort(RANDOM.normal(size=(ROWS, 4))).astype("int32")
MODELS = {
    "pointer": (
        lambda: PointerNetwork(1, 4, seed=0),
        {"elements": RANDOM.normal(size=(ROWS, 4, 1)).astype("float32"), "label": ORDER},
    ),
    "seq2seq": (
        lambda: LuongSeq2Seq(6, 4, seed=0),
        {"token_ids": IDS, "target_ids": IDS, "label": ORDER},
    ),
    "classifier": (
        lambda: AttentiveLSTMClassifier(6, 3, 4, 4, seed=0),
        {"token_ids": IDS, "label": np.arange(ROWS, dtype="int32") % 3},
    ),
    "machine": (
        lambda: AttentionalFactorizationMachine(6, 4, 4, 3, seed=0),
        {"feature_ids": IDS, "label": RANDOM.normal(size=ROWS).astype("float32")},
    ),
}
every_model = pytest.mark.parametrize("name", MODELS)


def numbers(model, batch):
    """Loss and metrics."""
    batch = {name: ops.convert_to_tensor(x) for name, x in batch.items()}
    outputs = model(batch)
    sums = model.metric_sums(outputs, batch).values()
    return [float(x) for x in (model.compute_loss(batch, y_pred=outputs), *sum(sums, ()))]


@every_model
def test_a_weight_of_a_row_is_that_of_each_of_its_labels(name):
    make, batch = MODELS[name]
    model, weights = make(), np.array([0.5, 0, 2, 1], "float32")
    of_labels = np.broadcast_to(
        weights.reshape(-1, *[1] * (batch["label"].ndim - 1)), batch["label"].shape
    )
    expected = numbers(model, {**batch, "sample_weight": of_labels})
    for given in (weights, weights[:, None]):
        assert numbers(model, {**batch, "sample_weight": given}) == pytest.approx(expected, 1e-6)


@every_model
@pytest.mark.parametrize("shape", [(ROWS, 3), (1,), (ROWS, 4, 2)])
def test_weights_of_anything_else_are_refused(name, shape):
    make, batch = MODELS[name]
    with pytest.raises(ValueError, match="sample_weight must have one weight per label or per row"):
        numbers(make(), {**batch, "sample_weight": np.ones(shape, "float32")})


def test_numbers_to_predict_may_be_a_column():
    make, batch = MODELS["machine"]
    model = make()
    expected = numbers(model, batch)
    assert numbers(model, {**batch, "label": batch["label"][:, None]}) == pytest.approx(expected)


def test_a_row_with_nothing_to_point_at_is_never_right():
    make, batch = MODELS["pointer"]
    model, mask = make(), np.zeros((ROWS, 4), "int32")
    batch = {name: ops.convert_to_tensor(x) for name, x in {**batch, "padding_mask": mask}.items()}
    outputs = model(batch)
    assert float(model.loss_errors(outputs, batch)["pointer"]) == 4 * ROWS * 23
    assert float(model.metric_sums(outputs, batch)["accuracy"][0]) == 0


def logits_of_label(odds):
    """Of a label 0 among five, that is so much less likely than each other."""
    return np.float32([[[-odds, 0, 0, 0, 0]]])


@pytest.mark.parametrize(
    "error",
    [
        lambda logits, batch: PointerNetwork(1, 4).loss_errors(
            {"logits": ops.convert_to_tensor(logits)}, batch
        )["pointer"],
        lambda logits, batch: PointerGenerator(4, 1, 4, 4, coverage=False).loss_errors(
            {"probabilities": ops.convert_to_tensor(np.exp(logits))}, batch
        )["token"],
    ],
    ids=["pointer", "generator"],
)
def test_the_loss_of_an_unlikely_label_goes_on_growing(error):
    batch = {"label": ops.zeros((1, 1), "int32")}
    found = [float(error(logits_of_label(odds), batch)) for odds in (25, 30)]
    assert found[1] - found[0] == pytest.approx(5, abs=1e-3)
