"""A finetuned model as a TensorFlow SavedModel: strings in, labels and probabilities out."""

import contextlib
import json

import keras
import tensorflow as tf

from keras_attn.errors import UserError, first_line
from keras_attn.inference.loading import load
from keras_attn.inference.options import check_options
from keras_attn.io.unfinished_outputs import unfinished_output
from keras_attn.registry import TASKS


def export(workdir, output, **options):
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
        **options: Of the task, `TaskFields.options`. `pairs` of classification: whether it takes
            pairs of texts; without it as in training, and single texts for a model of another
            library, which does not say. `beam` and `length_penalty` of translation; without them
            those of its evaluations.

    Raises:
        UserError: If Keras does not run on TensorFlow, there is no classifier, the folder exists,
            or the model was trained on the other of pairs and single texts.
    """
    if keras.backend.backend() != "tensorflow":
        raise UserError(
            "Exporting a SavedModel requires Keras on tensorflow. Received: "
            f"KERAS_BACKEND={keras.backend.backend()}"
        )
    output = str(output).rstrip("/")
    if tf.io.gfile.exists(output):
        raise UserError(f"A new folder is needed. Received: {output}, which exists")
    model = load(workdir)
    module = TASKS[model.task].exported(model, check_options(model.task, "export", options))
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
        raise UserError(
            f"A folder that can be written is needed. Received: {output} ({first_line(error)})"
        ) from error


@contextlib.contextmanager
def _removed_on_failure(folder):
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError, tf.errors.OpError):
            tf.io.gfile.rmtree(folder)
        raise
