"""Predicts the tokens that [MASK] stands for.

    python -m pretrain.fill_mask --workdir=runs/mini --text='Paris is the [MASK] of France.'
"""

from absl import flags

from keras_attn.cli.command_line import run_command
from keras_attn.errors import UserError


def define_flags():
    flags.DEFINE_string("workdir", None, "A pretrained workdir, or a folder of another library.")
    flags.DEFINE_multi_string("text", None, "A text with [MASK]; may be given several times.")
    flags.DEFINE_integer("top", 5, "How many guesses.", lower_bound=1)
    flags.DEFINE_bool("lowercase", None, "Whether text is lower-cased, if the folder does not say.")


def main():
    from keras_attn.inference.loading import load
    from keras_attn.inference.outputs import opened

    values = flags.FLAGS
    if not values.text:
        raise UserError("--text is needed. Received: none")
    model = load(values.workdir, values.lowercase)
    if not hasattr(model, "fill_mask"):
        raise UserError("A pretrained model is needed to fill masks. "
                        f"Received: {values.workdir}, without a masked-LM head")
    with opened("-", ()) as file:
        for guesses in model.fill_mask(values.text, values.top):
            for of_mask in guesses if isinstance(guesses[0], list) else [guesses]:
                for guess in of_mask:
                    print(f"{guess['probability']:.4f}\t{guess['token']}\t{guess['text']}",
                          file=file)


def command():
    """Entry point of `python -m pretrain.fill_mask` and `keras-attn-fill-mask`."""
    define_flags()
    run_command(main, __doc__)


if __name__ == "__main__":
    command()
