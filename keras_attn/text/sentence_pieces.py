"""XLNet's tokenizer: SentencePiece on normalized text."""

import base64
import functools
import hashlib
import io
import posixpath
import re
import string
import unicodedata

import numpy as np

from keras_attn.errors import UserError
from keras_attn.io import gfile
from keras_attn.io.atomic_write import atomic_write
from keras_attn.io.files import read_bytes
from keras_attn.text.long_words import cut_long_words
from keras_attn.text.row_layout import RowLayout
from keras_attn.text.subwords import load_processor, read_pieces, training_error

FILE = "spiece.model"
UNKNOWN = "<unk>"
SPECIAL_TOKENS = ("<cls>", "<sep>", "<pad>", "<mask>", "<eod>", "<eop>")  # ids 3 to 8
# Always separate tokens, as in the models of zihangdai/xlnet.
SYMBOLS = (".", "(", ")", '"', "-", "–", "£", "€")
SPACE = "\u2581"  # SentencePiece's symbol for the space before a word
_CUT = "\ue000"  # token boundary in training, a private-use character
# Punctuation that starts a word, in addition to spaces and "<".
_WORD_STARTS = set(string.punctuation) - set("'=>")
_NUMBER_COMMA = re.compile(r"(?<=\d)(?=,)")
_CHUNK = 10_000  # texts


class SentencePieceTokenizer:
    """Tokenizes text as zihangdai/xlnet does.

    Whitespace is collapsed, `` and '' become a double quote, and accents are dropped. A comma after
    a digit is a separate token; the digits before it are unknown if the vocabulary only contains
    them with a preceding space.

    Args:
        model: Serialized SentencePiece model with XLNet's special tokens.
        lowercase: Whether text is lower-cased.
        name: Name of the model in error messages.

    Attributes:
        model: As given.
        lowercase: As given.
        vocabulary: List of strings; the index of a token is its id.
        vocabulary_size: Number of tokens.
        unk_id: Id of `<unk>`.
        cls_id: Id of `<cls>`.
        sep_id: Id of `<sep>`.
        pad_id: Id of `<pad>`.
        mask_id: Id of `<mask>`.
        eod_id: Id of the end-of-document token.
        end_id: The same: the token that separates texts.
        eop_id: Id of the end-of-paragraph token.
        special_ids: Ids of the special tokens, which represent no text.
        never_generated: Those of them that generated texts must not contain: all but `end_id`.
        mask_token: "<mask>".
        continuation: Boolean `(V,)`, whether a token continues the word before it, as in
            data_utils.py: a space or punctuation starts a new word.
        verbatim: False: documents are split into sentences.
        recipe: See `keras_attn.text.tokenizer_types`.
        sha256: Hash of the model, `lowercase` and the version of these rules, so that shards of
            other tokenizers are not reused.

    Raises:
        UserError: If it is not such a model.

    Reference:
        Kudo, Subword Regularization, 2018; zihangdai/xlnet, prepro_utils.py.
    """

    verbatim = False
    mask_token = "<mask>"

    def __init__(self, model, lowercase=False, name="the model"):
        self.model, self.lowercase = model, lowercase
        processor = load_processor(model, name)
        self.vocabulary_size = processor.get_piece_size()
        self.vocabulary = read_pieces(processor, name)
        ids = {piece: number for number, piece in enumerate(self.vocabulary)}
        missing = [token for token in (UNKNOWN, *SPECIAL_TOKENS) if token not in ids]
        if missing:
            raise UserError(
                f"{name} lacks special tokens of XLNet: {', '.join(missing)}. Use a "
                f"SentencePiece model with {UNKNOWN}, {', '.join(SPECIAL_TOKENS)}"
            )
        self.unk_id = ids[UNKNOWN]
        self.cls_id, self.sep_id, self.pad_id, self.mask_id, self.eod_id, self.eop_id = (
            ids[token] for token in SPECIAL_TOKENS
        )
        self.special_ids = [
            n
            for n in range(self.vocabulary_size)
            if processor.is_control(n) or processor.is_unknown(n)
        ]
        self.special_ids += [self.eop_id] * (self.eop_id not in self.special_ids)
        self.end_id = self.eod_id
        self.never_generated = [n for n in self.special_ids if n != self.end_id]
        self.continuation = np.array(
            [
                not piece.startswith((SPACE, "<")) and piece not in _WORD_STARTS
                for piece in self.vocabulary
            ]
        )
        self.sha256 = hashlib.sha256(model + bytes([lowercase, 1])).hexdigest()
        self._processor = processor
        self._comma = ids.get(",", self.unk_id)
        self._number_comma = np.array(
            [
                len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit()
                for piece in self.vocabulary
            ]
        )

    @staticmethod
    def surface(piece):
        """Returns the text of a token, without a preceding space."""
        return piece.removeprefix(SPACE)

    @property
    def row_layout(self):
        """text <sep> <cls>, or text <sep> text <sep> <cls>; `<cls>` has segment id 2.

        Reference:
            zihangdai/xlnet, classifier_utils.py.
        """
        return RowLayout((), (self.sep_id,), (self.sep_id, self.cls_id), self.pad_id, 2)

    @property
    def recipe(self):
        return {
            "kind": "sentencepiece",
            "lowercase": self.lowercase,
            "model": base64.b64encode(self.model).decode(),
        }

    def with_lowercase(self, lowercase):
        """Returns this tokenizer with or without lower-casing."""
        return SentencePieceTokenizer(self.model, lowercase)

    @classmethod
    def from_recipe(cls, model, lowercase):
        """Creates the tokenizer from the arguments of `recipe`."""
        return cls(base64.b64decode(model), lowercase)

    @classmethod
    def read(cls, path, lowercase=False):
        """Reads the model from a file, or from spiece.model in a folder."""
        path = str(path)
        if gfile.isdir(path):
            path = posixpath.join(path, FILE)
        return cls(read_bytes(path), lowercase, path)

    def write(self, folder):
        """Writes spiece.model atomically."""
        atomic_write(posixpath.join(str(folder), FILE), self.model)

    def encode(self, texts, threads=None):
        """Tokenizes texts without adding special tokens.

        Args:
            texts: List of str.
            threads: Unused; TensorFlow has its own thread pool.

        Returns:
            (ids, ends): int32 ids of all texts, concatenated, and int64 `(N,)`, the end of each
            text.
        """
        flat, lengths = [np.zeros(0, np.int32)], [np.zeros(0, np.int64)]
        for start in range(0, len(texts), _CHUNK):
            part = [normalize_text(text, self.lowercase) for text in texts[start : start + _CHUNK]]
            found = self._tokenized(part)
            ids, counts = found.flat_values.numpy(), found.row_lengths().numpy()
            ids, added = self._split_commas(ids, np.repeat(np.arange(len(part)), counts))
            flat.append(ids)
            lengths.append(counts + np.bincount(added, minlength=len(part)))
        return np.concatenate(flat), np.cumsum(np.concatenate(lengths))

    @functools.cached_property
    def _tokenizer(self):
        # A machine without tensorflow-text can train on text that was tokenized before.
        import tensorflow_text

        return tensorflow_text.SentencepieceTokenizer(self.model)

    def _tokenized(self, texts):
        import tensorflow as tf

        try:
            return self._tokenizer.tokenize(texts)
        except tf.errors.NotFoundError:
            del self._tokenizer  # TensorFlow's resources were reset
            return self._tokenizer.tokenize(texts)

    def _split_commas(self, ids, rows):
        """Splits tokens that end in a digit and a comma.

        Returns:
            (ids, the row of each added token).
        """
        parts, added, begin = [], [], 0
        for place in np.flatnonzero(self._number_comma[ids]):
            new = self.split_comma(ids[place])
            parts += [ids[begin:place], np.array(new, np.int32)]
            added += [rows[place]] * (len(new) - 1)
            begin = place + 1
        return np.concatenate([*parts, ids[begin:]]), np.array(added, np.int64)

    def split_comma(self, number):
        """Returns the ids that replace a token, none of which ends in a digit and a comma."""
        if not self._number_comma[number]:
            return [number]
        piece = self.vocabulary[number]
        found = self._processor.encode(piece[:-1].replace(SPACE, ""), out_type=str)
        if piece[0] != SPACE and found[0][0] == SPACE:
            found = found[1:] if len(found[0]) == 1 else [found[0][1:], *found[1:]]
        return [*map(self._processor.piece_to_id, found), self._comma]

    def in_graph(self):
        """Returns a function from strings `(N,)` to ragged ids, for a SavedModel."""
        from keras_attn.text.sentence_pieces_graph import SentencePieceGraph

        return SentencePieceGraph(self)

    def decode(self, rows):
        """Detokenizes token ids, without special tokens.

        Args:
            rows: List of lists or arrays of integers.

        Returns:
            List of strings.
        """
        special = [self.cls_id, self.sep_id, self.pad_id, self.mask_id, self.eod_id, self.eop_id]
        rows = [np.asarray(row) for row in rows]
        return self._processor.decode([row[~np.isin(row, special)].tolist() for row in rows])


