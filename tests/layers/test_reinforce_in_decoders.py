"""Recurrent decoders and translators that sample keys: draws, steps, losses and training."""

import itertools

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.layers import (
    Attention,
    AttentionCell,
    BahdanauDecoderCell,
    HardAttention,
    LuongAttention,
    RecurrentDecoder,
)
from keras_attn.models import LuongSeq2Seq
from tests.support.layer_checks import JIT, compiled, gradients, randomize
from tests.support.numpy_attention import normal
from tests.support.quick import quick
from tests.support.small_seq2seq import seq2seq_batch


def small_decoder(feeding=True, **kwargs):
    cell = AttentionCell(
        keras.layers.GRUCell(4, name="gru", **kwargs),
        LuongAttention(5, attention=HardAttention("reinforce", "bilinear", seed=2, **kwargs)),
        input_feeding=feeding,
        name="cell",
        **kwargs,
    )
    return RecurrentDecoder(cell, 7, 3, seed=1, name="decoder", **kwargs)


INPUTS = {
    "target_ids": np.array([[1, 5, 6, 2], [1, 4, 4, 3]], "int32"),
    "memory": normal(2, 5, 6),
    "memory_mask": np.array([[1, 1, 1, 0, 0], [0, 0, 0, 0, 0]]),
}


def called(layer, **kwargs):
    inputs = {name: ops.convert_to_tensor(x) for name, x in INPUTS.items()}
    return layer(inputs.pop("target_ids"), inputs.pop("memory"), **inputs, **kwargs)


@pytest.mark.parametrize("feeding", quick([True, False], True))
def test_baseline_logits_are_those_of_inference_and_draws_are_masked(feeding):
    layer = small_decoder(feeding)
    randomize(layer, INPUTS)
    logits, alignments = called(layer)
    for training in (True, False):
        sampled, weights, draws = called(layer, training=training, return_draws=True)
        np.testing.assert_allclose(
            ops.convert_to_numpy(draws["baseline_logits"]), ops.convert_to_numpy(logits), 1e-5, 1e-5
        )
        log_probability, entropy = (
            ops.convert_to_numpy(draws[name]) for name in ("log_probability", "entropy")
        )
        assert log_probability.shape == entropy.shape == (2, 4)
        assert (log_probability <= 0).all() and (entropy[0] > 0).all()
        np.testing.assert_array_equal(entropy[1], 0.0)  # no key
        np.testing.assert_array_equal(log_probability[1], 0.0)
        np.testing.assert_array_equal(ops.convert_to_numpy(weights)[0, :, 3:], 0.0)
        if not training:
            np.testing.assert_array_equal(log_probability, 0.0)
            np.testing.assert_allclose(
                ops.convert_to_numpy(sampled), ops.convert_to_numpy(logits), 1e-5, 1e-5
            )


def test_steps_of_a_loop_draw_different_numbers():
    layer = small_decoder()
    randomize(layer, INPUTS)
    rows = 200
    ids = ops.convert_to_tensor(np.ones((rows, 6), "int32"))
    memory = ops.convert_to_tensor(np.repeat(INPUTS["memory"][:1], rows, axis=0))
    first, second = (
        ops.convert_to_numpy(
            layer(ids, memory, training=True, return_draws=True)[2]["log_probability"]
        )
        for _ in range(2)
    )
    sampled = first < 0
    assert abs(sampled.mean() - 0.5) < 4 * np.sqrt(0.25 / sampled.size)
    for one, other in itertools.combinations([*sampled.T, second[:, 0] < 0], 2):
        assert abs((one == other).mean() - 0.5) < 5 * np.sqrt(0.25 / rows)


@pytest.mark.parametrize("policy", quick(["mixed_float16", "mixed_bfloat16"], "mixed_float16"))
def test_draws_are_float32_and_near_in_half_precision(policy):
    layer, half = small_decoder(), small_decoder(dtype=policy)
    randomize(layer, INPUTS)
    called(half)
    half.set_weights(layer.get_weights())
    wanted, found = (called(x, return_draws=True)[2] for x in (layer, half))
    for name, x in found.items():
        assert keras.backend.standardize_dtype(x.dtype) == (
            half.compute_dtype if name == "baseline_logits" else "float32"
        )
        np.testing.assert_allclose(
            ops.convert_to_numpy(ops.cast(x, "float32")),
            ops.convert_to_numpy(wanted[name]),
            atol=0.05,
            err_msg=name,
        )


