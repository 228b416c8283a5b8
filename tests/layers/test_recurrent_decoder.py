"""Inputs of the steps of a recurrent decoder, in training and decoding."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.layers import (
    Attention,
    HardAttention,
    LocalAttention,
    LocationScore,
    LuongAttention,
)
from keras_attn.layers.recurrent import AttentionCell, BahdanauDecoderCell, RecurrentDecoder
from tests.support.layer_checks import (
    compiled,
    layer_gradients,
    randomize,
    run,
    weights_of,
    with_other_padding,
)
from tests.support.quick import THOROUGH, quick

V, E, U, D = 7, 3, 4, 6


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def bahdanau():
    return BahdanauDecoderCell(U, seed=2, name="cell")


def luong():
    return AttentionCell(
        keras.layers.LSTMCell(U, name="lstm"),
        LuongAttention(U, seed=3, name="attention"),
        name="cell",
    )


def decoder(cell=bahdanau, **kwargs):
    return RecurrentDecoder(cell(), V, E, **{"seed": 1, "name": "decoder", **kwargs})


def inputs_of(rows, length=5, seed=0):
    random = np.random.default_rng(seed)
    ids = random.integers(1, V, (rows, length)).astype("int32")
    return {"target_ids": ids, "memory": normal(rows, 4, D, seed=seed)}


def made(inputs, cell=bahdanau, **kwargs):
    """A decoder whose weights are random, and large enough for words to matter."""
    layer = decoder(cell, **kwargs)
    randomize(layer, inputs)
    for name in ("embedding", "output_kernel"):
        kernel = getattr(layer, name)
        kernel.assign(5 * kernel)
    return layer


def freely(layer, inputs):
    """Greedy predictions, a word at a time, each by a forced pass over the words before."""
    ids = inputs["target_ids"][:, :1]
    for _ in range(1, inputs["target_ids"].shape[1]):
        logits = run(layer, {**inputs, "target_ids": ids})
        ids = np.concatenate([ids, logits[:, -1:].argmax(-1)], axis=1).astype("int32")
    return ids


@pytest.mark.thorough
@pytest.mark.parametrize("cell", [bahdanau, luong])
def test_unforced_steps_get_the_most_likely_word(cell):
    inputs = inputs_of(6)
    layer = made(inputs, cell)
    ids = freely(layer, inputs)
    assert (ids != inputs["target_ids"]).any(0)[1:].all()
    wanted = run(layer, {**inputs, "target_ids": ids})
    free = {"teacher_forcing_ratio": 0.0}
    np.testing.assert_allclose(run(layer, inputs, free), wanted, 1e-5, 1e-5)
    free = compiled(lambda ids, memory: layer(ids, memory, teacher_forcing_ratio=0.0)[0])
    found = free(*map(ops.convert_to_tensor, inputs.values()))
    np.testing.assert_allclose(ops.convert_to_numpy(found), wanted, 1e-4, 1e-4)


def test_no_gradient_passes_through_the_choice_of_a_word():
    inputs = inputs_of(3)
    layer = made(inputs)
    forced_inputs = {**inputs, "target_ids": freely(layer, inputs)}
    projection = normal(3, 5, V, seed=1)
    wanted = layer_gradients(layer, forced_inputs, None, projection)
    found = layer_gradients(layer, inputs, {"teacher_forcing_ratio": 0.0}, projection)
    for one, other in zip(found, wanted, strict=True):
        for name in one:
            np.testing.assert_allclose(one[name], other[name], 1e-4, 1e-5, err_msg=name)


def test_a_ratio_of_one_gives_every_step_the_target_and_so_does_evaluation():
    inputs = inputs_of(3)
    layer = made(inputs, teacher_forcing_ratio=0.0)
    wanted = run(layer, inputs, {"training": False})
    for arguments in (
        {"teacher_forcing_ratio": 1.0, "training": True},
        {"teacher_forcing_ratio": ops.ones(()), "training": True},
    ):
        np.testing.assert_allclose(run(layer, inputs, arguments), wanted, 1e-5, 1e-5)
    assert np.abs(run(layer, inputs, {"training": True}) - wanted).max() > 1e-2


def test_one_draw_decides_for_a_sequence_or_for_a_step():
    inputs = inputs_of(200)
    layer = made(inputs)
    forced, free = (run(layer, inputs, {"teacher_forcing_ratio": r}) for r in (1.0, 0.0))
    differs = np.abs(forced - free).max((1, 2)) > 1e-2
    assert differs.mean() > 0.8

    def like(found, wanted):
        return (np.abs(found - wanted).max((1, 2)) < 1e-3)[differs]

    for level, mixed_rows in (("sequence", False), ("token", True)):
        layer.level = level
        found = run(layer, inputs, {"teacher_forcing_ratio": 0.7})
        as_forced, as_free = like(found, forced), like(found, free)
        assert (~as_forced & ~as_free).any() == mixed_rows
        if level == "sequence":
            assert abs(as_forced.mean() - 0.7) < 0.1
    again = made(inputs, level="sequence")
    np.testing.assert_array_equal(
        like(run(again, inputs, {"teacher_forcing_ratio": 0.7}), forced),
        like(run(made(inputs), inputs, {"teacher_forcing_ratio": 0.7}), forced),
    )


@pytest.mark.thorough
def test_a_schedule_counts_the_steps_of_training_also_when_compiled(tmp_path):
    inputs = inputs_of(3)
    schedule = keras.optimizers.schedules.PolynomialDecay(1.0, 2, 0.0)
    layer = made(inputs, teacher_forcing_ratio=schedule)
    forced, free = (run(layer, inputs, {"teacher_forcing_ratio": r}) for r in (1.0, 0.0))
    assert np.abs(forced - free).max() > 1e-2
    again = RecurrentDecoder.from_config(layer.get_config())
    assert again.get_config() == layer.get_config()

    def train(weights, others):
        return layer.stateless_call(weights, others, *inputs.values(), training=True)

    train = compiled(train)
    weights = [v.value for v in layer.trainable_variables]
    others = [v.value for v in layer.non_trainable_variables]
    found = []
    for _ in range(3):
        (logits, _), others = train(weights, others)
        found.append(ops.convert_to_numpy(logits))
    np.testing.assert_allclose(found[0], forced, 1e-4, 1e-4)
    np.testing.assert_allclose(found[2], free, 1e-4, 1e-4)
    run(layer, inputs, {"training": True})
    run(layer, inputs)
    assert int(layer.training_steps) == 1
    symbols = [keras.Input(x.shape[1:], dtype=x.dtype.name) for x in inputs.values()]
    keras.Model(symbols, layer(*symbols)[0]).save(tmp_path / "decoder.keras")
    again = keras.saving.load_model(tmp_path / "decoder.keras").layers[-1]
    assert int(again.training_steps) == 1


def attending(attention, **kwargs):
    """A cell with an attention of its own each time."""
    return lambda: AttentionCell(
        keras.layers.GRUCell(U, name="gru"), attention(), name="cell", **kwargs
    )


@pytest.mark.parametrize(
    "cell",
    [
        bahdanau,
        luong,
        attending(lambda: None),
        attending(LocalAttention, order="attend_first"),
        pytest.param(attending(lambda: Attention("additive")), marks=THOROUGH),
        *(
            attending(make, input_feeding=False)
            for make in (
                lambda: LocalAttention(1, "predictive"),
                lambda: HardAttention(score="additive"),
                lambda: Attention(LocationScore(4)),
            )
        ),
        *(
            pytest.param(attending(make, input_feeding=False), marks=THOROUGH)
            for make in (
                lambda: Attention("additive"),
                lambda: LocalAttention(1),
                lambda: LuongAttention(U, attention=LocalAttention(1)),
            )
        ),
    ],
)
def test_many_words_of_several_targets_at_once_are_those_of_one_pass_each(cell):
    inputs = inputs_of(2)
    layer = made(inputs, cell)
    targets = inputs["target_ids"], (inputs["target_ids"] + 1) % V
    wanted = [
        [run(layer, {**inputs, "target_ids": ids}, index=i) for ids in targets] for i in (0, 1)
    ]
    wanted = [np.stack(of_targets, axis=1).reshape(4, 5, -1) for of_targets in wanted]
    ids = np.stack(targets, axis=1).reshape(4, 5)
    cache, memory = layer.start_decoding(inputs["memory"], rows=2)
    for start, end in ((0, 3), (3, 5)):
        *found, cache = layer(ids[:, start:end], memory, cache=cache, cache_index=start)
        for one, whole in zip(found, wanted, strict=True):
            np.testing.assert_allclose(ops.convert_to_numpy(one), whole[:, start:end], 1e-4, 1e-4)


@pytest.mark.parametrize("cell", [bahdanau, luong])
def test_a_decoder_that_was_never_called_is_built_where_decoding_starts(cell):
    inputs = inputs_of(2)
    layer = decoder(cell)
    cache, memory = layer.start_decoding(inputs["memory"])
    found = layer(inputs["target_ids"], memory, cache=cache, cache_index=0)[0]
    np.testing.assert_allclose(ops.convert_to_numpy(found), run(layer, inputs), 1e-5, 1e-5)


@pytest.mark.parametrize(
    "cell, ratio",
    quick(
        [(cell, ratio) for cell in (bahdanau, luong) for ratio in (0.0, 1.0)],
        (bahdanau, 0.0),
        (luong, 1.0),
    ),
)
def test_padding_reaches_neither_logits_nor_alignments(cell, ratio):
    inputs = {**inputs_of(2), "memory_mask": np.array([[1, 1, 0, 1], [0, 0, 1, 0]])}
    layer = made(inputs, cell)
    arguments = {"teacher_forcing_ratio": ratio}
    wanted = [run(layer, inputs, arguments, i) for i in (0, 1)]
    np.testing.assert_array_equal(
        wanted[1][np.broadcast_to(inputs["memory_mask"][:, None] == 0, wanted[1].shape)], 0.0
    )
    for other in with_other_padding(inputs, "memory_mask", ["memory"]):
        for i in (0, 1):
            np.testing.assert_allclose(
                run(layer, other, arguments, i)[..., : [V, 4][i]], wanted[i], 1e-5, 1e-5
            )
    longer = {**inputs, "target_ids": np.pad(inputs["target_ids"], ((0, 0), (0, 3)))}
    np.testing.assert_allclose(run(layer, longer, arguments)[:, :5], wanted[0], 1e-5, 1e-5)
    one = {name: x[:1] for name, x in inputs.items()}
    np.testing.assert_allclose(run(layer, one, arguments), wanted[0][:1], 1e-5, 1e-5)
    first = {**inputs, "target_ids": inputs["target_ids"][:, :1]}
    np.testing.assert_allclose(run(layer, first, arguments), wanted[0][:, :1], 1e-5, 1e-5)


def test_masks_of_keras_work_without_an_argument():
    ids = np.array([[3, 4, 0, 0], [5, 0, 0, 0]])
    tokens, target = (keras.Input((None,), dtype="int32") for _ in range(2))
    x = keras.layers.Embedding(9, 5, mask_zero=True)(tokens)
    x = keras.layers.Bidirectional(keras.layers.LSTM(3, return_sequences=True))(x)
    model = keras.Model([tokens, target], decoder()(target, x))
    logits, alignments = model([ids, np.array([[1, 2, 3], [1, 4, 4]])])
    assert tuple(logits.shape) == (2, 3, V)
    alignments = ops.convert_to_numpy(alignments)
    np.testing.assert_array_equal(alignments[np.broadcast_to(ids[:, None] == 0, (2, 3, 4))], 0.0)
    np.testing.assert_allclose(alignments.sum(-1), 1.0, 1e-5)


@pytest.mark.parametrize("policy", quick(["mixed_float16", "mixed_bfloat16"], "mixed_float16"))
@pytest.mark.parametrize(
    "make",
    [
        lambda dtype: BahdanauDecoderCell(4, seed=0, dtype=dtype),
        lambda dtype: AttentionCell(
            keras.layers.GRUCell(4, dtype=dtype),
            LuongAttention(4, seed=0, dtype=dtype),
            dtype=dtype,
        ),
    ],
)
def test_a_decoder_and_its_cell_may_have_different_policies(make, policy):
    ids, memory = np.array([[1, 5, 6]]), np.ones((1, 2, 8), "float32")
    for of_cell, of_decoder in (("float32", policy), (policy, "float32"), (policy, policy)):
        decoder = RecurrentDecoder(make(of_cell), 9, 3, seed=0, dtype=of_decoder)
        plain = RecurrentDecoder(make("float32"), 9, 3, seed=0)
        expected = plain(ids, memory)
        decoder.build(ids.shape, memory.shape)
        decoder.set_weights(plain.get_weights())
        for x, wanted in zip(decoder(ids, memory), expected, strict=True):
            assert keras.backend.standardize_dtype(x.dtype) == decoder.compute_dtype
            np.testing.assert_allclose(
                ops.convert_to_numpy(ops.cast(x, "float32")),
                ops.convert_to_numpy(wanted),
                atol=0.03,
            )


def test_dropout_repeats_by_seed_and_is_absent_at_inference():
    inputs, found = inputs_of(2), []
    for _ in range(2):
        layer = decoder(dropout=0.5)
        calls = [run(layer, inputs, {"training": flag}) for flag in (True, True, False)]
        found.append(calls)
        assert np.abs(calls[0] - calls[1]).max() > 1e-3
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_allclose(run(decoder(), inputs), found[0][2], 1e-6)
    first, second = decoder(seed=5), decoder(seed=6)
    for layer in (first, second):
        layer.build((None, None), (None, None, D))
    assert np.abs(weights_of(first)["embedding"] - weights_of(second)["embedding"]).max() > 0.01


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"vocabulary_size": 0}, "vocabulary_size=0"),
        ({"embedding_dim": 0}, "embedding_dim=0"),
        ({"teacher_forcing_ratio": 1.5}, "teacher_forcing_ratio=1.5"),
        ({"level": "word"}, "'word'"),
        ({"dropout": 1.0}, "dropout=1.0"),
    ],
)
def test_arguments_out_of_range_are_errors_that_name_them(arguments, message):
    with pytest.raises(ValueError, match=message):
        RecurrentDecoder(
            **{"cell": bahdanau(), "vocabulary_size": V, "embedding_dim": E, **arguments}
        )


@pytest.mark.parametrize(
    "arguments, message",
    [
        (
            {"target_ids": np.ones((2, 3, 1), "int32")},
            r"target_ids must be of shape \(B, T\).* \(2, 3, 1\)",
        ),
        ({"memory": normal(2, D)}, r"memory must be of shape \(2, S, D\).* \(2, 6\)"),
        ({"initial_state": normal(2, U)}, r"\(N, 4\), \(N, 4\). .* shapes \[\(2, 4\)\]"),
        ({"initial_state": [normal(2, U + 1)] * 2}, r"shapes \[\(2, 5\), \(2, 5\)\]"),
    ],
)
def test_shapes_that_cannot_be_right_are_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        decoder(luong)(
            **{"target_ids": np.ones((2, 3), "int32"), "memory": normal(2, 5, D), **arguments}
        )
