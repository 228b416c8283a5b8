"""XLNet's tokenizer as a TensorFlow graph."""

import sys
import unicodedata

import tensorflow as tf

_BLANKS = "[" + "".join(sign for sign in map(chr, range(0x3001)) if sign.isspace()) + "]+"


class SentencePieceGraph(tf.Module):
    """A `SentencePieceTokenizer` that a SavedModel can hold.

    Args:
        tokenizer: The tokenizer.
    """

    def __init__(self, tokenizer):
        import tensorflow_text

        super().__init__()
        self._lowercase = tokenizer.lowercase
        self._pieces = tensorflow_text.SentencepieceTokenizer(tokenizer.model)
        self._normalize = tensorflow_text.normalize_utf8
        self._apart = [tokenizer.with_comma_apart(n) for n in range(tokenizer.vocabulary_size)]
        self._combining = _combining()

    def __call__(self, texts):
        """Token ids, without marks.

        Args:
            texts: Strings `(N,)` of UTF-8.

        Returns:
            int32 RaggedTensor `(N, None)`.
        """
        ids = self._pieces.tokenize(self._plain(texts))
        apart = tf.gather(tf.ragged.constant(self._apart, tf.int32), ids.values)
        return ids.with_values(apart).merge_dims(1, 2)

    def _plain(self, texts):
        """See `sentence_pieces.plain`."""
        texts = tf.strings.strip(tf.strings.regex_replace(texts, _BLANKS, " "))
        for quote in ("``", "''"):
            texts = tf.strings.regex_replace(texts, quote, '"')
        texts = self._normalize(texts, "NFKD")
        texts = tf.strings.regex_replace(texts, self._combining, "")
        return tf.strings.lower(texts, encoding="utf-8") if self._lowercase else texts


def _combining():
    """The class of characters that `unicodedata.combining` tells, as a regular expression."""
    ranges = []
    for code in range(sys.maxunicode + 1):
        if unicodedata.combining(chr(code)):
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1][1] = code
            else:
                ranges.append([code, code])
    return "[" + "".join(rf"\x{{{first:x}}}-\x{{{last:x}}}" for first, last in ranges) + "]"
