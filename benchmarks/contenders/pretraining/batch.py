"""The batch of masked-LM and next-sentence pretraining that all libraries share."""

import numpy as np

VOCABULARY = 30522
PRODUCT_ROWS = 2048


def synthetic_batch(rows, length, masked, seed=0):
    """Returns full-length sequences of random ids, half of each in either segment."""
    random = np.random.default_rng(seed)
    ids = random.integers(1000, VOCABULARY, (rows, length), dtype=np.int32)
    ids[:, 0] = 101
    positions = [np.sort(random.permutation(np.arange(1, length))[:masked]) for _ in range(rows)]
    positions = np.stack(positions).astype(np.int32)
    labels = np.take_along_axis(ids, positions, 1)
    np.put_along_axis(ids, positions, 103, 1)
    segments = np.repeat((np.arange(length) >= length // 2).astype(np.int32)[None], rows, 0)
    return {
        "token_ids": ids,
        "segment_ids": segments,
        "padding_mask": np.ones_like(ids),
        "mask_positions": positions,
        "mask_ids": labels,
        "mask_weights": np.ones(labels.shape, np.float32),
        "next_sentence_label": random.integers(0, 2, (rows,), dtype=np.int32),
    }


def useful_flops(layers, hidden_dim, rows, length, masked):
    """Returns the FLOP of the matrix products of a step; backward counts twice forward."""
    encoder = 12 * layers * hidden_dim**2 * length + 2 * layers * length**2 * hidden_dim
    head = masked * (hidden_dim**2 + VOCABULARY * hidden_dim)
    return 6 * rows * (encoder + head)
