"""TFRecords as google-research/bert writes them, read as a stream of epochs."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from keras_attn.errors import UserError
from keras_attn.tasks.pretraining import tfrecords
from keras_attn.tasks.pretraining.tfrecords import TFRecordExamples
from tests.support.quick import quick

LENGTH, SLOTS = 16, 4
TOKENIZER = SimpleNamespace(vocabulary_size=1000)
GARDEN = {"input_ids": "input_word_ids", "segment_ids": "input_type_ids"}
KEYS = {
    "token_ids": "input_ids",
    "segment_ids": "segment_ids",
    "padding_mask": "input_mask",
    "mask_positions": "masked_lm_positions",
    "mask_ids": "masked_lm_ids",
    "mask_weights": "masked_lm_weights",
    "next_sentence_label": "next_sentence_labels",
}


def make_record(number, length=LENGTH, slots=SLOTS):
    """The features of one example; its second token is its number."""
    rng = np.random.default_rng(number)
    ids = rng.integers(5, 1000, length)
    ids[1] = number
    return {
        "input_ids": ids.tolist(),
        "input_mask": [1] * (length - 2) + [0] * 2,
        "segment_ids": [0] * 5 + [1] * (length - 7) + [0] * 2,
        "masked_lm_positions": np.sort(rng.integers(1, length - 2, slots)).tolist(),
        "masked_lm_ids": rng.integers(5, 1000, slots).tolist(),
        "masked_lm_weights": [1.0] * (slots - 1) + [0.0],
        "next_sentence_labels": [int(rng.integers(2))],
    }


def write(path, records, names=None, compression=""):
    with tf.io.TFRecordWriter(str(path), tf.io.TFRecordOptions(compression)) as writer:
        for record in records:
            features = tf.train.Features()
            for name, values in record.items():
                feature = features.feature[(names or {}).get(name, name)]
                if isinstance(values[0], float):
                    feature.float_list.value.extend(values)
                else:
                    feature.int64_list.value.extend(values)
            writer.write(tf.train.Example(features=features).SerializeToString())
    return str(path)


@pytest.fixture
def records():
    return [make_record(number) for number in range(60)]


@pytest.fixture
def files(tmp_path, records):
    write(tmp_path / "a.tfrecord", records[:25])
    write(tmp_path / "b.tfrecord", [])
    write(tmp_path / "c.tfrecord.gz", records[25:40], compression="GZIP")
    write(tmp_path / "d.tfrecord", records[40:])
    return f"{tmp_path}/[ab].tfrecord, {tmp_path}/c.tfrecord.gz,{tmp_path}/d*"


def assert_records(rows, records):
    for key, name in KEYS.items():
        expected = np.array([record[name] for record in records])
        if key == "next_sentence_label":
            expected = expected[:, 0]
        np.testing.assert_array_equal(rows[key], expected, err_msg=key)
        assert rows[key].dtype == (np.float32 if key == "mask_weights" else np.int32)


@pytest.mark.parametrize("names", [None, GARDEN])
def test_exact_rows_are_the_records_in_order(tmp_path, records, names):
    files = [write(tmp_path / "a", records[:35], names), write(tmp_path / "b", records[35:], names)]
    examples = TFRecordExamples(files, TOKENIZER, exact=True)
    assert (examples.num_examples, examples.length, examples.max_predictions) == (60, 16, 4)
    assert_records(examples.rows(0, 60), records)
    assert_records(examples.rows(50, 70), records[50:] + records[:10])


def test_each_epoch_holds_each_record_once_in_another_order(files, records):
    examples = TFRecordExamples(files, TOKENIZER, seed=4)
    orders = []
    for epoch in range(3):
        rows = examples.rows(epoch * 60, (epoch + 1) * 60)
        orders.append(rows["token_ids"][:, 1])
        assert_records(rows, [records[number] for number in orders[-1]])
        assert sorted(orders[-1]) == list(range(60))
    again = TFRecordExamples(files, TOKENIZER, seed=4).rows(60, 120)
    np.testing.assert_array_equal(again["token_ids"][:, 1], orders[1])
    other = TFRecordExamples(files, TOKENIZER, seed=5).rows(0, 60)["token_ids"][:, 1]
    for one, two in ((orders[0], orders[1]), (orders[1], orders[2]), (orders[0], other)):
        assert (one != two).mean() > 0.8


@pytest.mark.parametrize("part", quick([7, 65_536], 65_536))
def test_any_partition_of_a_range_gives_the_same_rows(files, monkeypatch, part):
    monkeypatch.setattr(tfrecords, "_RECORDS_PER_PART", part)
    examples = TFRecordExamples(files, TOKENIZER, seed=1)
    assert sorted(examples.rows(0, 60)["token_ids"][:, 1]) == list(range(60))
    whole = examples.rows(0, 200)
    cuts = [0, 1, 9, 55, 60, 61, 128, 200]
    parts = [examples.rows(low, high) for low, high in zip(cuts, cuts[1:], strict=False)]
    for key in KEYS:
        np.testing.assert_array_equal(whole[key], np.concatenate([rows[key] for rows in parts]))
    assert examples.rows(3, 3)["token_ids"].shape == (0, LENGTH)


def changed(record, **values):
    return {name: values.get(name, value) for name, value in record.items()}


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (changed(make_record(1), input_ids=[5] * (LENGTH - 1)), "length=16"),
        (make_record(1, slots=SLOTS + 1), "max_predictions=4"),
        (changed(make_record(1), input_ids=[1000] * LENGTH), "input_ids must be in .0, 1000"),
        (changed(make_record(1), masked_lm_ids=[-1] * SLOTS), "masked_lm_ids must be in .0, 1000"),
        (changed(make_record(1), masked_lm_positions=[16] * SLOTS), "must be in .0, 16"),
        (changed(make_record(1), next_sentence_labels=[2]), "must be in .0, 2"),
        ({"other": [1]}, "features"),
    ],
)
@pytest.mark.parametrize("place", [0, 3])
def test_a_record_that_does_not_fit_is_an_error_with_its_file(
    tmp_path, records, bad, message, place
):
    good = write(tmp_path / "good", records)
    wrong = write(tmp_path / "wrong", [*records[:place], bad])
    with pytest.raises(UserError, match=message) as error:
        examples = TFRecordExamples([good, wrong], TOKENIZER, exact=True)
        assert place > 0  # The first record of each file is looked at before anything starts.
        examples.rows(60, 64)
    assert wrong in str(error.value) and "\n" not in str(error.value)


def test_files_that_are_no_such_records_are_errors_with_their_name(tmp_path, records):
    text = tmp_path / "text.txt"
    text.write_text("A line of text that is no TFRecord.\n" * 20)
    cut = tmp_path / "cut"
    write(tmp_path / "whole", records)
    cut.write_bytes((tmp_path / "whole").read_bytes()[:-40])
    with tf.io.TFRecordWriter(str(tmp_path / "noise")) as writer:
        writer.write(b"\xff\xff\xffnot an example")
    other = write(tmp_path / "other", [{"label": [1]}])
    for path in (text, cut, tmp_path / "noise", other, tmp_path):
        with pytest.raises(UserError, match=re.escape(str(path))) as error:
            TFRecordExamples(str(path), TOKENIZER)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("kept", [0, 20])
def test_a_file_that_lost_records_after_they_were_counted_is_an_error(
    tmp_path, records, monkeypatch, kept
):
    monkeypatch.setattr(tfrecords, "_RECORDS_PER_PART", 25)
    path = write(tmp_path / "a", records)
    examples = TFRecordExamples(path, TOKENIZER, exact=True)
    write(path, records[: 25 + kept])
    assert_records(examples.rows(0, 25), records[:25])
    with pytest.raises(UserError, match=f"Cannot read {path}: the TFRecord file is damaged$"):
        examples.rows(25, 26)


def test_missing_and_empty_files_are_errors(tmp_path):
    with pytest.raises(UserError, match="nothing"):
        TFRecordExamples(f"{tmp_path}/nothing*", TOKENIZER)
    with pytest.raises(UserError, match="at least one TFRecord"):
        TFRecordExamples(write(tmp_path / "empty", []), TOKENIZER)
    with pytest.raises(UserError, match="seed=-1"):
        TFRecordExamples(write(tmp_path / "one", [make_record(1)]), TOKENIZER, seed=-1)
