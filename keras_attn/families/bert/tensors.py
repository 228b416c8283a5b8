"""The variables of a BERT and the tensors that make them up elsewhere."""

from keras_attn.errors import UserError

# Below a layer; ours, and Hugging Face's without .weight or .bias.
_LAYER_DENSE = {
    "attention/output": "attention.output.dense",
    "feed_forward/intermediate": "intermediate.dense",
    "feed_forward/output": "output.dense",
}
_LAYER_NORMS = {
    "attention_norm": "attention.output.LayerNorm",
    "feed_forward_norm": "output.LayerNorm",
}


def shapes(architecture, task, heads):
    """Shapes of all variables by path, as those of `TrainedModel.weights`."""
    return {path: (*own[:-1], len(names) * own[-1])
            for path, names, own in parts(architecture, task, heads)}


def parts(architecture, task, heads):
    """Yields every variable of a BERT with the tensors of Hugging Face that it is made of.

    Args:
        architecture: Arguments of `BertEncoder`.
        task, heads: As those of `TrainedModel`.

    Yields:
        (our path, names, shape of our part that each name fills).
    """
    width, inner = architecture["hidden_dim"], architecture["intermediate_dim"]
    rows = {"word": architecture["vocabulary_size"], "position": architecture["max_length"],
            "token_type": architecture["num_segments"]}
    tables = {"word": "token_embedding", "position": "position_embedding/embeddings",
              "token_type": "segment_embedding"}
    for name, path in tables.items():
        yield (f"bert_encoder/{path}", [f"bert.embeddings.{name}_embeddings.weight"],
               (rows[name], width))
    yield from _norm("bert_encoder/norm", "bert.embeddings.LayerNorm", width)
    for number in range(architecture["num_layers"]):
        ours, theirs = f"bert_encoder/layer_{number}", f"bert.encoder.layer.{number}"
        projections = [f"{theirs}.attention.self.{name}" for name in ("query", "key", "value")]
        yield (f"{ours}/attention/query_key_value_kernel",
               [f"{name}.weight" for name in projections], (width, width))
        yield (f"{ours}/attention/query_key_value_bias",
               [f"{name}.bias" for name in projections], (width,))
        shapes = {"attention/output": (width, width), "feed_forward/intermediate": (width, inner),
                  "feed_forward/output": (inner, width)}
        for path, name in _LAYER_DENSE.items():
            # The attention's own weights are called output_kernel, the others output/kernel.
            joint = "_" if path == "attention/output" else "/"
            yield from _dense(f"{ours}/{path}{joint}", f"{theirs}.{name}", shapes[path])
        for path, name in _LAYER_NORMS.items():
            yield from _norm(f"{ours}/{path}", f"{theirs}.{name}", width)
    if architecture.get("norm_first"):  # which Hugging Face has not
        yield from _norm("bert_encoder/final_norm", "bert.encoder.LayerNorm", width)
    if architecture.get("use_pooler", True):
        yield from _dense("bert_encoder/pooler/", "bert.pooler.dense", (width, width))
    if task == "masked_lm":
        yield from _dense("mlm_dense/", "cls.predictions.transform.dense", (width, width))
        yield from _norm("mlm_norm", "cls.predictions.transform.LayerNorm", width)
        yield "mlm_bias", ["cls.predictions.bias"], (rows["word"],)
        if not heads["tie_embeddings"]:
            yield "mlm_embedding", ["cls.predictions.decoder.weight"], (rows["word"], width)
        if heads["next_sentence"]:
            yield from _dense("nsp_dense/", "cls.seq_relationship", (width, 2))
    elif task == "classification":
        yield from _dense("logits_dense/", "classifier", (width, heads["num_classes"]))
    elif task == "span_qa":
        yield from _dense("span_dense/", "qa_outputs", (width, 2))


def _dense(path, name, shape):
    yield f"{path}kernel", [f"{name}.weight"], shape
    yield f"{path}bias", [f"{name}.bias"], shape[-1:]


def _norm(path, name, width):
    yield f"{path}/gamma", [f"{name}.weight"], (width,)
    yield f"{path}/beta", [f"{name}.bias"], (width,)


def check_is_bert(trained, format, **needed):
    """Raises UserError for what the BERT of other libraries does not have."""
    needed = {"norm_first": False, "pooling": "cls", **needed}
    given = {**needed, **trained.architecture, **trained.heads}
    for name, value in needed.items():
        if given[name] != value:
            raise UserError(f"A model for {format} must be trained with {name}={value}, as BERT. "
                            f"Received: {name}={given[name]}")
