"""Attention in keras-attn and Keras, on TensorFlow."""

import keras
import tensorflow as tf

import keras_attn
from benchmarks.interleaved import serve
from benchmarks.process_memory import read_memory, reset_peak


def layer_of(options):
    sizes = options["heads"], options["head_dim"]
    if options["what"] == "window":
        return keras_attn.layers.WindowAttention(*sizes, options["window"])
    if options["what"] == "expanded":
        reach = options["window"] // 2  # with dilation 2
        return keras_attn.layers.ExpandedWindowAttention(
            *sizes, 1, reach, dilation=2, global_tokens=16
        )
    library = keras_attn.layers if options["ours"] else keras.layers
    return library.MultiHeadAttention(*sizes)


def prepare(options):
    heads, head_dim, length = options["heads"], options["head_dim"], options["length"]
    if options["what"] != "function":
        inputs = [tf.random.normal((options["rows"], length, heads * head_dim))]
        layer = layer_of(options)
        first = inputs[0][:, :4]
        layer(first, first)  # the same tensor twice: window attention is self-attention
        attend, weights = lambda x: layer(x, x), [v.value for v in layer.trainable_variables]
    else:
        inputs = [tf.random.normal((options["rows"], heads, length, head_dim)) for _ in range(3)]
        weights, attend = [], keras_attn.ops.scaled_dot_product_attention
        if not options["ours"]:
            # Keras expects heads after tokens, (B, T, H, K).
            inputs = [tf.transpose(x, (0, 2, 1, 3)) for x in inputs]
            attend = keras.ops.dot_product_attention

    @tf.function(jit_compile=options["xla"])
    def step(*inputs):
        if not options["back"]:
            return [attend(*inputs)]
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            loss = tf.reduce_sum(attend(*inputs))
        return tape.gradient(loss, [*inputs, *weights])

    before = reset_peak()

    def work(count):
        for _ in range(count):
            found = step(*inputs)
        found[0].numpy()
        return {"memory": read_memory("VmHWM") - before}

    return work


if __name__ == "__main__":
    serve(prepare)
