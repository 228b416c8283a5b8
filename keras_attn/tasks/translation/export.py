"""Export of translators as a TensorFlow function from strings to strings."""

import tensorflow as tf

from keras_attn.ops.kernels.tensorflow_graphs import traced
from keras_attn.tasks.translation.translator import STEP, most_tokens, search_length
from keras_attn.text.subwords import END_ID, PAD_ID, UNKNOWN_ID


class ExportedTranslator(tf.Module):
    """Module of a SavedModel that computes `Translator.translate`.

    Its signature takes `text`, strings `(N,)`, and returns `translation`, strings `(N,)`, and
    `score`, float32 `(N,)`. A request with too many tokens fails.

    Args:
        translator: `Translator`.
        beam, length_penalty: See `Translator.translate`; default to the values of evaluation.
    """

    labels = None

    def __init__(self, translator, beam=None, length_penalty=None):
        import tensorflow_text as tf_text

        super().__init__()
        beam, length_penalty = translator.choose(beam, None, length_penalty)
        self._translator, self._options = translator, (beam, float(length_penalty), False)
        self._tokenizer = tf_text.SentencepieceTokenizer(translator.subwords.model, tf.int32)
        # A SavedModel tracks variables that are attributes of the module.
        self._values = [variable.value for variable in translator.model.variables]
        self.serve = traced(
            self._serve, jit=False, input_signature=[tf.TensorSpec([None], tf.string, name="text")]
        )

    def _serve(self, text):
        tokens, length = self._tokenizer.tokenize(text), self._translator.length
        sizes = tf.cast(tokens.row_lengths(), tf.int32) + 1
        checked = tf.debugging.assert_less_equal(
            sizes, length, f"A text must have at most {length - 1} tokens."
        )
        with tf.control_dependencies([checked]):
            width = -(-tf.reduce_max(tf.concat([sizes, [1]], 0)) // STEP) * STEP
        end = tf.fill([tf.size(text), 1], END_ID)
        ids = tf.concat([tokens, end], axis=1).to_tensor(PAD_ID, shape=[None, None])
        ids = tf.pad(ids, [[0, 0], [0, width - tf.shape(ids)[1]]])
        inputs = {"token_ids": ids, "padding_mask": tf.cast(ids != PAD_ID, tf.int32)}
        limits = most_tokens(sizes, self._translator.model)
        longest = search_length(length, self._translator.model)
        # A few search lengths, each with its own loop: unused steps cost time.
        choices = [longest]
        while choices[-1] > 32:
            choices.append(choices[-1] // 2)
        enough = [tf.reduce_max(tf.concat([limits, [1]], 0)) <= size for size in choices]
        ids, lengths, scores = tf.switch_case(
            tf.reduce_sum(tf.cast(enough, tf.int32)) - 1,
            [lambda size=size: self._best(inputs, limits, size) for size in choices],
        )
        # Special tokens are not part of the text.
        real = tf.sequence_mask(lengths, tf.shape(ids)[1]) & (ids >= UNKNOWN_ID)
        found = self._tokenizer.detokenize(tf.ragged.boolean_mask(ids, real))
        empty = sizes == 1
        return {"translation": tf.where(empty, "", found), "score": tf.where(empty, 0.0, scores)}

    def _best(self, inputs, limits, size):
        beam, *others = self._options
        found = self._translator.search(inputs, limits, beam, size, *others)
        return tuple(found[name][:, 0] for name in ("token_ids", "lengths", "scores"))
