"""Writes a finetuned workdir as a TensorFlow SavedModel.

    python -m finetune.export --workdir=runs/sst2 --output=served/sst2/1

Strings go in, labels and probabilities come out, or translations; the tokenizer is inside. Whoever
loads it needs TensorFlow and tensorflow-text, nothing of this package. Texts of more than
data.length tokens are cut as in predict, unless the model reads windows, but the outputs do not say
which were cut; a translator refuses them.
"""

from absl import flags

from keras_attn.cli.command_line import run_command


def define_flags():
    flags.DEFINE_string("workdir", None, "Folder of a finetuning run.", required=True)
    flags.DEFINE_string("output", None, "Folder to make; for TensorFlow Serving a number, the "
                        "version, in a folder of the model's name.", required=True)
    flags.DEFINE_bool("pairs", None, "Whether it takes pairs of texts; for a model of another "
                      "library, which does not say.")
    flags.DEFINE_integer("beam", None, "Of a translator: hypotheses of the beam search; without: "
                         "eval.beam of its run.", lower_bound=1)
    flags.DEFINE_float("length_penalty", None, "Of a translator; without: that of its run.")


def main():
    from keras_attn.export.saved_model import export

    values = flags.FLAGS
    export(values.workdir, values.output, values.pairs, values.beam, values.length_penalty)
    print(f"saved in {values.output}; to load it: import tensorflow_text, then "
          "tf.saved_model.load")


def command():
    """Entry point of `python -m finetune.export` and `keras-attn-export`."""
    define_flags()
    run_command(main, __doc__)


if __name__ == "__main__":
    command()
