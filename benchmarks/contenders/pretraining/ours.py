"""A training step of keras-attn, as in `python -m pretrain`."""

import numpy as np
import tensorflow as tf

from benchmarks.contenders.pretraining.batch import synthetic_batch
from benchmarks.contenders.pretraining.our_model import make_model
from benchmarks.interleaved import serve
from keras_attn.freed_memory import keep_freed_memory
from keras_attn.training.engines import make_engine
from keras_attn.training.engines.tensorflow.feed import Feed
from keras_attn.training.optimizers import make_optimizer


def prepare(options):
    model = make_model(options)
    step = make_engine(strategy="one_device").make_step(
        model, make_optimizer("adamw", model), jit=options["xla"]
    )
    batch = synthetic_batch(options["rows"], options["length"], options["masked"])
    feed = Feed(
        tf.data.Dataset.from_tensors({name: value[None] for name, value in batch.items()})
        .repeat()
        .prefetch(2)
    )

    def work(count):
        records = step.run(feed, 0, np.full(count, 1e-4))
        return {"loss": records[-1]["loss"]}

    return work


if __name__ == "__main__":
    keep_freed_memory()  # as the commands do
    serve(prepare)
