"""Documents of made-up words, prepared with the tokenizer of a test, and read back."""

import numpy as np

from keras_attn.data.shards.prepare import prepare
from keras_attn.data.shards.shard_files import read_index, read_shard
from tests.support.small_corpus import make_documents

DOCUMENTS = make_documents(60, 3)
TEXTS = [" ".join(document) for document in DOCUMENTS]


def prepare_documents(path, tokenizer):
    """Prepares `DOCUMENTS` in several shards and returns the folder."""
    (path / "a.txt").write_text("\n\n".join("\n".join(d) for d in DOCUMENTS), encoding="utf-8")
    prepare(
        str(path / "a.txt"),
        tokenizer,
        str(path / "shards"),
        format="lines",
        tokens_per_shard=400,
        log=lambda *_: None,
    )
    return str(path / "shards")


def documents_of_shards(folder):
    """Returns the token ids of each document by shard."""
    found = []
    for entry in read_index(folder)["shards"]:
        shard = read_shard(f"{folder}/{entry['file']}")
        ends = shard.sentence_ends[shard.document_ends - 1]
        found.append([part.tolist() for part in np.split(shard.ids, ends[:-1])])
    return found
