"""Mixed and expanded-window attention in decoders: steps with a cache, and gradients."""

import itertools

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.layers import AttentionCell, LuongAttention, MultiHeadAttention, RecurrentDecoder
from keras_attn.models import LuongSeq2Seq
from tests.support.layer_checks import (
    check_every_weight_gets_a_gradient,
    compiled,
    layer_gradients,
    randomize,
    run,
)
from tests.support.numpy_attention import normal
from tests.support.quick import quick
from tests.support.small_memory_windows import (
    ALIGNMENTS,
    DEPTH,
    HEADS,
    LAYERS,
    MIXES,
    expanded,
    inputs_of,
    mixed,
)
from tests.support.small_seq2seq import seq2seq_batch


@pytest.mark.parametrize("mix", MIXES)
def test_cached_mixed_attention_equals_one_causal_pass(mix):
    layer, x = mixed(window=2, **MIXES[mix]), normal(2, 9, 5)
    randomize(layer, {"query": x})
    mask = np.array([[1] * 9, [0, 0] + [1] * 7])
    for given in ({}, {"value_mask": mask}):
        causal = {"use_causal_mask": True, "return_attention_scores": True, **given}
        wanted = [run(layer, {"query": x}, causal, i) for i in (0, 1)]
        for sizes in ([1] * 9, [4, 3, 2]):
            cache, start = layer.make_cache(2, 9), 0
            for size in sizes:
                output, weights, cache = layer(
                    ops.convert_to_tensor(x[:, start : start + size]),
                    cache=cache,
                    cache_index=start,
                    return_attention_scores=True,
                    **given,
                )
                rows = slice(start, start + size)
                for found, whole in (
                    (output, wanted[0][:, rows]),
                    (weights, wanted[1][:, :, rows]),
                ):
                    np.testing.assert_allclose(ops.convert_to_numpy(found), whole, 1e-4, 1e-5)
                start += size


def test_a_compiled_step_writes_a_cache_at_an_index_of_the_run():
    layer, x = mixed(window=2), normal(2, 5, 5)
    randomize(layer, {"query": x})
    wanted = run(layer, {"query": x}, {"use_causal_mask": True})
    step = compiled(lambda x, index, cache: layer(x, cache=cache, cache_index=index))
    cache = layer.make_cache(2, 5)
    for i in range(5):
        found, cache = step(
            ops.convert_to_tensor(x[:, i : i + 1]), ops.convert_to_tensor(i, dtype="int32"), cache
        )
        np.testing.assert_allclose(ops.convert_to_numpy(found)[:, 0], wanted[:, i], 1e-4, 1e-5)


CELLS = {
    "mixed": lambda: mixed(),
    "mixed predictive": lambda: mixed("predictive"),
    "expanded": lambda: expanded(global_tokens=1),
    "expanded predictive": lambda: expanded("predictive"),
    "joined": lambda: LuongAttention(4, attention=mixed(mix="heads")),
    "multi-head": lambda: MultiHeadAttention(HEADS, DEPTH, fused="kv"),
}


def decoder(name, **kwargs):
    cell = AttentionCell(keras.layers.GRUCell(4, name="gru"), CELLS[name](), name="cell", **kwargs)
    return RecurrentDecoder(cell, 7, 3, seed=1, name="decoder")


DECODED = {
    "target_ids": np.array([[1, 5, 6, 2, 3], [1, 4, 4, 3, 2]], "int32"),
    "memory": normal(2, 6, 7),
    "memory_mask": np.array([[0, 1, 1, 1, 1, 1], [1, 1, 0, 0, 0, 0]]),
}


FED, UNFED, FIRST = {}, {"input_feeding": False}, {"order": "attend_first"}


