"""A finetuned model as a TensorFlow SavedModel: strings in, labels and probabilities out."""

import contextlib
import json

import tensorflow as tf

from keras_attn.errors import UserError, first_line
from keras_attn.inference.loading import load_predictor
from keras_attn.io.unfinished_outputs import unfinished_output
from keras_attn.tasks.translation.export import ExportedTranslator
from keras_attn.tasks.translation.translator import Translator, is_translator


def export(workdir, output, pairs=None, beam=None, length_penalty=None):
    """Writes a SavedModel with the tokenizer inside.

    Its signature takes `text`, strings `(N,)`, and for a model of pairs `text_pair`; it returns
    `label` `(N,)` and `probabilities` float32 `(N, C)`, of multilabel `labels` with separators
    between them, or `value` `(N,)` of a regression; of a translator `translation` and `score`. A
    request is one batch, however many texts or windows it has. Texts that exceed the length of the
    model are cut as in `predict`, and the outputs do not say which; a translator refuses them. The
    order of the classes is in `assets.extra/labels.json`. To load it a process needs TensorFlow and
    `import tensorflow_text`.

    Args:
        workdir: Folder of a finetuning run, or what `keras_attn.load` reads and classifies.
        output: Folder to make; TensorFlow Serving wants a number as its name.
        pairs: Whether it takes pairs of texts; None: as in training. A model of another library
            does not say, and takes single texts then.
        beam, length_penalty: Of a translator; None: those of its evaluations.

    Raises:
        UserError: If there is no classifier, the folder exists, or the model was trained on
            the other of pairs and single texts.
    """
    output = str(output).rstrip("/")
    if tf.io.gfile.exists(output):
        raise UserError(f"A new folder is needed. Received: {output}, which exists")
    module = _module(workdir, pairs, beam, length_penalty)
    # A folder of another machine has no rename; what names it complete, saved_model.pb, comes last.
    remote = "://" in output
    # Another export may have the same output: the first to end is kept, the other fails.
    unfinished = contextlib.nullcontext(output) if remote else unfinished_output(output, True)
    try:
        with unfinished as folder, _removed_on_failure(folder):
            if module.labels is not None:
                extra = tf.io.gfile.join(folder, "assets.extra")
                tf.io.gfile.makedirs(extra)
                with tf.io.gfile.GFile(tf.io.gfile.join(extra, "labels.json"), "w") as file:
                    file.write(json.dumps(list(module.labels), ensure_ascii=False) + "\n")
            tf.saved_model.save(module, folder, signatures=module.serve)
            if not remote:
                tf.io.gfile.rename(folder, output)
    except (OSError, tf.errors.OpError) as error:
        # TensorFlow has one error for a full disk and for too little memory.
        if isinstance(error, tf.errors.ResourceExhaustedError) and "space" not in str(error):
            raise
        raise UserError(f"A folder that can be written is needed. Received: {output} "
                        f"({first_line(error)})") from error


@contextlib.contextmanager
def _removed_on_failure(folder):
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError, tf.errors.OpError):
            tf.io.gfile.rmtree(folder)
        raise


def _module(workdir, pairs, beam, length_penalty):
    if not is_translator(workdir):
        if (beam, length_penalty) != (None, None):
            raise UserError("beam and length_penalty are of a translator. "
                            f"Received: {workdir}, which is none")
        return Exported(load_predictor(workdir), pairs)
    if pairs is not None:
        raise UserError(f"A translator takes single texts. Received: pairs={pairs}")
    return ExportedTranslator(Translator.load(workdir), beam, length_penalty)


class Exported(tf.Module):
    """What a SavedModel computes.

    Args:
        predictor: `Predictor`.
        pairs: See `export`.
    """

    def __init__(self, predictor, pairs=None):
        super().__init__()
        if None not in (pairs, predictor.pairs) and pairs != predictor.pairs:
            raise UserError(f"This model takes {'pairs' if predictor.pairs else 'single texts'}. "
                            f"Received: pairs={pairs}")
        if not hasattr(predictor.tokenizer, "in_graph"):
            raise UserError("A classifier made of a BERT or an XLNet is needed: no other tokenizer "
                            "runs inside a SavedModel. "
                            f"Received: {type(predictor.tokenizer).__name__}")
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
            return self._named(self._shares(tokens[:, :self._room(False)]))
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
        batch = {"token_ids": _table(ids, layout.pad_id),
                 "segment_ids": _table(tf.concat(segments, axis=1)),
                 "padding_mask": _table(tf.ones_like(ids))}
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
