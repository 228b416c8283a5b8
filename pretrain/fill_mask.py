"""Predicts masked tokens.

    python -m pretrain.fill_mask --workdir=runs/mini --text='Paris is the [MASK] of France.'

Prints one line per prediction: probability, token, and the text with the token, tab-separated.
"""

from absl import flags

from keras_attn.cli.command_line import define_engine, run_command
from keras_attn.errors import UserError


def define_flags():
    flags.DEFINE_string(
        "workdir",
        None,
        "A pretrained workdir, or a checkpoint of another library.",
        required=True,
    )
    flags.DEFINE_multi_string("text", None, "Text with [MASK].")
    flags.DEFINE_integer("top", 5, "Number of predictions per [MASK].", lower_bound=1)
    flags.DEFINE_bool(
        "lowercase", None, "Whether to lower-case text, if the checkpoint does not specify it."
    )
    define_engine()


def main():
    from keras_attn.inference.loading import load
    from keras_attn.inference.outputs import opened

    values = flags.FLAGS
    if not values.text:
        raise UserError("--text is required. Received: no text")
    model = load(values.workdir, values.lowercase)
    if not hasattr(model, "fill_mask"):
        raise UserError(
            "--workdir must contain a masked language model. "
            f"Received: {values.workdir}, without a masked-LM head"
        )
    with opened("-", ()) as file:
        for found in model.fill_mask(values.text, values.top):
            for predictions in found if isinstance(found[0], list) else [found]:
                for one in predictions:
                    print(f"{one['probability']:.4f}\t{one['token']}\t{one['text']}", file=file)


def command():
    """Entry point of `python -m pretrain.fill_mask` and `keras-attn-fill-mask`."""
    run_command(main, __doc__, define_flags=define_flags)


if __name__ == "__main__":
    command()
