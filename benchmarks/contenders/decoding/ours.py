"""Beam search and greedy decoding in keras-attn."""

import numpy as np
import tensorflow as tf

from benchmarks.interleaved import check_length, serve
from keras_attn.freed_memory import keep_freed_memory
from keras_attn.generation import beam_search, sample
from keras_attn.models import Transformer
from keras_attn.ops.kernels.tensorflow_graphs import traced

BEGIN, END = 1, 2


def prepare(options):
    rows, source, length, beams = (options[n] for n in ("rows", "source", "length", "beams"))
    model = Transformer(
        options["vocabulary"],
        options["layers"],
        options["hidden_dim"],
        options["heads"],
        max_length=1024,
        dtype="bfloat16" if options["bf16"] else "float32",
    )
    model.build()
    ids = np.random.default_rng(0).integers(4, options["vocabulary"], (rows, source))
    inputs = {
        "token_ids": tf.constant(ids, tf.int32),
        "padding_mask": tf.ones((rows, source), tf.int32),
    }
    begin = tf.fill([rows], BEGIN)

    def search():
        cache, memory = model.start_decoding(inputs, length, beams)

        def step(token_ids, index, cache):
            logits, cache = model.decode(
                token_ids[:, None], index, cache, memory, inputs["padding_mask"]
            )
            return logits[:, 0], cache

        if beams == 1:
            return sample(step, cache, begin, length, END, temperature=0, min_length=length)
        return beam_search(
            step, cache, begin, beams, length, END, min_length=length, reorder=model.reorder_cache
        )

    decode = traced(search, options["xla"])  # updates the cache in place, as `Translator` does

    def work(count):
        for _ in range(count):
            check_length(decode()["lengths"].numpy().min(), length)
        return {}

    return work


if __name__ == "__main__":
    keep_freed_memory()  # as the commands do
    serve(prepare)
