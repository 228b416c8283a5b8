"""The BERT of keras-attn, on any backend."""

from benchmarks.contenders.pretraining.batch import VOCABULARY
from keras_attn.models import BertEncoder, BertPretrainer


def make_model(options):
    """Returns a built `BertPretrainer` with random weights."""
    policy = "mixed_bfloat16" if options["bf16"] else "float32"
    backbone = BertEncoder(
        VOCABULARY,
        options["layers"],
        options["hidden_dim"],
        options["heads"],
        dropout=options["dropout"],
        dtype=policy,
    )
    model = BertPretrainer(backbone, dtype=policy)
    model.build()
    return model
