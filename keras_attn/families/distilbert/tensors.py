"""The tensors of a DistilBERT in `transformers`."""

from keras_attn.families.huggingface_tensors import (
    LayerNames,
    MaskedLMNames,
    dense_tensors,
    encoder_tensors,
    head_tensors,
    masked_lm_tensors,
)

PREFIX = "distilbert."
LAYER = LayerNames(
    layer="transformer.layer",
    query="attention.q_lin",
    key="attention.k_lin",
    value="attention.v_lin",
    output="attention.out_lin",
    attention_norm="sa_layer_norm",
    feed_forward="ffn.lin1",
    feed_forward_output="ffn.lin2",
    feed_forward_norm="output_layer_norm",
)
MASKED_LM = MaskedLMNames(
    "vocab_transform", "vocab_layer_norm", "vocab_projector.bias", "vocab_projector"
)


def model_tensors(architecture, task, heads):
    """Yields the entries of a DistilBERT; see `keras_attn.families.huggingface_tensors`.

    Args:
        architecture: Arguments of `BertEncoder`.
        task, heads: See `TrainedModel`.
    """
    hidden_dim = architecture["hidden_dim"]
    yield from encoder_tensors(architecture, "distilbert_encoder", PREFIX, LAYER)
    if task == "masked_lm":
        yield from masked_lm_tensors(architecture, heads, MASKED_LM)
        return
    if task == "classification" and heads.get("pooling") in (None, "cls"):
        yield from dense_tensors("hidden_dense/", "pre_classifier", (hidden_dim, hidden_dim))
    yield from head_tensors(task, heads, hidden_dim)
