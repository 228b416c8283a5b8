"""Export of classifiers as a TensorFlow function from strings to labels and probabilities."""

import tensorflow as tf

from keras_attn.errors import UserError


class Exported(tf.Module):
    """Module of a SavedModel, with the signature `serve`.

    Args:
        predictor: `Predictor`.
        pairs: See `export`.

    Raises:
        UserError: If `pairs` contradicts the model, or its tokenizer does not run in a graph.
    """

    def __init__(self, predictor, pairs=None):
        super().__init__()
        if None not in (pairs, predictor.pairs) and pairs != predictor.pairs:
            raise UserError(
                f"This model takes {'pairs' if predictor.pairs else 'single texts'}. "
                f"Received: pairs={pairs}"
            )
        if not hasattr(predictor.tokenizer, "in_graph"):
            raise UserError(
                "The tokenizer of this model does not run inside a SavedModel. "
                f"Received: {type(predictor.tokenizer).__name__}"
            )
        data = predictor.config["data"]
        self.labels = tuple(predictor.labels)
        self._kind, self._separator = predictor.kind, predictor.label_separator
        self._model, self._tokenizer = predictor.model, predictor.tokenizer.in_graph()
        self._layout = predictor.tokenizer.row_layout
        self._length, self._windows = predictor.length, data.get("windows")
        # A SavedModel tracks variables that are attributes of the module.
        self._values = [variable.value for variable in self._model.variables]
        texts = [tf.TensorSpec([None], tf.string, name="text")]
        if predictor.pairs or pairs:
            texts.append(tf.TensorSpec([None], tf.string, name="text_pair"))
        self.serve = tf.function(self._serve, input_signature=texts, autograph=False)

    def _serve(self, text, text_pair=None):
        if text_pair is not None:
            return self._named(self._predict(*self._truncate_pairs(text, text_pair)))
        tokens = self._tokenizer(text)
        if self._windows is None:
            return self._named(self._predict(tokens[:, : self._max_tokens(False)]))
        windows, owners = self._split_windows(tokens)
        return self._named(tf.math.segment_mean(self._predict(windows), owners))

    def _max_tokens(self, paired):
        """Maximum number of tokens of a row without special tokens."""
        return self._length - self._layout.count(paired)

    def _truncate_pairs(self, text, text_pair):
        """Tokens of both texts, truncated longest first."""
        room = self._max_tokens(True)
        first, second = self._tokenizer(text), self._tokenizer(text_pair)
        lengths = first.row_lengths(), second.row_lengths()
        of_first = tf.maximum(tf.cast((room + 1) // 2, tf.int64), room - lengths[1])
        of_second = tf.maximum(tf.cast(room // 2, tf.int64), room - lengths[0])
        return _truncate(first, of_first), _truncate(second, of_second)

    def _split_windows(self, tokens):
        """Windows of all texts as in training, and the number of the text of each window."""
        room = self._max_tokens(False)
        step, lengths = room - self._windows, tokens.row_lengths()
        counts = 1 + (tf.maximum(lengths - room, 0) + step - 1) // step
        owners = tf.repeat(tf.range(tf.size(lengths)), tf.cast(counts, tf.int32))
        number = tf.ragged.range(counts).values
        length = tf.gather(lengths, owners)
        start = tf.minimum(number * step, tf.maximum(length - room, 0))
        size = tf.minimum(length - start, room)
        start += tf.gather(tokens.row_starts(), owners)
        indices = tf.ragged.range(start, start + size)
        return indices.with_values(tf.gather(tokens.values, indices.values)), owners

    def _predict(self, first, second=None):
        """Probabilities, or the values of a regression, of tokenized texts."""
        layout, rows = self._layout, first.nrows()

        def repeated(ids):
            return tf.tile(tf.constant([ids], tf.int32), [rows, 1])

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
        batch = {
            "token_ids": _dense(ids, layout.pad_id),
            "segment_ids": _dense(tf.concat(segments, axis=1)),
            "padding_mask": _dense(tf.ones_like(ids)),
        }
        logits = self._model(batch, training=False)["logits"]
        if self._kind == "regression":
            return logits
        return tf.sigmoid(logits) if self._kind == "multilabel" else tf.nn.softmax(logits)

    def _named(self, predicted):
        if self._kind == "regression":
            return {"value": predicted[:, 0]}
        names = tf.constant(self.labels)
        if self._kind == "single_label":
            label = tf.gather(names, tf.argmax(predicted, axis=1))
            return {"label": label, "probabilities": predicted}
        names = tf.broadcast_to(names, tf.shape(predicted))
        several = tf.ragged.boolean_mask(names, predicted > 0.5)
        joined = tf.strings.reduce_join(several, axis=1, separator=self._separator)
        return {"labels": joined, "probabilities": predicted}


def _dense(rows, padding=0):
    """Ragged rows as a tensor with at least one column, also if the batch is empty."""
    table = rows.to_tensor(padding)
    return tf.pad(table, [[0, 0], [0, tf.cast(tf.shape(table)[1] == 0, tf.int32)]])


def _truncate(tokens, lengths):
    """The first `lengths` `(N,)` tokens of each row."""
    start, size = tokens.row_starts(), tf.minimum(tokens.row_lengths(), lengths)
    indices = tf.ragged.range(start, start + size)
    return indices.with_values(tf.gather(tokens.values, indices.values))
