"""Export of taggers as a TensorFlow function from strings to words and tags."""

import tensorflow as tf

from keras_attn.tasks.text_rows import TextRows
from keras_attn.text.words import split_words


class Exported(tf.Module):
    """Module of a SavedModel, with the signature `serve`.

    It takes `text`, strings `(N,)`, and returns tensors `(N, W)` with a column per word: `words`,
    `tags`, `probabilities`, and `start` and `end`, the bytes of the word in the text. Shorter rows
    are padded with "" and 0. Texts are split into words as in `Tagger.predict`; of texts longer
    than the model's maximum length, the last words are dropped.

    Args:
        tagger: `Tagger`.

    Raises:
        UserError: If the tokenizer does not run in a graph.
    """

    def __init__(self, tagger):
        super().__init__()
        layout, unknown = tagger.tokenizer.row_layout, getattr(tagger.tokenizer, "unk_id", None)
        self._rows, self._before = TextRows(tagger.tokenizer, tagger.length), len(layout.before)
        self._room = tagger.length - layout.count(False)
        self._filler = layout.pad_id if unknown is None else unknown
        self.labels, self._model = tuple(tagger.labels), tagger.model
        # A SavedModel tracks variables that are attributes of the module.
        self._values = [variable.value for variable in self._model.variables]
        signature = [tf.TensorSpec([None], tf.string, name="text")]
        self.serve = tf.function(self._serve, input_signature=signature, autograph=False)

    def _serve(self, text):
        words, start, end = split_words(text)
        # As `keras_attn.tasks.tagging.examples.tokenize_words`.
        tokens = self._rows.tokenize(tf.strings.join([" ", words.flat_values]))
        empty = tf.cast(tf.equal(tokens.row_lengths(), 0), tf.int64)
        filler = tf.RaggedTensor.from_row_lengths(
            tf.fill([tf.reduce_sum(empty)], tf.cast(self._filler, tokens.dtype)), empty
        )
        tokens = words.with_values(tf.concat([tokens, filler], axis=1))  # (N, words, tokens)
        counts = tokens.row_lengths(axis=2)
        # The number of tokens before each word of its text.
        begin = tf.cumsum(counts.flat_values, exclusive=True)
        begin -= tf.repeat(
            tf.gather(tf.pad(begin, [[0, 1]]), words.row_starts()), words.row_lengths()
        )
        kept = words.with_values(begin < self._room)
        inside = tokens.merge_dims(1, 2)
        batch = self._rows.batch(inside)
        numbers = words.with_flat_values(tf.ragged.range(words.row_lengths()).flat_values + 1)
        batch["word_ids"] = self._word_ids(numbers, counts, tf.shape(batch["token_ids"])[1])
        outputs = self._model(batch, training=False)
        places = tf.ragged.boolean_mask(words.with_values(begin), kept) + self._before

        def of_words(values):
            return tf.gather(values, places, batch_dims=1)

        tags = tf.gather(tf.constant(self.labels), of_words(outputs["tags"]))
        return {
            "words": tf.ragged.boolean_mask(words, kept).to_tensor(),
            "tags": tags.to_tensor(),
            "probabilities": of_words(outputs["tag_probabilities"]).to_tensor(),
            "start": tf.ragged.boolean_mask(start, kept).to_tensor(),
            "end": tf.ragged.boolean_mask(end, kept).to_tensor(),
        }

    def _word_ids(self, numbers, counts, width):
        """Returns the number of the word of each token, with those of special tokens: `(N, T)`."""
        repeated = tf.repeat(numbers.flat_values, counts.flat_values)
        lengths = tf.reduce_sum(counts, axis=1)
        rows = tf.RaggedTensor.from_row_lengths(tf.cast(repeated, tf.int32), lengths)
        rows = rows[:, : self._room].to_tensor(shape=[None, self._room])
        padded = tf.pad(rows, [[0, 0], [self._before, self._room]])
        return padded[:, :width]
