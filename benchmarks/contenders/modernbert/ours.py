"""A masked-LM training step of ModernBERT in keras-attn, as in `python -m pretrain`."""

import numpy as np
import tensorflow as tf

from benchmarks.contenders.pretraining.batch import VOCABULARY, synthetic_batch
from benchmarks.interleaved import serve
from benchmarks.process_memory import read_memory, reset_peak
from keras_attn.freed_memory import keep_freed_memory
from keras_attn.models import ModernBertEncoder, ModernBertPretrainer
from keras_attn.training.engines import make_engine
from keras_attn.training.engines.tensorflow.feed import Feed
from keras_attn.training.optimizers import make_optimizer

INPUTS = "token_ids", "padding_mask", "mask_positions", "mask_ids", "mask_weights"


def prepare(options):
    before = reset_peak()
    policy = "mixed_bfloat16" if options["bf16"] else "float32"
    backbone = ModernBertEncoder.from_size(options["size"], VOCABULARY, dtype=policy)
    model = ModernBertPretrainer(backbone, dtype=policy)
    model.build()
    step = make_engine(strategy="one_device").make_step(
        model, make_optimizer("adamw", model), jit=options["xla"]
    )
    batch = synthetic_batch(options["rows"], options["length"], options["masked"])
    one = {name: batch[name][None] for name in INPUTS}
    feed = Feed(tf.data.Dataset.from_tensors(one).repeat().prefetch(2))

    def work(count):
        records = step.run(feed, 0, np.full(count, 1e-4))
        return {"loss": records[-1]["loss"], "memory": read_memory("VmHWM") - before}

    return work


if __name__ == "__main__":
    keep_freed_memory()  # as the commands do
    serve(prepare)
