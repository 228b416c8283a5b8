"""Transformer: config fields and checkpoint formats."""

from keras_attn.declarations import FamilyFields
from keras_attn.field import Field
from keras_attn.shared_fields import LABEL_SMOOTHING

_MODEL = {
    "size": Field(
        str,
        "model size: tiny (4 + 4 layers, hidden size 128), base (6 + 6, 512) or big (6 + 6, "
        "1,024); if unset, from `pretrained`, else tiny",
    ),
    "num_layers": Field(
        int,
        "number of encoder layers, and of decoder layers; if unset, from model.size",
        above=0,
    ),
    "hidden_dim": Field(int, "hidden size; if unset, from model.size", above=0),
    "num_heads": Field(int, "attention heads per layer; if unset, from model.size", above=0),
    "intermediate_dim": Field(int, "feed-forward size; if unset, from model.size", above=0),
    "positions": Field(
        "sinusoidal",
        "position embeddings: sinusoidal or learned",
        choices=("sinusoidal", "learned"),
    ),
    "norm_first": Field(
        True,
        "pre-norm (True) or post-norm (False, as in the paper), with which a small model on "
        "little text may fail to learn attention",
    ),
    "tie_embeddings": Field(True, "whether the output layer shares the token embedding matrix"),
    "dropout": Field(0.1, "dropout rate", low=0, below=1),
    "attention_dropout": Field(0.0, "dropout rate of the attention weights", low=0, below=1),
    "label_smoothing": LABEL_SMOOTHING,
}

FIELDS = FamilyFields(
    name="transformer",
    model=_MODEL,
)
