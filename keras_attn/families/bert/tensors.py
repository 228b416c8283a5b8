"""The tensors of a BERT in checkpoints of other libraries.

In `transformers`, BERT with pre-norm is RoBERTa-PreLayerNorm: other names, no next-sentence
prediction, and a classifier that contains the pooler.
"""

from keras_attn.checkpoints.architectures import require_arguments
from keras_attn.families.huggingface_tensors import (
    dense_tensors,
    encoder_tensors,
    head_tensors,
    norm_tensors,
)


def encoder_prefix(architecture):
    """Returns the prefix of the names of the encoder."""
    return "roberta_prelayernorm." if architecture["norm_first"] else "bert."


def model_tensors(architecture, task, heads):
    """Yields the entries of a BERT; see `keras_attn.families.huggingface_tensors`.

    Args:
        architecture: Arguments of `BertEncoder`.
        task, heads: See `TrainedModel`.
    """
    hidden_dim, prefix = architecture["hidden_dim"], encoder_prefix(architecture)
    if architecture["norm_first"] and task == "classification":
        without_pooler = {**architecture, "use_pooler": False}
        yield from encoder_tensors(without_pooler, "bert_encoder", prefix)
        if architecture["use_pooler"]:
            yield from dense_tensors("bert_encoder/pooler/", "classifier.dense", (hidden_dim,) * 2)
        names = {"logits_dense": "classifier.out_proj"}
        yield from head_tensors(task, heads, hidden_dim, names)
        return
    yield from encoder_tensors(architecture, "bert_encoder", prefix)
    if task == "masked_lm":
        yield from _masked_lm_tensors(architecture, heads)
    else:
        yield from head_tensors(task, heads, hidden_dim)


def _masked_lm_tensors(architecture, heads):
    hidden_dim, rows = architecture["hidden_dim"], architecture["vocabulary_size"]
    dense, norm, output = "transform.dense", "transform.LayerNorm", "cls.predictions."
    if architecture["norm_first"]:
        dense, norm, output = "dense", "layer_norm", "lm_head."
    yield from dense_tensors("mlm_dense/", output + dense, (hidden_dim,) * 2)
    yield from norm_tensors("mlm_norm", output + norm, hidden_dim)
    yield "mlm_bias", [output + "bias"], (rows,)
    if not heads["tie_embeddings"]:
        yield "mlm_embedding", [output + "decoder.weight"], (rows, hidden_dim)
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
