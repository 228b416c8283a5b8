"""Names and shapes of tensors in `transformers`: BERT-like encoders, and the heads of tasks.

An entry is the path of our variable, the names of their tensors that are concatenated in it along
the last axis, and the shape of the slice that each tensor fills.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from keras_attn.checkpoints.tensor_map import ExternalTensor
from keras_attn.families.layer_memory import embedding_dim
from keras_attn.registry import TASKS

Entry = tuple[str, list[str], tuple]
_OLD_NORM_NAMES = {"weight": "gamma", "bias": "beta"}  # in files from 2018


class LayerNames(NamedTuple):
    """Names of the parts of an encoder layer; the defaults are those of BERT.

    Attributes:
        layer: Name of the list of layers.
        query, key, value, output: Dense layers of attention.
        attention_norm: Norm of the attention sublayer.
        feed_forward: First dense layer of the feed-forward sublayer.
        feed_forward_output: Second dense layer of the feed-forward sublayer.
        feed_forward_norm: Norm of the feed-forward sublayer.
    """

    layer: str = "encoder.layer"
    query: str = "attention.self.query"
    key: str = "attention.self.key"
    value: str = "attention.self.value"
    output: str = "attention.output.dense"
    attention_norm: str = "attention.output.LayerNorm"
    feed_forward: str = "intermediate.dense"
    feed_forward_output: str = "output.dense"
    feed_forward_norm: str = "output.LayerNorm"


BERT_NAMES = LayerNames()
PRE_NORM_NAMES = LayerNames(
    attention_norm="attention.LayerNorm", feed_forward_norm="intermediate.LayerNorm"
)


class MaskedLMNames(NamedTuple):
    """Names of the head of a masked language model.

    Attributes:
        dense: Dense layer.
        norm: Norm after it.
        bias: Output bias.
        decoder: Output layer, whose matrix is the embedding matrix if they are tied.
    """

    dense: str
    norm: str
    bias: str
    decoder: str


def encoder_tensors(
    architecture: Mapping, backbone: str, prefix: str, names: LayerNames | None = None
) -> Iterator[Entry]:
    """Yields the entries of an encoder with the layers of BERT.

    Args:
        architecture: Arguments of the backbone, named as in `BertEncoder`. Embeddings without the
            argument for their number (`max_length` or `num_segments`) are left out, as is the
            pooler without `use_pooler`. `embedding_dim`, if there, is the size of the embeddings
            and of their norm. With `norm_first`, the norms have the names of RoBERTa-PreLayerNorm.
        backbone: Name of the backbone in our paths, such as "bert_encoder".
        prefix: Prefix of their names, such as "bert.".
        names: Names of the parts of a layer; None: those of BERT.
    """
    hidden_dim, inner = architecture["hidden_dim"], architecture["intermediate_dim"]
    norm_first = architecture.get("norm_first", False)
    names = names or (PRE_NORM_NAMES if norm_first else BERT_NAMES)
    embedded = embedding_dim(architecture)
    for path, name, rows in (
        ("token_embedding", "word", "vocabulary_size"),
        ("position_embedding/embeddings", "position", "max_length"),
        ("segment_embedding", "token_type", "num_segments"),
    ):
        if architecture.get(rows):
            yield (
                f"{backbone}/{path}",
                [f"{prefix}embeddings.{name}_embeddings.weight"],
                (architecture[rows], embedded),
            )
    yield from norm_tensors(f"{backbone}/norm", f"{prefix}embeddings.LayerNorm", embedded)
    for number in range(architecture["num_layers"]):
        ours, theirs = f"{backbone}/layer_{number}", f"{prefix}{names.layer}.{number}"
        projections = [f"{theirs}.{name}" for name in (names.query, names.key, names.value)]
        yield (
            f"{ours}/attention/query_key_value_kernel",
            [f"{name}.weight" for name in projections],
            (hidden_dim, hidden_dim),
        )
        yield (
            f"{ours}/attention/query_key_value_bias",
            [f"{name}.bias" for name in projections],
            (hidden_dim,),
        )
        # Attention has weights (output_kernel), the feed-forward layer has layers (output/kernel).
        for path, name, shape in (
            ("attention/output_", names.output, (hidden_dim, hidden_dim)),
            ("feed_forward/intermediate/", names.feed_forward, (hidden_dim, inner)),
            ("feed_forward/output/", names.feed_forward_output, (inner, hidden_dim)),
        ):
            yield from dense_tensors(f"{ours}/{path}", f"{theirs}.{name}", shape)
        for path in ("attention_norm", "feed_forward_norm"):
            yield from norm_tensors(
                f"{ours}/{path}", f"{theirs}.{getattr(names, path)}", hidden_dim
            )
    if norm_first:
        yield from norm_tensors(f"{backbone}/final_norm", f"{prefix}LayerNorm", hidden_dim)
    if architecture.get("use_pooler"):
        yield from dense_tensors(
            f"{backbone}/pooler/", f"{prefix}pooler.dense", (hidden_dim, hidden_dim)
        )


def head_tensors(
    task: str, heads: Mapping, hidden_dim: int, names: Mapping = {}
) -> Iterator[Entry]:
    """Yields the entries of the head of a task, by `Task.head_layers`.

    Args:
        task: Name of the task.
        heads: Arguments of the head.
        hidden_dim: Hidden size.
        names: Dict from our names of layers to their names in this family, if they differ from
            those in `Task.head_layers`.
    """
    for path, (name, size) in (TASKS[task].head_layers(heads) or {}).items():
        yield from dense_tensors(f"{path}/", names.get(path, name), (hidden_dim, size))


def masked_lm_tensors(
    architecture: Mapping, heads: Mapping, names: MaskedLMNames
) -> Iterator[Entry]:
    """Yields the entries of the head of a `BertPretrainer` without next-sentence prediction.

    Args:
        architecture: Arguments of the backbone.
        heads: Arguments of the head.
        names: Names of the layers.
    """
    size, rows = embedding_dim(architecture), architecture["vocabulary_size"]
    yield from dense_tensors("mlm_dense/", names.dense, (architecture["hidden_dim"], size))
    yield from norm_tensors("mlm_norm", names.norm, size)
    yield "mlm_bias", [names.bias], (rows,)
    if not heads["tie_embeddings"]:
        yield "mlm_embedding", [f"{names.decoder}.weight"], (rows, size)


def dense_tensors(path: str, name: str, shape: tuple) -> Iterator[Entry]:
    """Yields the entries of a dense layer; `path` ends in "/" or "_"."""
    yield f"{path}kernel", [f"{name}.weight"], shape
    yield f"{path}bias", [f"{name}.bias"], shape[-1:]


def norm_tensors(path: str, name: str, size: int) -> Iterator[Entry]:
    """Yields the entries of a layer norm."""
    yield f"{path}/gamma", [f"{name}.weight"], (size,)
    yield f"{path}/beta", [f"{name}.bias"], (size,)


def variable_shapes(entries: Iterable[Entry]) -> dict[str, tuple]:
    """Returns the shapes of our variables by path."""
    return {path: (*own[:-1], len(names) * own[-1]) for path, names, own in entries}


def layout(
    entries: Iterable[Entry], name_in: Callable[[str], str] = str
) -> dict[str, list[ExternalTensor]]:
    """Returns the layout of a model, for `Tensors.take` and `split`.

    Kernels are transposed in `transformers`.

    Args:
        entries: Entries of the model.
        name_in: Function from the name of a tensor to its name in the file.
    """
    return {
        path: [
            ExternalTensor(
                name_in(name),
                own[::-1] if path.endswith("kernel") else own,
                transposed=path.endswith("kernel"),
            )
            for name in names
        ]
        for path, names, own in entries
    }


def stored_name(header: Mapping, prefix: str, name: str) -> str:
    """Returns the name of a tensor in a file.

    Files of a model without a head have no prefix, and old files have other names of layer norms.

    Args:
        header: Container of the names in the file.
        prefix: Prefix of the names of the encoder, such as "bert.".
        name: Name of the tensor in `transformers`.
    """
    for found in dict.fromkeys((name, name.removeprefix(prefix))):
        stem, _, last = found.rpartition(".")
        old = f"{stem}.{_OLD_NORM_NAMES.get(last, last)}"
        for stored in (found, old) if stem.endswith("LayerNorm") else (found,):
            if stored in header:
                return stored
    return name


def position_ids(header: Iterable[str]) -> set[str]:
    """Returns the names of the tensors that contain position ids instead of weights."""
    return {name for name in header if name.endswith("embeddings.position_ids")}
