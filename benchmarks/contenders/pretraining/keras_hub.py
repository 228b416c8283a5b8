"""A training step of KerasHub: `BertBackbone` with masked-LM and next-sentence heads."""

import keras
import keras_hub
import tensorflow as tf

from benchmarks.contenders.pretraining.batch import VOCABULARY, synthetic_batch
from benchmarks.interleaved import serve


def prepare(options):
    if options["bf16"]:
        keras.config.set_dtype_policy("mixed_bfloat16")
    keras.utils.set_random_seed(0)
    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=VOCABULARY,
        num_layers=options["layers"],
        num_heads=options["heads"],
        hidden_dim=options["hidden_dim"],
        intermediate_dim=4 * options["hidden_dim"],
        dropout=options["dropout"],
    )
    positions = keras.Input((options["masked"],), dtype="int32")
    head = keras_hub.layers.MaskedLMHead(
        VOCABULARY,
        backbone.token_embedding,
        activation="linear",
        intermediate_activation=lambda x: keras.activations.gelu(x, approximate=True),
    )
    words = head(backbone.output["sequence_output"], mask_positions=positions)
    words = keras.layers.Activation("linear", dtype="float32", name="words")(words)
    pairs = keras.layers.Dense(2, dtype="float32", name="pairs")(backbone.output["pooled_output"])
    model = keras.Model(
        {**backbone.input, "mask_positions": positions}, {"words": words, "pairs": pairs}
    )
    optimizer = keras.optimizers.AdamW(1e-4, weight_decay=0.01, epsilon=1e-6, global_clipnorm=1.0)
    optimizer.exclude_from_weight_decay(
        var_list=[v for v in model.trainable_variables if len(v.shape) < 2]
    )
    entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, {"words": entropy, "pairs": entropy}, jit_compile=options["xla"])
    batch = synthetic_batch(options["rows"], options["length"], options["masked"])
    names = ("token_ids", "segment_ids", "padding_mask", "mask_positions")
    batches = iter(
        tf.data.Dataset.from_tensors(
            (
                {name: batch[name] for name in names},
                {"words": batch["mask_ids"], "pairs": batch["next_sentence_label"]},
                {"words": batch["mask_weights"], "pairs": tf.ones(options["rows"])},
            )
        )
        .repeat()
        .prefetch(2)
    )
    model.make_train_function()

    def work(count):
        for _ in range(count):
            found = model.train_function(batches)
        return {"loss": float(found["loss"])}

    return work


if __name__ == "__main__":
    serve(prepare)
