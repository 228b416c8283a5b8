"""Small text files, and their prepared shards."""

import itertools
import random

import numpy as np

from keras_attn.data.shards.prepare import prepare
from keras_attn.text.wordpiece import WordPieceTokenizer

WORDS = [f"{a}{b}" for a, b in itertools.product("abcdefgh", "klmnopqr")]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", *WORDS]
TOKENIZER = WordPieceTokenizer(VOCABULARY)


def make_documents(count, seed):
    rng = random.Random(seed)
    return [
        [
            " ".join([*rng.choices([*WORDS, "unknown"], k=rng.randrange(1, 9)), "."])
            for _ in range(rng.randrange(1, 6))
        ]
        for _ in range(count)
    ]


def write_files(folder, files=12, documents=25):
    """Writes files with one sentence per line; returns a glob for them and their documents."""
    folder.mkdir(exist_ok=True)
    written = {}
    for number in range(files):
        name = f"{number:02d}.txt"
        written[name] = make_documents(documents, number)
        text = "\n\n".join("\n".join(document) for document in written[name])
        (folder / name).write_text(text, encoding="utf-8")
    return str(folder / "*.txt"), written


def run(source, folder, tokenizer=TOKENIZER, log=None, **options):
    options = {"format": "lines", "tokens_per_shard": 1000, "processes": 1, **options}
    log = log if log is not None else []
    return prepare(source, tokenizer, str(folder), log=log.append, **options)


def shard_files(folder):
    return {path.name: path.read_bytes() for path in folder.glob("shard-*")}


def shard_documents(shard):
    """Returns the documents of a shard as lists of sentences of words."""
    sentences = np.split(shard.ids, shard.sentence_ends[:-1])
    texts = [" ".join(VOCABULARY[number] for number in sentence) for sentence in sentences]
    bounds = [0, *shard.document_ends]
    return [texts[start:stop] for start, stop in itertools.pairwise(bounds)]
