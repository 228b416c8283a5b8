"""Random documents, and the sentences of pairs."""

import random

import numpy as np

from keras_attn.data.shards.shard_files import Shard


def make_shard(documents):
    """A shard of documents given as lists of sentence lengths; token i has the id i."""
    lengths = [length for document in documents for length in document]
    return Shard(
        np.arange(sum(lengths), dtype=np.int32),
        np.cumsum(lengths, dtype=np.int64),
        np.cumsum([len(document) for document in documents], dtype=np.int64),
    )


def random_documents(seed, count=200, sentences=30, tokens=30):
    draw = random.Random(seed)
    return [
        [draw.randint(1, tokens) for _ in range(draw.randint(1, sentences))] for _ in range(count)
    ]


def spans(documents):
    """Token ranges of the sentences, as one list for each document."""
    result, start = [], 0
    for document in documents:
        result.append([])
        for length in document:
            result[-1].append((start, start + length))
            start += length
    return result


def document_of(documents):
    """For each token, the document that holds it."""
    return np.repeat(np.arange(len(documents)), [sum(document) for document in documents])


def near(share, expected, count):
    """Whether a fraction of `count` samples is within 4 standard deviations of its expectation."""
    return abs(share - expected) < 4 * np.sqrt(expected * (1 - expected) / count)
