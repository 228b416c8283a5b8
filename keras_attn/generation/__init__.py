"""Decoding over a step function with a cache, on any Keras backend.

A step function takes the newest token of N hypotheses, integers `(N,)`, the index of its position
and a cache, any nest of tensors whose first axis is N (or one that `reorder` knows how to change).
It returns the logits `(N, V)` of the next token and the cache; and, where attention is asked for,
that to S positions of the source, `(N, S)`.
The loops are `keras.ops.while_loop`: under `tf.function` or `jax.jit` they are one program.
"""

from keras_attn.generation.beam_search import beam_search
from keras_attn.generation.sampling import sample

__all__ = ["beam_search", "sample"]
