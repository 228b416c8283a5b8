"""Byte-level BPE as a TensorFlow graph."""

import numpy as np
import tensorflow as tf

# The characters with the Unicode property White_Space.
_SPACES = (
    r"\t\n\x0b\x0c\r \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}"
)
# Noncharacters: a boundary of words; and NUL, at which tensorflow-text would end a text.
_CUT, _NUL = "\U0010ffff", "\U0010fffe"
# RE2 has no lookahead: `\s+(?!\S)`, whitespace up to the last character before a word, is cut here.
_LAST_SPACE = rf"([{_SPACES}])([{_SPACES}][^{_SPACES}\x{{10FFFF}}])"
_WORDS = (
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+"
    rf"| ?[^{_SPACES}\p{{L}}\p{{N}}\x{{10FFFF}}]+|[{_SPACES}]+"
)


class BytePairGraph(tf.Module):
    """TensorFlow module of a `BytePairTokenizer`, for export in a SavedModel.

    The noncharacters U+10FFFF and U+10FFFE are removed from texts, or replaced by NUL.

    Args:
        tokenizer: The tokenizer.
        normalizer: Unicode normalization form of texts: "NFC", "NFD", "NFKC" or "NFKD"; None: texts
            are not normalized.
        added_tokens: Dict from the contents of added tokens to their ids. The normalized text is
            split at these, the leftmost and then the longest first.

    Reference:
        openai/gpt-2, src/encoder.py.
    """

    def __init__(self, tokenizer, normalizer=None, added_tokens=None):
        import tensorflow_text

        super().__init__()
        self._split, self._normalize = tensorflow_text.regex_split, tensorflow_text.normalize_utf8
        self._normalizer, self._added, self._added_ids = normalizer, None, None
        if added_tokens:
            # RE2 takes the first alternative that matches.
            contents = sorted(added_tokens, key=len, reverse=True)
            self._added = "|".join(map(_literal, contents))
            self._added_ids = tf.lookup.StaticHashTable(
                tf.lookup.KeyValueTensorInitializer(
                    [f"{_CUT}{content}{_CUT}" for content in contents],
                    tf.constant([added_tokens[content] for content in contents], tf.int32),
                ),
                default_value=-1,
            )
        self._size = tokenizer.vocabulary_size
        self._bytes = np.array([tokenizer.byte_id(byte) for byte in range(256)], np.int64)
        ids = tokenizer.ids
        pairs = np.array([[ids[part] for part in pair] for pair in tokenizer.merges], np.int64)
        keys = self._keys(*pairs.reshape(-1, 2).T)
        order = np.argsort(keys, kind="stable")
        merged = np.array([ids["".join(pair)] for pair in tokenizer.merges], np.int64)
        # Sorted keys of pairs, the rank of their merge, and its result.
        self._pairs, self._ranks, self._merged = keys[order], order, merged[order]

    def __call__(self, texts):
        """Tokenizes texts without adding special tokens.

        Args:
            texts: UTF-8 strings `(N,)`.

        Returns:
            int32 RaggedTensor `(N, None)`.
        """
        texts = tf.strings.regex_replace(texts, r"\x00", _NUL)
        if self._normalizer:
            texts = self._normalize(texts, self._normalizer)
        kept = _WORDS
        if self._added:
            texts = tf.strings.regex_replace(texts, f"({self._added})", rf"{_CUT}\1{_CUT}")
            kept = f"{_CUT}(?:{self._added}){_CUT}|{_WORDS}"
        texts = tf.strings.regex_replace(texts, _LAST_SPACE, rf"\1{_CUT}\2")
        words = self._split(texts, f"{kept}|{_CUT}", kept)
        distinct, numbers = tf.unique(words.flat_values)
        tokens = tf.gather(self._tokenize_distinct(distinct), numbers)
        return words.with_flat_values(tokens).merge_dims(1, 2)

    def _tokenize_distinct(self, words):
        """Returns the ids of words and added tokens `(W,)`: int32 `(W, None)`."""
        if self._added_ids is None:
            return self._tokenize_words(words)
        added = self._added_ids.lookup(words)
        tokens = self._tokenize_words(tf.where(added < 0, words, ""))
        return tf.concat(
            [tf.ragged.boolean_mask(added[:, None], added[:, None] >= 0), tokens], axis=1
        )

    def _tokenize_words(self, words):
        """Returns the ids of words `(W,)`: int32 `(W, None)`."""
        count = tf.size(words, tf.int64)
        letters = tf.strings.bytes_split(tf.strings.regex_replace(words, _NUL, "\0"))
        values = tf.io.decode_raw(letters.flat_values, tf.uint8)
        ids = tf.gather(self._bytes, tf.cast(tf.reshape(values, [-1]), tf.int32))
        rows = letters.value_rowids()
        if len(self._pairs):
            ids, rows, _ = tf.while_loop(
                lambda ids, rows, more: more,
                lambda ids, rows, more: self._merge_once(ids, rows, count),
                [ids, rows, tf.constant(True)],
                [tf.TensorShape([None]), tf.TensorShape([None]), tf.TensorShape([])],
            )
        return tf.RaggedTensor.from_value_rowids(tf.cast(ids, tf.int32), rows, count)

    def _merge_once(self, ids, rows, count):
        """Applies the merge of the lowest rank once in each word, from the left.

        Args:
            ids: Ids of all tokens `(T,)`.
            rows: Number of the word of each token `(T,)`.
            count: Number of words.

        Returns:
            (new ids, new rows, whether a merge was applied).
        """
        keys = self._keys(ids[:-1], ids[1:])
        places = tf.minimum(tf.searchsorted(self._pairs, keys), len(self._pairs) - 1)
        known = tf.equal(tf.gather(self._pairs, places), keys) & tf.equal(rows[:-1], rows[1:])
        # Of equal ranks the first pair of a word: one number orders both.
        size = tf.size(keys, tf.int64)
        ranks = tf.gather(self._ranks, places) * (size + 1) + tf.range(size)
        ranks = tf.where(known, ranks, tf.int64.max)
        best = tf.math.unsorted_segment_min(ranks, rows[:-1], count)
        chosen = known & tf.equal(ranks, tf.gather(best, rows[:-1]))
        merged = tf.where(chosen, tf.gather(self._merged, places), ids[:-1])
        kept = tf.concat([[True], ~chosen], axis=0)[: tf.size(ids)]
        ids = tf.concat([merged, ids[-1:]], axis=0)
        return ids[kept], rows[kept], tf.reduce_any(chosen)

    def _keys(self, left, right):
        return left * self._size + right


def _literal(text):
    """Returns a regular expression of RE2 that matches a text."""
    return "".join(rf"\x{{{ord(character):x}}}" for character in text)
