"""Writes a finetuned workdir as a TensorFlow SavedModel.

    python -m finetune.export --workdir=runs/sst2 --output=served/sst2/1

Strings go in, labels and probabilities come out, or translations; the tokenizer is inside. Whoever
loads it needs TensorFlow and tensorflow-text, nothing of this package. Texts of more than
data.length tokens are cut as in predict, unless the model reads windows, but the outputs do not say
which were cut; a translator refuses them.
"""

from absl import flags

from keras_attn.cli.command_line import run_command
from keras_attn.cli.task_options import define_task_flags, given_options


def define_flags():
    flags.DEFINE_string("workdir", None, "Folder of a finetuning run.", required=True)
    flags.DEFINE_string("output", None, "Folder to make; for TensorFlow Serving a number, the "
                        "version, in a folder of the model's name.", required=True)
    define_task_flags("export")


def main():
    from keras_attn.export.saved_model import export

    values = flags.FLAGS
    export(values.workdir, values.output, **given_options("export", values))
    print(f"saved in {values.output}; to load it: import tensorflow_text, then "
          "tf.saved_model.load")


def command():
    """Entry point of `python -m finetune.export` and `keras-attn-export`."""
    define_flags()
    run_command(main, __doc__)


if __name__ == "__main__":
    command()
