"""BERT's WordPiece tokenizer, vectorized on TensorFlow string tensors."""

import functools

import tensorflow as tf
import tensorflow_text as tf_text

from keras_attn.text.wordpiece import MAX_CHARACTERS_PER_WORD

# BERT first removes control and format characters, except tabs and line breaks.
_CONTROLS = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\p{Cf}\x{FFFD}]"
# Whitespace for Python, and so for BERT's word splitting, but not for tensorflow-text.
_SEPARATORS = r"[\x{2028}\x{2029}]"
_ASCII = r"[\t\n\r\x20-\x7e]*"
# A cheap necessary condition for words that are too long, which few sentences meet.
_LONG_RUN = rf"(?s).*\S{{{MAX_CHARACTERS_PER_WORD + 1}}}.*"
# Characters that are words of their own: BERT's punctuation and CJK ranges.
_SINGLE_CHARACTER_WORDS = (
    r"([!-/:-@\[-`{-~\p{P}\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{20000}-\x{2A6DF}\x{2A700}-\x{2B73F}"
    r"\x{2B740}-\x{2B81F}\x{2B820}-\x{2CEAF}\x{F900}-\x{FAFF}\x{2F800}-\x{2FA1F}])"
)
_SPACES = r"[\s\p{Z}]+"


class WordPieceGraph:
    """TensorFlow function of a `WordPieceTokenizer`, also for export in a SavedModel.

    Args:
        vocabulary: List of str; the index of a token is its id.
        lowercase: True for `uncased` models.
        unknown_character: Replacement of words that are too long, which is not in the vocabulary.
    """

    def __init__(self, vocabulary, lowercase, unknown_character):
        self._vocabulary, self._lowercase = vocabulary, lowercase
        self._unknown_character = unknown_character

    def __call__(self, texts):
        """Tokenizes texts; see `WordPieceTokenizer.__call__`."""
        return self._fast_tokenizer.tokenize(self._shortened(self.normalized(texts)))

    def tokenize_with_offsets(self, normalized):
        """Returns ragged ids, and the starts and ends of tokens in bytes of the shortened texts."""
        return self._fast_tokenizer.tokenize_with_offsets(self._shortened(normalized))

    @functools.cached_property
    def _fast_tokenizer(self):
        # Created lazily, as this is slow, and outside of any graph, so that all graphs can use it.
        with tf.init_scope():
            return tf_text.FastBertTokenizer(
                vocab=self._vocabulary,
                unknown_token="[UNK]",
                token_out_type=tf.int32,
                # Its own normalization treats ellipses, ligatures and full-width forms unlike BERT.
                lower_case_nfd_strip_accents=False,
                max_bytes_per_word=4 * MAX_CHARACTERS_PER_WORD,
            )

    def normalized(self, texts):
        """Removes control characters and, with `lowercase`, case and accents."""
        texts = _to_tensor(texts)
        plain = tf.strings.regex_full_match(texts, _ASCII)
        normalized = tf.strings.lower(texts) if self._lowercase else texts
        return _update(normalized, texts, ~plain, self._normalize)

    def has_long_run(self, normalized):
        """Returns which texts may contain a word that is too long."""
        return tf.strings.regex_full_match(normalized, _LONG_RUN)

    def _shortened(self, normalized):
        long = self.has_long_run(normalized)
        return _update(normalized, normalized, long, self.replace_long_words)

    def _normalize(self, texts):
        texts = tf.strings.regex_replace(texts, _CONTROLS, "")
        texts = tf.strings.regex_replace(texts, _SEPARATORS, " ")
        if self._lowercase:
            texts = tf_text.normalize_utf8(tf.strings.lower(texts, encoding="utf-8"), "NFD")
            texts = tf.strings.regex_replace(texts, r"\p{Mn}", "")
        return texts

    def replace_long_words(self, texts):
        words = self.words(texts)
        long = tf.strings.length(words.values, unit="UTF8_CHAR") > MAX_CHARACTERS_PER_WORD
        words = words.with_values(tf.where(long, self._unknown_character, words.values))
        return tf.strings.reduce_join(words, axis=-1, separator=" ")

    def words(self, texts):
        alone = tf.strings.regex_replace(texts, _SINGLE_CHARACTER_WORDS, r" \1 ")
        return tf.strings.split(tf.strings.regex_replace(alone, _SPACES, " "), " ")


def _to_tensor(texts):
    try:
        return tf.convert_to_tensor(texts, tf.string)
    except ValueError:  # unpaired surrogates, which JSON may contain
        return tf.convert_to_tensor([text.encode("utf-8", "ignore") for text in texts], tf.string)


def _update(target, source, selected, function):
    """Returns `target` with the few selected entries replaced by `function(source)`."""

    def update():
        positions = tf.where(selected)
        new = function(tf.gather_nd(source, positions))
        return tf.tensor_scatter_nd_update(target, positions, new)

    return tf.cond(tf.reduce_any(selected), update, lambda: target)
