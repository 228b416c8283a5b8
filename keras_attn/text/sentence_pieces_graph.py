"""XLNet's tokenizer as a TensorFlow graph."""

import sys
import unicodedata

import tensorflow as tf

_WHITESPACE = "[" + "".join(filter(str.isspace, map(chr, range(0x3001)))) + "]+"


class SentencePieceGraph(tf.Module):
    """TensorFlow module of a `SentencePieceTokenizer`, for export in a SavedModel.

    Args:
        tokenizer: The tokenizer.
    """

    def __init__(self, tokenizer):
        import tensorflow_text

        super().__init__()
        self._lowercase = tokenizer.lowercase
        self._pieces = tensorflow_text.SentencepieceTokenizer(tokenizer.model)
        self._normalize = tensorflow_text.normalize_utf8
        self._split_ids = [tokenizer.split_comma(n) for n in range(tokenizer.vocabulary_size)]
        self._combining_characters = _combining_characters()

    def __call__(self, texts):
        """Tokenizes texts without adding special tokens.

        Args:
            texts: UTF-8 strings `(N,)`.

        Returns:
            int32 RaggedTensor `(N, None)`.
        """
        ids = self._pieces.tokenize(self._normalize_text(texts))
        split_ids = tf.gather(tf.ragged.constant(self._split_ids, tf.int32), ids.values)
        return ids.with_values(split_ids).merge_dims(1, 2)

    def _normalize_text(self, texts):
        """See `sentence_pieces.normalize_text`."""
        texts = tf.strings.strip(tf.strings.regex_replace(texts, _WHITESPACE, " "))
        for quote in ("``", "''"):
            texts = tf.strings.regex_replace(texts, quote, '"')
        texts = self._normalize(texts, "NFKD")
        texts = tf.strings.regex_replace(texts, self._combining_characters, "")
        return tf.strings.lower(texts, encoding="utf-8") if self._lowercase else texts


def _combining_characters():
    """Returns a regular expression of the characters for which `unicodedata.combining` is true."""
    ranges = []
    for code in range(sys.maxunicode + 1):
        if unicodedata.combining(chr(code)):
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1][1] = code
            else:
                ranges.append([code, code])
    return "[" + "".join(rf"\x{{{first:x}}}-\x{{{last:x}}}" for first, last in ranges) + "]"
