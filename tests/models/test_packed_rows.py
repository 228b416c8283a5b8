"""Examples that share a row give what they give alone, on every backend."""

import numpy as np
import pytest
from keras import ops

from keras_attn.data.packing import pack
from keras_attn.models import BertClassifier, BertEncoder, BertPretrainer

ROWS = np.array([0, 0, 0, 1])  # the row of each of four examples
LENGTHS = np.array([5, 9, 3, 12])


def _examples():
    random = np.random.default_rng(0)
    shape = len(ROWS), LENGTHS.max()
    real = (np.arange(shape[1]) < LENGTHS[:, None]).astype(np.int32)
    batch = {
        "token_ids": random.integers(1, 50, shape, dtype=np.int32) * real,
        "segment_ids": random.integers(0, 2, shape, dtype=np.int32) * real,
        "padding_mask": real,
        "mask_positions": np.stack([random.integers(0, n, 3) for n in LENGTHS]).astype(np.int32),
        "mask_ids": random.integers(1, 50, (len(ROWS), 3), dtype=np.int32),
        "mask_weights": np.array([[1, 1, 0], [1, 1, 1], [1, 0, 0], [1, 1, 1]], np.float32),
        "next_sentence_label": np.array([0, 1, 1, 0], np.int32),
        "label": np.array([2, 0, 1, 1], np.int32),
    }
    return batch, pack(batch, ROWS, count=3, length=20, most=4, slots=8)


def _encoder():
    return BertEncoder(50, 2, 16, 2, dropout=0.0, max_length=32, initializer_range=0.3, seed=1)


def _numbers(values):
    if isinstance(values, dict):
        return {name: _numbers(value) for name, value in values.items()}
    if isinstance(values, tuple):
        return tuple(_numbers(value) for value in values)
    return float(ops.convert_to_numpy(values))


@pytest.mark.parametrize(
    "make",
    [
        lambda: BertPretrainer(_encoder()),
        lambda: BertPretrainer(_encoder(), next_sentence=False),
        lambda: BertClassifier(_encoder(), 3, dropout=0.0),
        lambda: BertClassifier(_encoder(), 3, dropout=0.0, pooling="mean"),
    ],
)
def test_losses_and_metrics_are_the_same(make):
    model = make()
    model.build()
    found = []
    for batch in _examples():
        outputs = model(batch)
        found.append(
            [
                _numbers(model.loss_errors(outputs, batch)),
                _numbers(model.loss_weights(batch)),
                _numbers(model.metric_sums(outputs, batch)),
            ]
        )
    (errors, *others), (packed_errors, *packed_others) = found
    assert errors == pytest.approx(packed_errors, rel=1e-4)
    assert others == packed_others


def test_vectors_are_those_of_each_example_alone():
    alone, together = _examples()
    model = _encoder()
    names = BertEncoder.INPUTS
    one, other = (
        {
            name: ops.convert_to_numpy(x)
            for name, x in model({name: batch[name] for name in names if name in batch}).items()
        }
        for batch in (alone, together)
    )
    place = {row: 0 for row in ROWS}
    start = dict(place)
    for example, row in enumerate(ROWS):
        length = LENGTHS[example]
        np.testing.assert_allclose(
            other["sequence_output"][row, start[row] : start[row] + length],
            one["sequence_output"][example, :length],
            atol=2e-5,
        )
        np.testing.assert_allclose(
            other["pooled_output"][row, place[row]], one["pooled_output"][example], atol=2e-5
        )
        place[row] += 1
        start[row] += length
