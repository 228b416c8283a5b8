"""Token classification, compared with NumPy and with the CRF alone."""

import numpy as np
import pytest
from keras import ops

from keras_attn.layers import CRF
from keras_attn.models import BertEncoder, TokenClassifier

# [CLS] and three words of 2, 1 and 3 tokens [SEP]; [CLS] and a word [SEP], padded.
IDS = np.array([[2, 5, 6, 7, 5, 6, 6, 3], [2, 8, 3, 0, 0, 0, 0, 0]])
WORDS = np.array([[0, 1, 1, 2, 3, 3, 3, 0], [0, 1, 0, 0, 0, 0, 0, 0]])
LABELS = np.array([[-1, 0, -1, 2, 1, -1, -1, -1], [-1, 2, -1, -1, -1, -1, -1, -1]])
FIRST = LABELS >= 0
BATCH = {"token_ids": IDS, "word_ids": WORDS, "padding_mask": (IDS > 0) * 1, "label": LABELS}


def make(**options):
    backbone = BertEncoder(12, 1, 8, 2, dropout=0.0, initializer_range=0.5, seed=0)
    model = TokenClassifier(backbone, 3, **{"dropout": 0.0, **options})
    model.build()
    return model


def numpy_logits(model, hidden):
    kernel, bias = map(ops.convert_to_numpy, model.logits_dense.weights)
    return hidden @ kernel + bias


def log_softmax(x):
    x = x - x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def as_arrays(outputs):
    return {name: ops.convert_to_numpy(value) for name, value in outputs.items()}


def test_words_are_their_first_token_or_the_mean_of_their_tokens():
    model = make()
    outputs = as_arrays(model(BATCH))
    logits = numpy_logits(model, outputs["sequence_output"])
    np.testing.assert_allclose(outputs["logits"], logits, atol=1e-5)
    assert (outputs["tags"] == logits.argmax(axis=-1)).all()
    probabilities = np.exp(log_softmax(logits)).max(axis=-1)
    np.testing.assert_allclose(outputs["tag_probabilities"], probabilities, atol=1e-5)
    mean = make(word_vector="mean")
    outputs = as_arrays(mean(BATCH))
    for row, word in ((0, 1), (0, 2), (0, 3), (1, 1)):
        inside = WORDS[row] == word
        hidden = outputs["sequence_output"][row, inside].mean(axis=0)
        np.testing.assert_allclose(
            outputs["logits"][row, inside][0], numpy_logits(mean, hidden), atol=1e-5
        )


def test_the_loss_is_the_mean_cross_entropy_of_words():
    model = make()
    batch = {**BATCH, "sample_weight": np.array([0.5, 2.0], "float32")}
    outputs = model(batch, training=True)
    assert "tags" not in outputs
    errors = -np.take_along_axis(
        log_softmax(ops.convert_to_numpy(outputs["logits"])), np.maximum(LABELS, 0)[..., None], -1
    )[..., 0]
    weights = FIRST * np.array([[0.5], [2.0]])
    weight = float(model.loss_weights(batch)["tag"])
    assert weight == pytest.approx(weights.sum())
    found = float(model.loss_errors(outputs, batch)["tag"])
    assert found == pytest.approx((errors * weights).sum(), rel=1e-5)
    right, total = model.metric_sums(outputs, batch)["accuracy"]
    hits = ops.convert_to_numpy(outputs["logits"]).argmax(axis=-1) == LABELS
    assert float(right) == pytest.approx((hits * weights).sum()) and float(total) == weight


def test_the_crf_reads_the_first_tokens_of_words():
    allowed = [[True, False, True], [True, True, True], [True, True, False]]
    model = make(crf=True, allowed_transitions=allowed)
    random = np.random.default_rng(0)
    weights = [random.normal(size=w.shape) for w in model.crf_layer.weights]
    model.crf_layer.set_weights(weights)
    outputs = as_arrays(model(BATCH))
    alone = CRF(allowed_transitions=allowed)
    alone.build((None, None, 3))
    alone.set_weights(weights)
    likelihoods = []
    for row in range(2):
        logits, labels = (x[row, FIRST[row]][None] for x in (outputs["logits"], LABELS))
        tags = ops.convert_to_numpy(alone.decode(logits)[0])[0]
        assert (outputs["tags"][row, FIRST[row]] == tags).all()
        marginals = ops.convert_to_numpy(alone.marginals(logits))[0]
        np.testing.assert_allclose(
            outputs["tag_probabilities"][row, FIRST[row]],
            np.take_along_axis(marginals, tags[:, None], -1)[:, 0],
            atol=1e-5,
        )
        likelihoods.append(float(alone.log_likelihood(logits, labels)[0]))
    np.testing.assert_allclose(outputs["log_likelihood"], likelihoods, rtol=1e-4)
    batch = {**BATCH, "sample_weight": np.array([0.5, 2.0], "float32")}
    found = float(model.loss_errors(model(batch), batch)["tag"])
    assert found == pytest.approx(-0.5 * likelihoods[0] - 2.0 * likelihoods[1], rel=1e-4)
    assert float(model.loss_weights(batch)["tag"]) == 0.5 * 3 + 2.0


