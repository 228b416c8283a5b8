"""Weights and optimizer slots are divided among two devices. Run by tests/backends, on JAX."""

import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

from keras_attn.data.batches import StreamBatches
from keras_attn.errors import UserError
from keras_attn.models import BertEncoder, BertPretrainer
from keras_attn.training.engines import make_engine
from keras_attn.training.engines.jax.layouts import mesh_shape, slot_layout, weight_layout
from tests.support.regression import ROWS, BertRows

SIZES = {"vocabulary_size": 6, "num_layers": 1, "hidden_dim": 4, "num_heads": 2}


@pytest.mark.parametrize(
    "mesh, shape",
    [
        ("data:4,model:2", (4, 2)),
        ("data:8", (8, 1)),
        ("model:2", (4, 2)),
        ("model:8", (1, 8)),
        ("data:1,model:8", (1, 8)),
    ],
)
def test_missing_axes_have_the_other_devices(mesh, shape):
    assert mesh_shape(mesh, 8) == shape


@pytest.mark.parametrize("mesh", ["data:4", "model:3", "data:8,model:2", "data:16"])
def test_the_axes_must_use_all_devices(mesh):
    with pytest.raises(UserError, match=f"multiply to the number of devices, 8.*mesh={mesh}"):
        mesh_shape(mesh, 8)


@pytest.mark.parametrize(
    "mesh", ["", "data", "data:0", "data:-1", "model:2,data:4", "data:4,", ",model:2", "x:8", "8"]
)
def test_other_axes_are_errors(mesh):
    with pytest.raises(UserError, match="--mesh must be data:SIZE,model:SIZE"):
        mesh_shape(mesh, 8)


def _divided(model, size):
    model.build()
    return {
        v.path.partition("/")[2]: tuple(weight_layout(v.path, v.shape, size))
        for v in model.trainable_variables
        if weight_layout(v.path, v.shape, size) != P()
    }


def test_kernels_of_heads_and_units_and_the_vocabulary_are_divided():
    found = _divided(BertPretrainer(BertEncoder(**SIZES, intermediate_dim=6)), 2)
    layer = "bert_encoder/layer_0"
    assert found == {
        "bert_encoder/token_embedding": ("model",),
        f"{layer}/attention/query_key_value_kernel": (None, "model"),
        f"{layer}/attention/query_key_value_bias": ("model",),
        f"{layer}/attention/output_kernel": ("model",),
        f"{layer}/feed_forward/intermediate/kernel": (None, "model"),
        f"{layer}/feed_forward/intermediate/bias": ("model",),
        f"{layer}/feed_forward/output/kernel": ("model",),
    }


def test_axes_that_cannot_be_divided_are_whole():
    found = _divided(BertPretrainer(BertEncoder(**SIZES, intermediate_dim=6)), 4)
    assert {path.rpartition("/")[2]: layout for path, layout in found.items()} == {
        "token_embedding": (None, "model"),  # 6 tokens with 4 features
        "query_key_value_kernel": (None, "model"),
        "query_key_value_bias": ("model",),
        "output_kernel": ("model",),
    }


@pytest.mark.parametrize(
    "layout, shape, size, expected",
    [
        (P(), (6, 4), 2, P("data", None)),
        (P(), (4, 6), 2, P(None, "data")),
        (P("model"), (6, 4), 2, P("model", "data")),
        (P(None, "model"), (6, 4), 2, P("data", "model")),
        (P("model"), (6, 3), 2, P("model")),
        (P("model"), (6, 4), 1, P("model")),
        (P(), (5,), 2, P()),
        (P(), (), 2, P()),
    ],
)
def test_slots_are_divided_along_their_longest_free_axis(layout, shape, size, expected):
    assert slot_layout(layout, shape, size) == expected


def _trained(optimizer, dtype, **options):
    """The step, its optimizer, and the weights after two steps."""
    engine = make_engine("jax", **options)
    with engine.scope():
        backbone = BertEncoder(**{**SIZES, "vocabulary_size": 50}, dropout=0.1, seed=0, dtype=dtype)
        model = BertPretrainer(backbone, dtype=dtype)
        model.build()
        made = engine.make_optimizer(optimizer, model)
    step = engine.make_step(model, made, accumulate=2)
    step.run(step.feed(StreamBatches(BertRows(), ROWS), 0), 0, [0.01, 0.01])
    return step, made, engine.read_values({v.path: v for v in model.trainable_variables})


@pytest.mark.parametrize(
    "optimizer, dtype",
    [("adamw", "float32"), ("lamb", "float32"), ("muon", "float32"), ("adamw", "mixed_float16")],
)
@pytest.mark.parametrize(
    "options, weights, slots",
    [({}, 1, 1), ({"mesh": "model:2"}, 2, 2), ({"shard_optimizer": True}, 1, 2)],
    ids=["data", "model", "optimizer"],
)
def test_two_devices_with_their_parts_equal_one(options, weights, slots, optimizer, dtype):
    _, _, expected = _trained(optimizer, dtype, devices=1)
    step, made, found = _trained(optimizer, dtype, **options)
    # Adam scales small gradients, which float16 rounds, to updates of about 0.01.
    tolerance = 1e-5 if dtype == "float32" else 5e-3
    for value, wanted in zip(found.values(), expected.values(), strict=True):
        np.testing.assert_allclose(value, wanted, atol=tolerance)
    assert step._compiled._cache_size() == 1
    kernel = next(
        v for v in step.model.trainable_variables if v.path.endswith("feed_forward/output/kernel")
    )
    own = [v for v in made.variables if kernel.path.replace("/", "_") in v.path]
    assert own
    assert kernel.value.addressable_shards[0].data.size * weights == kernel.value.size
    for slot in own:
        assert slot.value.addressable_shards[0].data.size * slots == slot.value.size
