"""Product of two square matrices of 2,048 rows: the peak throughput of TensorFlow."""

import tensorflow as tf

from benchmarks.contenders.pretraining.batch import PRODUCT_ROWS
from benchmarks.interleaved import serve


def prepare(options):
    dtype = tf.bfloat16 if options["bf16"] else tf.float32
    left, right = (tf.cast(tf.random.normal((PRODUCT_ROWS, PRODUCT_ROWS)), dtype) for _ in range(2))

    @tf.function(jit_compile=options.get("xla", False), autograph=False)
    def multiply():
        return tf.matmul(left, right)

    def work(count):
        for _ in range(count):
            product = multiply()
        return {"sum": float(tf.cast(product[0, 0], tf.float32))}

    return work


if __name__ == "__main__":
    serve(prepare)
