"""A training step of keras-attn and its peak memory."""

import numpy as np
import tensorflow as tf

from benchmarks.interleaved import serve
from benchmarks.process_memory import read_memory, reset_peak
from keras_attn.freed_memory import keep_freed_memory
from keras_attn.models import (
    GPT2,
    BertEncoder,
    BertPretrainer,
    GPT2LanguageModel,
    Transformer,
    XLNet,
    XLNetPretrainer,
)
from keras_attn.ops import cross_entropy
from keras_attn.training.engines import make_engine
from keras_attn.training.engines.tensorflow.feed import Feed
from keras_attn.training.optimizers import make_optimizer

TASKS = {
    "bert": (BertEncoder, BertPretrainer),
    "gpt2": (GPT2, GPT2LanguageModel),
    "xlnet": (XLNet, XLNetPretrainer),
    "transformer": (Transformer, None),
}


def prepare(options):
    before = reset_peak()
    if not options.get("blocks", True):
        cross_entropy.BLOCK_LOGITS = 1 << 62
    model = make_model(options)
    step = make_engine(strategy="one_device").make_step(
        model,
        make_optimizer("adamw", model),
        jit=options["xla"],
        accumulate=options.get("accumulate", 1),
    )
    batch = {
        name: x.reshape(step.accumulate, -1, *x.shape[1:])
        for name, x in make_batch(options).items()
    }
    feed = Feed(tf.data.Dataset.from_tensors(batch).repeat().prefetch(2))

    def work(count):
        step.run(feed, 0, np.full(count, 1e-4))
        return {"peak": read_memory("VmHWM") - before}

    return work


def make_model(options):
    """Returns a built task model with random weights."""
    kind, task = TASKS[options["family"]]
    dtype = "mixed_bfloat16" if options["bf16"] else "float32"
    longest = {"max_length": options["length"]} if options["family"] != "xlnet" else {}
    backbone = kind(
        options["vocabulary"],
        options["layers"],
        options["hidden_dim"],
        options["heads"],
        dropout=options["dropout"],
        dtype=dtype,
        **longest,
    )
    backbone.remat = options["remat"]
    model = task(backbone, dtype=dtype) if task else backbone
    model.build()
    return model


def make_batch(options):
    """Returns a batch of random ids without padding."""
    random = np.random.default_rng(0)
    rows, length, masked = options["rows"], options["length"], options["masked"]
    ids = random.integers(1, options["vocabulary"], (rows, length), dtype=np.int32)
    batch = {"token_ids": ids, "padding_mask": np.ones_like(ids)}
    if options["family"] == "transformer":
        return {**batch, "target_ids": ids, "label": ids}
    if options["family"] == "gpt2":
        return batch
    positions = np.stack([np.sort(random.permutation(length)[:masked]) for _ in range(rows)])
    batch.update(
        mask_positions=positions.astype(np.int32),
        mask_ids=np.take_along_axis(ids, positions, 1),
        mask_weights=np.ones(positions.shape, np.float32),
    )
    if options["family"] == "bert":
        return {
            **batch,
            "segment_ids": np.zeros_like(ids),
            "next_sentence_label": np.zeros(rows, np.int32),
        }
    ranks = np.full((rows, length), -1, np.int32)
    np.put_along_axis(ranks, positions, np.arange(masked, dtype=np.int32)[None], 1)
    return {**batch, "permutation_ranks": ranks}


if __name__ == "__main__":
    keep_freed_memory()  # as the commands do
    serve(prepare)
