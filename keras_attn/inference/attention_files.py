"""HTML pages of the attention of trained models."""

from keras_attn.errors import UserError
from keras_attn.inference.cut_texts import warn_of_cut_texts
from keras_attn.inference.loading import load
from keras_attn.inference.outputs import opened


def write_attention_page(workdir, output, texts, text_pairs=None, precision="float32", **options):
    """Writes the page of the attention of a model to one text; see `Embedder.attention_page` and
    `Translator.attention_page`.

    Args:
        workdir: See `keras_attn.load`.
        output: .html file, or `-` for standard output.
        texts: List of one string.
        text_pairs: List of the second string of a pair, or of the passage of a question; None if
            there is none.
        precision: See `keras_attn.load`.
        **options: Further arguments of the method `attention_page` of the model.

    Raises:
        UserError: If there are other numbers of texts, or the model has no attention to a text.
    """
    if len(texts or []) != 1 or len(text_pairs or []) > 1:
        raise UserError(
            f"--attention requires exactly one --text. Received: {len(texts or [])} texts"
        )
    with opened(output, (".html",), flag="--attention", workdir=workdir) as file:
        model = load(workdir, precision=precision)
        if not hasattr(model, "attention_page"):
            raise UserError(
                "--attention requires an encoder, a classifier, a question answering model or a "
                f"translation model. Received: {workdir}, a model for {model.task}"
            )
        file.write(model.attention_page(texts[0], *(text_pairs or []), **options).html)
    warn_of_cut_texts(model)
