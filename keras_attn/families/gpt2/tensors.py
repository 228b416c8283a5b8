"""The tensors of a GPT-2 in checkpoints of other libraries."""

from keras_attn.checkpoints.architectures import require_arguments
from keras_attn.errors import UserError


def model_tensors(architecture):
    """Yields the variables of a GPT-2 and their tensors in `transformers`.

    Args:
        architecture: Arguments of `GPT2`.

    Yields:
        (our path, their name below `transformer.`, shape of both).
    """
    hidden_dim, inner = architecture["hidden_dim"], architecture["intermediate_dim"]
    yield "gpt2/token_embedding", "wte.weight", (architecture["vocabulary_size"], hidden_dim)
    yield (
        "gpt2/position_embedding/embeddings",
        "wpe.weight",
        (architecture["max_length"], hidden_dim),
    )
    for number in range(architecture["num_layers"]):
        ours, theirs = f"gpt2/layer_{number}", f"h.{number}"
        for path, name, shape in (
            ("attention/query_key_value_", "attn.c_attn", (hidden_dim, 3 * hidden_dim)),
            ("attention/output_", "attn.c_proj", (hidden_dim, hidden_dim)),
            ("feed_forward/intermediate/", "mlp.c_fc", (hidden_dim, inner)),
            ("feed_forward/output/", "mlp.c_proj", (inner, hidden_dim)),
        ):
            yield f"{ours}/{path}kernel", f"{theirs}.{name}.weight", shape
            yield f"{ours}/{path}bias", f"{theirs}.{name}.bias", shape[-1:]
        for path, name in (("attention_norm", "ln_1"), ("feed_forward_norm", "ln_2")):
            yield from _norm(f"{ours}/{path}", f"{theirs}.{name}", hidden_dim)
    yield from _norm("gpt2/norm", "ln_f", hidden_dim)


def _norm(path, name, size):
    yield f"{path}/gamma", f"{name}.weight", (size,)
    yield f"{path}/beta", f"{name}.bias", (size,)


def check_writable(trained, format, **needed):
    """Raises a `UserError` for a model that another library does not support.

    Args:
        trained: `TrainedModel`.
        format: Name of the library in messages.
        **needed: Arguments of the backbone, and the only value that it supports.
    """
    if trained.task != "causal_lm":
        raise UserError(
            f"{format} supports only GPT-2 language models. Received: a model for {trained.task}"
        )
    architecture = trained.architecture
    given = {
        **architecture,
        "intermediate_dim / hidden_dim": architecture["intermediate_dim"]
        / architecture["hidden_dim"],
    }
    require_arguments(given, needed, f"{format} supports only GPT-2 models with {{}}.")
