"""The tensors of BERT-like encoders and of the heads of tasks, as `transformers` names them.

A part is our path of a variable, the names of their tensors that it is made of, and the shape of
the part of our variable that each name fills.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from keras_attn.checkpoints.tensor_map import Piece
from keras_attn.registry import TASKS

Part = tuple[str, list[str], tuple]
_OLD_NORM_NAMES = {"weight": "gamma", "bias": "beta"}  # in files of 2018


def encoder_parts(
    architecture: Mapping, backbone: str, prefix: str, embedding_dim: int | None = None
) -> Iterator[Part]:
    """Yields the parts of an encoder whose graph is that of BERT.

    Args:
        architecture: Arguments of `BertEncoder`, or of a backbone with these arguments.
        backbone: Name of the backbone in our paths, such as "bert_encoder".
        prefix: What their names begin with, such as "bert.".
        embedding_dim: Size of the embeddings and of their norm; the hidden size if None.
    """
    width, inner = architecture["hidden_dim"], architecture["intermediate_dim"]
    embedding_dim = embedding_dim or width
    for path, name, rows in (
        ("token_embedding", "word", "vocabulary_size"),
        ("position_embedding/embeddings", "position", "max_length"),
        ("segment_embedding", "token_type", "num_segments"),
    ):
        yield (
            f"{backbone}/{path}",
            [f"{prefix}embeddings.{name}_embeddings.weight"],
            (architecture[rows], embedding_dim),
        )
    yield from norm_parts(f"{backbone}/norm", f"{prefix}embeddings.LayerNorm", embedding_dim)
    for number in range(architecture["num_layers"]):
        ours, theirs = f"{backbone}/layer_{number}", f"{prefix}encoder.layer.{number}"
        projections = [f"{theirs}.attention.self.{name}" for name in ("query", "key", "value")]
        yield (
            f"{ours}/attention/query_key_value_kernel",
            [f"{name}.weight" for name in projections],
            (width, width),
        )
        yield (
            f"{ours}/attention/query_key_value_bias",
            [f"{name}.bias" for name in projections],
            (width,),
        )
        # The weights of the attention are called output_kernel, those of the others output/kernel.
        for path, name, shape in (
            ("attention/output_", "attention.output.dense", (width, width)),
            ("feed_forward/intermediate/", "intermediate.dense", (width, inner)),
            ("feed_forward/output/", "output.dense", (inner, width)),
        ):
            yield from dense_parts(f"{ours}/{path}", f"{theirs}.{name}", shape)
        for path, name in (
            ("attention_norm", "attention.output.LayerNorm"),
            ("feed_forward_norm", "output.LayerNorm"),
        ):
            yield from norm_parts(f"{ours}/{path}", f"{theirs}.{name}", width)
    if architecture.get("norm_first"):  # which Hugging Face has not
        yield from norm_parts(f"{backbone}/final_norm", f"{prefix}encoder.LayerNorm", width)
    if architecture.get("use_pooler", True):
        yield from dense_parts(f"{backbone}/pooler/", f"{prefix}pooler.dense", (width, width))


def head_parts(task: str, heads: Mapping, width: int, names: Mapping = {}) -> Iterator[Part]:
    """Yields the parts of the head of a task, as the task declares them.

    Args:
        task: Name of the task.
        heads: Arguments of the head.
        width: Hidden size.
        names: Dict from our names of layers to their names, where a family does not have those that
            the task declares.
    """
    for path, (name, size) in (TASKS[task].head_layers(heads) or {}).items():
        yield from dense_parts(f"{path}/", names.get(path, name), (width, size))


def dense_parts(path: str, name: str, shape: tuple) -> Iterator[Part]:
    """Yields the parts of a dense layer; `path` ends in "/" or "_"."""
    yield f"{path}kernel", [f"{name}.weight"], shape
    yield f"{path}bias", [f"{name}.bias"], shape[-1:]


def norm_parts(path: str, name: str, width: int) -> Iterator[Part]:
    """Yields the parts of a layer norm."""
    yield f"{path}/gamma", [f"{name}.weight"], (width,)
    yield f"{path}/beta", [f"{name}.bias"], (width,)


def part_shapes(parts: Iterable[Part]) -> dict[str, tuple]:
    """Returns the shapes of our variables by path."""
    return {path: (*own[:-1], len(names) * own[-1]) for path, names, own in parts}


def layout(parts: Iterable[Part], name_in: Callable[[str], str] = str) -> dict[str, list[Piece]]:
    """Returns the tensors that make up each variable; kernels are transposed in `transformers`.

    Args:
        parts: Parts of a model.
        name_in: Function from the name of a tensor to its name in the file.
    """
    return {
        path: [
            Piece(
                name_in(name),
                own[::-1] if path.endswith("kernel") else own,
                transposed=path.endswith("kernel"),
            )
            for name in names
        ]
        for path, names, own in parts
    }


def stored_name(header: Mapping, prefix: str, name: str) -> str:
    """Returns the name that a tensor has in a file.

    A model without a head has no prefix there, and layer norms may have their names of 2018.

    Args:
        header: What has the names in the file.
        prefix: What names of the encoder begin with, such as "bert.".
        name: Name of the tensor.
    """
    for found in dict.fromkeys((name, name.removeprefix(prefix))):
        stem, _, last = found.rpartition(".")
        old = f"{stem}.{_OLD_NORM_NAMES.get(last, last)}"
        for stored in (found, old) if stem.endswith("LayerNorm") else (found,):
            if stored in header:
                return stored
    return name


def position_ids(header: Iterable[str]) -> set[str]:
    """Returns the names of tensors that are position numbers, not weights."""
    return {name for name in header if name.endswith("embeddings.position_ids")}
