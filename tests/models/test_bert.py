import json

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.models import BertClassifier, BertEncoder, BertPretrainer
from tests.support.layer_checks import JIT, compiled
from tests.support.quick import quick
from tests.support.small_bert import LENGTH, encoder, make_batch, numpy


@pytest.mark.parametrize("norm_first", [False, True])
def test_padding_never_reaches_a_real_output(norm_first):
    model, batch = encoder(norm_first=norm_first), make_batch()
    outputs = model(batch)
    real = batch["padding_mask"] > 0
    other = {
        **batch,
        "token_ids": np.where(real, batch["token_ids"], 7),
        "segment_ids": 1 - real + batch["segment_ids"],
    }
    longer = {
        name: np.pad(batch[name], ((0, 0), (0, 5)))
        for name in ("token_ids", "segment_ids", "padding_mask")
    }
    for changed in (other, longer):
        found = model(changed)
        np.testing.assert_allclose(
            numpy(found["sequence_output"])[:, :LENGTH][real],
            numpy(outputs["sequence_output"])[real],
            1e-4,
            1e-5,
        )
        np.testing.assert_allclose(
            numpy(found["pooled_output"]), numpy(outputs["pooled_output"]), 1e-4, 1e-5
        )


def test_a_row_of_padding_alone_stays_finite():
    batch = make_batch()
    batch["padding_mask"][2] = 0
    for dtype in ("float32", "mixed_float16", "mixed_bfloat16"):
        for output in encoder(dtype=dtype)(batch).values():
            assert np.isfinite(numpy(output)).all()


def test_optional_inputs_default_to_one_segment_no_padding_and_counted_positions():
    model = encoder()
    ids = make_batch()["token_ids"]
    full = {
        "token_ids": ids,
        "segment_ids": np.zeros_like(ids),
        "padding_mask": np.ones_like(ids),
        "position_ids": np.tile(np.arange(LENGTH), (len(ids), 1)),
        "pack_ids": np.zeros_like(ids),
    }
    expected = numpy(model({"token_ids": ids})["sequence_output"])
    np.testing.assert_allclose(numpy(model(full)["sequence_output"]), expected, 1e-5, 1e-5)


def test_examples_packed_into_a_row_equal_the_examples_alone():
    model = encoder()
    first, second = make_batch(2, seed=1, length=6), make_batch(2, seed=2, length=7)
    keys = ("token_ids", "segment_ids", "padding_mask")
    packed = {name: np.concatenate([first[name], second[name]], axis=1) for name in keys}
    packed["position_ids"] = np.tile(np.r_[np.arange(6), np.arange(7)], (2, 1))
    packed["pack_ids"] = np.tile(np.repeat([1, 2], [6, 7]), (2, 1))
    found = numpy(model(packed)["sequence_output"])
    for part, alone in ((found[:, :6], first), (found[:, 6:], second)):
        real = alone["padding_mask"] > 0
        expected = numpy(model({name: alone[name] for name in keys})["sequence_output"])
        np.testing.assert_allclose(part[real], expected[real], 1e-4, 1e-5)


def make_models(**kwargs):
    return [
        encoder(**kwargs),
        BertPretrainer(encoder(**kwargs)),
        BertClassifier(encoder(**kwargs), 3),
    ]


@pytest.mark.parametrize("index", quick([0, 1, 2], 0))
def test_models_reload_from_their_file_and_config(index, tmp_path):
    arguments = {"norm_first": True, "activation": "gelu_erf", "attention_dropout": 0.2}
    model, batch = make_models(**arguments)[index], make_batch()
    config = model.get_config()
    assert type(model).from_config(json.loads(json.dumps(config))).get_config() == config
    if index:
        model.compile("sgd", jit_compile=JIT)
        model.fit(batch, epochs=1, verbose=0)
    expected = model(batch)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    found = again(batch)
    assert set(found) == set(expected)
    for name in expected:
        np.testing.assert_array_equal(numpy(found[name]), numpy(expected[name]))
    assert [v.path for v in again.variables] == [v.path for v in model.variables]
    if index:
        again.fit(batch, epochs=1, verbose=0)


@pytest.mark.parametrize("index", [0, 1, 2])
def test_build_without_data_makes_every_variable(index):
    one, two, three = (make_models(dropout=0.1)[index] for _ in range(3))
    one(make_batch())
    two.build()
    three.build({"token_ids": (None, None), "padding_mask": (None, None)})
    paths = [v.path for v in one.variables]
    assert [v.path for v in two.variables] == [v.path for v in three.variables] == paths
    assert len(set(paths)) == len(paths)
    for first, second in zip(one.trainable_variables, two.trainable_variables, strict=True):
        np.testing.assert_array_equal(numpy(first), numpy(second))


def test_another_seed_gives_other_weights_and_equal_shapes_differ():
    one, two = BertPretrainer(encoder(seed=1)), BertPretrainer(encoder(seed=2))
    for model in (one, two):
        model.build()
    kernels = [numpy(v) for v in one.trainable_variables if v.path.endswith("kernel")]
    others = [numpy(v) for v in two.trainable_variables if v.path.endswith("kernel")]
    for first, second in zip(kernels, others, strict=True):
        assert np.abs(first - second).max() > 0.1
    square = [k for k in kernels if k.shape == (16, 16)]
    assert len(square) == 4
    assert len({k.tobytes() for k in square}) == 4


