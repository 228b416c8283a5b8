"""The graphs that TensorFlow traces and XLA compiles for a step."""

import numpy as np
import pytest
import tensorflow as tf

from keras_attn.models import BertEncoder, BertPretrainer
from keras_attn.ops.kernels import tensorflow_graphs as graphs
from tests.support.engines import step_of
from tests.support.regression import RATE, BertRows, Examples, Regression


def test_the_loop_is_traced_once_or_twice_for_calls_of_any_length():
    step, feed = step_of(Regression, Examples())
    for first, length in ((0, 1), (1, 3), (4, 2), (6, 5)):
        step.run(feed, first, np.full(length, RATE))
    assert step._loop.experimental_get_tracing_count() <= 2


def _bert(dropout, dtype=None):
    encoder = BertEncoder(50, 1, 8, 2, dropout=dropout, max_length=16, seed=0, dtype=dtype)
    return BertPretrainer(encoder, seed=0, dtype=dtype)


@pytest.mark.runs
@pytest.mark.parametrize("accumulate", [1, 2])
def test_the_replica_step_of_bert_compiles_with_static_shapes(accumulate):
    step, feed = step_of(lambda: _bert(0.1), BertRows(), jit=True, accumulate=accumulate)
    compiled, arguments = step._gradients, []
    step._gradients = lambda *args: arguments.append(args) or compiled(*args)
    assert np.isfinite(step.run(feed, 0, np.full(2, RATE))[-1]["loss"])
    assert all(x.shape.is_fully_defined() for x in tf.nest.flatten(arguments[0]))
    like = tf.nest.map_structure(lambda x: tf.zeros(x.shape, x.dtype), arguments[0])
    program = compiled.experimental_get_compiler_ir(*like)(stage="hlo")
    assert "f32[50,8]" in program
    assert "<=" not in program and "custom-call" not in program  # dynamic shapes, calls out of XLA


def _three_steps(source, dtype, **options):
    # Dropout masks depend on how a batch is split.
    step, feed = step_of(lambda: _bert(0.0, dtype), source, **options)
    before = [weight.numpy() for weight in step.model.trainable_variables]
    rows = step.run(feed, 0, np.full(3, RATE))
    after = [weight.numpy() for weight in step.model.trainable_variables]
    return rows, np.concatenate([(b - a).ravel() for a, b in zip(before, after, strict=True)])


def test_one_micro_batch_is_in_memory_at_a_time():
    step, feed = step_of(lambda: _bert(0.0), BertRows(), accumulate=2)
    batch = next(iter(feed))
    tensors = [
        [tf.convert_to_tensor(v.value) for v in variables]
        for variables in (step.model.trainable_variables, step.model.non_trainable_variables)
    ]
    scales = {
        name: tf.constant(1.0)
        for name in step.model.loss_weights({name: x[0] for name, x in batch.items()})
    }
    graph = step._gradients.get_concrete_function(
        *tensors, batch, scales, tf.constant([0, 0])
    ).graph
    loops = [node for node in graph.as_graph_def().node if "While" in node.op]
    assert [node.attr["parallel_iterations"].i for node in loops] == [1]


@pytest.mark.runs
@pytest.mark.parametrize(
    ("replicas", "accumulate"),
    [
        (1, 1),
        pytest.param(1, 2, marks=pytest.mark.slow),
        pytest.param(2, 1, marks=pytest.mark.slow),
        (2, 2),
    ],
)
@pytest.mark.parametrize(
    "dtype", ["float32", pytest.param("mixed_bfloat16", marks=pytest.mark.slow), "mixed_float16"]
)
def test_compiled_functions_do_not_change_results(replicas, accumulate, dtype, monkeypatch):
    options = {"replicas": replicas, "accumulate": accumulate}
    monkeypatch.setattr(graphs, "WORTH_COMPILING", 2**62)
    plain, plain_changes = _three_steps(BertRows(), dtype, **options)
    calls, both = [], graphs.worth_compiling
    monkeypatch.setattr(graphs, "WORTH_COMPILING", 1)
    monkeypatch.setattr(graphs, "worth_compiling", lambda x: calls.append(both(x)) or calls[-1])
    found, changes = _three_steps(BertRows(), dtype, **options)
    assert calls and all(calls)
    tolerance = {"float32": 1e-5, "mixed_bfloat16": 0.02, "mixed_float16": 0.003}[dtype]
    for row, wanted in zip(found, plain, strict=True):
        assert row == pytest.approx(wanted, rel=tolerance)
    far = np.linalg.norm(plain_changes)
    assert far > 0.1
    assert np.linalg.norm(changes - plain_changes) < tolerance * far
