"""Converts checkpoints between formats; weights stay bitwise identical.

    python -m keras_attn.convert --from=hf:bert-base-uncased --to=runs/base
    python -m keras_attn.convert --from=uncased_L-12_H-768_A-12 --lowercase --to=runs/base
    python -m keras_attn.convert --from=runs/base --format=huggingface --to=base-for-transformers

huggingface is a folder of transformers with safetensors, sentence_transformers a folder of
sentence-transformers, kerashub a preset of KerasHub, google and openai are TensorFlow 1
checkpoints. Other libraries support only their own architectures: kerashub and google post-norm
BERT (model.norm_first=False).

Formats of each family:
{formats}
"""

from absl import flags

from keras_attn import convert as conversion
from keras_attn.cli.command_line import run_command
from keras_attn.errors import UserError
from keras_attn.registry import FAMILIES


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
        list(conversion.FORMATS),
        "Format to write; if unset, workdir, unless --from is a workdir.",
    )
    flags.DEFINE_enum(
        "task",
        None,
        list(conversion.head_choices()),
        "Heads to write; if unset, the heads of --from.",
    )
    flags.DEFINE_bool(
        "new_heads", False, "Whether to initialize heads randomly that --from does not contain."
    )
    flags.DEFINE_bool(
        "lowercase", None, "Whether to lower-case text, if --from does not specify it."
    )


def main():
    values = flags.FLAGS
    source, target = values["from"].value, values.to
    if not source or not target:
        raise UserError(f"--from and --to are required. Received: --from={source}, --to={target}")
    new = conversion.convert(
        source,
        target,
        values.format,
        task=values.task,
        new_heads=values.new_heads,
        lowercase=values.lowercase,
    )
    print(f"{target}" + (f" · randomly initialized: {', '.join(new)}" if new else ""))


def _usage():
    """Returns the usage, with the formats of each family that supports more than workdirs."""
    formats = {family: FAMILIES.fields(family).formats for family in FAMILIES}
    lines = [
        f"    {family}: {', '.join(names)}" for family, names in formats.items() if len(names) > 1
    ]
    return __doc__.replace("{formats}", "\n".join(lines))


def command():
    """Entry point of `python -m keras_attn.convert` and `keras-attn-convert`."""
    run_command(main, _usage, define_flags=define_flags)


if __name__ == "__main__":
    command()