@pytest.mark.parametrize("index", quick([0, 1, 2]))
def test_a_compiled_stateless_step_draws_its_masks_from_the_seeds_it_is_given(index):
    model, batch = make_models(dropout=0.3)[index], make_batch()
    model.build()
    weights = [ops.convert_to_tensor(v) for v in model.trainable_variables]
    seeds = [v.value for v in model.non_trainable_variables]
    assert all(v.path.endswith("seed_generator_state") for v in model.non_trainable_variables)
    batch = {name: ops.convert_to_tensor(x) for name, x in batch.items()}

    @compiled
    def step(others):
        outputs, _ = model.stateless_call(weights, others, batch, training=True)
        return outputs["sequence_output"]

    first, second = numpy(step(seeds)), numpy(step(seeds))
    other = numpy(step([s + 1 for s in seeds]))
    np.testing.assert_array_equal(first, second)
    assert np.abs(first - other).max() > 1e-2


@pytest.mark.parametrize("policy,tolerance", [("mixed_float16", 0.02), ("mixed_bfloat16", 0.15)])
def test_half_precision_is_near_float32_and_logits_stay_float32(policy, tolerance):
    batch = make_batch()
    model, half = BertPretrainer(encoder()), BertPretrainer(encoder(dtype=policy))
    expected, found = model(batch), half(batch)
    for name in expected:
        scale = np.abs(numpy(expected[name])).max()
        np.testing.assert_allclose(
            numpy(found[name]), numpy(expected[name]), atol=tolerance * scale
        )
    for name in ("mlm_logits", "nsp_logits"):
        assert keras.backend.standardize_dtype(found[name].dtype) == "float32"
    assert all(v.dtype == "float32" for v in half.trainable_variables)


def test_sizes_have_the_numbers_of_parameters_of_the_released_models():
    # google-research/bert: 4.4, 11.2, 28.8, 41.4 and 110 million, with pooler.
    counts = {"tiny": 4_385_920, "mini": 11_170_560}
    for size, count in counts.items():
        model = BertEncoder.from_size(size, 30522)
        model.build()
        assert model.count_params() == count
    large = BertEncoder.from_size("large", 30522, dropout=0.0)
    assert (large.num_layers, large.hidden_dim, large.num_heads) == (24, 1024, 16)
    assert large.intermediate_dim == 4096
    with pytest.raises(ValueError, match="tiny, mini, small, medium, base, large"):
        BertEncoder.from_size("huge", 30522)


@pytest.mark.parametrize(
    "make,message",
    [
        (lambda: BertEncoder(10, 2, 15, 2), "hidden_dim=15, num_heads=2"),
        (lambda: BertEncoder(0, 2, 16, 2), "vocabulary_size=0"),
        (lambda: BertEncoder(10, 2, 16, 2, dropout=1.0), "dropout=1.0"),
        (lambda: BertEncoder(10, 2, 16, 2, activation="gelu"), "gelu_tanh"),
        (lambda: BertClassifier(encoder(), 0), "num_classes=0"),
        (lambda: BertClassifier(encoder(), 2, dropout=-0.1), "dropout=-0.1"),
        (lambda: encoder(max_length=8)(make_batch()), "max_length=8"),
    ],
)
def test_arguments_out_of_range_are_errors_that_name_them(make, message):
    with pytest.raises(ValueError, match=message):
        make()


class Projected(BertEncoder):
    """Factorized embeddings, which may be those of another encoder."""

    def __init__(self, *args, shares=None, **kwargs):
        super().__init__(*args, **kwargs)
        self.embedding_dim, self.shares = 4, shares

    def build_embeddings(self, *seeds):
        if self.shares is None:
            return super().build_embeddings(*seeds)
        for name in ("token_embedding", "segment_embedding", "position_embedding"):
            setattr(self, name, getattr(self.shares, name))

    def build(self, input_shape=None):
        super().build()
        self.projection = keras.layers.Dense(self.hidden_dim, name="projection")
        self.projection.build((None, None, self.embedding_dim))

    def embed(self, inputs, training=None):
        return self.projection(super().embed(inputs, training))


def test_layers_of_a_subclass_are_below_the_first_layer():
    model = Projected(20, 2, 8, 2, norm_first=True)
    model.build()
    below, *layers, above = model.variables_by_depth()
    paths = {v.path.removeprefix("bert_encoder/") for v in below}
    assert {"token_embedding", "norm/gamma", "projection/kernel", "projection/bias"} <= paths
    for number, variables in enumerate(layers):
        assert {v.path.split("/")[1] for v in variables} == {f"layer_{number}"}
    assert {v.path.split("/")[1] for v in above} == {"final_norm", "pooler"}
    listed = [v.path for variables in (below, *layers, above) for v in variables]
    assert sorted(listed) == sorted(v.path for v in model.variables)


def test_an_encoder_may_share_the_embeddings_of_another():
    first = Projected(20, 2, 8, 2, dropout=0.0)
    first.build()
    second = Projected(20, 1, 4, 2, dropout=0.0, shares=first, name="generator")
    second.build()
    assert second.token_embedding is first.token_embedding
    batch = {"token_ids": np.array([[3, 5]])}
    before = numpy(second(batch)["sequence_output"])
    first.token_embedding.assign(first.token_embedding * 2.0)
    assert np.abs(numpy(second(batch)["sequence_output"]) - before).max() > 0


def test_rematerialization_of_a_task_model_is_that_of_its_backbone():
    model = BertPretrainer(encoder())
    model.remat = True
    assert model.backbone.remat and model.remat
