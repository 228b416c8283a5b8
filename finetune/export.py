"""Exports a finetuned model as a TensorFlow SavedModel.

    python -m finetune.export --workdir=runs/sst2 --output=served/sst2/1

The SavedModel contains the tokenizer: it takes strings and returns labels and probabilities, or
translations. Loading it requires TensorFlow and tensorflow-text, but not this package. Texts longer
than data.length tokens are truncated as in predict, unless the model uses windows; the outputs do
not show which texts were truncated. A translation model rejects them.
"""

from absl import flags

from keras_attn.cli.command_line import run_command
from keras_attn.cli.task_options import define_task_flags, given_options


def define_flags():
    flags.DEFINE_string("workdir", None, "Working directory of a finetuning run.", required=True)
    flags.DEFINE_string(
        "output",
        None,
        "Folder to create; for TensorFlow Serving MODEL/VERSION with a number as version.",
        required=True,
    )
    define_task_flags("export")


def main():
    from keras_attn.export.saved_model import export

    values = flags.FLAGS
    export(values.workdir, values.output, **given_options("export", values))
    print(
        f"saved in {values.output}; to load it, import tensorflow_text, then call "
        "tf.saved_model.load"
    )


def command():
    """Entry point of `python -m finetune.export` and `keras-attn-export`."""
    run_command(main, __doc__, define_flags=define_flags)


if __name__ == "__main__":
    command()
