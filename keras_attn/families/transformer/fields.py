"""Transformer: config fields, and the formats of its checkpoints."""

from keras_attn.declarations import FamilyFields
from keras_attn.field import Field

_MODEL = {
    "size": Field(
        str, "tiny (4 + 4 layers of 128), base (6 + 6 of 512) or big (of 1,024); without: that of "
        "`pretrained` or tiny"),
    "num_layers": Field(
        int, "of the encoder, and of the decoder; this and the widths; without: those of the size"),
    "hidden_dim": Field(int, "width"),
    "num_heads": Field(int, "attention heads of a layer"),
    "intermediate_dim": Field(int, "width inside the feed-forward part"),
    "positions": Field("sinusoidal", "sinusoidal or learned", choices=("sinusoidal", "learned")),
    "norm_first": Field(
        True, "norm before each part; False: after it, as in the paper: then a small model on "
        "little text may not learn to attend"),
    "tie_embeddings": Field(True, "whether the output's kernel is the table of tokens"),
    "dropout": Field(0.1, "share of values set to 0 in training", low=0, below=1),
    "attention_dropout": Field(
        0.0, "share of attention weights set to 0 in training", low=0, below=1),
    "label_smoothing": Field(
        0.1, "share of each label that is spread over the vocabulary", low=0, below=1),
}

FIELDS = FamilyFields(
    name="transformer",
    model=_MODEL,
)
