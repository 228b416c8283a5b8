"""The tensors of a RoBERTa in `transformers`."""

from keras_attn.families.huggingface_tensors import (
    MaskedLMNames,
    dense_tensors,
    encoder_tensors,
    head_tensors,
    masked_lm_tensors,
)

PREFIX = "roberta."
MASKED_LM = MaskedLMNames("lm_head.dense", "lm_head.layer_norm", "lm_head.bias", "lm_head.decoder")


def model_tensors(architecture, task, heads):
    """Yields the entries of a RoBERTa; see `keras_attn.families.huggingface_tensors`.

    Args:
        architecture: Arguments of `BertEncoder`.
        task, heads: See `TrainedModel`.
    """
    hidden_dim = architecture["hidden_dim"]
    yield from encoder_tensors(architecture, "roberta_encoder", PREFIX)
    names = {}
    if task == "masked_lm":
        yield from masked_lm_tensors(architecture, heads, MASKED_LM)
        return
    if task == "classification":
        names = {"logits_dense": "classifier.out_proj"}
        if heads.get("pooling") in (None, "cls"):
            yield from dense_tensors("hidden_dense/", "classifier.dense", (hidden_dim, hidden_dim))
    yield from head_tensors(task, heads, hidden_dim, names)
