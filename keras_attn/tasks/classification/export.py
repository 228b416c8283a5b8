"""Export of classifiers as a TensorFlow function from strings to labels and probabilities."""

import tensorflow as tf

from keras_attn.errors import UserError
from keras_attn.tasks.text_rows import TextRows


class Exported(tf.Module):
    """Module of a SavedModel, with the signature `serve`.

    It takes `text`, strings `(N,)`, and for a model of pairs also `text_pair`. It returns `label`
    `(N,)` and `probabilities` float32 `(N, C)`; for multilabel classification `labels` with
    separators instead of `label`, for regression `value` `(N,)`. Texts longer than the model's
    maximum length are truncated as in `predict`, without notice.

    Args:
        predictor: `Predictor`.
        pairs: Whether the model takes pairs of texts; defaults to pairs or single texts as in
            training, and to single texts for checkpoints of other libraries, which do not record
            it.

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
        self._rows = TextRows(predictor.tokenizer, predictor.length)
        self.labels = tuple(predictor.labels)
        self._kind, self._separator = predictor.kind, predictor.label_separator
        self._model, self._windows = predictor.model, predictor.config["data"].get("windows")
        # A SavedModel tracks variables that are attributes of the module.
        self._values = [variable.value for variable in self._model.variables]
        texts = [tf.TensorSpec([None], tf.string, name="text")]
        if predictor.pairs or pairs:
            texts.append(tf.TensorSpec([None], tf.string, name="text_pair"))
        self.serve = tf.function(self._serve, input_signature=texts, autograph=False)

    def _serve(self, text, text_pair=None):
        tokens = self._rows.tokenize(text)
        if text_pair is not None:
            return self._named(self._predict(tokens, self._rows.tokenize(text_pair)))
        if self._windows is None:
            return self._named(self._predict(tokens))
        windows, owners = self._rows.windows(tokens, self._windows)
        return self._named(tf.math.segment_mean(self._predict(windows), owners))

    def _predict(self, first, second=None):
        """Probabilities, or the values of a regression, of tokenized texts."""
        logits = self._model(self._rows.batch(first, second), training=False)["logits"]
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
