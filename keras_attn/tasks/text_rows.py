"""Input rows of a model from strings, in a TensorFlow graph, for SavedModels."""

from typing import Any

import tensorflow as tf

from keras_attn.errors import UserError


class TextRows(tf.Module):
    """Computes in a graph what `keras_attn.data.text_examples.TextExamples` computes in NumPy.

    A task that exports its model makes it an attribute of the module that `Task.exported` returns.

    Args:
        tokenizer: Tokenizer with a `row_layout`.
        length: Maximum row length in tokens, including special tokens.

    Raises:
        UserError: If the tokenizer does not run in a graph.
    """

    def __init__(self, tokenizer: Any, length: int) -> None:
        super().__init__()
        if not hasattr(tokenizer, "in_graph"):
            raise UserError(
                "The tokenizer of this model does not run inside a SavedModel. "
                f"Received: {type(tokenizer).__name__}"
            )
        self._tokenizer, self._layout = tokenizer.in_graph(), tokenizer.row_layout
        self._length = length

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Returns the token ids of strings `(N,)`, without special tokens: int32 `(N, None)`."""
        return self._tokenizer(texts)

    def windows(self, tokens: tf.RaggedTensor, overlap: int) -> tuple[tf.RaggedTensor, tf.Tensor]:
        """Splits long texts into windows, as the argument `windows` of `TextExamples`.

        Args:
            tokens: Token ids `(N, None)`.
            overlap: Minimum overlap of consecutive windows in tokens.

        Returns:
            Token ids of the windows `(M, None)`, and the number of the text of each window `(M,)`.
        """
        room = self._max_tokens(False)
        step, lengths = room - overlap, tokens.row_lengths()
        counts = 1 + (tf.maximum(lengths - room, 0) + step - 1) // step
        owners = tf.repeat(tf.range(tf.size(lengths)), tf.cast(counts, tf.int32))
        number = tf.ragged.range(counts).values
        length = tf.gather(lengths, owners)
        start = tf.minimum(number * step, tf.maximum(length - room, 0))
        size = tf.minimum(length - start, room)
        start += tf.gather(tokens.row_starts(), owners)
        indices = tf.ragged.range(start, start + size)
        return indices.with_values(tf.gather(tokens.values, indices.values)), owners

    def batch(
        self, first: tf.RaggedTensor, second: tf.RaggedTensor | None = None
    ) -> dict[str, tf.Tensor]:
        """Returns the inputs of the model: token ids with special tokens, truncated and padded.

        Args:
            first: Token ids of texts `(N, None)`.
            second: Token ids of the second texts `(N, None)`. Pairs are truncated longest first.

        Returns:
            Dict of int32 `(N, T)`: `token_ids`, `segment_ids` and `padding_mask`.
        """
        layout, rows = self._layout, first.nrows()

        def repeated(ids):
            return tf.tile(tf.constant([ids], tf.int32), [rows, 1])

        if second is None:
            first = first[:, : self._max_tokens(False)]
        else:
            first, second = self._truncate_pairs(first, second)
        parts = [repeated(layout.before), first]
        segments = [tf.zeros_like(part) for part in parts]
        if second is not None:
            parts += [repeated(layout.between), second]
            segments += [repeated([0] * len(layout.between)), tf.ones_like(second)]
        parts.append(repeated(layout.after))
        ends = [int(second is not None)] * len(layout.after)
        if layout.last_segment is not None:
            ends[-1] = layout.last_segment
        segments.append(repeated(ends))
        ids = tf.concat(parts, axis=1)
        return {
            "token_ids": _dense(ids, layout.pad_id),
            "segment_ids": _dense(tf.concat(segments, axis=1)),
            "padding_mask": _dense(tf.ones_like(ids)),
        }

    def _max_tokens(self, paired):
        """Maximum number of tokens of a row without special tokens."""
        return self._length - self._layout.count(paired)

    def _truncate_pairs(self, first, second):
        room = self._max_tokens(True)
        lengths = first.row_lengths(), second.row_lengths()
        of_first = tf.maximum(tf.cast((room + 1) // 2, tf.int64), room - lengths[1])
        of_second = tf.maximum(tf.cast(room // 2, tf.int64), room - lengths[0])
        return _truncate(first, of_first), _truncate(second, of_second)


def _dense(rows, padding=0):
    """Ragged rows as a tensor with at least one column, also if the batch is empty."""
    table = rows.to_tensor(padding)
    return tf.pad(table, [[0, 0], [0, tf.cast(tf.shape(table)[1] == 0, tf.int32)]])


def _truncate(tokens, lengths):
    """The first `lengths` `(N,)` tokens of each row."""
    start, size = tokens.row_starts(), tf.minimum(tokens.row_lengths(), lengths)
    indices = tf.ragged.range(start, start + size)
    return indices.with_values(tf.gather(tokens.values, indices.values))
