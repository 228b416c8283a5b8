"""The variables of a BERT and the tensors that make them up elsewhere."""

from keras_attn.checkpoints.architectures import require_arguments
from keras_attn.families.huggingface_tensors import (
    dense_parts,
    encoder_parts,
    head_parts,
    norm_parts,
)


def parts(architecture, task, heads):
    """Yields the parts of a BERT; see `keras_attn.families.huggingface_tensors`.

    Args:
        architecture: Arguments of `BertEncoder`.
        task, heads: As those of `TrainedModel`.
    """
    width, rows = architecture["hidden_dim"], architecture["vocabulary_size"]
    yield from encoder_parts(architecture, "bert_encoder", "bert.")
    if task != "masked_lm":
        yield from head_parts(task, heads, width)
        return
    yield from dense_parts("mlm_dense/", "cls.predictions.transform.dense", (width, width))
    yield from norm_parts("mlm_norm", "cls.predictions.transform.LayerNorm", width)
    yield "mlm_bias", ["cls.predictions.bias"], (rows,)
    if not heads["tie_embeddings"]:
        yield "mlm_embedding", ["cls.predictions.decoder.weight"], (rows, width)
    if heads["next_sentence"]:
        yield from dense_parts("nsp_dense/", "cls.seq_relationship", (width, 2))


def check_is_bert(trained, format, **needed):
    """Raises UserError for what the BERT of other libraries does not have."""
    needed = {"norm_first": False, "pooling": "cls", **needed}
    given = {**needed, **trained.architecture, **trained.heads}
    require_arguments(given, needed, f"A model for {format} must be trained with {{}}, as BERT.")
