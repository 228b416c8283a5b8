"""Documents in, shards out: what one process does for one part of a text."""

import hashlib
from collections import Counter

import numpy as np
import tensorflow as tf

from keras_attn.data.shards.shard_files import Shard, write_shard
from keras_attn.data.sources.text_sources import read_task
from keras_attn.io.json_files import write_json

# How much text is tokenised at once.
_CHARACTERS = 2_000_000


def task_file(folder, number):
    """Returns the path of the small file that says that a task is done and what it wrote."""
    return tf.io.gfile.join(folder, f"task-{number:05d}.json")


def write_task(plan, number, tokenizer, folder, threads=1):
    """Writes the shards of a task, then the file that says so.

    Args:
        plan: Of `sources.plan_source`.
        number: Which of its tasks.
        tokenizer: See `keras_attn.text.recipes`.
        folder: Where the shards go.
        threads: To tokenise with.

    Returns:
        What the task file holds: `shards` and `counts`.
    """
    counts = Counter()
    writer = ShardWriter(folder, f"{number:05d}", tokenizer, plan["tokens_per_shard"], threads)
    for document in read_task(plan, number, counts):
        writer.add(document)
    writer.close()
    done = {"shards": writer.shards, "counts": dict(writer.counts + counts)}
    write_json(task_file(folder, number), done)
    return done


class ShardWriter:
    """Collects documents, tokenises them in large batches, and writes shards.

    A shard has `tokens_per_shard` tokens up to twice as many, unless all documents together have
    fewer: no shard is so small that random next sentences come from few documents.

    Args:
        folder: Where the shards go.
        name: Of this writer, a part of the files' names.
        tokenizer: See `keras_attn.text.recipes`.
        tokens_per_shard: Tokens of a shard.
        threads: To tokenise with.

    Attributes:
        shards: List of dict (file, documents, sentences, tokens, sha256), in order.
        counts: Counter of documents, sentences, tokens, unknown tokens, characters.
    """

    def __init__(self, folder, name, tokenizer, tokens_per_shard, threads=1):
        self.folder = folder
        self.name = name
        self.tokenizer = tokenizer
        self.tokens_per_shard = tokens_per_shard
        self.threads = threads
        self.shards = []
        self.counts = Counter()
        self._pending = []
        self._pending_characters = 0
        # Ids, tokens of each sentence, sentences of each document, hash of each document.
        self._arrays = [np.zeros(0, dtype) for dtype in ("int32", "int64", "int64", "uint64")]

    def add(self, document):
        """Takes a document, a list of str."""
        self._pending.append(document)
        self._pending_characters += sum(map(len, document))
        if self._pending_characters >= _CHARACTERS:
            self._tokenize()
            while len(self._arrays[0]) >= 2 * self.tokens_per_shard:
                self._write(self._documents_to_write())

    def close(self):
        """Writes what is left."""
        self._tokenize()
        while len(self._arrays[0]) >= 2 * self.tokens_per_shard:
            self._write(self._documents_to_write())
        if len(self._arrays[0]):
            self._write(len(self._arrays[2]))

    def _tokenize(self):
        documents = self._pending
        sentences = [sentence for document in documents for sentence in document]
        ids, ends = self.tokenizer.encode(sentences, self.threads)
        tokens = np.diff(ends, prepend=0)
        owner = np.repeat(np.arange(len(documents)), [len(document) for document in documents])
        whole = tokens > 0
        sizes = np.bincount(owner[whole], minlength=len(documents))
        hashes = np.fromiter(map(_hash, documents), "uint64", len(documents))
        new = (ids, tokens[whole], sizes[sizes > 0], hashes[sizes > 0])
        self._arrays = [np.concatenate(pair) for pair in zip(self._arrays, new, strict=True)]
        self.counts["unknown"] += int(np.count_nonzero(ids == self.tokenizer.unk_id))
        self.counts["characters"] += self._pending_characters
        self._pending = []
        self._pending_characters = 0

    def _documents_to_write(self):
        """Returns how many documents make up a shard."""
        ends = np.cumsum(self._arrays[1])[np.cumsum(self._arrays[2]) - 1]
        return int(np.searchsorted(ends, self.tokens_per_shard)) + 1

    def _write(self, documents):
        ids, tokens, sizes, hashes = self._arrays
        document_ends = np.cumsum(sizes[:documents])
        sentences = int(document_ends[-1])
        sentence_ends = np.cumsum(tokens[:sentences])
        size = int(sentence_ends[-1])
        file = f"shard-{self.name}-{len(self.shards):03d}.npz"
        digest = write_shard(
            tf.io.gfile.join(self.folder, file),
            Shard(ids[:size], sentence_ends, document_ends),
            document_hashes=hashes[:documents],
        )
        counts = {"documents": documents, "sentences": sentences, "tokens": size}
        self.shards.append({"file": file, **counts, "sha256": digest})
        self.counts.update(counts)
        self._arrays = [ids[size:], tokens[sentences:], sizes[documents:], hashes[documents:]]


def _hash(document):
    digest = hashlib.blake2b("\n".join(document).encode("utf-8", "replace"), digest_size=8)
    return int.from_bytes(digest.digest(), "little")
