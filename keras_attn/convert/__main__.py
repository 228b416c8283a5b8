"""Changes a BERT, GPT-2 or XLNet from one format into another, bit by bit.

    python -m keras_attn.convert --from=hf:bert-base-uncased --to=runs/base
    python -m keras_attn.convert --from=uncased_L-12_H-768_A-12 --lowercase --to=runs/base
    python -m keras_attn.convert --from=runs/base --format=huggingface --to=base-for-transformers

Formats: workdir; huggingface, a folder of transformers with safetensors; google, TensorFlow 1's
checkpoint of google-research/bert or zihangdai/xlnet; openai, that of openai/gpt-2; kerashub, a
preset of BertBackbone or GPT2Backbone. Other libraries have BERT with model.norm_first=False alone,
as in configs/bert_base.py.
"""

from absl import flags

from keras_attn.cli.command_line import run_command
from keras_attn.convert import FORMATS, head_choices
from keras_attn.errors import UserError


def define_flags():
    flags.DEFINE_string("from", None, "Folder to read, whose format is detected, or "
                        "hf:NAME[@REVISION] of the Hugging Face Hub.")
    flags.DEFINE_string("to", None, "Folder to write, new or empty.")
    flags.DEFINE_enum("format", None, list(FORMATS),
                      "To write; default: workdir, unless --from is one.")
    flags.DEFINE_enum("task", None, list(head_choices()),
                      "Heads of a BERT to write; default: those that --from has.")
    flags.DEFINE_bool("new_heads", False, "Start heads that --from lacks at random.")
    flags.DEFINE_bool("lowercase", None, "Whether text is lower-cased, if --from does not say.")


def main():
    from keras_attn.convert import convert

    values = flags.FLAGS
    source, target = values["from"].value, values.to
    if not source or not target:
        raise UserError(f"--from and --to are needed. Received: --from={source}, --to={target}")
    new = convert(source, target, values.format, task=values.task, new_heads=values.new_heads,
                  lowercase=values.lowercase)
    print(f"{target}" + (f" · at random: {', '.join(new)}" if new else ""))


def command():
    """Entry point of `python -m keras_attn.convert` and `keras-attn-convert`."""
    define_flags()
    run_command(main, __doc__)


if __name__ == "__main__":
    command()
