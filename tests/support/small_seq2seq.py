"""Small recurrent translators."""

import numpy as np

from keras_attn.models.recurrent import BahdanauSeq2Seq, LuongSeq2Seq

PAD, BEGIN, END = 0, 1, 2
MODELS = {
    "bahdanau": (BahdanauSeq2Seq, {"attention_units": 5, "readout_units": 3}),
    "luong": (LuongSeq2Seq, {}),
    "unfed": (LuongSeq2Seq, {"input_feeding": False, "num_layers": 2, "score": "additive"}),
    "gru": (LuongSeq2Seq, {"cell": "gru", "bidirectional": False, "num_layers": 2}),
    "monotonic": (LuongSeq2Seq, {"attention": "local_monotonic", "window": 1}),
    "predictive": (LuongSeq2Seq, {"attention": "local_predictive", "window": 2}),
    "hard": (LuongSeq2Seq, {"attention": "hard", "score": "dot"}),
    "straight_through": (LuongSeq2Seq, {"attention": "straight_through"}),
    "reinforce": (LuongSeq2Seq, {"attention": "reinforce", "input_feeding": False}),
    "mixed": (LuongSeq2Seq, {"attention": "mixed", "window": 2}),
    "expanded": (LuongSeq2Seq, {"attention": "expanded_window", "window": 2}),
    "plain": (LuongSeq2Seq, {"attention": None}),
}


def seq2seq_model(name, **options):
    kind, own = MODELS[name]
    model = kind(
        11, 8, **{"embedding_dim": 6, "target_vocabulary_size": 9, "seed": 1, **own, **options}
    )
    model.build()
    random = np.random.default_rng(3)  # the same on every backend
    for weight in model.weights:
        if len(weight.shape) > 1 or weight.name == "bias":
            weight.assign(random.normal(0, 1.5 * weight.shape[0] ** -0.5, weight.shape))
    for table in (model.token_embedding, model.decoder.embedding):
        table.assign(5 * table)  # else the words of a model that has not learned hardly matter
    return model


def seq2seq_batch(rows=3, seed=0):
    random = np.random.default_rng(seed)
    batch = {
        "token_ids": random.integers(3, 11, (rows, 7)),
        "padding_mask": np.ones((rows, 7), int),
        "target_ids": random.integers(3, 9, (rows, 6)),
        "label": random.integers(2, 9, (rows, 6)),
        "sample_weight": np.ones((rows, 6), int),
    }
    batch["padding_mask"][1, 4:] = batch["token_ids"][1, 4:] = 0
    batch["target_ids"][:, 0] = BEGIN
    batch["sample_weight"][2, 3:] = 0
    return {name: array.astype("int32") for name, array in batch.items()}
