"""The tensors of a BERT in checkpoints of other libraries."""

from keras_attn.checkpoints.architectures import require_arguments
from keras_attn.families.huggingface_tensors import (
    dense_tensors,
    encoder_tensors,
    head_tensors,
    norm_tensors,
)


def model_tensors(architecture, task, heads):
    """Yields the entries of a BERT; see `keras_attn.families.huggingface_tensors`.

    Args:
        architecture: Arguments of `BertEncoder`.
        task, heads: See `TrainedModel`.
    """
    hidden_dim, rows = architecture["hidden_dim"], architecture["vocabulary_size"]
    yield from encoder_tensors(architecture, "bert_encoder", "bert.")
    if task != "masked_lm":
        yield from head_tensors(task, heads, hidden_dim)
        return
    yield from dense_tensors("mlm_dense/", "cls.predictions.transform.dense", (hidden_dim,) * 2)
    yield from norm_tensors("mlm_norm", "cls.predictions.transform.LayerNorm", hidden_dim)
    yield "mlm_bias", ["cls.predictions.bias"], (rows,)
    if not heads["tie_embeddings"]:
        yield "mlm_embedding", ["cls.predictions.decoder.weight"], (rows, hidden_dim)
    if heads["next_sentence"]:
        yield from dense_tensors("nsp_dense/", "cls.seq_relationship", (hidden_dim, 2))


def check_writable(trained, format, **needed):
    """Raises a `UserError` for a model that another library does not support.

    Args:
        trained: `TrainedModel`.
        format: Name of the library in messages.
        **needed: Arguments of the backbone or the head, and the only value that it supports.
    """
    needed = {"norm_first": False, "pooling": "cls", **needed}
    given = {**needed, **trained.architecture, **trained.heads}
    require_arguments(given, needed, f"{format} supports only BERT models trained with {{}}.")
