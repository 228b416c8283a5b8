"""ABCNN of two sentences in one row against `ABCNN` of the sentences in two arrays."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.models import ABCNN, ABCNNClassifier, ABCNNEncoder
from keras_attn.ops import kernels
from tests.support.layer_checks import check_depths, check_every_weight_gets_a_gradient

CLS, SEP = 10, 11
FIRST = np.array([[3, 5, 2, 7], [4, 6, 0, 0], [0, 0, 0, 0]])
SECOND = np.array([[5, 2, 0], [4, 9, 8], [6, 0, 0]])
WORDS = [(FIRST > 0).sum(axis=1), (SECOND > 0).sum(axis=1)]


def rows(length=9):
    """The pairs as rows `[CLS] first [SEP] second [SEP]`."""
    ids, segments = np.zeros((2, len(FIRST), length), "int32")
    for row, (first, second) in enumerate(zip(FIRST, SECOND, strict=True)):
        parts = [CLS, *first[first > 0], SEP], [*second[second > 0], SEP]
        begin, end = len(parts[0]), len(parts[0]) + len(parts[1])
        ids[row, :end] = parts[0] + parts[1]
        segments[row, begin:end] = 1
    return {"token_ids": ids, "segment_ids": segments, "padding_mask": np.sign(ids)}


def make(variant=3, **options):
    options = {"embedding_dim": 4, "width": 3, "num_layers": 2, "dropout": 0.0, **options}
    length = {"max_length": 16} if variant in (1, 3) else {}
    return ABCNNEncoder(12, 5, variant=variant, seed=1, **length, **options)


def arrays(outputs):
    return {name: ops.convert_to_numpy(x) for name, x in outputs.items()}


def two_arrays(encoder, head=None):
    """An `ABCNN` with the weights of an encoder and of a head."""
    classes = 2 if head is None else head.units
    sizes = {"embedding_dim": encoder.embedding_dim, "filters": encoder.hidden_dim}
    model = ABCNN(
        12, classes, 16, encoder.variant, width=encoder.width, num_blocks=encoder.num_layers,
        normalize=encoder.normalize, share_weights=encoder.share_weights, **sizes,
    )  # fmt: skip
    model.build()
    model.embedding.embeddings.assign(encoder.token_embedding)
    for name in ("attentions", "convolutions"):
        for new, old in zip(getattr(model, name), getattr(encoder, name), strict=True):
            new.set_weights(old.get_weights())
    if head is not None:
        model.logits_dense.set_weights(head.get_weights())
    return arrays(model({"token_ids": FIRST, "second_token_ids": SECOND}))


@pytest.mark.parametrize("variant", range(4))
@pytest.mark.parametrize("options", [{}, {"share_weights": False, "normalize": True}])
def test_a_row_is_encoded_as_its_sentences_in_two_arrays(variant, options):
    encoder = make(variant, **options)
    model = ABCNNClassifier(encoder, 3, dropout=0.0, seed=2)
    found = arrays(model(rows()))
    expected = two_arrays(encoder, model.logits_dense)
    np.testing.assert_allclose(found["logits"], expected.pop("logits"), 1e-5, 1e-6)
    kinds = [{}, {"input"}, {"pooling"}, {"input", "pooling"}][variant]
    assert expected.keys() == {f"{kind}_attention_{i}" for kind in kinds for i in range(2)}
    for name, weights in expected.items():
        _, queries, keys = weights.shape
        np.testing.assert_allclose(found[name][:, :queries, :keys], weights, 1e-5, 1e-6)
        assert not found[name][:, queries:].any() and not found[name][:, :, keys:].any()


@pytest.mark.parametrize("variant", range(4))
def test_a_token_vector_is_at_the_position_of_its_token(variant):
    encoder = make(variant, num_layers=1)
    found, data = arrays(encoder(rows())), rows()
    vectors = found["sequence_output"]
    words = (data["token_ids"] > 0) & ~np.isin(data["token_ids"], [CLS, SEP])
    # With an empty text there are no matches, and the attention pooling is 0.
    assert vectors[:2].any(axis=-1).tolist() == words[:2].tolist()
    assert not vectors[~words].any()
    for number, counts in enumerate(WORDS):
        own = vectors * (data["segment_ids"] == number)[..., None]
        means = own.sum(axis=1) / np.maximum(counts, 1)[:, None]
        expected = found["pooled_output"][:, 5 * number : 5 * (number + 1)]
        np.testing.assert_allclose(means, expected, 1e-5, 1e-6)


@pytest.mark.parametrize("reduce", ["mean", "attention"])
@pytest.mark.parametrize("variant", range(4))
def test_padding_never_changes_a_row(variant, reduce):
    encoder, data = make(variant, reduce=reduce), rows()
    expected, random = arrays(encoder(data)), np.random.default_rng(0)
    for _ in range(3):
        # Padding before, between and after the tokens, with random ids and segments.
        places = np.sort([random.permutation(14)[:9] for _ in FIRST], axis=1)
        padded = {
            name: random.integers(0, 2 if name == "segment_ids" else 12, (3, 14)) for name in data
        }
        padded["padding_mask"][:] = 0
        for name, x in data.items():
            np.put_along_axis(padded[name], places, x, axis=1)
        found = arrays(encoder({name: x.astype("int32") for name, x in padded.items()}))
        tokens = np.take_along_axis(found["sequence_output"], places[..., None], axis=1)
        np.testing.assert_allclose(tokens, expected["sequence_output"], 1e-5, 1e-6)
        np.testing.assert_allclose(found["pooled_output"], expected["pooled_output"], 1e-5, 1e-6)


def test_attentive_pooling_weighs_tokens_by_their_best_match_in_the_other_sentence():
    encoder, plain = make(0, reduce="attention", num_layers=1), make(0, num_layers=1)
    found, vectors = arrays(encoder(rows())), arrays(plain(rows()))["sequence_output"]
    kernel = ops.convert_to_numpy(encoder.reductions[0].score.kernel)
    for row, counts in enumerate(zip(*WORDS, strict=True)):
        first, begin = vectors[row, 1 : 1 + counts[0]], counts[0] + 2
        second = vectors[row, begin : begin + counts[1]]
        scores = np.tanh(first @ kernel @ second.T)
        pooled = []
        for n, x in enumerate((first, second)):
            best = scores.max(axis=1 - n) if scores.size else np.zeros(len(x))
            weights = np.exp(best) / np.exp(best).sum()
            name = ("first_attention_0", "second_attention_0")[n]
            np.testing.assert_allclose(found[name][row, : len(x)], weights, 1e-5, 1e-6)
            assert not found[name][row, len(x) :].any()
            pooled.append(weights @ x)
        expected = [*pooled[0], *pooled[1], 1 / (1 + np.linalg.norm(pooled[0] - pooled[1]))]
        np.testing.assert_allclose(found["pooled_output"][row], expected, 1e-4, 1e-5)


def test_special_tokens_do_not_matter():
    encoder, data = make(), rows()
    expected = arrays(encoder(data))["pooled_output"]
    special = np.isin(data["token_ids"], [CLS, SEP])
    changed = {**data, "token_ids": np.where(special, 1, data["token_ids"])}
    np.testing.assert_array_equal(arrays(encoder(changed))["pooled_output"], expected)


@pytest.mark.parametrize(
    "pooling, reduce", [("pooled", "mean"), ("pooled", "attention"), ("mean", "mean")]
)
def test_every_weight_of_a_classifier_learns(pooling, reduce):
    check_every_weight_gets_a_gradient(
        ABCNNClassifier(make(reduce=reduce), 3, dropout=0.0, pooling=pooling),
        {**rows(), "label": np.array([0, 2, 1])},
    )


@pytest.mark.parametrize("reduce", ["mean", "attention"])
@pytest.mark.parametrize("variant", range(4))
def test_depths_hold_every_variable_once(variant, reduce):
    model = make(variant, reduce=reduce, dropout=0.1)
    depths = check_depths(model, model.num_layers + 2)
    assert all("1" in v.path for v in depths[2])


def test_the_axes_of_an_attention_map_are_the_two_sentences():
    row, segments = ["[CLS]", "a", "b", "[SEP]", "c", "d", "e", "[SEP]"], [0] * 4 + [1] * 4
    found = make().attention_tokens("abcnn_encoder/attention_0", row, segments)
    assert found == (["a", "b"], ["c", "d", "e"])
    found = make().attention_tokens("abcnn_encoder/pooling_0", row, segments)
    assert found == (["a", "a b", "a b", "b"], ["c", "c d", "c d e", "d e", "e"])
    for number, keys in enumerate((["a", "b"], ["c", "d", "e"])):
        found = make().attention_tokens(f"abcnn_encoder/reduction_1/{number}", row, segments)
        assert found == (["all"], keys)


@pytest.mark.parametrize(
    "make_model, message",
    [
        (lambda: ABCNNEncoder(0, max_length=9), "vocabulary_size=0"),
        (lambda: ABCNNEncoder(9), "max_length=None"),
        (lambda: ABCNNEncoder(9, max_length=9, variant=2), "variant 1 or 3. Received: max_len"),
        (lambda: ABCNNEncoder(9, max_length=9, variant=4), "ABCNNEncoder: .* variant=4"),
        (lambda: make(reduce="max"), "reduce='max'"),
        (lambda: make(width=0), "width=0"),
        (lambda: make(num_layers=0), "num_layers=0"),
    ],
)
def test_wrong_arguments_are_named(make_model, message):
    with pytest.raises(ValueError, match=message):
        make_model()


@pytest.mark.thorough
@pytest.mark.skipif(keras.config.backend() != "tensorflow", reason="graphs of TensorFlow")
def test_a_graph_without_unused_columns_computes_the_same():
    encoder, data = make(), rows(14)
    expected = arrays(encoder(data))
    for jit in (False, True):
        traced = kernels.of_backend("tensorflow").graphs.traced(encoder, jit)
        found = arrays(traced({name: ops.convert_to_tensor(x) for name, x in data.items()}))
        for name in ("sequence_output", "pooled_output"):
            np.testing.assert_allclose(found[name], expected[name], 1e-5, 1e-6)
        shapes = found["input_attention_0"].shape, found["pooling_attention_0"].shape
        assert shapes == (((3, 14, 14), (3, 16, 16)) if jit else ((3, 4, 3), (3, 6, 5)))
