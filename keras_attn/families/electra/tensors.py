"""The tensors of an ELECTRA in `transformers`."""

from keras_attn.families.huggingface_tensors import (
    MaskedLMNames,
    dense_tensors,
    encoder_tensors,
    head_tensors,
    masked_lm_tensors,
)
from keras_attn.families.layer_memory import embedding_dim
from keras_attn.models import ElectraPretrainer

PREFIX = "electra."
MASKED_LM = MaskedLMNames(
    "generator_predictions.dense",
    "generator_predictions.LayerNorm",
    "generator_lm_head.bias",
    "generator_lm_head",
)


def model_tensors(architecture, task, heads):
    """Yields the entries of an ELECTRA; see `keras_attn.families.huggingface_tensors`.

    Args:
        architecture: Arguments of `ElectraEncoder`.
        task, heads: See `TrainedModel`. A generator has no place in their models of a
            discriminator; its entries are named after a model of its own.
    """
    hidden_dim = architecture["hidden_dim"]
    yield from backbone_tensors(architecture, "electra_encoder")
    if task == "masked_lm":
        yield from masked_lm_tensors(architecture, heads, MASKED_LM)
    elif task == "replaced_tokens":
        predictions = "discriminator_predictions.dense"
        yield from dense_tensors("rtd_dense/", predictions, (hidden_dim, hidden_dim))
        yield from dense_tensors("rtd_output/", f"{predictions}_prediction", (hidden_dim, 1))
        fraction = heads.get("generator_fraction")
        if fraction is not None:
            yield from _generator(ElectraPretrainer.generator_arguments(architecture, fraction))
    else:
        names = {}
        if task == "classification":
            names = {"logits_dense": "classifier.out_proj"}
            if heads.get("pooling") in (None, "cls"):
                yield from dense_tensors("hidden_dense/", "classifier.dense", (hidden_dim,) * 2)
        yield from head_tensors(task, heads, hidden_dim, names)


def backbone_tensors(architecture, backbone, prefix=PREFIX):
    """Yields the entries of an ELECTRA without a head.

    Args:
        architecture: Arguments of `ElectraEncoder`.
        backbone: Name of the backbone in our paths.
        prefix: Prefix of the names of the tensors.
    """
    yield from encoder_tensors(architecture, backbone, prefix)
    shape = embedding_dim(architecture), architecture["hidden_dim"]
    if shape[0] != shape[1]:
        yield from dense_tensors(f"{backbone}/projection/", f"{prefix}embeddings_project", shape)


def _generator(architecture):
    """Yields the entries of a generator without the shared embeddings."""
    heads = {"tie_embeddings": True}
    shared = {f"electra_encoder/{name}" for name in ElectraPretrainer.SHARED}
    for entries in (
        backbone_tensors(architecture, "electra_encoder"),
        masked_lm_tensors(architecture, heads, MASKED_LM),
    ):
        for path, names, shape in entries:
            if path not in shared:
                yield f"generator/{path}", [f"generator.{name}" for name in names], shape
