"""Times one MLM + NSP training step on a synthetic batch, from the batch to updated weights.

    python benchmarks/pretraining_step.py LAYERS WIDTH HEADS BATCH LENGTH MASKED MODE

MODE joins any of bf16, jit, nodrop with "+", or is "plain". Prints milliseconds a step,
sequences a second and useful GFLOP/s: 6 B (12 L D^2 T + 2 L T^2 D + P (D^2 + V D)) a step.
Environment: N timed steps (20) after W warm-up steps (3), NT threads (all).
"""

import os
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["KERAS_BACKEND"] = "tensorflow"

import numpy as np
import tensorflow as tf

from keras_attn.models import BertEncoder, BertPretrainer
from keras_attn.training.optimizers import make_optimizer
from keras_attn.training.step import TrainingStep

VOCABULARY = 30522


def synthetic_batch(rows, length, masked, seed=0):
    """Full-length rows of random ids, half of each row in either segment."""
    random = np.random.default_rng(seed)
    ids = random.integers(1000, VOCABULARY, (rows, length), dtype=np.int32)
    ids[:, 0] = 101
    places = [np.sort(random.permutation(np.arange(1, length))[:masked]) for _ in range(rows)]
    positions = np.stack(places).astype(np.int32)
    labels = np.take_along_axis(ids, positions, 1)
    np.put_along_axis(ids, positions, 103, 1)
    segments = np.repeat((np.arange(length) >= length // 2).astype(np.int32)[None], rows, 0)
    return {
        "token_ids": ids, "segment_ids": segments, "padding_mask": np.ones_like(ids),
        "mask_positions": positions, "mask_ids": labels,
        "mask_weights": np.ones(labels.shape, np.float32),
        "next_sentence_label": random.integers(0, 2, (rows,), dtype=np.int32),
    }


def main():
    layers, width, heads, rows, length, masked = map(int, sys.argv[1:7])
    mode = sys.argv[7] if len(sys.argv) > 7 else "plain"
    if os.environ.get("NT"):
        tf.config.threading.set_intra_op_parallelism_threads(int(os.environ["NT"]))
        tf.config.threading.set_inter_op_parallelism_threads(1)
    policy = "mixed_bfloat16" if "bf16" in mode else "float32"
    backbone = BertEncoder(
        VOCABULARY, layers, width, heads, dropout=0.0 if "nodrop" in mode else 0.1, dtype=policy
    )
    model = BertPretrainer(backbone, dtype=policy)
    model.build()
    optimizer = make_optimizer("adamw", model)
    step = TrainingStep(model, optimizer, tf.distribute.OneDeviceStrategy("/cpu:0"),
                        jit="jit" in mode)
    batch = {k: v[None] for k, v in synthetic_batch(rows, length, masked).items()}
    batches = iter(tf.data.Dataset.from_tensors(batch).repeat().prefetch(2))
    warm, timed = int(os.environ.get("W", 3)), int(os.environ.get("N", 20))
    step.run(batches, 0, np.full(warm, 1e-4))
    begin = time.perf_counter()
    records = step.run(batches, warm, np.full(timed, 1e-4))
    seconds = (time.perf_counter() - begin) / timed
    work = 6 * rows * (12 * layers * width**2 * length + 2 * layers * length**2 * width
                       + masked * (width**2 + VOCABULARY * width))
    print(f"keras-attn {mode} L{layers} H{width} B{rows} S{length} P{masked}: "
          f"{seconds * 1e3:.1f} ms/step {rows / seconds:.1f} seq/s "
          f"{work / seconds / 1e9:.0f} GFLOP/s loss {records[-1]['loss']:.3f}")


if __name__ == "__main__":
    main()
