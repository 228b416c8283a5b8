"""Luong: config fields."""

from keras_attn.declarations import FamilyFields
from keras_attn.field import Field
from keras_attn.shared_fields import RECURRENT_TRANSLATOR

FIELDS = FamilyFields(
    name="luong",
    model={
        "size": Field(
            str,
            "model size: tiny (1 layer of 128 units), mini (1 of 256), small (2 of 512) or base "
            "(4 of 1,000, as in the paper); if unset, from `pretrained`, else tiny",
        ),
        "num_layers": Field(
            int,
            "number of encoder layers, and of decoder layers; if unset, from model.size",
            above=0,
        ),
        "units": Field(int, "hidden size; if unset, from model.size", above=0),
        "embedding_dim": Field(int, "embedding size; if unset, model.units", above=0),
        "cell": Field("lstm", "recurrent cell: lstm or gru", choices=("lstm", "gru")),
        "bidirectional": Field(True, "whether the encoder is bidirectional"),
        "attention": Field(
            "global",
            "attention: global, local_monotonic, local_predictive, mixed, expanded_window, "
            "straight_through, gumbel (also hard) or reinforce (one key), or none",
            choices=(
                "global",
                "local_monotonic",
                "local_predictive",
                "mixed",
                "expanded_window",
                "straight_through",
                "gumbel",
                "reinforce",
                "hard",
                "none",
            ),
        ),
        "score": Field(
            "general",
            "attention score: dot, scaled_dot, general, concat, additive or cosine",
            choices=("dot", "scaled_dot", "general", "concat", "additive", "cosine"),
        ),
        "window": Field(
            10,
            "number of keys on either side of the center of local and mixed attention, or in a "
            "window of expanded_window",
            low=0,
        ),
        "input_feeding": Field(
            True, "whether the attention output is an input of the next step; False is faster"
        ),
        **RECURRENT_TRANSLATOR,
    },
)
