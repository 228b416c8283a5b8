"""Product of two large square matrices in JAX: the peak throughput of the device."""

import jax

from benchmarks.interleaved import serve


def prepare(options):
    dtype = "bfloat16" if options["bf16"] else "float32"
    keys = jax.random.split(jax.random.key(0))
    left, right = (jax.random.normal(key, (options["size"],) * 2, dtype) for key in keys)
    multiply = jax.jit(jax.numpy.matmul)

    def work(count):
        for _ in range(count):
            product = multiply(left, right)
        product.block_until_ready()
        return {}

    return work


if __name__ == "__main__":
    serve(prepare)
