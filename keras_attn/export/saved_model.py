"""Export of a finetuned model as a TensorFlow SavedModel, from strings to predictions."""

import contextlib
import json
import posixpath

import keras
import tensorflow as tf

from keras_attn.errors import UserError, reason_of
from keras_attn.inference.loading import load
from keras_attn.inference.options import check_options
from keras_attn.io import gfile
from keras_attn.io.unfinished_outputs import unfinished_output
from keras_attn.registry import TASKS


def export(workdir, output, **options):
    """Writes a SavedModel that contains the tokenizer.

    Its signature takes strings and returns predictions, which the module that `Task.exported`
    returns describes. A request is one batch. `assets.extra/labels.json` contains the classes in
    order, if there are classes. Loading the SavedModel requires TensorFlow and
    `import tensorflow_text`.

    Args:
        workdir: Working directory of a finetuning run, or a checkpoint of another library.
        output: Folder to create; TensorFlow Serving requires a number as its name.
        **options: Options of the task, which `python -m finetune.export --help` lists.

    Raises:
        UserError: If Keras does not use TensorFlow, the model cannot be exported, the folder
            exists, or an option is invalid.
    """
    if keras.backend.backend() != "tensorflow":
        raise UserError(
            "Exporting a SavedModel requires Keras on tensorflow. Received: "
            f"KERAS_BACKEND={keras.backend.backend()}"
        )
    output = str(output).rstrip("/")
    if gfile.exists(output):
        raise UserError(f"The output folder must not exist. Received: {output}")
    model = load(workdir)
    module = TASKS[model.task].exported(model, check_options(model.task, "export", options))
    # Remote folders cannot be renamed; there saved_model.pb, written last, completes the folder.
    remote = gfile.is_remote(output)
    # If two exports have the same output, the second to finish fails.
    unfinished = contextlib.nullcontext(output) if remote else unfinished_output(output, True)
    try:
        with unfinished as folder, _removed_on_failure(folder):
            if module.labels is not None:
                extra = posixpath.join(folder, "assets.extra")
                gfile.makedirs(extra)
                with gfile.open_file(posixpath.join(extra, "labels.json"), "w") as file:
                    file.write(json.dumps(list(module.labels), ensure_ascii=False) + "\n")
            tf.saved_model.save(module, folder, signatures=module.serve)
            if not remote:
                gfile.rename(folder, output)
    except (OSError, tf.errors.OpError) as error:
        # TensorFlow raises the same error for a full disk and for insufficient memory.
        if isinstance(error, tf.errors.ResourceExhaustedError) and "space" not in str(error):
            raise
        raise UserError(f"Cannot write the folder {output}: {reason_of(error)}") from error


@contextlib.contextmanager
def _removed_on_failure(folder):
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            gfile.rmtree(folder)
        raise
