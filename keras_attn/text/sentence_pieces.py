"""XLNet's tokenizer: pieces of sentencepiece, of text that was made plain first."""

import base64
import hashlib
import io
import posixpath
import re
import string
import unicodedata

import numpy as np
import tensorflow as tf

from keras_attn.errors import UserError
from keras_attn.io.atomic_write import atomic_write
from keras_attn.io.files import read_bytes
from keras_attn.text.long_words import cut_long_words
from keras_attn.text.row_layout import RowLayout
from keras_attn.text.subwords import damaged_model, load_processor, pieces_of, training_error

FILE = "spiece.model"
UNKNOWN = "<unk>"
MARKS = ("<cls>", "<sep>", "<pad>", "<mask>", "<eod>", "<eop>")  # ids 3 to 8
# Always pieces of their own, as in the models of zihangdai/xlnet.
SIGNS = (".", "(", ")", '"', "-", "–", "£", "€")
BLANK = "\u2581"  # sentencepiece's sign for the blank before a word
_CUT = "\ue000"  # where no piece may go on, in training; of no alphabet
_STARTS = set(string.punctuation) - set("'=>")  # of words, alone, besides blanks and "<"
_NUMBER_COMMA = re.compile(r"(?<=\d)(?=,)")
_CHUNK = 10_000  # texts


class SentencePieceTokenizer:
    """Turns text into ids as zihangdai/xlnet does.

    Blanks are made one, `` and '' a quote, accents dropped. A comma after a digit is a piece of its
    own; the digits before it are unknown if they are a piece only with a blank before them.

    Args:
        model: Bytes of a sentencepiece model with XLNet's marks.
        lowercase: Whether text is lower-cased.
        name: What messages call the model.

    Attributes:
        model, lowercase: As given.
        vocabulary: Strings; a piece's id is its place.
        vocabulary_size: How many there are.
        unk_id, cls_id, sep_id, pad_id, mask_id: Of the marks; `eod_id` and `eop_id`, the ends of a
            document and of a paragraph.
        special_ids: Ids of pieces that stand for no text.
        mask_token: "<mask>".
        continuation: Boolean `(V,)`, whether a piece goes on with the word before it, as in
            data_utils.py: a blank or a sign of punctuation begins one.
        verbatim: False: documents are sentences.
        recipe: See `keras_attn.text.recipes`.
        sha256: Of model, case and these rules, so that shards of others are not taken for ours.

    Raises:
        UserError: If it is no such model.

    Reference:
        Kudo, Subword Regularization, 2018; zihangdai/xlnet, prepro_utils.py.
    """

    verbatim = False
    mask_token = "<mask>"

    def __init__(self, model, lowercase=False, name="the model"):
        self.model, self.lowercase = model, lowercase
        processor = load_processor(model, name)
        self.vocabulary_size = processor.get_piece_size()
        self.vocabulary = pieces_of(processor, name)
        ids = {piece: number for number, piece in enumerate(self.vocabulary)}
        missing = [mark for mark in (UNKNOWN, *MARKS) if mark not in ids]
        if missing:
            raise UserError("A sentencepiece model with XLNet's marks is needed: "
                            f"{', '.join(MARKS)}. Received: {name}, without {', '.join(missing)}")
        self.unk_id = ids[UNKNOWN]
        self.cls_id, self.sep_id, self.pad_id, self.mask_id, self.eod_id, self.eop_id = (
            ids[mark] for mark in MARKS)
        self.special_ids = [n for n in range(self.vocabulary_size)
                            if processor.is_control(n) or processor.is_unknown(n)]
        self.special_ids += [self.eop_id] * (self.eop_id not in self.special_ids)
        self.continuation = np.array([not piece.startswith((BLANK, "<")) and piece not in _STARTS
                                      for piece in self.vocabulary])
        self.sha256 = hashlib.sha256(model + bytes([lowercase, 1])).hexdigest()
        try:
            self._tokenizer = _tokenizer_of(model)
        except (tf.errors.OpError, RuntimeError) as error:
            raise damaged_model(name) from error
        self._processor = processor
        self._comma = ids.get(",", self.unk_id)
        self._number = np.array([len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit()
                                 for piece in self.vocabulary])

    @staticmethod
    def surface(piece):
        """Returns the text of a piece, without the blank before it."""
        return piece.removeprefix(BLANK)

    @property
    def row_layout(self):
        """text <sep> <cls>, or text <sep> text <sep> <cls>, the last in segment 2.

        Reference:
            zihangdai/xlnet, classifier_utils.py.
        """
        return RowLayout((), (self.sep_id,), (self.sep_id, self.cls_id), self.pad_id, 2)

    @property
    def recipe(self):
        return {"kind": "sentence_pieces", "lowercase": self.lowercase,
                "model": base64.b64encode(self.model).decode()}

    def with_lowercase(self, lowercase):
        """This tokenizer, with or without lower-casing."""
        return SentencePieceTokenizer(self.model, lowercase)

    @classmethod
    def of_recipe(cls, model, lowercase):
        """The tokenizer of a recipe's arguments."""
        return cls(base64.b64decode(model), lowercase)

    @classmethod
    def read(cls, path, lowercase=False):
        """Reads the model of a file, or spiece.model of a folder."""
        path = str(path)
        if tf.io.gfile.isdir(path):
            path = posixpath.join(path, FILE)
        return cls(read_bytes(path), lowercase, path)

    def write(self, folder):
        """Writes spiece.model, whole or not at all."""
        atomic_write(posixpath.join(str(folder), FILE), self.model)

    def encode(self, texts, threads=None):
        """Token ids, without marks.

        Args:
            texts: List of str.
            threads: Not used; TensorFlow takes its own.

        Returns:
            (ids, ends): int32 ids of all texts in a row, and int64 `(N,)`, where each text ends.
        """
        flat, lengths = [np.zeros(0, np.int32)], [np.zeros(0, np.int64)]
        for start in range(0, len(texts), _CHUNK):
            part = [plain(text, self.lowercase) for text in texts[start:start + _CHUNK]]
            found = self._tokenized(part)
            ids, counts = found.flat_values.numpy(), found.row_lengths().numpy()
            ids, added = self._with_commas_apart(ids, np.repeat(np.arange(len(part)), counts))
            flat.append(ids)
            lengths.append(counts + np.bincount(added, minlength=len(part)))
        return np.concatenate(flat), np.cumsum(np.concatenate(lengths))

    def _tokenized(self, texts):
        try:
            return self._tokenizer.tokenize(texts)
        except tf.errors.NotFoundError:  # TensorFlow has begun anew, and forgot the model
            self._tokenizer = _tokenizer_of(self.model)
            return self._tokenizer.tokenize(texts)

    def _with_commas_apart(self, ids, rows):
        """The ids where no piece ends in a digit and a comma; the row of each that was added."""
        parts, added, begin = [], [], 0
        for place in np.flatnonzero(self._number[ids]):
            new = self.with_comma_apart(ids[place])
            parts += [ids[begin:place], np.array(new, np.int32)]
            added += [rows[place]] * (len(new) - 1)
            begin = place + 1
        return np.concatenate([*parts, ids[begin:]]), np.array(added, np.int64)

    def with_comma_apart(self, number):
        """The ids that stand for that of a piece, of which none ends in a digit and a comma."""
        if not self._number[number]:
            return [number]
        piece = self.vocabulary[number]
        found = self._processor.encode(piece[:-1].replace(BLANK, ""), out_type=str)
        if piece[0] != BLANK and found[0][0] == BLANK:
            found = found[1:] if len(found[0]) == 1 else [found[0][1:], *found[1:]]
        return [*map(self._processor.piece_to_id, found), self._comma]

    def in_graph(self):
        """A function of strings `(N,)` to ragged ids that a SavedModel can hold."""
        from keras_attn.text.sentence_pieces_graph import SentencePieceGraph

        return SentencePieceGraph(self)

    def decode(self, rows):
        """Texts of token ids; marks are left out.

        Args:
            rows: List of lists or arrays of integers.

        Returns:
            List of strings.
        """
        marks = [self.cls_id, self.sep_id, self.pad_id, self.mask_id, self.eod_id, self.eop_id]
        rows = [np.asarray(row) for row in rows]
        return self._processor.decode([row[~np.isin(row, marks)].tolist() for row in rows])


