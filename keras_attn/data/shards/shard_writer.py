"""Converts documents to shards: the work of one process on one part of a text."""

import hashlib
import posixpath
from collections import Counter

import numpy as np

from keras_attn.data.shards.shard_files import Shard, write_shard
from keras_attn.data.sources.text_sources import read_task
from keras_attn.io.json_files import write_json

# Number of characters that are tokenized at once.
_CHARACTERS = 2_000_000


def task_file(folder, number):
    """Returns the path of the small file that records the result of a finished task."""
    return posixpath.join(folder, f"task-{number:05d}.json")


def write_task(plan, number, tokenizer, folder, threads=1):
    """Writes the shards of a task, then its task file.

    Args:
        plan: As returned by `text_sources.plan_source`.
        number: Index of the task.
        tokenizer: See `keras_attn.text.tokenizer_types`.
        folder: Folder of the shards.
        threads: Number of threads for tokenization.

    Returns:
        The content of the task file: `shards` and `counts`.
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
    """Collects documents, tokenizes them in large batches, and writes shards.

    A shard has between `tokens_per_shard` and twice as many tokens, unless all documents together
    have fewer. So no shard is so small that its random next sentences come from few documents.

    Args:
        folder: Folder of the shards.
        name: Name of this writer, a part of the file names.
        tokenizer: See `keras_attn.text.tokenizer_types`.
        tokens_per_shard: Minimum number of tokens per shard.
        threads: Number of threads for tokenization.

    Attributes:
        shards: List of dictionaries (file, documents, sentences, tokens, sha256), in order.
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
        """Adds a document, a list of str."""
        self._pending.append(document)
        self._pending_characters += sum(map(len, document))
        if self._pending_characters >= _CHARACTERS:
            self._tokenize()
            while len(self._arrays[0]) >= 2 * self.tokens_per_shard:
                self._write(self._documents_to_write())

    def close(self):
        """Writes the remaining documents."""
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
        """Returns the number of documents in the next shard."""
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
            posixpath.join(self.folder, file),
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
