"""The variables of an XLNet and the tensors that make them up elsewhere."""

from keras_attn.checkpoints.architectures import require_arguments
from keras_attn.errors import UserError


def parts(architecture):
    """Yields every variable of `XLNet` with the tensors of Hugging Face that it is made of.

    Args:
        architecture: Arguments of `XLNet`.

    Yields:
        (our path, names, shape of our part that each name fills, shape of theirs where it is no
        matrix of ours).
    """
    width, inner, heads_of = (
        architecture[name] for name in ("hidden_dim", "intermediate_dim", "num_heads")
    )
    by_head = width, heads_of, width // heads_of
    yield (
        "xlnet/token_embedding",
        ["transformer.word_embedding.weight"],
        (architecture["vocabulary_size"], width),
        None,
    )
    yield "xlnet/query_embedding", ["transformer.mask_emb"], (width,), (1, 1, width)
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
                (width, width),
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
        yield from _norm(f"{ours}/attention_norm", f"{attention}.layer_norm", width)
        yield from _dense(
            f"{ours}/feed_forward/intermediate", f"{theirs}.ff.layer_1", (width, inner)
        )
        yield from _dense(f"{ours}/feed_forward/output", f"{theirs}.ff.layer_2", (inner, width))
        yield from _norm(f"{ours}/feed_forward_norm", f"{theirs}.ff.layer_norm", width)
    if architecture["use_pooler"]:
        yield from _dense("xlnet/pooler", "sequence_summary.summary", (width, width))


def _dense(path, name, shape):
    yield f"{path}/kernel", [f"{name}.weight"], shape, None
    yield f"{path}/bias", [f"{name}.bias"], shape[-1:], None


def _norm(path, name, width):
    yield f"{path}/gamma", [f"{name}.weight"], (width,), None
    yield f"{path}/beta", [f"{name}.bias"], (width,), None


def is_dense(name):
    """Whether a tensor is a kernel that Hugging Face turns."""
    return name.endswith(("layer_1.weight", "layer_2.weight", "summary.weight"))


def is_output(name):
    """Whether a tensor is that of the attention's output, which is turned everywhere."""
    return name.endswith(".rel_attn.o")


def check_writable(trained, format, **needed):
    """Raises UserError for an XLNet that other libraries do not have."""
    if trained.task == "classification" and not trained.architecture["use_pooler"]:
        raise UserError(
            f"A classifier for {format} must be trained with model.pooling=cls. "
            f"Received: pooling={trained.heads.get('pooling')}"
        )
    require_arguments(trained.architecture, needed, f"An XLNet for {format} must have {{}}.")
