"""The hierarchical encoder against loops in Python and `HierarchicalAttention` on split texts."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.models import HierarchicalAttentionNetwork, HierarchicalEncoder, RecurrentClassifier
from keras_attn.models.recurrent.document_units import split_units
from tests.support.layer_checks import check_depths, check_every_weight_gets_a_gradient
from tests.support.quick import quick

SENTENCE_END, OTHER_END, PARAGRAPH_END = 1, 2, 3
RANDOM = np.random.default_rng(0)
IDS = np.where(RANDOM.random((4, 23)) < 0.3, RANDOM.integers(1, 4, (4, 23)), 0)
IDS = np.where(IDS, IDS, RANDOM.integers(4, 12, IDS.shape)).astype("int32")
LENGTHS = [23, 14, 1, 0]
MASK = (np.arange(23) < np.array(LENGTHS)[:, None]).astype("int32")


def make(levels="gru,gru", **options):
    given = {"min_words": 3, "max_words": 5, "max_units": 2, "dropout": 0.0, "seed": 1}
    ends = {"sentence_ends": [SENTENCE_END, OTHER_END], "paragraph_ends": [PARAGRAPH_END]}
    return HierarchicalEncoder(12, 8, levels, **{**given, **ends, **options})


def array(x):
    return ops.convert_to_numpy(x)


def sentences_of(tokens, least=3, most=5):
    """The rule in words: after the last of consecutive ends, or before too many tokens."""
    found = [[]]
    for token, following in zip(tokens, [*tokens[1:], None], strict=False):
        found[-1].append(token)
        end = token <= PARAGRAPH_END and (following is None or following > PARAGRAPH_END)
        if len(found[-1]) == most or (end and len(found[-1]) >= least):
            found.append([])
    return [sentence for sentence in found if sentence]


def groups_of(units, ends=lambda unit: False, most=2):
    found = [[]]
    for unit in units:
        found[-1].append(unit)
        if len(found[-1]) == most or ends(unit):
            found.append([])
    return [group for group in found if group]


def document_of(tokens, levels):
    units = sentences_of(tokens)
    if levels > 2:
        units = groups_of(units, lambda sentence: sentence[-1] == PARAGRAPH_END)
    for _ in range(3, levels):
        units = groups_of(units)
    return units


def padded(units, shape):
    """Nested lists as one array with 0 for padding."""
    found = np.zeros(shape, "int32")
    if len(shape) == 1:
        found[: len(units)] = units
    else:
        for i, unit in enumerate(units):
            found[i] = padded(unit, shape[1:])
    return found


def spread(weights, units):
    """Weights of a level, `(N,)` or nested, for each token of each unit."""
    if not isinstance(units, list):
        return [float(weights)]
    if np.ndim(weights) == 0:
        return [x for unit in units for x in spread(weights, unit)]
    return [x for w, unit in zip(weights, units, strict=False) for x in spread(w, unit)]


LEVELS = ["gru,gru", "none,gru", "gru,gru,gru", "gru,none,none,gru"]


@pytest.mark.parametrize("levels", quick(LEVELS, "gru,gru"))
def test_a_text_equals_a_network_on_its_sentences(levels):
    """`HierarchicalAttentionNetwork` with the same weights, on documents that Python has split."""
    model = make(levels)
    found = {k: array(x) for k, x in model({"token_ids": IDS, "padding_mask": MASK}).items()}
    units = [4 if name == "gru" else None for name in levels.split(",")]
    network = HierarchicalAttentionNetwork(
        12, 2, 8, *units[:2], attention_units=8, higher_units=units[2:]
    )
    network.build()
    network.embedding.set_weights([array(model.token_embedding)])
    network.attention.set_weights([array(v) for v in model.attention.weights])
    names = [name for name in found if name.endswith("_attention") and name != "pooling_attention"]
    assert len(names) == len(units)
    for row, length in enumerate(LENGTHS):
        document = document_of(IDS[row, :length].tolist(), len(units))
        shape = (8, *[2] * (len(units) - 2), 5)
        inputs = padded(document, shape)[None]
        wanted = network({"token_ids": inputs, "padding_mask": np.sign(inputs)})
        np.testing.assert_allclose(
            found["pooled_output"][row], array(wanted["pooled_output"])[0], 1e-5, 1e-6
        )
        product = np.ones(length)
        for name in names:
            weights = spread(array(wanted[name])[0], document)
            np.testing.assert_allclose(found[name][row, :length], weights, 1e-5, 1e-6)
            product *= weights
            assert not found[name][row, length:].any()
        np.testing.assert_allclose(found["pooling_attention"][row, :length], product, 1e-5, 1e-6)
        assert not found["sequence_output"][row, length:].any()
        if length:
            np.testing.assert_allclose(found["pooling_attention"][row].sum(), 1, 1e-5)
        else:
            assert not found["pooled_output"][row].any()


def test_the_vectors_of_the_words_are_those_of_the_word_gru():
    model = make()
    found = array(model({"token_ids": IDS, "padding_mask": MASK})["sequence_output"])
    vectors = []
    for sentence in sentences_of(IDS[0].tolist()):
        x = array(model.token_embedding)[sentence][None]
        vectors.append(array(model.attention.word_gru(x)[0])[0])
    np.testing.assert_allclose(found[0], np.concatenate(vectors), 1e-5, 1e-6)


def test_padding_changes_nothing():
    model = make("gru,none,gru")
    expected = {k: array(x) for k, x in model({"token_ids": IDS, "padding_mask": MASK}).items()}
    longer = np.pad(IDS, [(0, 0), (0, 9)], constant_values=SENTENCE_END)
    wider = {"token_ids": longer, "padding_mask": np.pad(MASK, [(0, 0), (0, 9)])}
    # Also before and between the tokens.
    places = np.sort(RANDOM.permuted(np.tile(np.arange(40), (4, 1)), axis=1)[:, :23], axis=1)
    apart = {name: np.full((4, 40), 0 if name == "padding_mask" else 2) for name in wider}
    for name, x in (("token_ids", IDS), ("padding_mask", MASK)):
        np.put_along_axis(apart[name], places, x, axis=1)
    for inputs, columns in ((wider, np.tile(np.arange(23), (4, 1))), (apart, places)):
        for name, x in model(inputs).items():
            x = array(x)
            if name != "pooled_output":
                rest = x.copy()
                index = columns if x.ndim == 2 else columns[..., None]
                np.put_along_axis(rest, index, 0, axis=1)
                assert not rest.any()
                x = np.take_along_axis(x, index, axis=1)
            np.testing.assert_allclose(x, expected[name], 1e-5, 1e-6, err_msg=name)


SIZES = [(1, 1), (1, 4), (3, 3), (3, 5), (30, 40)]


@pytest.mark.parametrize("least, most", quick(SIZES, (1, 4), (3, 5)))
def test_no_element_is_lost(least, most):
    ends = (IDS <= PARAGRAPH_END) & (MASK > 0)
    units = split_units(MASK > 0, ops.convert_to_tensor(ends), least, most, ends)
    tokens, mask = array(units.gather(IDS)), array(units.mask)
    for row, length in enumerate(LENGTHS):
        wanted = sentences_of(IDS[row, :length].tolist(), least, most)
        found = [t[m].tolist() for t, m in zip(tokens[row], mask[row], strict=True) if m.any()]
        assert found == wanted
        assert not any(m[n:].any() for m in mask[row] for n in [m.sum()])  # no gap
    np.testing.assert_array_equal(array(units.spread(tokens)) * MASK, IDS * MASK)


@pytest.mark.thorough
@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="others have static sizes")
def test_a_graph_without_xla_has_only_the_units_of_its_batch():
    from keras_attn.ops.kernels.tensorflow_graphs import traced

    model, inputs = make("gru,none,gru"), {"token_ids": IDS, "padding_mask": MASK}
    expected = model(inputs)
    found = traced(lambda: model(inputs), jit=False)()
    for name, x in found.items():
        np.testing.assert_allclose(array(x), array(expected[name]), 1e-5, 1e-6, err_msg=name)
    real, ends = MASK > 0, (IDS <= PARAGRAPH_END) & (MASK > 0)
    mask = array(traced(lambda: split_units(real, ends, 3, 9, ends).mask, jit=False)())
    sentences = [sentences_of(IDS[row, :n].tolist(), 3, 9) for row, n in enumerate(LENGTHS)]
    width = max(len(sentence) for row in sentences for sentence in row)
    assert mask.shape == (4, max(map(len, sentences)), width)


def test_text_without_an_end_is_split_by_length_alone():
    ids = np.full((1, 12), 7, "int32")
    found = array(make(sentence_ends=(), paragraph_ends=())({"token_ids": ids})["word_attention"])
    np.testing.assert_allclose(
        [found[0, :5].sum(), found[0, 5:10].sum(), found[0, 10:].sum()], 1, 1e-5
    )


@pytest.mark.parametrize("shape", [(0, 4), (2, 0), (0, 0)])
def test_empty_batches_and_texts(shape):
    found = make("gru,gru,none")({"token_ids": np.zeros(shape, "int32")})
    assert found["pooled_output"].shape == (shape[0], 8)
    assert found["sequence_output"].shape == (*shape, 8)
    assert not array(found["pooled_output"]).any()


@pytest.mark.parametrize("levels", quick(["gru,gru,none", "none,none"], "gru,gru,none"))
def test_every_weight_of_a_classifier_learns(levels):
    check_every_weight_gets_a_gradient(
        RecurrentClassifier(make(levels), 3, dropout=0.0),
        {"token_ids": IDS, "padding_mask": MASK, "label": np.array([0, 2, 1, 0])},
    )


def test_a_saved_model_reloads(tmp_path):
    model = RecurrentClassifier(make("gru,none,gru"), 3)
    inputs = {"token_ids": IDS, "padding_mask": MASK}
    expected = array(model(inputs)["logits"])
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert again.backbone.get_config() == model.backbone.get_config()
    np.testing.assert_allclose(array(again(inputs)["logits"]), expected, 1e-6)


def test_depths_hold_every_variable_once():
    model = make(dropout=0.1)
    check_depths(model, 3)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"levels": "gru"}, "levels must be two or more .* Received: levels='gru'"),
        ({"levels": "gru,lstm"}, "Received: levels='gru,lstm'"),
        ({"levels": ("gru", "gru")}, "Received: levels="),
        ({"hidden_dim": 7}, "hidden_dim=7"),
        ({"min_words": 0}, "min_words=0"),
        ({"max_words": 2}, "max_words must be at least min_words"),
        ({"max_units": 0}, "max_units=0"),
        ({"sentence_ends": [-1]}, r"sentence_ends must be token ids. Received: sentence_ends=\(-1"),
        ({"paragraph_ends": ["."]}, "paragraph_ends must be token ids"),
        ({"levels": "none,gru", "embedding_dim": 5}, "embedding_dim=5, hidden_dim=8"),
    ],
)
def test_wrong_arguments_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        HierarchicalEncoder(9, **{"hidden_dim": 8, "min_words": 3, **options})
