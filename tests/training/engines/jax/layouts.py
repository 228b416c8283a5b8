"""Weights and optimizer slots are divided among two devices. Run by tests/backends, on JAX."""

import jax
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

from keras_attn.errors import UserError
from keras_attn.models import BertEncoder, BertPretrainer
from keras_attn.training.engines import make_engine
from keras_attn.training.engines.jax.layouts import mesh_shape, slot_layout, weight_layout

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
    names = {path.rpartition("/")[2] for path in found}
    assert names == {"query_key_value_kernel", "query_key_value_bias", "output_kernel"}


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


@pytest.mark.parametrize("optimizer", ["adamw", "lamb", "muon"])
@pytest.mark.parametrize(
    "options, weights, slots",
    [
        ({"devices": 2}, 1, 1),
        ({"mesh": "model:2"}, 2, 2),
        ({"shard_optimizer": True}, 1, 2),
    ],
)
def test_a_device_has_its_part(options, weights, slots, optimizer):
    engine = make_engine("jax", **options)
    model = BertPretrainer(BertEncoder(**SIZES, intermediate_dim=6))
    model.build()
    made = engine.make_optimizer(optimizer, model)
    step = engine.make_step(model, made)
    kernel = next(
        v for v in model.trainable_variables if v.path.endswith("feed_forward/output/kernel")
    )
    own = [v for v in made.variables if kernel.path.replace("/", "_") in v.path]
    assert own
    for kind, found in step._changed.items():
        engine.values(found, step._shardings[kind])
    assert kernel.value.addressable_shards[0].data.size * weights == kernel.value.size
    for slot in own:
        assert slot.value.addressable_shards[0].data.size * slots == slot.value.size
    values = engine.read_values({"kernel": kernel})
    np.testing.assert_array_equal(values["kernel"], jax.device_get(kernel.value))
