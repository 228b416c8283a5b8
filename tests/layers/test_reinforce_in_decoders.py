"""The gradient of a recurrent decoder that samples keys is that of the expected loss."""

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
from tests.support.numpy_attention import normal, softmax
from tests.support.quick import quick
from tests.support.small_seq2seq import seq2seq_batch

V, E, U, S, T = 4, 2, 2, 2, 3
IDS, LABELS = np.array([[1, 3, 2]], "int32"), np.array([[3, 2, 1]])
MEMORY = normal(1, S, U, seed=2)
ENTROPY_WEIGHT = 0.1


class Forced(HardAttention):
    """Selects, at each step, the key of a table `(rows, T)`; S selects the average instead."""

    table = None

    def _weights(self, logits, soft, mask, training):
        if training:
            self.step = self._step(ops.shape(logits)[1])
        return super()._weights(logits, soft, mask, training)

    def _step(self, length):
        """The choices at the steps of this call, `(rows, T)`: a loop advances the seed by steps."""
        if length > 1:
            return self.table
        counter = ops.cast(self.seed_generator.state.value, "int32")[1] - self.first
        return ops.take(self.table, counter // 16 % T, axis=1)[:, None]

    def _uniform(self, shape):
        if shape[-1] == 1:
            return ops.where(self.step[..., None] == S, 1.0, 0.0)
        chosen = ops.equal(self.step[..., None], ops.arange(shape[-1], dtype="int32"))
        return ops.where(chosen, 1.0, 0.0)  # clipped


def numpy_decoder(weights, choices, order, feeding):
    """Costs, probabilities of the choices and entropies of the steps of a row, in float64."""
    kernel, recurrent, bias = (weights[name] for name in ("kernel", "recurrent_kernel", "bias"))
    memory, state, fed = weights["memory"], np.zeros(U), np.zeros(U)
    costs, chances, entropies = [], [], []
    for t, choice in enumerate(choices):
        x = weights["embedding"][IDS[0, t]]
        if order == "attend_last":
            x = np.concatenate([x, fed]) if feeding else x
            state = np.tanh(x @ kernel + state @ recurrent + bias)
        p = softmax(memory @ state)
        selected = p @ memory if choice == S else memory[choice]
        joined = np.tanh(np.concatenate([selected, state]) @ weights["join"])
        if order == "attend_first":
            state = np.tanh(np.concatenate([x, joined]) @ kernel + state @ recurrent + bias)
            output = state
        else:
            output = fed = joined
        logits = output @ weights["output_kernel"]
        costs.append(np.log(np.exp(logits).sum()) - logits[LABELS[0, t]])
        chances.append(1.0 if choice == S else p[choice])
        entropies.append(-(p * np.log(p)).sum())
    return np.array(costs), np.array(chances), np.array(entropies)


def outcomes(share):
    """All choices of all steps, and the part of their probability that has no gradient."""
    table = np.array([*itertools.product(range(S + (share < 1)), repeat=T)])
    return table, np.where(table == S, 1 - share, share).prod(axis=1)


def expected_loss(weights, share, order, feeding, token_weights):
    """The expectation over all choices of the weighted costs, minus the entropy term."""
    total = 0.0
    for choices, constant in zip(*outcomes(share), strict=True):
        costs, chances, entropies = numpy_decoder(weights, choices, order, feeding)
        errors = token_weights * (costs - ENTROPY_WEIGHT * entropies)
        total += constant * chances.prod() * errors.sum()
    return total


def exact_gradient(name, weights, *arguments):
    """Finite differences of `expected_loss`."""
    found = np.zeros(weights[name].shape)
    for index in np.ndindex(found.shape):
        ends = []
        for step in (1e-5, -1e-5):
            moved = {n: x.copy() for n, x in weights.items()}
            moved[name][index] += step
            ends.append(expected_loss(moved, *arguments))
        found[index] = (ends[0] - ends[1]) / 2e-5
    return found


def make_decoder(share, order, feeding, attention=Forced):
    hard = attention(
        "reinforce",
        "dot",
        sample_probability=share,
        entropy_weight=ENTROPY_WEIGHT,
        seed=1,
        name="hard",
    )
    cell = AttentionCell(
        keras.layers.SimpleRNNCell(U, name="rnn"),
        LuongAttention(U, attention=hard, name="join"),
        order=order,
        input_feeding=feeding,
        name="cell",
    )
    decoder = RecurrentDecoder(cell, V, E, seed=1, name="decoder")
    randomize(decoder, {"target_ids": IDS, "memory": MEMORY})
    for variable in decoder.trainable_variables:
        variable.assign(2.5 * variable)
    if attention is Forced:
        hard.first = int(ops.convert_to_numpy(hard.seed_generator.state.value)[1])
    return decoder, hard


def named(decoder, values):
    names = ("join" if "join" in v.path else v.name for v in decoder.trainable_variables)
    return {name: np.asarray(x, "float64") for name, x in zip(names, values, strict=True)}


def loss_of(decoder, ids, labels, memory, weights):
    """Function of weights and the memory: the weighted costs plus `reinforce_errors`, per row."""
    variables, weights = decoder.trainable_variables, ops.convert_to_tensor(weights)
    ids, labels = ops.convert_to_tensor(ids), ops.convert_to_tensor(labels)

    def rows(tensors):
        with keras.StatelessScope(list(zip(variables, tensors, strict=False))):
            logits, _, draws = decoder(ids, tensors[-1], training=True, return_draws=True)
            costs, baselines = (
                -ops.take_along_axis(ops.log_softmax(x), labels[..., None], axis=-1)[..., 0]
                for x in (logits, draws["baseline_logits"])
            )
            errors = decoder.cell.reinforce_errors(costs, baselines, draws, weights)
            return ops.sum(weights * costs + errors, axis=1), draws

    return rows


WAYS = [("attend_last", True), ("attend_last", False), ("attend_first", True)]


@pytest.mark.parametrize(
    "order, feeding, share",
    quick(
        [(*way, share) for way in WAYS for share in (1.0, 0.5)],
        ("attend_last", True, 0.5),
        ("attend_last", False, 1.0),
        ("attend_first", True, 0.5),
    ),
)
def test_the_expected_gradient_over_all_choices_is_the_exact_one(order, feeding, share):
    decoder, hard = make_decoder(share, order, feeding)
    table, constant = outcomes(share)
    rows, token_weights = len(table), np.array([1.0, 0.5, 2.0], "float32")
    hard.table = ops.convert_to_tensor(table.astype("int32"))
    weights = np.broadcast_to(token_weights, (rows, T))
    ids, labels = (np.repeat(x, rows, axis=0).astype("int32") for x in (IDS, LABELS))
    compute = loss_of(decoder, ids, labels, MEMORY, weights)

    def expectation(tensors):
        # Rows differ in their choices alone, and count by the probability of these.
        memory = ops.repeat(tensors[-1], rows, axis=0)
        found, draws = compute([*tensors[:-1], memory])
        chances = ops.exp(ops.sum(draws["log_probability"], axis=1)) * ops.cast(constant, "float32")
        return ops.sum(ops.stop_gradient(chances) * found)

    arrays = [*(ops.convert_to_numpy(v) for v in decoder.trainable_variables), MEMORY]
    exact = {**named(decoder, arrays[:-1]), "memory": MEMORY[0].astype("float64")}
    arguments = share, order, feeding, token_weights
    value = float(ops.convert_to_numpy(expectation([*map(ops.convert_to_tensor, arrays)])))
    assert value == pytest.approx(expected_loss(exact, *arguments), rel=1e-4)
    *found, of_memory = gradients(expectation, arrays)
    found = {**named(decoder, found), "memory": of_memory[0]}
    for name, gradient in found.items():
        wanted = exact_gradient(name, exact, *arguments)
        np.testing.assert_allclose(gradient, wanted, 1e-4, 1e-5, err_msg=name)


def test_the_value_is_that_of_the_costs_and_entropies():
    decoder, hard = make_decoder(1.0, "attend_last", True)
    table, _ = outcomes(1.0)
    hard.table = ops.convert_to_tensor(table.astype("int32"))
    ids, labels = (np.repeat(x, len(table), axis=0).astype("int32") for x in (IDS, LABELS))
    compute = loss_of(decoder, ids, labels, MEMORY, np.ones((len(table), T), "float32"))
    memory = np.repeat(MEMORY, len(table), axis=0)
    arrays = [*(ops.convert_to_numpy(v) for v in decoder.trainable_variables), memory]
    total, draws = compute([*map(ops.convert_to_tensor, arrays)])
    entropies = ops.convert_to_numpy(draws["entropy"]).sum(axis=1)
    exact = {**named(decoder, arrays[:-1]), "memory": MEMORY[0]}
    costs = [numpy_decoder(exact, choices, "attend_last", True)[0] for choices in table]
    wanted = np.sum(costs, axis=1) - ENTROPY_WEIGHT * entropies
    np.testing.assert_allclose(ops.convert_to_numpy(total), wanted, 1e-4, 1e-5)


def test_the_mean_of_many_samples_comes_near_the_exact_gradient():
    # The layer itself, with its own random numbers.
    share, number, batches = 0.7, 500, 12
    decoder, hard = make_decoder(share, "attend_last", True, HardAttention)
    ids, labels = (np.repeat(x, number, axis=0).astype("int32") for x in (IDS, LABELS))
    weights = np.ones((number, T), "float32")
    compute = loss_of(decoder, ids, labels, MEMORY, weights)
    variables = decoder.trainable_variables
    arrays = [ops.convert_to_numpy(v) for v in variables]
    memory = np.repeat(MEMORY, number, axis=0)
    samples = []
    for batch in range(batches):
        hard.seed_generator.state.assign([batch, 0])
        samples.append(
            gradients(lambda tensors: ops.sum(compute(tensors)[0]) / number, [*arrays, memory])
        )
    found = {
        name: np.stack([named(decoder, sample[:-1])[name] for sample in samples])
        for name in named(decoder, arrays)
    }
    exact = {**named(decoder, arrays), "memory": MEMORY[0].astype("float64")}
    for name in ("embedding", "join", "recurrent_kernel"):
        wanted = exact_gradient(name, exact, share, "attend_last", True, np.ones(T))
        error = found[name].std(axis=0, ddof=1) / np.sqrt(batches)
        assert (np.abs(found[name].mean(axis=0) - wanted) < 6 * error + 1e-3).all(), name
        assert np.abs(wanted).max() > 5 * error.max()


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


@pytest.mark.parametrize("feeding", quick([True, False], True))
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
