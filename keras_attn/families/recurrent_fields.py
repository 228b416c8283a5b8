"""Config fields that families of recurrent encoders share."""

from keras_attn.field import Field

SHAPE = {
    "size": Field(
        str,
        "model size: tiny (1 layer, hidden size 128), mini (1, 256) or small (2, 512); if unset, "
        "from `pretrained`, else tiny",
    ),
    "num_layers": Field(int, "number of recurrent layers; if unset, from model.size", above=0),
    "hidden_dim": Field(
        int, "hidden size, half of it per direction; if unset, from model.size", above=0
    ),
}
POOLING = {
    "reduce": Field(
        "attention",
        "reduction of the token vectors to one, if model.pooling=cls: attention, query_attention "
        "(the query is the last states), last, mean or max",
        choices=("attention", "query_attention", "last", "mean", "max"),
    ),
    "dropout": Field(0.3, "dropout rate", low=0, below=1),
}
