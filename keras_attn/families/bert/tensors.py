"""A BERT in a folder of any format, and the names of its parts."""

import dataclasses
from collections.abc import Mapping

from keras_attn.errors import UserError


@dataclasses.dataclass(frozen=True)
class StoredBert:
    """What a folder holds, whatever its format.

    Attributes:
        kind: "pretraining", "finetuning", "reading", or "encoder": no task.
        architecture: Arguments of `BertEncoder`.
        heads: Arguments of the task model besides: `next_sentence`, `tie_embeddings`;
            `num_classes`, `dropout`.
        vocabulary: List of str; None if the folder has none.
        lowercase: Whether text is lower-cased; None if the folder does not say.
        labels: Names of the classes; [] for regression, None without a classifier.
        weights: Our paths below the task model, such as `bert_encoder/token_embedding`, and
            arrays, which may be read only when they are used.
        pairs: Whether a classifier takes pairs of texts; None if the folder does not say.
        config: Of the run, if there was one.
        threshold: Of a model that reads: above which `Answer.no_answer` there is no answer; None
            if there always is one.
        released: Whether the weights are, or began as, those of a released model.
    """

    kind: str
    architecture: dict
    heads: dict
    vocabulary: list | None
    lowercase: bool | None
    labels: list | None
    weights: Mapping
    pairs: bool | None = None
    config: dict | None = None
    threshold: float | None = None
    released: bool = True


def with_text(stored, lowercase, source, name="lowercase"):
    """A `StoredBert` that says how text is treated: what it said itself, or what the user says.

    Args:
        stored: A `StoredBert`.
        lowercase: What the user says; None for nothing.
        source, name: What messages call the folder and the user's argument.

    Raises:
        UserError: If it has no vocabulary, neither says, or they contradict each other.
    """
    if stored.vocabulary is None:
        raise UserError(f"A folder with a vocabulary is needed. Received: {source}")
    if lowercase not in (None, stored.lowercase) and stored.lowercase is not None:
        raise UserError(f"{name} must be that of the model, or be left out. "
                        f"Received: {name}={lowercase}, {source} has {stored.lowercase}")
    if lowercase is None and stored.lowercase is None:
        raise UserError(f"Whether text is lower-cased must be said, by {name}=True or False: the "
                        "folder does not. Commands without --lowercase take the folder that "
                        f"python -m keras_attn.convert --lowercase writes. Received: {source}")
    if stored.lowercase is not None:
        return stored
    return dataclasses.replace(stored, lowercase=lowercase)


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


def shapes(architecture, kind, heads):
    """Shapes of all variables by path, as those of `StoredBert.weights`."""
    return {path: (*own[:-1], len(names) * own[-1])
            for path, names, own in parts(architecture, kind, heads)}


def parts(architecture, kind, heads):
    """Yields every variable of a BERT with the tensors of Hugging Face that it is made of.

    Args:
        architecture: Arguments of `BertEncoder`.
        kind, heads: As those of `StoredBert`.

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
    if kind == "pretraining":
        yield from _dense("mlm_dense/", "cls.predictions.transform.dense", (width, width))
        yield from _norm("mlm_norm", "cls.predictions.transform.LayerNorm", width)
        yield "mlm_bias", ["cls.predictions.bias"], (rows["word"],)
        if not heads["tie_embeddings"]:
            yield "mlm_embedding", ["cls.predictions.decoder.weight"], (rows["word"], width)
        if heads["next_sentence"]:
            yield from _dense("nsp_dense/", "cls.seq_relationship", (width, 2))
    elif kind == "finetuning":
        yield from _dense("logits_dense/", "classifier", (width, heads["num_classes"]))
    elif kind == "reading":
        yield from _dense("span_dense/", "qa_outputs", (width, 2))


def _dense(path, name, shape):
    yield f"{path}kernel", [f"{name}.weight"], shape
    yield f"{path}bias", [f"{name}.bias"], shape[-1:]


def _norm(path, name, width):
    yield f"{path}/gamma", [f"{name}.weight"], (width,)
    yield f"{path}/beta", [f"{name}.bias"], (width,)


def head_of(path):
    """The part of the model that a path names: a head, or `pooler`."""
    return path.removeprefix("bert_encoder/").split("/")[0]


def check_is_bert(stored, format, **needed):
    """Raises UserError for what the BERT of other libraries does not have."""
    needed = {"norm_first": False, "pooling": "cls", **needed}
    given = {**needed, **stored.architecture, **stored.heads}
    for name, value in needed.items():
        if given[name] != value:
            raise UserError(f"A model for {format} must be trained with {name}={value}, as BERT. "
                            f"Received: {name}={given[name]}")
