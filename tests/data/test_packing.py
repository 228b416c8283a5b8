"""Packing: rows hold whole examples, and give what their examples give alone."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_attn.data.batches import StreamBatches, TableBatches
from keras_attn.data.masking import Masker
from keras_attn.data.packing import PackedExamples, choose_rows, pack
from keras_attn.data.text_examples import TextExamples
from keras_attn.models import BertClassifier, BertEncoder, BertPretrainer
from keras_attn.tasks.pretraining.masked_examples import PretrainingExamples
from keras_attn.text.wordpiece import WordPieceTokenizer
from tests.support.quick import quick
from tests.support.small_shards import make_tokenizer, mixed_shards, prepare

WORDS = [f"w{i}" for i in range(40)]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]


def _loads(rows, values):
    return np.bincount(rows, values)


@pytest.mark.parametrize(("length", "most"), [(64, 8), (64, 2), (33, 100)])
def test_rows_are_within_bounds_and_no_two_could_be_one(length, most):
    tokens = np.random.default_rng(length + most).integers(3, length + 1, 400)
    rows = choose_rows(tokens, length, most)
    loads, counts = _loads(rows, tokens), np.bincount(rows)
    assert counts.min() > 0 and loads.max() <= length and counts.max() <= most
    open_rows = np.sort(loads[counts <= most // 2])
    assert len(open_rows) < 2 or open_rows[0] + open_rows[1] > length


def test_the_best_fit_is_chosen():
    # 60 and 40 fill a row; 50 and 30 leave 20, which 20 takes.
    assert choose_rows([20, 30, 40, 50, 60], 100, 8).tolist() == [1, 1, 0, 1, 0]
    assert choose_rows([25] * 9, 100, 8).max() == 2
    assert np.bincount(choose_rows([10] * 9, 100, 4)).tolist() == [3, 3, 3]


def _example_by_example(batch, rows, count, length, most, slots):
    """`pack`, written as loops."""
    out = {
        name: np.zeros((count, length), int)
        for name in ("token_ids", "segment_ids", "padding_mask", "position_ids", "pack_ids")
    }
    out |= {
        name: np.zeros((count, most))
        for name in ("cls_positions", "sample_weight", "next_sentence_label")
    }
    out |= {
        name: np.zeros((count, slots)) for name in ("mask_positions", "mask_ids", "mask_weights")
    }
    for row in range(count):
        start = slot = 0
        for place, n in enumerate(np.flatnonzero(rows == row)):
            tokens = int(batch["padding_mask"][n].sum())
            for name in ("token_ids", "segment_ids", "padding_mask"):
                out[name][row, start : start + tokens] = batch[name][n, :tokens]
            out["position_ids"][row, start : start + tokens] = range(tokens)
            out["pack_ids"][row, start : start + tokens] = place + 1
            out["cls_positions"][row, place] = start
            out["sample_weight"][row, place] = 1
            out["next_sentence_label"][row, place] = batch["next_sentence_label"][n]
            for k in np.flatnonzero(batch["mask_weights"][n]):
                out["mask_positions"][row, slot] = batch["mask_positions"][n, k] + start
                out["mask_ids"][row, slot] = batch["mask_ids"][n, k]
                out["mask_weights"][row, slot] = 1
                slot += 1
            start += tokens
    return out


def _masked_batch(folder, count=30, length=32):
    examples = PretrainingExamples(
        prepare(folder, mixed_shards()),
        make_tokenizer(2000),
        length=length,
        max_predictions=6,
        short_fraction=0.9,
    )
    batch = examples.rows(0, count)
    return {**batch, "token_ids": batch["token_ids"] % 2000, "mask_ids": batch["mask_ids"] % 2000}


def _packed(batch, length=48, most=3, slots=20):
    rows = choose_rows(batch["padding_mask"].sum(axis=1), length, most)
    order = np.argsort(rows, kind="stable")
    shape = {"count": int(rows.max()) + 2, "length": length, "most": most, "slots": slots}
    return pack({name: array[order] for name, array in batch.items()}, rows[order], **shape), (
        {name: array[order] for name, array in batch.items()},
        rows[order],
        shape,
    )


def test_packed_rows_equal_loops(tmp_path):
    batch = _masked_batch(tmp_path / "text")
    packed, (ordered, rows, shape) = _packed(batch)
    assert len(packed["token_ids"]) < len(batch["token_ids"])
    expected = _example_by_example(ordered, rows, **shape)
    assert packed.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(packed[name], array, name)
        assert (
            packed[name].dtype == batch.get(name, np.zeros(0, np.int32)).dtype
            or name == "sample_weight"
        )


def _results(model, batch):
    """Losses, metrics and gradients, as the step takes them."""
    batch = {name: tf.constant(array) for name, array in batch.items()}
    with tf.GradientTape() as tape:
        outputs = model(batch, training=True)
        errors, weights = model.loss_errors(outputs, batch), model.loss_weights(batch)
        loss = tf.add_n([errors[name] / weights[name] for name in sorted(errors)])
    variables = [variable.value for variable in model.trainable_weights]
    gradients = tape.gradient(loss, variables, unconnected_gradients="zero")
    metrics = model.metric_sums(outputs, batch)
    return errors, weights, metrics, [tf.convert_to_tensor(g) for g in gradients]


def _assert_same(alone, together):
    for one, other in zip(tf.nest.flatten(alone), tf.nest.flatten(together), strict=True):
        scale = max(1e-3, float(tf.reduce_max(tf.abs(one))))
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=2e-5 * scale)


def _encoder(vocabulary_size, **arguments):
    return BertEncoder(
        vocabulary_size,
        2,
        32,
        2,
        dropout=0.0,
        max_length=64,
        initializer_range=0.3,
        seed=1,
        **arguments,
    )


def test_pretraining_on_packed_rows_gives_the_same_losses_and_gradients(tmp_path):
    batch = _masked_batch(tmp_path / "text")
    model = BertPretrainer(_encoder(2000))
    model.build()
    _assert_same(_results(model, batch), _results(model, _packed(batch)[0]))


def test_weights_of_examples_reach_their_masked_tokens(tmp_path):
    batch = _masked_batch(tmp_path / "text")
    batch["sample_weight"] = np.random.default_rng(0).integers(0, 3, 30).astype(np.float32)
    model = BertPretrainer(_encoder(2000))
    model.build()
    _assert_same(_results(model, batch), _results(model, _packed(batch)[0]))


def _texts(count):
    random = np.random.default_rng(0)
    return [" ".join(random.choice(WORDS, random.integers(0, 20))) for _ in range(count)]


def _classification(pack=1, labels=None, buckets=(), **options):
    labels = np.arange(20, dtype=np.int32) % 3 if labels is None else labels
    examples = TextExamples(
        _texts(20),
        _texts(40)[20:],
        labels,
        WordPieceTokenizer(VOCABULARY),
        length=48,
        batch_size=16,
        buckets=buckets,
        by_length=False,
    )
    return TableBatches(examples, pack, **options)


HEADS = [("cls", 3), ("mean", 3), ("mean", 1)]


@pytest.mark.parametrize(  # the second batch has 4 examples
    ("pooling", "classes", "index"),
    quick(
        [(*head, index) for head in HEADS for index in (0, 1)],
        ("mean", 3, 0),
    ),
)
def test_classifying_packed_rows_gives_the_same_losses_and_gradients(pooling, classes, index):
    labels = np.linspace(-1, 1, 20, dtype=np.float32) if classes == 1 else None
    model = BertClassifier(_encoder(len(VOCABULARY)), classes, dropout=0.0, pooling=pooling)
    model.build()
    alone = _classification(labels=labels).batch(index, 0, 16)
    together = _classification(pack=5, labels=labels).batch(index, 0, 16)
    assert len(together["token_ids"]) < alone["sample_weight"].sum()
    assert together["sample_weight"].sum() == alone["sample_weight"].sum()
    _assert_same(_results(model, alone), _results(model, together))


def test_weighted_windows_are_the_same_in_packed_rows():
    model = BertClassifier(_encoder(len(VOCABULARY)), 3, dropout=0.0, pooling="mean")
    model.build()
    examples = TextExamples(
        _texts(20),
        None,
        np.arange(20, dtype=np.int32) % 3,
        WordPieceTokenizer(VOCABULARY),
        length=12,
        batch_size=64,
        buckets=(),
        by_length=False,
        windows=3,
        weights=np.linspace(0.5, 2, 20, dtype=np.float32),
    )
    alone, together = (TableBatches(examples, pack).batch(0, 0, 64) for pack in (1, 5))
    assert examples.num_examples > 20 and len(together["token_ids"]) < examples.num_examples
    _assert_same(_results(model, alone), _results(model, together))


def test_packed_rows_split_into_micro_batches():
    batches = _classification(pack=5, multiple=3)
    assert {len(batches.batch(index, 0, 16)["token_ids"]) % 3 for index in range(4)} == {0}
    empty = batches.batch(1, 8, 16)  # only what fills up the last batch
    assert not empty["padding_mask"].any() and not empty["sample_weight"].any()


def test_few_numbers_of_rows_are_left_where_each_is_compiled():
    any_number, two = _classification(pack=5), _classification(pack=5, counts=2)
    for index in range(6):
        rows = len(any_number.batch(index, 0, 16)["token_ids"])
        assert len(two.batch(index, 0, 16)["token_ids"]) == (8 if rows <= 8 else 16)


def test_packed_rows_are_as_long_as_those_of_the_batch():
    alone, together = (_classification(pack=pack, buckets=range(1, 48)) for pack in (1, 5))
    widths = set()
    for index in range(6):
        expected, batch = (batches.batch(index, 0, 16) for batches in (alone, together))
        widths.add(expected["token_ids"].shape[1])
        assert batch["token_ids"].shape[1] == expected["token_ids"].shape[1]
        assert batch["padding_mask"].sum() == expected["padding_mask"].sum()
    assert len(widths) > 1


def test_packed_streams_hold_every_example_once_and_any_rows_alike(tmp_path):
    folder, tokenizer = prepare(tmp_path / "text", mixed_shards()), make_tokenizer()
    options = {"length": 32, "max_predictions": 5, "short_fraction": 0.5, "seed": 3}
    alone = PretrainingExamples(folder, tokenizer, **options)
    together = PretrainingExamples(folder, tokenizer, pack=4, **options)
    assert together.num_examples < alone.num_examples
    for epoch in range(2):
        first = epoch * together.num_examples
        batch = together.rows(first, first + together.num_examples)
        assert batch["pack_ids"].max() <= 4
        if epoch == 0:  # later ones are cut or filled up to its number of rows
            assert batch["sample_weight"].sum() == alone.num_examples
            expected = alone.rows(0, alone.num_examples)["padding_mask"].sum()
            assert batch["padding_mask"].sum() == expected
        assert batch["mask_weights"].sum() > 0.1 * batch["padding_mask"].sum()
        parts = [together.rows(first + k, first + k + 7) for k in range(0, 21, 7)]
        for name, array in batch.items():
            np.testing.assert_array_equal(
                np.concatenate([part[name] for part in parts]), array[:21], name
            )
        if epoch == 0:
            rows = alone.rows(0, alone.num_examples)
            assert sorted(_unpacked(batch)) == sorted(_unpacked(rows))


def _unpacked(batch):
    """The tokens of each example, before any were masked, and its label."""
    ids = batch["token_ids"].copy()
    row, slot = np.nonzero(batch["mask_weights"])
    ids[row, batch["mask_positions"][row, slot]] = batch["mask_ids"][row, slot]
    packs = batch.get("pack_ids", batch["padding_mask"])
    labels = batch["next_sentence_label"].reshape(len(ids), -1)
    return [
        (ids[n][packs[n] == k + 1].tolist(), int(labels[n, k]))
        for n in range(len(ids))
        for k in range(packs[n].max())
    ]


@settings(max_examples=100, deadline=None)
@given(
    st.integers(5, 64),
    st.integers(1, 12),
    st.floats(0.01, 1.0),
    st.integers(2, 9),
    st.integers(0, 2**32),
)
def test_a_row_has_slots_for_all_that_is_masked(length, predictions, fraction, examples, seed):
    random = np.random.default_rng(seed)
    masker = Masker(
        make_tokenizer(100), length=length, max_predictions=predictions, fraction=fraction
    )
    left, masked = length, 0
    for _ in range(examples):
        if left < 3:
            break
        tokens = int(random.integers(3, left + 1))
        left -= tokens
        ids = np.full((1, length), 50, np.int32)
        found = masker(ids, np.array([tokens]), np.random.SeedSequence(seed), 0)
        masked += int(found["mask_weights"].sum())
    assert masked <= masker.max_masked(length, examples)


def test_an_example_that_is_longer_than_a_row_is_refused():
    with pytest.raises(ValueError, match="tokens=9, length=8"):
        choose_rows([3, 9], 8, 2)


def test_packed_rows_are_not_evaluated(tmp_path):
    folder = prepare(tmp_path / "text", mixed_shards())
    packed = PretrainingExamples(folder, make_tokenizer(), length=32, pack=2)
    with pytest.raises(ValueError, match="pack=2"):
        StreamBatches(packed, 4, once=True)


def test_padding_has_its_own_id():
    batch = {
        "token_ids": np.full((1, 2), 5, np.int32),
        "segment_ids": np.zeros((1, 2), np.int32),
        "padding_mask": np.ones((1, 2), np.int32),
    }
    found = pack(batch, [0], count=2, length=3, most=1, pad_id=7)
    assert found["token_ids"].tolist() == [[5, 5, 7], [7, 7, 7]]


def test_rows_that_are_taken_again_keep_their_examples():
    packed = PackedExamples.fit(np.arange(6), np.array([5, 5, 3, 3, 3, 1]), 9, 3)
    rows = [packed[[n]].examples.tolist() for n in range(len(packed))]
    chosen = packed[np.array([2, 0, 2])]
    assert chosen.examples.tolist() == rows[2] + rows[0] + rows[2]
    assert chosen[1:].first == len(rows[2])
