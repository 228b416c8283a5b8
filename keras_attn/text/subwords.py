"""Subwords of translation: sentencepiece models, trained and used."""

import base64
import hashlib
import io
import itertools
import posixpath
import re

import numpy as np
import tensorflow as tf

from keras_attn.errors import UserError, first_line
from keras_attn.io.atomic_write import atomic_write
from keras_attn.io.files import read_bytes
from keras_attn.text.long_words import cut_long_words

FILE = "subwords.model"
PAD_ID, BEGIN_ID, END_ID, UNKNOWN_ID = range(4)
KINDS = ("bpe", "unigram")
CHUNK = 10_000  # texts


def train_subwords(texts, vocabulary_size, kind="bpe"):
    """Trains a model of subwords.

    Args:
        texts: Iterable of strings, of both languages for a joint vocabulary.
        vocabulary_size: Pieces at most; fewer where the texts have fewer.
        kind: "bpe" or "unigram".

    Returns:
        Bytes, what `Subwords` takes.

    Raises:
        UserError: If the size or the kind cannot be, or the texts hold no word.

    Reference:
        Kudo and Richardson, SentencePiece, 2018.
    """
    import sentencepiece

    if kind not in KINDS:
        raise UserError(f"data.subwords must be one of {', '.join(KINDS)}. Received: {kind}")
    written = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=cut_long_words(texts), model_writer=written,
            vocab_size=vocabulary_size, hard_vocab_limit=False, model_type=kind,
            character_coverage=1.0, pad_id=PAD_ID, bos_id=BEGIN_ID, eos_id=END_ID,
            unk_id=UNKNOWN_ID, minloglevel=2, max_sentence_length=1 << 20,
            num_threads=1,  # with more, ties may fall otherwise
        )
    except (RuntimeError, OSError) as error:
        raise training_error(error, vocabulary_size) from error
    return written.getvalue()


def training_error(error, vocabulary_size):
    """The `UserError` for what sentencepiece says of a training."""
    said = first_line(error)
    # None at all, or only such as it leaves out: U+200B.
    if "sentences_.empty" in said or "all_chars_count" in said:
        return UserError("Training subwords needs text. Received: no words")
    said = said.rpartition("] ")[2]  # without the line of C++ that failed
    few = re.search(r"required_chars\. \d+ vs (\d+)", said)
    if few:
        return UserError(f"vocab_size={vocabulary_size} is too small for the characters of the "
                         f"text. Set vocab_size={few[1]} or more")
    return UserError("vocab_size must suit the text. "
                     f"Received: vocab_size={vocabulary_size} ({said})")


def load_processor(model, name):
    """The sentencepiece processor of a model's bytes; `name` is what messages call it."""
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model)
    except (RuntimeError, OSError, TypeError) as error:
        raise damaged_model(name) from error
    return processor


def pieces_of(processor, name):
    """All pieces of a sentencepiece processor; raises a `UserError` if one is not UTF-8."""
    try:
        return [processor.id_to_piece(number) for number in range(processor.get_piece_size())]
    except UnicodeDecodeError as error:
        raise damaged_model(name) from error


def damaged_model(name):
    """The `UserError` for a file that is not a sentencepiece model."""
    return UserError(f"Cannot read {name}: it is not a sentencepiece model, or is damaged")


class Subwords:
    """Text to token ids and back.

    Args:
        model: Bytes of a sentencepiece model with the marks that `train_subwords` gives it.
        name: What messages call it.

    Raises:
        UserError: If it is none.
    """

    lowercase, verbatim, unk_id = False, True, UNKNOWN_ID

    def __init__(self, model, name="the model"):
        self.model, self._processor = model, load_processor(model, name)
        marks = [self._processor.pad_id(), self._processor.bos_id(), self._processor.eos_id(),
                 self._processor.unk_id()]
        if marks != [PAD_ID, BEGIN_ID, END_ID, UNKNOWN_ID]:
            raise UserError("A sentencepiece model with the marks pad, begin, end, unknown as 0 to "
                            f"3 is needed. Received: {name}, with {marks}")
        pieces_of(self._processor, name)

    @classmethod
    def read(cls, path):
        """Reads the model of a file, or subwords.model of a folder."""
        path = str(path)
        if tf.io.gfile.isdir(path):
            path = posixpath.join(path, FILE)
        return cls(read_bytes(path), path)

    @classmethod
    def of_recipe(cls, model):
        """Makes what `recipe` describes."""
        return cls(base64.b64decode(model))

    @property
    def recipe(self):
        """See `keras_attn.text.recipes`."""
        return {"kind": "subwords", "model": base64.b64encode(self.model).decode()}

    def write(self, folder):
        """Writes subwords.model, whole or not at all."""
        atomic_write(posixpath.join(str(folder), FILE), self.model)

    @property
    def sha256(self):
        """SHA-256 of the model."""
        return hashlib.sha256(self.model).hexdigest()

    @property
    def vocabulary_size(self):
        """How many pieces there are, with the marks."""
        return self._processor.get_piece_size()

    def pieces(self, ids):
        """The pieces of token ids, as sentencepiece writes them."""
        return [self._processor.id_to_piece(int(i)) for i in ids]

    def encode(self, texts):
        """Token ids, without marks.

        Args:
            texts: List of strings.

        Returns:
            `(ids int32 (N,), ends int64 (len(texts),))`: of all texts, and where each ends.
        """
        flat, lengths = [np.zeros(0, np.int32)], []
        for start in range(0, len(texts), CHUNK):  # its lists of Python's numbers are large
            rows = self._processor.encode(list(texts[start:start + CHUNK]), num_threads=1)
            lengths += map(len, rows)
            flat.append(np.fromiter(itertools.chain.from_iterable(rows), np.int32))
        return np.concatenate(flat), np.cumsum(lengths, dtype=np.int64)

    def decode(self, rows):
        """Texts of token ids; marks and what follows the end mark are left out.

        Args:
            rows: List of lists or arrays of integers.

        Returns:
            List of strings.
        """
        kept = []
        for row in rows:
            row = np.asarray(row)
            end = np.flatnonzero(row == END_ID)
            row = row[: end[0]] if len(end) else row
            kept.append(row[(row != PAD_ID) & (row != BEGIN_ID)].tolist())
        return self._processor.decode(kept)