@pytest.mark.parametrize(
    "name, options",
    quick(
        list(itertools.product(CELLS, (FED, UNFED, FIRST))),
        ("mixed predictive", FIRST),
        ("expanded", UNFED),
    ),
    ids=str,
)
def test_steps_of_several_targets_in_a_decoder_are_those_of_one_pass_each(name, options):
    layer = decoder(name, **options)
    randomize(layer, DECODED)
    for kernel in (layer.embedding, layer.output_kernel):
        kernel.assign(5 * kernel)
    ids = DECODED["target_ids"]
    targets = ids, (ids + 1) % 7
    wanted = [
        [run(layer, {**DECODED, "target_ids": one}, index=i) for one in targets] for i in (0, 1)
    ]
    np.testing.assert_array_equal(wanted[1][0][0, :, 0], 0.0)
    wanted = [np.stack(of_targets, axis=1).reshape(4, 5, -1) for of_targets in wanted]
    cache, memory = layer.start_decoding(
        ops.convert_to_tensor(DECODED["memory"]), DECODED["memory_mask"], rows=2
    )
    ids = np.stack(targets, axis=1).reshape(4, 5)
    for start, end in ((0, 3), (3, 4), (4, 5)):
        *found, cache = layer(ids[:, start:end], memory, cache=cache, cache_index=start)
        for one, whole in zip(found, wanted, strict=True):
            np.testing.assert_allclose(ops.convert_to_numpy(one), whole[:, start:end], 1e-4, 1e-4)


@pytest.mark.parametrize("name", ["mixed", "expanded"])
def test_the_window_of_a_decoder_moves_with_its_steps(name):
    layer = decoder(name)
    randomize(layer, DECODED)
    inner = layer.cell.attention
    alignments = run(layer, DECODED, index=1)
    real = alignments[0, :, 1:]
    if name == "mixed":
        inner.gate_bias.assign(np.full(HEADS, -30.0))
        inner.gate_kernel.assign(np.zeros((4, HEADS)))
        real = run(layer, DECODED, index=1)[0, :, 1:]
    for t in range(5):
        places = np.arange(5)
        near = abs(places - t) <= 1 if name == "mixed" else (places >= t - 1) & (places <= t + 2)
        near |= (places == 0) & (name == "expanded")  # the global token
        np.testing.assert_array_equal(real[t] > 1e-9, near)


@pytest.mark.parametrize("name", ["mixed", "expanded_window"])
def test_every_weight_of_a_translator_gets_a_gradient(name):
    check_every_weight_gets_a_gradient(
        LuongSeq2Seq(11, 8, attention=name, window=2, seed=1), seq2seq_batch()
    )


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="traces of TensorFlow")
@pytest.mark.parametrize(
    "name, alignment",
    quick(
        list(itertools.product(LAYERS, ALIGNMENTS)),
        ("expanded", "monotonic"),
    ),
)
def test_gradients_under_xla_with_an_unknown_batch(name, alignment):
    import tensorflow as tf

    layer, inputs = LAYERS[name](alignment), inputs_of()
    randomize(layer, inputs)

    @tf.function(
        jit_compile=True,
        autograph=False,
        input_signature=[
            tf.TensorSpec((None, None, 5)),
            tf.TensorSpec((None, None, 5)),
            tf.TensorSpec((None, None), tf.int32),
        ],
    )
    def step(query, value, mask):
        with tf.GradientTape() as tape:
            tape.watch((query, value))
            output = layer(query, value, value_mask=mask)
        return output, tape.gradient(output, (query, value))

    _, by_input = layer_gradients(layer, inputs)
    for rows in (2, 1):
        given = {name: x[:rows] for name, x in inputs.items()}
        output, found = step(given["query"], given["value"], given["value_mask"].astype("int32"))
        np.testing.assert_allclose(output.numpy(), run(layer, given), 1e-4, 1e-5)
        for name, gradient in zip(("query", "value"), found, strict=True):
            np.testing.assert_allclose(gradient.numpy(), by_input[name][:rows], 1e-3, 1e-4)
