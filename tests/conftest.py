"""Settings of all tests."""

import functools
import os
import time

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

BACKEND = os.environ.get("KERAS_BACKEND", "tensorflow")
if BACKEND == "tensorflow":
    import tensorflow as tf

    # Two devices, for the mirrored strategy. Must come before anything uses TensorFlow.
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
    )
elif BACKEND == "jax":
    from jax._src.interpreters import mlir

    # JAX would make a context for each operation of each shape, which takes half of the time.
    mlir.make_ir_context = functools.cache(mlir.make_ir_context)


def pytest_addoption(parser):
    parser.addoption(
        "--quick-compile",
        action="store_true",
        help="compile graphs without the optimizations of XLA and TensorFlow, which take longer "
        "than they save in a test",
    )


def pytest_configure(config):
    if not config.getoption("--quick-compile"):
        return
    flags = ["--xla_backend_optimization_level=0"]
    if BACKEND == "tensorflow":
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
        if tuple(map(int, tf.__version__.split(".")[:2])) >= (2, 21):  # older ones lack the flag
            flags.append("--xla_cpu_use_fusion_emitters=false")
    os.environ["XLA_FLAGS"] = " ".join(flags)  # also for subprocesses


def minutes(item):
    """How long a test may take at most."""
    marker = item.get_closest_marker("slow")
    return marker.kwargs.get("minutes", 7) if marker else 0


def pytest_runtest_setup(item):
    """With TESTS_END, seconds since 1970, names what might not end by then."""
    if time.time() + 60 * minutes(item) > float(os.environ.get("TESTS_END", "inf")):
        pytest.skip("no time left (TESTS_END)")


@pytest.fixture(autouse=True)
def no_unsafe_product(monkeypatch):
    """Fails at products that must be those of `keras_attn.ops.products.linear`.

    TensorFlow writes past the end of some, and XLA compiles none of more than two axes by a
    matrix inside of a loop.
    """
    import keras

    product = keras.ops.matmul

    def checked(x, y, *args, **kwargs):
        batch, other = tuple(x.shape[:-2]), tuple(y.shape[:-2])
        broadcast = len(batch) == 2 and batch[0] != 1 == batch[1] and set(other) <= {1}
        by_matrix = len(x.shape) > 2 == len(y.shape)
        assert not broadcast and not by_matrix, (x.shape, y.shape)
        return product(x, y, *args, **kwargs)

    monkeypatch.setattr(keras.ops, "matmul", checked)
