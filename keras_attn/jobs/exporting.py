"""A finetuned model as a TensorFlow SavedModel: strings in, labels and probabilities out."""

import json

import tensorflow as tf

from keras_attn.errors import UserError, first_line
from keras_attn.jobs.loading import load_predictor


def export(workdir, output):
    """Writes a SavedModel with the tokenizer inside.

    Its signature takes `text`, strings `(N,)`, and for a model of pairs `text_pair`; it returns
    `label` `(N,)` and `probabilities` float32 `(N, C)`, of multilabel `labels` with separators
    between them, or `value` `(N,)` of a regression. The order of the classes is in
    `assets.extra/labels.json`. To load it a process needs TensorFlow and `import tensorflow_text`.

    Args:
        workdir: Folder of a finetuning run, or what `keras_attn.load` reads and classifies.
        output: Folder to make; TensorFlow Serving wants a number as its name.

    Raises:
        UserError: If there is no classifier, or the folder exists.
    """
    if tf.io.gfile.exists(output):
        raise UserError(f"A new folder is needed. Received: {output}, which exists")
    module = Exported(load_predictor(workdir))
    unfinished = f"{str(output).rstrip('/')}.unfinished"
    try:
        if tf.io.gfile.exists(unfinished):
            tf.io.gfile.rmtree(unfinished)
        tf.saved_model.save(module, unfinished, signatures=module.serve)
        extra = tf.io.gfile.join(unfinished, "assets.extra")
        tf.io.gfile.makedirs(extra)
        with tf.io.gfile.GFile(tf.io.gfile.join(extra, "labels.json"), "w") as file:
            file.write(json.dumps(list(module.labels), ensure_ascii=False) + "\n")
        tf.io.gfile.rename(unfinished, output)
    except (OSError, tf.errors.OpError) as error:
        raise UserError(f"A folder that can be written is needed. Received: {output} "
                        f"({first_line(error)})") from error


class Exported(tf.Module):
    """What a SavedModel computes.

    Args:
        predictor: `Predictor`.
    """

    def __init__(self, predictor):
        super().__init__()
        data = predictor.config["data"]
        self.labels = tuple(predictor.labels)
        self._kind, self._separator = predictor.kind, predictor.label_separator
        self._model, self._tokenizer = predictor.model, predictor.tokenizer
        self._length, self._windows = data["length"], data.get("windows")
        # Where a SavedModel looks for what its functions use.
        self._values = [variable.value for variable in self._model.variables]
        texts = [tf.TensorSpec([None], tf.string, name="text")]
        if predictor.pairs:
            texts.append(tf.TensorSpec([None], tf.string, name="text_pair"))
        self.serve = tf.function(self._serve, input_signature=texts, autograph=False)

    def _serve(self, text, text_pair=None):
        if text_pair is not None:
            return self._named(self._logits(*self._pairs(text, text_pair)))
        tokens = self._tokenizer(text)
        if self._windows is None:
            return self._named(self._logits(tokens[:, :self._length - 2]))
        windows, owners = self._cut(tokens)
        shares = self._probabilities(self._logits(windows))
        return self._named(None, tf.math.segment_mean(shares, owners))

    def _pairs(self, text, text_pair):
        """Tokens of both, after those of the longer are dropped until both fit."""
        room = self._length - 3
        first, second = self._tokenizer(text), self._tokenizer(text_pair)
        lengths = first.row_lengths(), second.row_lengths()
        of_first = tf.maximum(tf.cast((room + 1) // 2, tf.int64), room - lengths[1])
        of_second = tf.maximum(tf.cast(room // 2, tf.int64), room - lengths[0])
        return _beginnings(first, of_first), _beginnings(second, of_second)

    def _cut(self, tokens):
        """Windows of all texts, and the number of the text of each; as in training."""
        room = self._length - 2
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

    def _logits(self, first, second=None):
        tokenizer, rows = self._tokenizer, first.nrows()
        cls_id, sep_id = (tf.fill([rows, 1], tf.constant(number, tf.int32))
                          for number in (tokenizer.cls_id, tokenizer.sep_id))
        ids = tf.concat([cls_id, first, sep_id], axis=1)
        segments = tf.zeros_like(ids)
        if second is not None:
            second = tf.concat([second, sep_id], axis=1)
            ids = tf.concat([ids, second], axis=1)
            segments = tf.concat([segments, tf.ones_like(second)], axis=1)
        batch = {"token_ids": ids.to_tensor(tokenizer.pad_id), "segment_ids": segments.to_tensor(),
                 "padding_mask": tf.ones_like(ids).to_tensor()}
        return self._model(batch, training=False)["logits"]

    def _probabilities(self, logits):
        if self._kind == "regression":
            return logits
        return tf.sigmoid(logits) if self._kind == "multilabel" else tf.nn.softmax(logits)

    def _named(self, logits, shares=None):
        shares = self._probabilities(logits) if shares is None else shares
        if self._kind == "regression":
            return {"value": shares[:, 0]}
        names = tf.constant(self.labels)
        if self._kind == "single_label":
            return {"label": tf.gather(names, tf.argmax(shares, axis=1)), "probabilities": shares}
        chosen = shares > 0.5
        several = tf.ragged.boolean_mask(tf.broadcast_to(names, tf.shape(shares)), chosen)
        joined = tf.strings.reduce_join(several, axis=1, separator=self._separator)
        return {"labels": joined, "probabilities": shares}


def _beginnings(tokens, most):
    """The first tokens of each row, `most` `(N,)` of them."""
    start, size = tokens.row_starts(), tf.minimum(tokens.row_lengths(), most)
    places = tf.ragged.range(start, start + size)
    return places.with_values(tf.gather(tokens.values, places.values))
