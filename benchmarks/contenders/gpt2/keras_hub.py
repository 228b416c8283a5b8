"""KerasHub's GPT-2: a training step, or `generate`."""

import keras
import keras_hub
import numpy as np
import tensorflow as tf

from benchmarks.contenders.gpt2.sizes import POSITIONS, VOCABULARY, random_ids
from benchmarks.interleaved import check_length, serve


def prepare(options):
    if options["bf16"]:
        # Generation needs no float32 weights.
        keras.config.set_dtype_policy("bfloat16" if options["tokens"] else "mixed_bfloat16")
    keras.utils.set_random_seed(0)
    model = keras_hub.models.GPT2CausalLM(
        keras_hub.models.GPT2Backbone(
            vocabulary_size=VOCABULARY,
            num_layers=options["layers"],
            num_heads=options["heads"],
            hidden_dim=options["hidden_dim"],
            intermediate_dim=4 * options["hidden_dim"],
            dropout=0.0,
            max_sequence_length=POSITIONS,
        ),
        preprocessor=None,
    )
    ids = random_ids(options["rows"], options["length"])
    return (_texts if options["tokens"] else _steps)(model, ids, options)


def _steps(model, ids, options):
    optimizer = keras.optimizers.AdamW(1e-4, weight_decay=0.01, epsilon=1e-6, global_clipnorm=1.0)
    optimizer.exclude_from_weight_decay(
        var_list=[v for v in model.trainable_variables if len(v.shape) < 2]
    )
    model.compile(
        optimizer,
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=options["xla"],
    )
    known = (np.arange(ids.shape[1]) < ids.shape[1] - 1).astype("float32")[None]
    batches = iter(
        tf.data.Dataset.from_tensors(
            (
                {"token_ids": ids, "padding_mask": np.ones_like(ids)},
                np.roll(ids, -1, 1),
                np.repeat(known, len(ids), 0),
            )
        )
        .repeat()
        .prefetch(2)
    )
    model.make_train_function()

    def work(count):
        for _ in range(count):
            found = model.train_function(batches)
        float(found["loss"])  # waits for the last step
        return {}

    return work


def _texts(model, ids, options):
    length = ids.shape[1]
    sampler = (
        keras_hub.samplers.BeamSampler(num_beams=options["beams"])
        if options["beams"] > 1
        else keras_hub.samplers.TopKSampler(k=options["top_k"], seed=0)
        if options["top_k"]
        else "greedy"
    )
    model.compile(sampler=sampler, jit_compile=options["xla"])
    rows, total = len(ids), length + options["tokens"]
    inputs = {
        "token_ids": np.pad(ids, ((0, 0), (0, options["tokens"]))),
        "padding_mask": (np.arange(total)[None] < length).repeat(rows, 0),
    }

    def work(count):
        for _ in range(count):
            found = model.generate(inputs, stop_token_ids=None)
            check_length(found["token_ids"].shape[1] - length, options["tokens"])
        return {}

    return work


if __name__ == "__main__":
    serve(prepare)