def _tokenizer_of(model):
    import tensorflow_text

    return tensorflow_text.SentencepieceTokenizer(model)


def plain(text, lowercase=False):
    """The text as XLNet's pieces are of: single blanks, plain quotes, no accents."""
    text = " ".join(text.split()).replace("``", '"').replace("''", '"')
    if not text.isascii():
        text = "".join(sign for sign in unicodedata.normalize("NFKD", text)
                       if not unicodedata.combining(sign))
    return text.lower() if lowercase else text


def train_sentence_pieces(texts, size, lowercase=False):
    """Trains a tokenizer.

    Args:
        texts: Iterable of str.
        size: Pieces at most, marks included; fewer where the texts have fewer.
        lowercase: Whether text is lower-cased.

    Returns:
        A `SentencePieceTokenizer`.

    Raises:
        UserError: If the size cannot be, or the texts hold no word.
    """
    import sentencepiece

    written, faults = io.BytesIO(), []

    def plain_texts():
        try:
            for text in cut_long_words(texts):
                # Pieces with one would be cut there anyway, and could leave unknown numbers.
                yield _NUMBER_COMMA.sub(_CUT, plain(text, lowercase))
        except Exception as error:
            faults.append(error)  # sentencepiece makes another of it
            raise

    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=plain_texts(), model_writer=written,
            vocab_size=size, hard_vocab_limit=False, model_type="unigram",
            character_coverage=0.99995, control_symbols=list(MARKS),
            user_defined_symbols=list(SIGNS), pretokenization_delimiter=_CUT, minloglevel=2,
            max_sentence_length=1 << 20, num_threads=1,  # with more, ties may fall otherwise
        )
    except (RuntimeError, OSError) as error:
        if faults:
            raise faults[0] from None
        raise training_error(error, size) from error
    return SentencePieceTokenizer(written.getvalue(), lowercase)
