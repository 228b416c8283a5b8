"""The tensors of a BERT in checkpoints of other libraries.

In `transformers`, BERT with pre-norm is RoBERTa-PreLayerNorm: other names, no next-sentence
prediction, and a classifier that contains the pooler.
"""

from keras_attn.checkpoints.architectures import require_arguments
from keras_attn.families.huggingface_tensors import (
    MaskedLMNames,
    dense_tensors,
    encoder_tensors,
    head_tensors,
    masked_lm_tensors,
)

MASKED_LM = MaskedLMNames(
    "cls.predictions.transform.dense",
    "cls.predictions.transform.LayerNorm",
    "cls.predictions.bias",
    "cls.predictions.decoder",
)
PRE_NORM_MASKED_LM = MaskedLMNames(
    "lm_head.dense", "lm_head.layer_norm", "lm_head.bias", "lm_head.decoder"
)

# The only values that other libraries support of arguments with which a BERT differs from BERT.
PLAIN = {
    "positions": "learned",
    "feed_forward": "dense",
    "use_bias": True,
    "norm_bias": True,
    "first_norm": True,
    "local_every": None,
    "qk_norm": False,
}


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
    if task != "masked_lm":
        yield from head_tensors(task, heads, hidden_dim)
        return
    names = PRE_NORM_MASKED_LM if architecture["norm_first"] else MASKED_LM
    yield from masked_lm_tensors(architecture, heads, names)
    if heads["next_sentence"]:
        yield from dense_tensors("nsp_dense/", "cls.seq_relationship", (hidden_dim, 2))


def check_writable(trained, format, **needed):
    """Raises a `UserError` for a model that another library does not support.

    Args:
        trained: `TrainedModel`.
        format: Name of the library in messages.
        **needed: Arguments of the backbone or the head, and the only value that it supports.
    """
    needed = {"norm_first": False, "pooling": "cls", **PLAIN, "logit_cap": None, **needed}
    given = {**needed, **trained.architecture, **trained.heads}
    require_arguments(given, needed, f"{format} supports only BERT models trained with {{}}.")
