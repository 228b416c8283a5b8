"""The tensors of an XLNet in checkpoints of other libraries."""

from keras_attn.checkpoints.architectures import require_arguments
from keras_attn.errors import UserError


def model_tensors(architecture):
    """Yields the variables of an XLNet and their tensors in `transformers`.

    Args:
        architecture: Arguments of `XLNet`.

    Yields:
        (our path, their names, shape of the slice of our variable that each tensor fills, shape of
        their tensor if it differs).
    """
    hidden_dim, inner, num_heads = (
        architecture[name] for name in ("hidden_dim", "intermediate_dim", "num_heads")
    )
    by_head = hidden_dim, num_heads, hidden_dim // num_heads
    yield (
        "xlnet/token_embedding",
        ["transformer.word_embedding.weight"],
        (architecture["vocabulary_size"], hidden_dim),
        None,
    )
    yield "xlnet/query_embedding", ["transformer.mask_emb"], (hidden_dim,), (1, 1, hidden_dim)
    for number in range(architecture["num_layers"]):
        ours, theirs = f"xlnet/layer_{number}", f"transformer.layer.{number}"
        attention = f"{theirs}.rel_attn"
        for path, names in (
            ("query_key_value_kernel", "qkv"),
            ("output_kernel", "o"),
            ("position_kernel", "r"),
        ):
            yield (
                f"{ours}/attention/{path}",
                [f"{attention}.{name}" for name in names],
                (hidden_dim, hidden_dim),
                by_head,
            )
        yield (
            f"{ours}/attention/segment_table",
            [f"{attention}.seg_embed"],
            (2, *by_head[1:]),
            None,
        )
        for path, name in (("content", "r_w"), ("position", "r_r"), ("segment", "r_s")):
            yield (f"{ours}/attention/{path}_bias", [f"{attention}.{name}_bias"], by_head[1:], None)
        yield from _norm(f"{ours}/attention_norm", f"{attention}.layer_norm", hidden_dim)
        yield from _dense(
            f"{ours}/feed_forward/intermediate", f"{theirs}.ff.layer_1", (hidden_dim, inner)
        )
        yield from _dense(
            f"{ours}/feed_forward/output", f"{theirs}.ff.layer_2", (inner, hidden_dim)
        )
        yield from _norm(f"{ours}/feed_forward_norm", f"{theirs}.ff.layer_norm", hidden_dim)
    if architecture["use_pooler"]:
        yield from _dense("xlnet/pooler", "sequence_summary.summary", (hidden_dim, hidden_dim))


def _dense(path, name, shape):
    yield f"{path}/kernel", [f"{name}.weight"], shape, None
    yield f"{path}/bias", [f"{name}.bias"], shape[-1:], None


def _norm(path, name, size):
    yield f"{path}/gamma", [f"{name}.weight"], (size,), None
    yield f"{path}/beta", [f"{name}.bias"], (size,), None


def is_dense(name):
    """Returns whether a tensor is a dense kernel, which `transformers` transposes."""
    return name.endswith(("layer_1.weight", "layer_2.weight", "summary.weight"))


def is_output(name):
    """Returns whether a tensor is the output projection of attention, which is transposed."""
    return name.endswith(".rel_attn.o")


def check_writable(trained, format, **needed):
    """Raises a `UserError` for a model that another library does not support.

    Args:
        trained: `TrainedModel`.
        format: Name of the library in messages.
        **needed: Arguments of the backbone, and the only value that it supports.
    """
    if trained.task == "classification" and not trained.architecture["use_pooler"]:
        raise UserError(
            f"{format} supports only classifiers trained with model.pooling=cls. "
            f"Received: pooling={trained.heads.get('pooling')}"
        )
    require_arguments(
        trained.architecture, needed, f"{format} supports only XLNet models with {{}}."
    )
