"""Small folders of prepared shards, and a stand-in for their tokenizer."""

from types import SimpleNamespace

import numpy as np

from keras_attn.data.shards.shard_files import Shard, write_index, write_shard

PAD, UNK, CLS, SEP, MASK = range(5)


def make_tokenizer(size=20_000, sha256="abc", lowercase=True):
    return SimpleNamespace(
        pad_id=PAD,
        cls_id=CLS,
        sep_id=SEP,
        mask_id=MASK,
        special_ids=np.arange(5, dtype=np.int32),
        vocabulary_size=size,
        continuation=np.arange(size) % 3 == 0,
        sha256=sha256,
        lowercase=lowercase,
    )


def prepare(folder, shards):
    """A prepared folder of shards given as documents of sentence lengths.

    All ids of the folder differ and increase, so a token identifies its position.
    """
    next_id, entries = 5, []
    folder.mkdir(exist_ok=True)
    for number, documents in enumerate(shards):
        lengths = [length for document in documents for length in document]
        ids = np.arange(next_id, next_id + sum(lengths), dtype=np.int32)
        next_id += sum(lengths)
        ends = np.cumsum([len(document) for document in documents], dtype=np.int64)
        shard = Shard(ids, np.cumsum(lengths, dtype=np.int64), ends)
        sha256 = write_shard(str(folder / f"{number}.npz"), shard)
        entries.append(
            {
                "file": f"{number}.npz",
                "documents": len(documents),
                "sentences": len(lengths),
                "tokens": len(ids),
                "sha256": sha256,
            }
        )
    write_index(str(folder), {"vocabulary_sha256": "abc", "lowercase": True, "shards": entries})
    return str(folder)


def mixed_shards():
    rng = np.random.default_rng(0)
    return [
        [rng.integers(1, 12, size).tolist() for size in sizes]
        for sizes in ([20, 1, 35, 50], [60, 3], [1, 1, 1], [90, 4, 20, 9])
    ]
