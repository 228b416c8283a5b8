"""GPT-2 of keras-attn: a training step of `python -m pretrain`, or generation as in `generate`."""

from types import SimpleNamespace

import numpy as np
import tensorflow as tf

from benchmarks.contenders.gpt2.sizes import END, POSITIONS, VOCABULARY, random_ids
from benchmarks.interleaved import check_length, serve
from keras_attn.freed_memory import keep_freed_memory
from keras_attn.models import GPT2, GPT2LanguageModel
from keras_attn.tasks.generator import Generator
from keras_attn.training.engines import make_engine
from keras_attn.training.engines.tensorflow.feed import Feed
from keras_attn.training.optimizers import make_optimizer


def prepare(options):
    half = "bfloat16" if options["tokens"] else "mixed_bfloat16"  # generation: --precision=bfloat16
    policy = half if options["bf16"] else "float32"
    model = GPT2LanguageModel(
        GPT2(
            VOCABULARY,
            options["layers"],
            options["hidden_dim"],
            options["heads"],
            dropout=0.0,
            max_length=POSITIONS,
            dtype=policy,
        ),
        dtype=policy,
    )
    model.build()
    ids = random_ids(options["rows"], options["length"])
    return (_texts if options["tokens"] else _steps)(model, ids, options)


def _steps(model, ids, options):
    step = make_engine(strategy="one_device").make_step(
        model, make_optimizer("adamw", model), jit=options["xla"]
    )
    batch = {"token_ids": ids[None], "padding_mask": np.ones_like(ids)[None]}
    feed = Feed(tf.data.Dataset.from_tensors(batch).repeat().prefetch(2))

    def work(count):
        step.run(feed, 0, np.full(count, 1e-4))
        return {}

    return work


def _texts(model, ids, options):
    rows, tokens = len(ids), options["tokens"]
    search = Generator(
        model, SimpleNamespace(end_id=END, vocabulary_size=VOCABULARY, never_generated=())
    ).found
    how = (
        {"beams": options["beams"]}
        if options["beams"] > 1
        else {"temperature": 1.0, "top_k": options["top_k"]}
        if options["top_k"]
        else {"temperature": 0}
    )
    ids, numbers = tf.constant(ids), tf.range(rows)
    real = tf.ones_like(ids)

    def work(count):
        for _ in range(count):
            found = search(ids, real, numbers, np.int32(0), tokens, min_length=tokens, **how)
            check_length(found["lengths"].numpy().min(), tokens)
        return {}

    return work


if __name__ == "__main__":
    keep_freed_memory()  # as the commands do
    serve(prepare)
