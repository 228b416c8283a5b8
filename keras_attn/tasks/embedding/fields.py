"""Embeddings of texts: config fields and files."""

from keras_attn.declarations import Option, TaskFields
from keras_attn.field import Field
from keras_attn.shared_fields import DISTILLATION
from keras_attn.tasks.finetuning.fields import joint_fields
from keras_attn.tasks.finetuning.ranking import RETRIEVAL

SCORED = ("spearman", "pearson")

_DATA = {
    "negative": Field(str, "column of a hard negative of each pair (embedding); if unset, none"),
}
_MODEL = {
    "projection": Field(
        int, "size of a dense layer after the pooling (embedding); if unset, none", above=0
    ),
}
_TRAINING = {
    "loss": Field(
        str,
        "loss (embedding): in_batch_negatives (pairs), triplet (with data.negative), cosent or "
        "cosine (pairs with scores); if unset, cosent with data.label, else in_batch_negatives",
        choices=("in_batch_negatives", "triplet", "cosent", "cosine"),
        chosen=True,
    ),
    "temperature": Field(
        0.05,
        "divisor of the cosine similarities (embedding: in_batch_negatives, cosent, train.teacher)",
        above=0,
    ),
    "symmetric": Field(
        False,
        "whether to add the loss of retrieving first texts from second texts (embedding: "
        "in_batch_negatives)",
    ),
    "margin": Field(
        1.0,
        "margin of the Euclidean distances of vectors of length 1 (embedding: triplet)",
        low=0,
    ),
    **DISTILLATION,
}

FIELDS = TaskFields(
    command="finetune",
    family="bert",
    config=joint_fields,
    summary="embedding: vectors of texts, from pairs, triplets, scored pairs or single texts",
    joint={"data": _DATA, "model": _MODEL, "train": _TRAINING},
    metrics=(*SCORED, *RETRIEVAL),
    options={
        "evaluate": {
            "label": Option(str, "Label column; if unset, as in training.", flag="label_column")
        }
    },
    files=("embedding.json",),
    loaded="keras_attn.tasks.embedder.Embedder",
    convert_heads={"embedding": {}},
    keras_classes={"keras_attn.models.text_embedder": ("EmbeddingHead", "TextEmbedder")},
)
