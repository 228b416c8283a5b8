"""BERT's tokenizer, exact and fast, on tensors."""

import functools
import posixpath
import re
import unicodedata
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from keras_attn.text.row_layout import RowLayout
from keras_attn.text.vocabulary import (
    FILE,
    check_vocabulary,
    read_vocabulary,
    vocabulary_sha256,
    write_vocabulary,
)

# Google's tokenizer turns a longer word into [UNK].
MAX_CHARACTERS_PER_WORD = 200

# What BERT drops before anything else: control and format characters, except tab and line ends.
_CONTROLS = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\p{Cf}\x{FFFD}]"
# White space to Python, by which BERT splits words, but not to tensorflow-text.
_SEPARATORS = r"[\x{2028}\x{2029}]"
_PLAIN = r"[\t\n\r\x20-\x7e]*"
# A superset of the texts that hold a word too long: cheap, and true of almost no sentence.
_LONG_RUN = rf"(?s).*\S{{{MAX_CHARACTERS_PER_WORD + 1}}}.*"
# What ends a word besides whitespace: BERT's punctuation and its CJK ranges.
_WORDS_ALONE = (
    r"([!-/:-@\[-`{-~\p{P}\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{20000}-\x{2A6DF}\x{2A700}-\x{2B73F}"
    r"\x{2B740}-\x{2B81F}\x{2B820}-\x{2CEAF}\x{F900}-\x{FAFF}\x{2F800}-\x{2FA1F}])"
)
_SPACES = r"[\s\p{Z}]+"


