"""Pairs of segments for sentence-order prediction."""

import numpy as np

from keras_attn.tasks.pretraining.pairs import chunk_targets, cut, sentences_of


def make_ordered_pairs(shard, *, length, short_fraction, rng):
    """Splits the documents of a shard into chunks of two segments, half of them swapped.

    A chunk is split between two sentences. A chunk of a single sentence, for which ALBERT samples a
    random next one, is split between two tokens. A chunk of a single token is left out.

    Args:
        shard, length, short_fraction, rng: See `make_pairs`.

    Returns:
        `Pairs` in the order of the shard; the label is 1 if the segments are swapped.

    Reference:
        Lan et al., ALBERT, 2020, section 3.1.
    """
    sentences = sentences_of(shard)
    target = chunk_targets(len(sentences.start), length, short_fraction, rng)
    all_first = np.arange(len(target))
    ends = np.maximum(sentences.end_of_chunk(all_first, target), all_first + 2)
    ends = np.minimum(ends, sentences.document_end).tolist()
    path, at = [], 0
    while at < len(ends):
        path.append(at)
        at = ends[at]
    first = np.array(path, np.int64)
    end = np.array(ends, np.int64)[first]
    start, stop = sentences.start[first], sentences.end[end - 1]
    alone = end - first == 1
    share = rng.random(len(first))
    middle = sentences.end[first + (share * np.maximum(end - first - 1, 1)).astype(np.int64)]
    middle = np.where(alone, start + 1 + (share * (stop - start - 1)).astype(np.int64), middle)
    whole = stop - start > 1
    start, middle, stop = start[whole], middle[whole], stop[whole]
    swapped = rng.random(len(start)) < 0.5
    before, after = (start, middle - start), (middle, stop - middle)
    a_start, a_length = (np.where(swapped, b, a) for a, b in zip(before, after, strict=True))
    b_start, b_length = (np.where(swapped, a, b) for a, b in zip(before, after, strict=True))
    return cut(a_start, a_length, b_start, b_length, swapped.astype(np.int32), length - 3, rng)