@pytest.mark.parametrize("feeding", quick([True, False]))
def test_a_compiled_step_has_finite_gradients_of_every_weight(feeding):
    layer = small_decoder(feeding)
    randomize(layer, INPUTS)
    variables = layer.trainable_variables
    others = [v.value for v in layer.non_trainable_variables]
    inputs = [ops.convert_to_tensor(INPUTS[name]) for name in INPUTS]

    def loss(weights):
        (logits, _, draws), _ = layer.stateless_call(
            weights, others, *inputs, training=True, return_draws=True
        )
        costs, baselines = (-ops.log_softmax(x)[..., 2] for x in (logits, draws["baseline_logits"]))
        ones = ops.ones_like(costs)
        return ops.sum(costs + layer.cell.reinforce_errors(costs, baselines, draws, ones))

    arrays = [ops.convert_to_numpy(v) for v in variables]
    value = float(ops.convert_to_numpy(loss([*map(ops.convert_to_tensor, arrays)])))
    found = compiled(loss)([*map(ops.convert_to_tensor, arrays)])
    assert np.isfinite(float(ops.convert_to_numpy(found))) and np.isfinite(value)
    for variable, gradient in zip(variables, gradients(loss, arrays), strict=True):
        assert np.isfinite(gradient).all() and np.abs(gradient).max() > 0, variable.path


@pytest.mark.thorough
@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="traces of TensorFlow")
def test_gradients_under_xla_with_an_unknown_batch():
    import tensorflow as tf

    layer = small_decoder()
    randomize(layer, INPUTS)
    weights = [v.value for v in layer.trainable_variables]
    others = [v.value for v in layer.non_trainable_variables]

    @tf.function(
        jit_compile=True,
        autograph=False,
        input_signature=[
            tf.TensorSpec((None, 4), tf.int32),
            tf.TensorSpec((None, None, 6)),
            tf.TensorSpec((None, None), tf.int32),
        ],
    )
    def step(ids, memory, mask):
        with tf.GradientTape() as tape:
            tape.watch(weights)
            (logits, _, draws), _ = layer.stateless_call(
                weights, others, ids, memory, mask, training=True, return_draws=True
            )
            costs, baselines = (
                -ops.log_softmax(x)[..., 2] for x in (logits, draws["baseline_logits"])
            )
            ones = ops.ones_like(costs)
            loss = ops.sum(costs + layer.cell.reinforce_errors(costs, baselines, draws, ones))
        return tape.gradient(loss, weights)

    for rows in (2, 1):
        inputs = [
            x[:rows].astype("int32" if x.dtype.kind == "i" else x.dtype) for x in INPUTS.values()
        ]
        for gradient in step(*inputs):
            assert np.isfinite(tf.convert_to_tensor(gradient).numpy()).all()


@pytest.mark.parametrize(
    "cell",
    [
        lambda: AttentionCell(keras.layers.GRUCell(4), Attention("dot")),
        lambda: BahdanauDecoderCell(4),
    ],
)
def test_draws_of_a_cell_without_any_are_errors(cell):
    decoder = RecurrentDecoder(cell(), 7, 3)
    assert not decoder.draws
    with pytest.raises(ValueError, match="return_draws requires an AttentionCell"):
        decoder(INPUTS["target_ids"], normal(2, 5, 4), return_draws=True)


def test_draws_with_a_cache_and_terms_of_other_estimators_are_errors():
    layer = small_decoder()
    cache, memory = layer.start_decoding(ops.convert_to_tensor(INPUTS["memory"]))
    with pytest.raises(ValueError, match="no cache. .* a cache"):
        layer(INPUTS["target_ids"], memory, cache=cache, cache_index=0, return_draws=True)
    with pytest.raises(ValueError, match="reinforce_errors requires .*estimator='gumbel'"):
        HardAttention("gumbel").reinforce_errors(*[np.ones((1, 2))] * 2, {}, np.ones((1, 2)))