class WordPieceTokenizer:
    """Turns text into word-piece ids as google-research/bert's `FullTokenizer` does.

    Text is cleaned of control characters, lower-cased and stripped of accents (`lowercase`),
    split at whitespace, punctuation and CJK characters, and each word is cut into the longest
    pieces of the vocabulary, from the left; a word that cannot be cut, or of more than 200
    characters, is `[UNK]`. Special tokens are never recognised in text: `[MASK]` is `[`, `mask`
    and `]`.

    Args:
        vocabulary: List of str; a piece's id is its place.
        lowercase: True for the `uncased` models.

    Attributes:
        vocabulary, vocabulary_size, lowercase: As given.
        pad_id, unk_id, cls_id, sep_id, mask_id: Ids of the special tokens.
        special_ids: Those five, sorted, int32.
        mask_token: "[MASK]".
        continuation: `(vocabulary_size,)` bool, True for pieces `##x` that go on a word.
        verbatim: False: documents are sentences.
        recipe: See `keras_attn.text.recipes`.
        sha256: Of the vocabulary's file.

    Raises:
        UserError: If the vocabulary lacks a special token or has an empty or repeated piece.

    Reference:
        Devlin et al., BERT, 2019, section 3; Song et al., Fast WordPiece Tokenization, 2021.
    """

    verbatim = False
    mask_token = "[MASK]"

    def __init__(self, vocabulary, lowercase=True):
        self.vocabulary = list(vocabulary)
        check_vocabulary(self.vocabulary)
        self.vocabulary_size = len(self.vocabulary)
        self.lowercase = bool(lowercase)
        self.ids = {piece: number for number, piece in enumerate(self.vocabulary)}
        self.pad_id = self.ids["[PAD]"]
        self.unk_id = self.ids["[UNK]"]
        self.cls_id = self.ids["[CLS]"]
        self.sep_id = self.ids["[SEP]"]
        self.mask_id = self.ids[self.mask_token]
        self.special_ids = np.sort(
            np.array([self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id], "int32")
        )
        self.continuation = np.array(
            [len(piece) > 2 and piece.startswith("##") for piece in self.vocabulary]
        )
        self.sha256 = vocabulary_sha256(self.vocabulary)
        # Private-use characters that no vocabulary holds; one of them stands for a word too long.
        self._unknown_character = next(
            chr(code) for code in range(0xE000, 0xF8FF) if chr(code) not in self.ids
        )

    @functools.cached_property
    def _pieces(self):
        # Made when it is first used, as it takes longer than all else; never inside a graph, which
        # other graphs could not use.
        with tf.init_scope():
            return tf_text.FastBertTokenizer(
                vocab=self.vocabulary,
                unknown_token="[UNK]",
                token_out_type=tf.int32,
                # Its own folding maps ellipses, ligatures and full-width forms unlike BERT.
                lower_case_nfd_strip_accents=False,
                max_bytes_per_word=4 * MAX_CHARACTERS_PER_WORD,
            )

    def with_lowercase(self, lowercase):
        """This tokenizer, with or without lower-casing."""
        return WordPieceTokenizer(self.vocabulary, lowercase)

    @staticmethod
    def surface(piece):
        """Returns the text of a piece, without the mark of one that continues a word."""
        return piece.removeprefix("##")

    @property
    def row_layout(self):
        """[CLS] text [SEP], or [CLS] text [SEP] text [SEP]."""
        return RowLayout((self.cls_id,), (self.sep_id,), (self.sep_id,), self.pad_id)

    @property
    def recipe(self):
        return {"kind": "word_pieces", "vocabulary": self.vocabulary, "lowercase": self.lowercase}

    @classmethod
    def from_file(cls, path, lowercase=True):
        """Makes the tokenizer of a vocabulary file, or of vocab.txt of a folder."""
        if tf.io.gfile.isdir(path):
            path = posixpath.join(path, FILE)
        return cls(read_vocabulary(path), lowercase)

    def write(self, folder):
        """Writes vocab.txt, whole or not at all."""
        write_vocabulary(posixpath.join(str(folder), FILE), self.vocabulary)

    def __call__(self, texts):
        """Tokenises inside or outside a graph.

        Args:
            texts: `(N,)` string tensor of UTF-8, or a list of str.

        Returns:
            int32 RaggedTensor `(N, None)`, without `[CLS]` and `[SEP]`.
        """
        return self._pieces.tokenize(self._shortened(self._folded(_to_tensor(texts))))

    def in_graph(self):
        """A function of strings `(N,)` to ragged ids that a SavedModel can hold: this."""
        return self

    def encode(self, texts, threads=1):
        """Tokenises a list of texts into flat arrays.

        Args:
            texts: List of str.
            threads: How many parts to tokenise side by side.

        Returns:
            (ids, ends): int32 ids of all texts in a row, and int64 `(N,)`, where each text ends.
        """
        size = max(1, -(-len(texts) // threads))
        parts = [texts[start : start + size] for start in range(0, len(texts), size)]
        if len(parts) > 1:
            with ThreadPoolExecutor(threads) as pool:
                ragged = list(pool.map(self, parts))
        else:
            ragged = [self(part) for part in parts]
        ids = [part.values.numpy() for part in ragged]
        lengths = [part.row_lengths().numpy() for part in ragged]
        if not parts:
            return np.zeros(0, "int32"), np.zeros(0, "int64")
        return np.concatenate(ids), np.cumsum(np.concatenate(lengths), dtype="int64")

    def encode_with_spans(self, texts):
        """Tokenises a list of texts, and tells where in its text each token is.

        A character that folding makes several of can be in several tokens. Accents that are
        stripped belong to the letter before them; other characters that are dropped, to no token
        unless they are inside one.

        Args:
            texts: List of str.

        Returns:
            (ids, ends, spans): as `encode`, and int64 `(tokens, 2)`, the first character of each
            token in its text and the end of its last.
        """
        if not texts:
            return *self.encode(texts), np.zeros((0, 2), "int64")
        folded = self._folded(_to_tensor(texts))
        ids, starts, stops = self._pieces.tokenize_with_offsets(self._shortened(folded))
        ends = np.cumsum(ids.row_lengths().numpy(), dtype="int64")
        places = np.stack([starts.values.numpy(), stops.values.numpy()], axis=1)
        spans = [
            _spans(own, origin, characters)
            for own, origin, characters in zip(
                np.split(places, ends[:-1]), self._origins(texts), self._characters(folded),
                strict=True)
        ]
        return ids.values.numpy(), ends, np.concatenate(spans)

    def _origins(self, texts):
        """Yields of each text the characters that those of its folded form are made of.

        A character is folded to as many whatever stands around it, though not always to the same:
        a sigma at the end of a word is another.

        Yields:
            int64 `(characters of the folded text, 2)`: start and end.
        """
        codes = [np.frombuffer(t.encode("utf-32-le", "surrogatepass"), "uint32") for t in texts]
        known = np.unique(np.concatenate(codes))
        alone = [chr(code) for code in known]
        counts = tf.strings.length(self._folded(_to_tensor(alone)), unit="UTF8_CHAR").numpy()
        accent = np.array([unicodedata.category(c) == "Mn" for c in alone], bool)
        stripped = accent & (counts == 0)
        for text in codes:
            number = np.searchsorted(known, text)
            position = np.arange(len(text))
            # Where the next character begins that is no stripped accent.
            after = np.where(stripped[number], len(text), position)
            after = np.minimum.accumulate(np.append(after, len(text))[::-1])[-2::-1]
            yield np.repeat(np.stack([position, after], axis=1), counts[number], axis=0)

    def _characters(self, folded):
        """Yields of each folded text which of its characters those of the shortened one are.

        Yields:
            (start and end of each, int64 `(characters, 2)`; the character at each byte).
        """
        long = tf.strings.regex_full_match(folded, _LONG_RUN).numpy()
        for text, has_long in zip(folded.numpy(), long, strict=True):
            places = np.arange(len(text.decode()))
            places = np.stack([places, places + 1], axis=1)
            if has_long:
                places, text = self._places_of_words(text)
            at = np.frombuffer(text, "uint8")
            yield places, np.cumsum((at & 0xC0) != 0x80) - 1

    def _places_of_words(self, folded):
        """The same of a text in which long words are one character each, and its bytes."""
        shortened = self._replace_long_words(tf.constant([folded])).numpy()[0]
        text, new, end, new_end = folded.decode(), shortened.decode(), 0, 0
        places = np.zeros((len(new), 2), "int64")
        for word in self._words(tf.constant([folded])).values.numpy():
            word = word.decode()
            start = text.index(word, end)  # nothing but spaces is in between
            end = start + len(word)
            if len(word) > MAX_CHARACTERS_PER_WORD:
                new_end = new.index(self._unknown_character, new_end) + 1
                places[new_end - 1] = start, end
            else:
                new_start = new.index(word, new_end)
                new_end = new_start + len(word)
                places[new_start:new_end, 0] = np.arange(start, end)
                places[new_start:new_end, 1] = places[new_start:new_end, 0] + 1
        return places, shortened

    def detokenize(self, ids):
        """Returns readable text of a sequence of ids.

        Pieces are joined to words and punctuation drawn to its word. `[UNK]` stays, the other
        special tokens are dropped. Case, accents and spacing that tokenising lost stay lost.
        """
        dropped = set(self.special_ids.tolist()) - {self.unk_id}
        words = []
        for number in np.asarray(ids).reshape(-1).tolist():
            if number in dropped:
                continue
            piece = self.vocabulary[number]
            if self.continuation[number] and words:
                words[-1] += piece[2:]
            else:
                words.append(piece)
        return _tighten(" ".join(words))

    def _folded(self, texts):
        plain = tf.strings.regex_full_match(texts, _PLAIN)
        folded = tf.strings.lower(texts) if self.lowercase else texts
        return _update(folded, texts, ~plain, self._fold)

    def _shortened(self, folded):
        long = tf.strings.regex_full_match(folded, _LONG_RUN)
        return _update(folded, folded, long, self._replace_long_words)

    def _fold(self, texts):
        texts = tf.strings.regex_replace(texts, _CONTROLS, "")
        texts = tf.strings.regex_replace(texts, _SEPARATORS, " ")
        if self.lowercase:
            texts = tf_text.normalize_utf8(tf.strings.lower(texts, encoding="utf-8"), "NFD")
            texts = tf.strings.regex_replace(texts, r"\p{Mn}", "")
        return texts

    def _replace_long_words(self, texts):
        words = self._words(texts)
        long = tf.strings.length(words.values, unit="UTF8_CHAR") > MAX_CHARACTERS_PER_WORD
        words = words.with_values(tf.where(long, self._unknown_character, words.values))
        return tf.strings.reduce_join(words, axis=-1, separator=" ")

    def _words(self, texts):
        alone = tf.strings.regex_replace(texts, _WORDS_ALONE, r" \1 ")
        return tf.strings.split(tf.strings.regex_replace(alone, _SPACES, " "), " ")


def _spans(places, origins, characters):
    """Characters of the original text, of tokens given by bytes of the shortened one."""
    of_folded, at_byte = characters
    if not len(places):
        return np.zeros((0, 2), "int64")
    first = of_folded[at_byte[places[:, 0]], 0]
    last = of_folded[at_byte[places[:, 1] - 1], 1] - 1
    return np.stack([origins[first, 0], origins[last, 1]], axis=1)


def _to_tensor(texts):
    try:
        return tf.convert_to_tensor(texts, tf.string)
    except ValueError:  # half a surrogate pair, as JSON can hold
        return tf.convert_to_tensor([text.encode("utf-8", "ignore") for text in texts], tf.string)


def _update(target, source, chosen, function):
    """Returns `target` with `function(source)` in the chosen places, which are few."""

    def update():
        places = tf.where(chosen)
        new = function(tf.gather_nd(source, places))
        return tf.tensor_scatter_nd_update(target, places, new)

    return tf.cond(tf.reduce_any(chosen), update, lambda: target)


def _tighten(text):
    text = re.sub(r" ([.,;:!?%)\]}’”]|\.\.\.)", r"\1", text)
    text = re.sub(r"([(\[{“‘$]) ", r"\1", text)
    text = re.sub(r"(\w) (['’]) (\w)", r"\1\2\3", text)
    text = re.sub(r"(\w) ([-–_/@]) (?=\w)", r"\1\2", text)
    # Straight quotes open and close in turn.
    text = re.sub(r'" ([^"]*?) ?"', r'"\1"', text)
    return re.sub(r"(\d)([.,:]) (?=\d)", r"\1\2", text)
