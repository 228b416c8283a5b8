"""Converts BERT, GPT-2 and XLNet checkpoints between formats; weights stay bitwise identical.

    python -m keras_attn.convert --from=hf:bert-base-uncased --to=runs/base
    python -m keras_attn.convert --from=uncased_L-12_H-768_A-12 --lowercase --to=runs/base
    python -m keras_attn.convert --from=runs/base --format=huggingface --to=base-for-transformers

Formats: workdir; huggingface (a transformers folder with safetensors); google (TensorFlow 1
checkpoint of google-research/bert or zihangdai/xlnet); openai (TensorFlow 1 checkpoint of
openai/gpt-2); kerashub (a BertBackbone or GPT2Backbone preset). Other libraries support only
post-norm BERT (model.norm_first=False), as in configs/bert_base.py.
"""

from absl import flags

from keras_attn.cli.command_line import run_command
from keras_attn.convert import FORMATS, head_choices
from keras_attn.errors import UserError


def define_flags():
    flags.DEFINE_string(
        "from",
        None,
        "Checkpoint folder to read, in any format, or hf:NAME[@REVISION] on the Hugging Face Hub.",
    )
    flags.DEFINE_string("to", None, "Folder to write, which must be new or empty.")
    flags.DEFINE_enum(
        "format",
        None,
        list(FORMATS),
        "Format to write; if unset, workdir, unless --from is a workdir.",
    )
    flags.DEFINE_enum(
        "task", None, list(head_choices()), "Heads to write (BERT); if unset, the heads of --from."
    )
    flags.DEFINE_bool(
        "new_heads", False, "Whether to initialize heads randomly that --from does not contain."
    )
    flags.DEFINE_bool(
        "lowercase", None, "Whether to lower-case text, if --from does not specify it."
    )


def main():
    from keras_attn.convert import convert

    values = flags.FLAGS
    source, target = values["from"].value, values.to
    if not source or not target:
        raise UserError(f"--from and --to are required. Received: --from={source}, --to={target}")
    new = convert(
        source,
        target,
        values.format,
        task=values.task,
        new_heads=values.new_heads,
        lowercase=values.lowercase,
    )
    print(f"{target}" + (f" · randomly initialized: {', '.join(new)}" if new else ""))


def command():
    """Entry point of `python -m keras_attn.convert` and `keras-attn-convert`."""
    run_command(main, __doc__, define_flags=define_flags)


if __name__ == "__main__":
    command()
