"""BERT's WordPiece tokenizer."""

import functools
import posixpath
import re
import unicodedata
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from keras_attn.io import gfile
from keras_attn.text.row_layout import RowLayout
from keras_attn.text.vocabulary import (
    FILE,
    check_vocabulary,
    read_vocabulary,
    vocabulary_sha256,
    write_vocabulary,
)

# Google's tokenizer maps longer words to [UNK].
MAX_CHARACTERS_PER_WORD = 200


class WordPieceTokenizer:
    """Tokenizes text into WordPiece ids as google-research/bert's `FullTokenizer` does.

    Control characters are removed; with `lowercase`, text is lower-cased and accents are stripped.
    Text is split at whitespace, punctuation and CJK characters. Each word is split into the longest
    matching tokens of the vocabulary, from left to right; a word that cannot be split, or of more
    than 200 characters, becomes `[UNK]`. Special tokens in text are not recognized: `[MASK]`
    becomes `[`, `mask` and `]`.

    Args:
        vocabulary: List of str; the index of a token is its id.
        lowercase: True for `uncased` models.

    Attributes:
        vocabulary: As given.
        vocabulary_size: Number of tokens.
        lowercase: As given.
        pad_id: Id of `[PAD]`.
        unk_id: Id of `[UNK]`.
        cls_id: Id of `[CLS]`.
        sep_id: Id of `[SEP]`.
        mask_id: Id of `[MASK]`.
        special_ids: The five ids above, sorted, int32.
        mask_token: "[MASK]".
        mask_takes_space: False: a space before a mask token does not belong to it.
        continuation: `(vocabulary_size,)` bool, True for tokens `##x`, which continue a word.
        verbatim: False: documents are split into sentences.
        recipe: See `keras_attn.text.tokenizer_types`.
        sha256: Hash of the vocabulary file.

    Raises:
        UserError: If the vocabulary lacks a special token, or has an empty or duplicate token.

    Reference:
        Devlin et al., BERT, 2019, section 3; Song et al., Fast WordPiece Tokenization, 2021.
    """

    verbatim = False
    mask_token, mask_takes_space = "[MASK]", False

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
        # A private-use character that is not in the vocabulary replaces words that are too long.
        self.unknown_character = next(
            chr(code) for code in range(0xE000, 0xF8FF) if chr(code) not in self.ids
        )

    @functools.cached_property
    def _graph(self):
        # A machine without tensorflow-text can train on text that was tokenized before.
        from keras_attn.text.wordpiece_graph import WordPieceGraph

        return WordPieceGraph(self.vocabulary, self.lowercase, self.unknown_character)

    def with_lowercase(self, lowercase):
        """Returns this tokenizer with or without lower-casing."""
        return WordPieceTokenizer(self.vocabulary, lowercase)

    @staticmethod
    def surface(piece):
        """Returns the text of a token, without the prefix `##`."""
        return piece.removeprefix("##")

    @property
    def row_layout(self):
        """[CLS] text [SEP], or [CLS] text [SEP] text [SEP]."""
        return RowLayout((self.cls_id,), (self.sep_id,), (self.sep_id,), self.pad_id)

    @property
    def recipe(self):
        return {"kind": "wordpiece", "vocabulary": self.vocabulary, "lowercase": self.lowercase}

    @classmethod
    def from_file(cls, path, lowercase=True):
        """Creates the tokenizer from a vocabulary file, or from vocab.txt in a folder."""
        if gfile.isdir(path):
            path = posixpath.join(path, FILE)
        return cls(read_vocabulary(path), lowercase)

    def write(self, folder):
        """Writes vocab.txt atomically."""
        write_vocabulary(posixpath.join(str(folder), FILE), self.vocabulary)

    def __call__(self, texts):
        """Tokenizes texts, inside or outside of a graph.

        Args:
            texts: `(N,)` string tensor of UTF-8, or a list of str.

        Returns:
            int32 RaggedTensor `(N, None)`, without `[CLS]` and `[SEP]`.
        """
        return self._graph(texts)

    def in_graph(self):
        """Returns a function of strings `(N,)` to ragged ids that can be exported in a SavedModel:
        itself.
        """
        return self

    def encode(self, texts, threads=1):
        """Tokenizes a list of texts into flat arrays.

        Args:
            texts: List of str.
            threads: Number of threads.

        Returns:
            (ids, ends): int32 ids of all texts, concatenated, and int64 `(N,)`, the end of each
            text.
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
        """Tokenizes a list of texts, and returns the character span of each token.

        A character that is normalized to several characters can be part of several tokens. Stripped
        accents belong to the preceding letter. Other removed characters only belong to a token if
        they are inside of it.

        Args:
            texts: List of str.

        Returns:
            (ids, ends, spans): ids and ends as for `encode`; spans int64 `(tokens, 2)`, the start
            and the exclusive end of each token in its text, in characters.
        """
        if not texts:
            return *self.encode(texts), np.zeros((0, 2), "int64")
        normalized = self._graph.normalized(texts)
        ids, starts, stops = self._graph.tokenize_with_offsets(normalized)
        ends = np.cumsum(ids.row_lengths().numpy(), dtype="int64")
        positions = np.stack([starts.values.numpy(), stops.values.numpy()], axis=1)
        spans = [
            _spans(own, origin, characters)
            for own, origin, characters in zip(
                np.split(positions, ends[:-1]),
                self._origins(texts),
                self._characters(normalized),
                strict=True,
            )
        ]
        return ids.values.numpy(), ends, np.concatenate(spans)

    def _origins(self, texts):
        """Yields, for each text, the original span of each character of its normalized form.

        The number of characters that a character is normalized to does not depend on its context.
        The result may: a sigma differs at the end of a word.

        Yields:
            int64 `(characters of the normalized text, 2)`: start and end.
        """
        codes = [np.frombuffer(t.encode("utf-32-le", "surrogatepass"), "uint32") for t in texts]
        known = np.unique(np.concatenate(codes))
        alone = [chr(code) for code in known]
        counts = np.array([len(text.decode()) for text in self._graph.normalized(alone).numpy()])
        accent = np.array([unicodedata.category(c) == "Mn" for c in alone], bool)
        stripped = accent & (counts == 0)
        for text in codes:
            number = np.searchsorted(known, text)
            position = np.arange(len(text))
            # Start of the next character that is not a stripped accent.
            after = np.where(stripped[number], len(text), position)
            after = np.minimum.accumulate(np.append(after, len(text))[::-1])[-2::-1]
            yield np.repeat(np.stack([position, after], axis=1), counts[number], axis=0)

    def _characters(self, normalized):
        """Yields, for each normalized text, the mapping from its shortened form.

        Yields:
            (the span of each character of the shortened text, int64 `(characters, 2)`; the index of
            the character at each byte).
        """
        long = self._graph.has_long_run(normalized).numpy()
        for text, has_long in zip(normalized.numpy(), long, strict=True):
            positions = np.arange(len(text.decode()))
            positions = np.stack([positions, positions + 1], axis=1)
            if has_long:
                positions, text = self._word_spans(text)
            at = np.frombuffer(text, "uint8")
            yield positions, np.cumsum((at & 0xC0) != 0x80) - 1

    def _word_spans(self, normalized):
        """Returns the spans for a text whose long words are shortened, and the shortened text as
        bytes.
        """
        shortened = self._graph.replace_long_words([normalized]).numpy()[0]
        text, new, end, new_end = normalized.decode(), shortened.decode(), 0, 0
        positions = np.zeros((len(new), 2), "int64")
        for word in self._graph.words([normalized]).values.numpy():
            word = word.decode()
            start = text.index(word, end)  # only spaces are skipped
            end = start + len(word)
            if len(word) > MAX_CHARACTERS_PER_WORD:
                new_end = new.index(self.unknown_character, new_end) + 1
                positions[new_end - 1] = start, end
            else:
                new_start = new.index(word, new_end)
                new_end = new_start + len(word)
                positions[new_start:new_end, 0] = np.arange(start, end)
                positions[new_start:new_end, 1] = positions[new_start:new_end, 0] + 1
        return positions, shortened

    def detokenize(self, ids):
        """Converts a sequence of ids to readable text.

        Tokens are joined to words, and punctuation is attached to words. `[UNK]` is kept, the other
        special tokens are dropped. Case, accents and spacing that were lost in tokenization are not
        restored.
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
        return _remove_extra_spaces(" ".join(words))


def _spans(positions, origins, characters):
    """Converts byte spans in the shortened text to character spans in the original text."""
    of_normalized, at_byte = characters
    if not len(positions):
        return np.zeros((0, 2), "int64")
    first = of_normalized[at_byte[positions[:, 0]], 0]
    last = of_normalized[at_byte[positions[:, 1] - 1], 1] - 1
    return np.stack([origins[first, 0], origins[last, 1]], axis=1)


def _remove_extra_spaces(text):
    text = re.sub(r" ([.,;:!?%)\]}’”]|\.\.\.)", r"\1", text)
    text = re.sub(r"([(\[{“‘$]) ", r"\1", text)
    text = re.sub(r"(\w) (['’]) (\w)", r"\1\2\3", text)
    text = re.sub(r"(\w) ([-–_/@]) (?=\w)", r"\1\2", text)
    # Straight quotes alternate between opening and closing.
    text = re.sub(r'" ([^"]*?) ?"', r'"\1"', text)
    return re.sub(r"(\d)([.,:]) (?=\d)", r"\1\2", text)
