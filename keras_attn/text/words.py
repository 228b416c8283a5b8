"""Words of raw texts, in Python and in a TensorFlow graph."""

import numpy as np
import tensorflow as tf
import tensorflow_text as text_ops

# Punctuation, symbols and Chinese characters are words of their own, as for BERT.
_SINGLE = r"[\p{P}\p{S}\p{Han}]"
_SEPARATOR = rf"[\s\x0b\x1c-\x1f\x{{85}}\p{{Z}}]|{_SINGLE}"


def split_words(texts: tf.Tensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
    """Splits texts at whitespace, and before and after punctuation, symbols and Chinese characters.

    Args:
        texts: Strings `(N,)`.

    Returns:
        The words `(N, None)`, and the byte where each starts and where it ends, int64.
    """
    return text_ops.regex_split_with_offsets(texts, _SEPARATOR, _SINGLE)


def word_spans(texts: list[str]) -> list[list[tuple[int, int]]]:
    """Returns the characters (start, end) of each word of texts; see `split_words`."""
    encoded = [text.encode("utf-8", "replace") for text in texts]
    if not encoded:
        return []
    _, starts, ends = split_words(tf.constant(encoded))
    found = []
    for text, *bounds in zip(encoded, starts, ends, strict=True):
        # The number of characters before each byte; continuation bytes are 10xxxxxx.
        characters = np.cumsum((np.frombuffer(text, np.uint8) & 0xC0) != 0x80)
        before = np.concatenate([[0], characters])
        found.append([*zip(*(before[own.numpy()].tolist() for own in bounds), strict=True)])
    return found
