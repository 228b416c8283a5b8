"""A training step of TensorFlow Model Garden: `BertPretrainerV2`."""

import os

os.environ["TF_USE_LEGACY_KERAS"] = "1"

import tensorflow as tf
import tf_keras
from official.modeling.optimization.legacy_adamw import AdamWeightDecay
from official.nlp.modeling import layers, models, networks

from benchmarks.contenders.pretraining.batch import VOCABULARY, synthetic_batch
from benchmarks.interleaved import serve


def prepare(options):
    if options["bf16"]:
        tf_keras.mixed_precision.set_global_policy("mixed_bfloat16")
    tf_keras.utils.set_random_seed(0)
    hidden_dim, dropout = options["hidden_dim"], options["dropout"]
    encoder = networks.BertEncoderV2(
        vocab_size=VOCABULARY,
        num_layers=options["layers"],
        hidden_size=hidden_dim,
        num_attention_heads=options["heads"],
        inner_dim=4 * hidden_dim,
        type_vocab_size=2,
        output_dropout=dropout,
        attention_dropout=dropout,
    )
    model = models.BertPretrainerV2(
        encoder,
        mlm_activation=lambda x: tf_keras.activations.gelu(x, approximate=True),
        classification_heads=[
            layers.ClassificationHead(
                inner_dim=hidden_dim, num_classes=2, dropout_rate=dropout, name="pairs"
            )
        ],
    )
    optimizer = AdamWeightDecay(
        1e-4,
        weight_decay_rate=0.01,
        epsilon=1e-6,
        gradient_clip_norm=1.0,
        exclude_from_weight_decay=["LayerNorm", "layer_norm", "bias"],
    )
    batch = {
        name: tf.constant(value)
        for name, value in synthetic_batch(
            options["rows"], options["length"], options["masked"]
        ).items()
    }
    inputs = {
        "input_word_ids": batch["token_ids"],
        "input_mask": batch["padding_mask"],
        "input_type_ids": batch["segment_ids"],
        "masked_lm_positions": batch["mask_positions"],
    }
    entropy = tf.nn.sparse_softmax_cross_entropy_with_logits

    @tf.function(jit_compile=options["xla"])
    def step():
        with tf.GradientTape() as tape:
            found = model(inputs, training=True)
            errors = entropy(batch["mask_ids"], tf.cast(found["mlm_logits"], tf.float32))
            weights = batch["mask_weights"]
            pairs = entropy(batch["next_sentence_label"], tf.cast(found["pairs"], tf.float32))
            loss = tf.reduce_sum(errors * weights) / tf.reduce_sum(weights) + tf.reduce_mean(pairs)
        variables = model.trainable_variables
        # The loss does not depend on the encoder's own pooler.
        gradients = tape.gradient(loss, variables)
        optimizer.apply_gradients(
            [(g, v) for g, v in zip(gradients, variables, strict=True) if g is not None]
        )
        return loss

    def work(count):
        for _ in range(count):
            loss = step()
        return {"loss": float(loss)}

    return work


if __name__ == "__main__":
    serve(prepare)