@pytest.mark.parametrize("feeding", quick([True, False], False))
def test_the_losses_of_a_translator_are_sums_of_independent_rows(feeding):
    model = LuongSeq2Seq(11, 8, attention="reinforce", input_feeding=feeding, seed=1)
    batch = seq2seq_batch()
    outputs = model(batch, training=True)
    weights, errors = model.loss_weights(batch), model.loss_errors(outputs, batch)
    assert weights.keys() == errors.keys() == {"token", "reinforce"}
    assert float(weights["reinforce"]) == float(weights["token"]) == 15
    entropy = ops.convert_to_numpy(outputs["draws"]["entropy"])
    wanted = -0.002 * (batch["sample_weight"] * entropy).sum()
    assert float(errors["reinforce"]) == pytest.approx(wanted, rel=1e-4)
    projections = []
    for rows in (slice(0, 1), slice(1, 3)):
        part = keras.tree.map_structure(lambda x, rows=rows: x[rows], (outputs, batch))
        projections.append({n: float(x) for n, x in model.loss_errors(*part).items()})
    for name, error in errors.items():
        assert sum(part[name] for part in projections) == pytest.approx(float(error), rel=1e-5)
    found = model(batch)
    assert "draws" not in found and float(model.loss_errors(found, batch)["reinforce"]) == 0
    assert model.metric_names[:2] == ("token_loss", "reinforce_loss")
    # No variable is updated except seeds, as trainers other than fit drop such updates.
    others = [v for v in model.non_trainable_variables if "seed_generator" not in v.path]
    assert [(v.name, float(ops.convert_to_numpy(v))) for v in others] == [("baseline", 0.0)]


def test_every_weight_of_a_translator_gets_a_gradient():
    model = LuongSeq2Seq(11, 8, attention="reinforce", seed=1)
    model.build()
    batch = {name: ops.convert_to_tensor(x) for name, x in seq2seq_batch().items()}
    others = [v.value for v in model.non_trainable_variables]

    def loss(weights):
        outputs, _ = model.stateless_call(weights, others, batch, training=True)
        return model.compute_loss(batch, y_pred=outputs)

    arrays = [ops.convert_to_numpy(v) for v in model.trainable_variables]
    for variable, found in zip(model.trainable_variables, gradients(loss, arrays), strict=True):
        assert np.isfinite(found).all() and np.abs(found).max() > 0, variable.path


@pytest.mark.runs
@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="an engine of TensorFlow")
@pytest.mark.parametrize("strategy", ["one_device", "mirrored"])
def test_the_engine_of_runs_trains_a_translator(strategy):
    from keras_attn.data.batches import StreamBatches
    from keras_attn.training.engines import make_engine
    from keras_attn.training.optimizers import make_optimizer

    class Rows:
        num_examples = 8

        def rows(self, start, stop):
            return {k: x[np.arange(start, stop) % 8] for k, x in seq2seq_batch(8).items()}

    engine = make_engine(strategy=strategy)
    with engine.scope():
        model = LuongSeq2Seq(11, 8, attention="reinforce", seed=1)
        model.build()
        optimizer = make_optimizer("adamw", model)
        optimizer.build(model.trainable_variables)
    step = engine.make_step(model, optimizer, accumulate=2)
    records = step.run(step.feed(StreamBatches(Rows(), 8), 0), 0, np.full(20, 0.02, "float32"))
    first, last = records[0], records[-1]
    assert first["loss"] == pytest.approx(first["token_loss"] + first["reinforce_loss"], rel=1e-5)
    assert -0.002 * np.log(7) * 1.01 < first["reinforce_loss"] < 0
    assert last["token_loss"] < 0.8 * first["token_loss"]


@pytest.mark.runs
def test_a_translator_learns_where_to_look(tmp_path):
    # The target is the reversed source: word t depends on a single word of the source.
    random = np.random.default_rng(0)
    source = random.integers(3, 11, (512, 4))
    data = {
        "token_ids": source,
        "padding_mask": np.ones_like(source),
        "target_ids": np.concatenate([np.ones((512, 1)), source[:, :0:-1]], axis=1),
        "label": source[:, ::-1],
    }
    data = {name: x.astype("int32") for name, x in data.items()}
    model = LuongSeq2Seq(11, 32, attention="reinforce", input_feeding=False, seed=1)
    model.compile(keras.optimizers.Adam(0.01), jit_compile=JIT)
    history = model.fit(x=data, validation_data=data, batch_size=64, epochs=20, verbose=0).history
    assert history["val_token_accuracy"][-1] > 0.9
    assert history["val_reinforce_loss"][-1] == 0 > history["reinforce_loss"][-1]
    alignments = ops.convert_to_numpy(model(data)["alignments"])
    np.testing.assert_allclose(alignments.max(axis=-1), 1.0)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(ops.convert_to_numpy(again(data)["alignments"]), alignments)