def normalize_text(text, lowercase=False):
    """Normalizes text as XLNet does: single spaces, plain quotes, no accents."""
    text = " ".join(text.split()).replace("``", '"').replace("''", '"')
    if not text.isascii():
        text = "".join(
            character
            for character in unicodedata.normalize("NFKD", text)
            if not unicodedata.combining(character)
        )
    return text.lower() if lowercase else text


def train_sentence_pieces(texts, size, lowercase=False):
    """Trains a tokenizer.

    Args:
        texts: Iterable of str.
        size: Maximum vocabulary size, including special tokens; smaller if the texts do not contain
            enough subwords.
        lowercase: Whether text is lower-cased.

    Returns:
        A `SentencePieceTokenizer`.

    Raises:
        UserError: If the size is invalid, or the texts contain no words.
    """
    import sentencepiece

    written, errors = io.BytesIO(), []

    def normalized_texts():
        try:
            for text in cut_long_words(texts):
                # Tokens with a comma would be split anyway, which could leave unknown numbers.
                yield _NUMBER_COMMA.sub(_CUT, normalize_text(text, lowercase))
        except Exception as error:
            errors.append(error)  # SentencePiece raises a different error for it
            raise

    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=normalized_texts(),
            model_writer=written,
            vocab_size=size,
            hard_vocab_limit=False,
            model_type="unigram",
            character_coverage=0.99995,
            control_symbols=list(SPECIAL_TOKENS),
            user_defined_symbols=list(SYMBOLS),
            pretokenization_delimiter=_CUT,
            minloglevel=2,
            max_sentence_length=1 << 20,
            num_threads=1,  # more threads may break ties differently
        )
    except (RuntimeError, OSError) as error:
        if errors:
            raise errors[0] from None
        raise training_error(error, size) from error
    return SentencePieceTokenizer(written.getvalue(), lowercase)
