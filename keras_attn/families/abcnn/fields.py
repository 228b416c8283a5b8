"""ABCNN: config fields."""

from keras_attn.declarations import FamilyFields
from keras_attn.field import Field

_MODEL = {
    "size": Field(
        str,
        "model size: tiny (1 block, hidden size 64), mini (1, 128) or small (2, 128); if unset, "
        "from `pretrained`, else tiny",
    ),
    "num_layers": Field(
        int, "number of blocks of convolution and pooling; if unset, from model.size", above=0
    ),
    "hidden_dim": Field(
        int, "hidden size, the number of filters; if unset, from model.size", above=0
    ),
    "variant": Field(
        3,
        "attention between the sentences: 0 none, 1 before the convolution, 2 in the pooling, or "
        "3 both",
        choices=(0, 1, 2, 3),
        low=0,
    ),
    "width": Field(4, "width of the filters and of the pooling windows, in tokens", above=0),
    "reduce": Field(
        "mean",
        "vector of each text after a block: mean, or attention to the tokens that match the other "
        "text (attentive pooling)",
        choices=("mean", "attention"),
    ),
    "max_length": Field(
        int,
        "maximum row length in tokens, for variants 1 and 3; if unset, data.length, else 256",
        above=0,
    ),
    "dropout": Field(0.1, "dropout rate", low=0, below=1),
}
FIELDS = FamilyFields(name="abcnn", model=_MODEL, finetuning=_MODEL)
