"""Autoregressive decoding with a step function and a cache, on any Keras backend.

A step function `step(token_ids, index, cache)` receives the latest token of N hypotheses, integers
`(N,)`, its position and the cache. The cache is any nest of tensors whose first axis is N, or a
structure that `reorder` can handle. The function returns the logits `(N, V)` of the next token and
the updated cache; if attention is requested, also the attention to S source positions, `(N, S)`.
All loops are `keras.ops.while_loop`s, so under `tf.function` or `jax.jit` they are one program.
"""

from keras_attn.generation.beam_search import beam_search
from keras_attn.generation.sampling import sample

__all__ = ["beam_search", "sample"]
