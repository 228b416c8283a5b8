"""Subword tokenizer for translation, based on SentencePiece."""

import base64
import hashlib
import io
import itertools
import posixpath
import re

import numpy as np

from keras_attn.errors import UserError, first_line
from keras_attn.io import gfile
from keras_attn.io.atomic_write import atomic_write
from keras_attn.io.files import read_bytes
from keras_attn.text.long_words import cut_long_words

FILE = "subwords.model"
PAD_ID, BEGIN_ID, END_ID, UNKNOWN_ID = range(4)
KINDS = ("bpe", "unigram")
_CHUNK = 10_000  # texts


def train_subwords(texts, vocabulary_size, kind="bpe"):
    """Trains a SentencePiece model.

    Args:
        texts: Iterable of strings; for a joint vocabulary, of both languages.
        vocabulary_size: Maximum vocabulary size; smaller if the texts do not contain enough
            subwords.
        kind: "bpe" or "unigram".

    Returns:
        The serialized model as bytes, the argument of `Subwords`.

    Raises:
        UserError: If the vocabulary size or the kind is invalid, or the texts contain no words.

    Reference:
        Kudo and Richardson, SentencePiece, 2018.
    """
    import sentencepiece

    if kind not in KINDS:
        raise UserError(f"data.subwords must be one of {', '.join(KINDS)}. Received: {kind}")
    written = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=cut_long_words(texts),
            model_writer=written,
            vocab_size=vocabulary_size,
            hard_vocab_limit=False,
            model_type=kind,
            character_coverage=1.0,
            pad_id=PAD_ID,
            bos_id=BEGIN_ID,
            eos_id=END_ID,
            unk_id=UNKNOWN_ID,
            minloglevel=2,
            max_sentence_length=1 << 20,
            num_threads=1,  # more threads may break ties differently
        )
    except (RuntimeError, OSError) as error:
        raise training_error(error, vocabulary_size) from error
    return written.getvalue()


def training_error(error, vocabulary_size):
    """Returns the `UserError` for an error of the SentencePiece trainer."""
    reason = first_line(error)
    # No characters at all, or only those that SentencePiece ignores, such as U+200B.
    if "sentences_.empty" in reason or "all_chars_count" in reason:
        return UserError("Training subwords requires text. Received: no words")
    reason = reason.rpartition("] ")[2]  # drops the failed line of C++
    few = re.search(r"required_chars\. \d+ vs (\d+)", reason)
    if few:
        return UserError(
            f"vocab_size={vocabulary_size} is too small for the characters of the "
            f"text. Set vocab_size={few[1]} or more"
        )
    return UserError(f"vocab_size={vocabulary_size} does not fit the text: {reason}")


def load_processor(model, name):
    """Loads a serialized SentencePiece model; `name` is used in error messages."""
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model)
    except (RuntimeError, OSError, TypeError) as error:
        raise damaged_model(name) from error
    return processor


def read_pieces(processor, name):
    """Returns the vocabulary of a SentencePiece processor; a `UserError` if it is not UTF-8."""
    try:
        return [processor.id_to_piece(number) for number in range(processor.get_piece_size())]
    except UnicodeDecodeError as error:
        raise damaged_model(name) from error


def damaged_model(name):
    """Returns the `UserError` for a file that is not a SentencePiece model."""
    return UserError(f"Cannot read {name}: it is damaged or not a SentencePiece model")


class Subwords:
    """Subword tokenizer based on a SentencePiece model.

    Args:
        model: Serialized SentencePiece model, with the special tokens of `train_subwords`.
        name: Name of the model in error messages.

    Raises:
        UserError: If it is not such a model.
    """

    lowercase, verbatim, unk_id = False, True, UNKNOWN_ID

    def __init__(self, model, name="the model"):
        self.model, self._processor = model, load_processor(model, name)
        special_ids = [
            self._processor.pad_id(),
            self._processor.bos_id(),
            self._processor.eos_id(),
            self._processor.unk_id(),
        ]
        if special_ids != [PAD_ID, BEGIN_ID, END_ID, UNKNOWN_ID]:
            raise UserError(
                "The ids of the padding, begin, end and unknown tokens of the "
                "SentencePiece model must be [0, 1, 2, 3]. "
                f"Received: {special_ids} in {name}"
            )
        read_pieces(self._processor, name)

    @classmethod
    def read(cls, path):
        """Reads the model from a file, or from subwords.model in a folder."""
        path = str(path)
        if gfile.isdir(path):
            path = posixpath.join(path, FILE)
        return cls(read_bytes(path), path)

    @classmethod
    def from_recipe(cls, model):
        """Creates the tokenizer from the arguments of `recipe`."""
        return cls(base64.b64decode(model))

    @property
    def recipe(self):
        """See `keras_attn.text.tokenizer_types`."""
        return {"kind": "subwords", "model": base64.b64encode(self.model).decode()}

    def write(self, folder):
        """Writes subwords.model atomically."""
        atomic_write(posixpath.join(str(folder), FILE), self.model)

    @property
    def sha256(self):
        """SHA-256 of the model."""
        return hashlib.sha256(self.model).hexdigest()

    @property
    def vocabulary_size(self):
        """Vocabulary size, including special tokens."""
        return self._processor.get_piece_size()

    def pieces(self, ids):
        """Returns the subwords of token ids in the notation of SentencePiece."""
        return [self._processor.id_to_piece(int(i)) for i in ids]

    def encode(self, texts):
        """Tokenizes texts without adding special tokens.

        Args:
            texts: List of strings.

        Returns:
            (ids, ends): int32 ids of all texts, concatenated, and int64 `(len(texts),)`, the end of
            each text.
        """
        flat, lengths = [np.zeros(0, np.int32)], []
        # Chunks limit the memory of the tokenizer's lists of Python integers.
        for start in range(0, len(texts), _CHUNK):
            rows = self._processor.encode(list(texts[start : start + _CHUNK]), num_threads=1)
            lengths += map(len, rows)
            flat.append(np.fromiter(itertools.chain.from_iterable(rows), np.int32))
        return np.concatenate(flat), np.cumsum(lengths, dtype=np.int64)

    def decode(self, rows):
        """Detokenizes token ids, without special tokens and anything after the end-of-sequence
        token.

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
