"""Preparing a corpus: text in, a folder of shards and its vocabulary out."""

import posixpath

import tensorflow as tf

from keras_attn.data.prepare import prepare, sample_texts
from keras_attn.errors import UserError
from keras_attn.text.vocabulary import read_vocabulary, train_vocabulary, write_vocabulary
from keras_attn.text.wordpiece import WordPieceTokenizer

VOCABULARY_SAMPLE_BYTES = 50_000_000


def prepare_folder(source, folder, *, vocab=None, vocab_size=8192, lowercase=True, split="train",
                   processes=None, log=print, **reading):
    """Tokenises `source` into `folder`, with a vocabulary given or trained.

    Args:
        source, folder, split, processes, log: See `keras_attn.data.prepare.prepare`.
        vocab: Vocabulary file; None trains one and keeps it as `folder/vocab.txt`.
        vocab_size, lowercase: Of a trained vocabulary.
        reading: `format`, `field`, `encoding`, `on_bad_text`.

    Returns:
        The index of the shards.
    """
    if not source or not folder:
        raise UserError("--input and --output are needed. "
                        f"Received: input={source}, output={folder}")
    path = posixpath.join(folder, "vocab.txt")
    if vocab:
        vocabulary = read_vocabulary(vocab)
    elif tf.io.gfile.exists(path):
        vocabulary = read_vocabulary(path)
    else:
        vocabulary = vocabulary_of(source, vocab_size, lowercase, log, **reading)
        tf.io.gfile.makedirs(folder)
        write_vocabulary(path, vocabulary)
    tokenizer = WordPieceTokenizer(vocabulary, lowercase)
    return prepare(source, tokenizer, folder, split=split, processes=processes, log=log, **reading)


def vocabulary_of(source, size, lowercase, log=print, **reading):
    """Trains a vocabulary on a sample of a text source."""
    log(f"training a vocabulary of {size:,} word pieces on {source}")
    texts = sample_texts(source, limit_bytes=VOCABULARY_SAMPLE_BYTES, **reading)
    return train_vocabulary(texts, size, lowercase)
