"""Export of embedding models as a TensorFlow function from strings to vectors."""

import tensorflow as tf

from keras_attn.errors import UserError
from keras_attn.tasks.text_rows import TextRows


class Exported(tf.Module):
    """Module of a SavedModel, with the signature `serve`.

    It takes `text`, strings `(N,)`, and returns `embedding`, float32 `(N, E)`. Texts longer than
    the model's maximum length are truncated.

    Args:
        embedder: `Embedder`.

    Raises:
        UserError: If the tokenizer does not run in a graph, or the model requires a prompt or
            lower-casing, which are not exported.
    """

    labels = None

    def __init__(self, embedder):
        super().__init__()
        if embedder.changes_texts:
            raise UserError(
                "Exported models support neither a default prompt nor lower-casing before the "
                f"tokenizer. Received: {embedder.path}"
            )
        self._rows = TextRows(embedder.tokenizer, embedder.max_length)
        self._model = embedder.model
        # A SavedModel tracks variables that are attributes of the module.
        self._values = [variable.value for variable in self._model.variables]
        signature = [tf.TensorSpec([None], tf.string, name="text")]
        self.serve = tf.function(self._serve, input_signature=signature, autograph=False)

    def _serve(self, text):
        batch = self._rows.batch(self._rows.tokenize(text))
        return {"embedding": self._model(batch, training=False)["embedding"]}
