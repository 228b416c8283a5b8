"""The tensors of a ModernBERT in `transformers`."""

from keras_attn.families.huggingface_tensors import MaskedLMNames, head_tensors

PREFIX = "model."
MASKED_LM = MaskedLMNames("head.dense", "head.norm", "decoder.bias", "decoder")


def model_tensors(architecture, task, heads):
    """Yields the entries of a ModernBERT; see `keras_attn.families.huggingface_tensors`.

    Args:
        architecture: Arguments of `ModernBertEncoder`.
        task, heads: See `TrainedModel`.
    """
    hidden_dim, inner = architecture["hidden_dim"], architecture["intermediate_dim"]
    square, use_bias = (hidden_dim, hidden_dim), architecture["use_bias"]
    rows = architecture["vocabulary_size"]

    def dense(path, name, shape):
        yield f"{path}kernel", [f"{name}.weight"], shape
        if use_bias:
            yield f"{path}bias", [f"{name}.bias"], shape[-1:]

    def norm(path, name):
        yield f"{path}/gamma", [f"{name}.weight"], (hidden_dim,)
        if architecture["norm_bias"]:
            yield f"{path}/beta", [f"{name}.bias"], (hidden_dim,)

    backbone, embeddings = "modernbert_encoder", f"{PREFIX}embeddings"
    yield (
        f"{backbone}/token_embedding",
        [f"{embeddings}.tok_embeddings.weight"],
        (rows, hidden_dim),
    )
    yield from norm(f"{backbone}/norm", f"{embeddings}.norm")
    for number in range(architecture["num_layers"]):
        ours, theirs = f"{backbone}/layer_{number}", f"{PREFIX}layers.{number}"
        qkv = f"{ours}/attention/query_key_value_"
        yield from dense(qkv, f"{theirs}.attn.Wqkv", (hidden_dim, 3 * hidden_dim))
        yield from dense(f"{ours}/attention/output_", f"{theirs}.attn.Wo", square)
        hidden = f"{ours}/feed_forward/intermediate/"
        yield from dense(hidden, f"{theirs}.mlp.Wi", (hidden_dim, 2 * inner))
        output = f"{ours}/feed_forward/output/"
        yield from dense(output, f"{theirs}.mlp.Wo", (inner, hidden_dim))
        if number or architecture["first_norm"]:
            yield from norm(f"{ours}/attention_norm", f"{theirs}.attn_norm")
        yield from norm(f"{ours}/feed_forward_norm", f"{theirs}.mlp_norm")
    yield from norm(f"{backbone}/final_norm", f"{PREFIX}final_norm")
    if task == "masked_lm":
        yield from dense("mlm_dense/", MASKED_LM.dense, square)
        yield from norm("mlm_norm", MASKED_LM.norm)
        yield "mlm_bias", [MASKED_LM.bias], (rows,)
        if not heads["tie_embeddings"]:
            yield "mlm_embedding", [f"{MASKED_LM.decoder}.weight"], (rows, hidden_dim)
        return
    if task in ("classification", "tagging", "span_qa"):
        yield from dense("head/dense/", "head.dense", square)
        yield from norm("head/norm", "head.norm")
    names = {"logits_dense": "classifier", "span_dense": "classifier"}
    yield from head_tensors(task, heads, hidden_dim, names)
