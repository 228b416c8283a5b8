"""Time of an update of all weights of a BERT: AdamW in keras-attn and in Keras, and Muon.

    python benchmarks/optimizer.py LAYERS HIDDEN_SIZE HEADS

Prints the median milliseconds of 5 runs of 8 updates.
"""

import os
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import numpy as np
import tensorflow as tf

from keras_attn.models import BertEncoder, BertPretrainer
from keras_attn.training.optimizers import make_optimizer

UPDATES = 8


def timer(optimizer, gradients, variables):
    """Returns a function that measures the milliseconds of one update."""

    @tf.function(autograph=False)
    def updates(count):
        def update(i):
            # Multiplied so that they are no constants, on which TensorFlow could precompute.
            optimizer.apply([gradient * 1.0 for gradient in gradients], variables)
            return i + 1

        return tf.while_loop(lambda i: i < count, update, [0], parallel_iterations=1)

    updates(1)

    def measure():
        begin = time.perf_counter()
        updates(UPDATES)
        return (time.perf_counter() - begin) / UPDATES * 1e3

    return measure


def main():
    layers, hidden_dim, heads = map(int, sys.argv[1:4])
    model = BertPretrainer(BertEncoder(30522, layers, hidden_dim, heads))
    model.build()
    variables = model.trainable_variables
    ours, muon = (make_optimizer(name, model) for name in ("adamw", "muon"))
    keras_adamw = keras.optimizers.AdamW(1e-4, weight_decay=0.01, epsilon=1e-6)
    keras_adamw.exclude_from_weight_decay(var_list=[v for v in variables if len(v.shape) < 2])
    keras_adamw.build(variables)
    gradients = [tf.random.normal(v.shape) for v in variables]
    timers = [timer(optimizer, gradients, variables) for optimizer in (ours, keras_adamw, muon)]
    times = np.median([[measure() for measure in timers] for _ in range(5)], axis=0)
    print(
        f"{model.count_params():,} weights: AdamW of keras-attn {times[0]:.1f} ms, "
        f"AdamW of Keras {times[1]:.1f} ms, Muon of keras-attn {times[2]:.1f} ms"
    )


if __name__ == "__main__":
    main()