def test_probabilities_are_those_of_all_tags():
    for crf in (False, True):
        model = make(crf=crf)
        if crf:
            random = np.random.default_rng(1)
            model.crf_layer.set_weights(
                [random.normal(size=w.shape) for w in model.crf_layer.weights]
            )
        outputs = as_arrays(model(BATCH))
        found = ops.convert_to_numpy(model.probabilities(outputs["logits"], BATCH))
        for row in range(2):
            logits = outputs["logits"][row, FIRST[row]][None]
            wanted = (
                ops.convert_to_numpy(model.crf_layer.marginals(logits))[0]
                if crf
                else np.exp(log_softmax(logits[0]))
            )
            np.testing.assert_allclose(found[row, FIRST[row]], wanted, atol=1e-5)


@pytest.mark.parametrize("crf", [False, True])
def test_the_distillation_loss_is_the_mean_divergence_of_words(crf):
    batch = {**BATCH, "sample_weight": np.array([0.5, 2.0], "float32")}
    model = make(crf=crf, distillation=0.3, distillation_temperature=4.0)
    outputs = model(batch, training=True)
    alone = float(model.loss_errors(outputs, batch)["tag"])
    teacher = np.random.default_rng(0).normal(size=(2, 8, 3)).astype("float32")
    found = float(model.loss_errors(outputs, {**batch, "teacher_logits": teacher})["tag"])
    logits = ops.convert_to_numpy(outputs["logits"])
    own, wanted = (log_softmax(x / 4.0) for x in (logits, teacher))
    divergences = 16 * np.sum(np.exp(wanted) * (wanted - own), axis=-1)
    expected = np.sum(divergences * FIRST * np.array([[0.5], [2.0]]))
    assert found == pytest.approx(0.7 * alone + 0.3 * expected, rel=1e-4)


def test_every_real_token_is_a_word_without_word_ids():
    model = make(crf=True)
    batch = {name: BATCH[name] for name in ("token_ids", "padding_mask")}
    words = np.where(IDS > 0, 1 + np.arange(8), 0)
    found, wanted = model(batch), model({**batch, "word_ids": words})
    real = IDS > 0
    for name in ("tags", "tag_probabilities"):
        found_rows, wanted_rows = (ops.convert_to_numpy(x[name])[real] for x in (found, wanted))
        np.testing.assert_allclose(found_rows, wanted_rows, rtol=1e-6)


@pytest.mark.parametrize("crf", [False, True])
def test_padding_never_reaches_words(crf):
    model = make(crf=crf, word_vector="mean")
    wide = {
        name: np.pad(x, [[0, 0], [0, 3]], constant_values=-1 if name == "label" else 0)
        for name, x in BATCH.items()
    }
    wide["token_ids"] = np.where(wide["padding_mask"] > 0, wide["token_ids"], 9)
    found, wanted = as_arrays(model(wide)), as_arrays(model(BATCH))
    for name in ("tags", "tag_probabilities"):
        np.testing.assert_allclose(found[name][:, :8][FIRST], wanted[name][FIRST], rtol=1e-5)


def test_arguments_are_checked():
    backbone = BertEncoder(12, 1, 8, 2)
    for options, message in (
        ({"num_classes": 0}, "num_classes"),
        ({"num_classes": 2, "word_vector": "last"}, "word_vector must be"),
        (
            {"num_classes": 2, "allowed_transitions": [[True] * 2] * 2},
            "allowed_transitions require crf=True",
        ),
        ({"num_classes": 2, "dropout": 1.0}, "dropout"),
        ({"num_classes": 2, "distillation": 1.5}, "distillation"),
        ({"num_classes": 2, "distillation_temperature": 0.0}, "distillation_temperature"),
    ):
        with pytest.raises(ValueError, match=message):
            TokenClassifier(backbone, **options)
