"""A classifier as a TensorFlow function: strings in, labels and probabilities out."""

import tensorflow as tf

from keras_attn.errors import UserError


class Exported(tf.Module):
    """What a SavedModel computes.

    Args:
        predictor: `Predictor`.
        pairs: See `export`.
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
                "A classifier made of a BERT or an XLNet is needed: no other tokenizer "
                "runs inside a SavedModel. "
                f"Received: {type(predictor.tokenizer).__name__}"
            )
        data = predictor.config["data"]
        self.labels = tuple(predictor.labels)
        self._kind, self._separator = predictor.kind, predictor.label_separator
        self._model, self._tokenizer = predictor.model, predictor.tokenizer.in_graph()
        self._layout = predictor.tokenizer.row_layout
        self._length, self._windows = predictor.length, data.get("windows")
        # Where a SavedModel looks for what its functions use.
        self._values = [variable.value for variable in self._model.variables]
        texts = [tf.TensorSpec([None], tf.string, name="text")]
        if predictor.pairs or pairs:
            texts.append(tf.TensorSpec([None], tf.string, name="text_pair"))
        self.serve = tf.function(self._serve, input_signature=texts, autograph=False)

    def _serve(self, text, text_pair=None):
        if text_pair is not None:
            return self._named(self._shares(*self._pairs(text, text_pair)))
        tokens = self._tokenizer(text)
        if self._windows is None:
            return self._named(self._shares(tokens[:, : self._room(False)]))
        windows, owners = self._cut(tokens)
        return self._named(tf.math.segment_mean(self._shares(windows), owners))

    def _room(self, paired):
        """Tokens of texts in a row, beside its marks."""
        return self._length - self._layout.count(paired)

    def _pairs(self, text, text_pair):
        """Tokens of both, after those of the longer are dropped until both fit."""
        room = self._room(True)
        first, second = self._tokenizer(text), self._tokenizer(text_pair)
        lengths = first.row_lengths(), second.row_lengths()
        of_first = tf.maximum(tf.cast((room + 1) // 2, tf.int64), room - lengths[1])
        of_second = tf.maximum(tf.cast(room // 2, tf.int64), room - lengths[0])
        return _beginnings(first, of_first), _beginnings(second, of_second)

    def _cut(self, tokens):
        """Windows of all texts, and the number of the text of each; as in training."""
        room = self._room(False)
        step, lengths = room - self._windows, tokens.row_lengths()
        counts = 1 + (tf.maximum(lengths - room, 0) + step - 1) // step
        owners = tf.repeat(tf.range(tf.size(lengths)), tf.cast(counts, tf.int32))
        number = tf.ragged.range(counts).values
        length = tf.gather(lengths, owners)
        start = tf.minimum(number * step, tf.maximum(length - room, 0))
        size = tf.minimum(length - start, room)
        start += tf.gather(tokens.row_starts(), owners)
        places = tf.ragged.range(start, start + size)
        return places.with_values(tf.gather(tokens.values, places.values)), owners

    def _shares(self, first, second=None):
        """Probabilities of texts, given by their tokens, or the value of a regression."""
        layout, rows = self._layout, first.nrows()

        def marks(ids):
            return tf.tile(tf.constant([ids], tf.int32), [rows, 1])

        parts = [marks(layout.before), first]
        segments = [tf.zeros_like(part) for part in parts]
        if second is not None:
            parts += [marks(layout.between), second]
            segments += [marks([0] * len(layout.between)), tf.ones_like(second)]
        parts.append(marks(layout.after))
        ends = [int(second is not None)] * len(layout.after)
        if layout.last_segment is not None:
            ends[-1] = layout.last_segment
        segments.append(marks(ends))
        ids = tf.concat(parts, axis=1)
        batch = {
            "token_ids": _table(ids, layout.pad_id),
            "segment_ids": _table(tf.concat(segments, axis=1)),
            "padding_mask": _table(tf.ones_like(ids)),
        }
        logits = self._model(batch, training=False)["logits"]
        if self._kind == "regression":
            return logits
        return tf.sigmoid(logits) if self._kind == "multilabel" else tf.nn.softmax(logits)

    def _named(self, shares):
        if self._kind == "regression":
            return {"value": shares[:, 0]}
        names = tf.constant(self.labels)
        if self._kind == "single_label":
            return {"label": tf.gather(names, tf.argmax(shares, axis=1)), "probabilities": shares}
        chosen = shares > 0.5
        several = tf.ragged.boolean_mask(tf.broadcast_to(names, tf.shape(shares)), chosen)
        joined = tf.strings.reduce_join(several, axis=1, separator=self._separator)
        return {"labels": joined, "probabilities": shares}


def _table(rows, padding=0):
    """Rows as a tensor with a column at least, which a batch without rows would not have."""
    table = rows.to_tensor(padding)
    return tf.pad(table, [[0, 0], [0, tf.cast(tf.shape(table)[1] == 0, tf.int32)]])


def _beginnings(tokens, most):
    """The first tokens of each row, `most` `(N,)` of them."""
    start, size = tokens.row_starts(), tf.minimum(tokens.row_lengths(), most)
    places = tf.ragged.range(start, start + size)
    return places.with_values(tf.gather(tokens.values, places.values))
