"""The variables of a GPT-2 and the tensors that they are elsewhere."""

from keras_attn.checkpoints.architectures import require_arguments
from keras_attn.errors import UserError


def parts(architecture):
    """Yields every variable of a GPT-2 with the tensor of Hugging Face that it is.

    Args:
        architecture: Arguments of `GPT2`.

    Yields:
        (our path, name below `transformer.`, shape, of both).
    """
    width, inner = architecture["hidden_dim"], architecture["intermediate_dim"]
    yield "gpt2/token_embedding", "wte.weight", (architecture["vocabulary_size"], width)
    yield "gpt2/position_embedding/embeddings", "wpe.weight", (architecture["max_length"], width)
    for number in range(architecture["num_layers"]):
        ours, theirs = f"gpt2/layer_{number}", f"h.{number}"
        for path, name, shape in (
            ("attention/query_key_value_", "attn.c_attn", (width, 3 * width)),
            ("attention/output_", "attn.c_proj", (width, width)),
            ("feed_forward/intermediate/", "mlp.c_fc", (width, inner)),
            ("feed_forward/output/", "mlp.c_proj", (inner, width)),
        ):
            yield f"{ours}/{path}kernel", f"{theirs}.{name}.weight", shape
            yield f"{ours}/{path}bias", f"{theirs}.{name}.bias", shape[-1:]
        for path, name in (("attention_norm", "ln_1"), ("feed_forward_norm", "ln_2")):
            yield from _norm(f"{ours}/{path}", f"{theirs}.{name}", width)
    yield from _norm("gpt2/norm", "ln_f", width)


def _norm(path, name, width):
    yield f"{path}/gamma", f"{name}.weight", (width,)
    yield f"{path}/beta", f"{name}.bias", (width,)


def check_writable(trained, format, **needed):
    """Raises UserError for a GPT-2 that another library does not have."""
    if trained.task == "classification":
        raise UserError(
            f"{format} has no GPT-2 that classifies; only language models are "
            "written. Received: a classifier"
        )
    architecture = trained.architecture
    given = {
        **architecture,
        "intermediate_dim / hidden_dim": architecture["intermediate_dim"]
        / architecture["hidden_dim"],
    }
    require_arguments(given, needed, f"A GPT-2 for {format} must have {{}}.")
