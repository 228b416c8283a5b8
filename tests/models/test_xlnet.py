"""XLNet against XLNetLMHeadModel of Hugging Face, and against itself."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.models import XLNet, XLNetPretrainer
from keras_attn.visualize import attention_maps
from tests.support.golden_xlnet import GOLDEN, array, as_golden, batch_of, make_model, ours
from tests.support.layer_checks import compiled, gradients
from tests.support.quick import quick

CASES = {
    "ranks": ({}, "permutation_ranks"),
    "mask": ({}, "permutation_mask"),
    "memory": ({}, "permutation_mask"),
    "clamped": ({"max_distance": 3}, "permutation_ranks"),
}


@pytest.fixture(scope="module")
def golden():
    with np.load(GOLDEN, allow_pickle=False) as file:
        return dict(file)


@pytest.fixture
def inputs(golden):
    return {k.removeprefix("inputs/"): v for k, v in golden.items() if k.startswith("inputs/")}


@pytest.mark.parametrize("case", CASES)
def test_outputs_loss_and_gradients_equal_those_of_hugging_face(golden, inputs, case):
    options, permutation = CASES[case]
    model, batch = as_golden(golden, **options), batch_of(inputs, permutation)
    if case == "memory":
        before = model.backbone({"token_ids": inputs["memory_ids"]})["memory"]
        batch["memory"] = [ops.convert_to_tensor(array(x)) for x in before]
    outputs = model(batch)
    for name in ("sequence_output", "query_output", "logits"):
        np.testing.assert_allclose(
            array(outputs[name]), golden[f"{case}/{name}"], 1e-5, 1e-5, err_msg=name
        )
    for number, found in enumerate(outputs["memory"]):
        np.testing.assert_allclose(array(found), golden[f"{case}/memory/{number}"], 1e-5, 1e-5)
    others = [v.value for v in model.non_trainable_variables]
    batch = {name: x if name == "memory" else ops.convert_to_tensor(x) for name, x in batch.items()}

    def loss(weights):
        outputs, _ = model.stateless_call(weights, others, batch, training=True)
        return model.compute_loss(x=batch, y_pred=outputs)

    weights = [ops.convert_to_numpy(v) for v in model.trainable_variables]
    value = loss([ops.convert_to_tensor(w) for w in weights])
    np.testing.assert_allclose(ops.convert_to_numpy(value), golden[f"{case}/loss"], 1e-5)
    for variable, found in zip(model.trainable_variables, gradients(loss, weights), strict=True):
        expected = ours(variable, golden, f"{case}/gradients/")
        np.testing.assert_allclose(found, expected, 1e-5, 1e-5, err_msg=variable.path)


def test_reversed_rows_equal_the_bidirectional_data_of_hugging_face(golden, inputs):
    model = as_golden(golden)
    batch = {
        name: np.concatenate([x, x]) for name, x in batch_of(inputs, "permutation_ranks").items()
    }
    batch["reversed_rows"] = np.repeat([0, 1], 3).astype("int32")
    outputs = model(batch)
    for name in ("sequence_output", "query_output"):
        np.testing.assert_allclose(array(outputs[name]), golden[f"reversed/{name}"], 1e-5, 1e-5)
    assert np.abs(array(outputs["logits"])[:3] - array(outputs["logits"])[3:]).max() > 0.1


def test_a_text_read_backwards_is_a_reversed_row():
    # Neither knows where it begins: only distances count.
    model, ids = make_model(), np.array([[5, 17, 3, 8, 44]], "int32")
    forwards = array(model({"token_ids": ids})["sequence_output"])
    backwards = model({"token_ids": ids[:, ::-1].copy(), "reversed_rows": np.array([1], "int32")})
    np.testing.assert_allclose(array(backwards["sequence_output"])[:, ::-1], forwards, 1e-5, 1e-5)


def test_the_query_stream_does_not_know_its_token(inputs):
    model, batch = make_model(), batch_of(inputs, "permutation_ranks")
    wanted = array(model(batch)["query_output"])
    for row, targets in enumerate(inputs["mask_positions"]):
        ranks = inputs["permutation_ranks"][row, targets]
        for number, place in enumerate(targets):
            other = {**batch, "token_ids": batch["token_ids"].copy()}
            other["token_ids"][row, place] += 1
            found = array(model(other)["query_output"])
            later = ranks > ranks[number]
            np.testing.assert_array_equal(found[row, ~later], wanted[row, ~later])
            if later.any():
                assert np.abs(found - wanted)[row, later].max(axis=-1).min() > 1e-7
    without = {name: x for name, x in batch.items() if name != "permutation_ranks"}
    wanted = array(model(without)["query_output"])
    without["token_ids"] = without["token_ids"].copy()
    without["token_ids"][0, 4] += 1
    found = array(model(without)["query_output"])
    # Through two layers others contain it, which is why an order is required.
    assert np.abs(found[0, 0] - wanted[0, 0]).max() > 1e-7


def test_a_batch_equals_its_rows_one_by_one(inputs):
    model, batch = make_model(memory_length=4), batch_of(inputs, "permutation_ranks")
    batch["memory"] = model.backbone({"token_ids": inputs["memory_ids"]})["memory"]
    together = model(batch)
    for row in range(3):
        alone = model(
            {
                name: [y[row : row + 1] for y in x] if name == "memory" else x[row : row + 1]
                for name, x in batch.items()
            }
        )
        for name in ("sequence_output", "pooled_output", "query_output", "logits"):
            np.testing.assert_allclose(
                array(alone[name])[0], array(together[name])[row], 1e-5, 1e-6, err_msg=name
            )


def test_two_segments_with_memory_equal_one_in_which_the_first_does_not_see_the_second():
    ids = np.random.default_rng(2).integers(0, 89, (2, 12)).astype("int32")
    model = make_model(memory_length=7)
    first = model.backbone({"token_ids": ids[:, :7]})
    second = model.backbone({"token_ids": ids[:, 7:], "memory": first["memory"]})
    places = np.arange(12)
    seen = (places[:, None] >= 7) | (places < 7)
    whole = model.backbone({"token_ids": ids, "permutation_mask": np.tile(seen, (2, 1, 1))})
    both = np.concatenate([array(x["sequence_output"]) for x in (first, second)], axis=1)
    np.testing.assert_allclose(both, array(whole["sequence_output"]), 1e-5, 1e-5)


@pytest.mark.parametrize("limits", [{"memory_length": 5}, {"memory_length": 4, "reuse_length": 3}])
def test_pretraining_with_memory_is_a_pass_over_the_whole_text_in_either_direction(inputs, limits):
    # The memory that is given does not depend on the limits; by small weights hardly on places.
    model = make_model(**limits, initializer_range=0.3)
    batch = batch_of(inputs, "permutation_ranks", "memory_ids")
    batch["memory_mask"] = (np.arange(5) >= np.array([[2], [0], [1]])).astype("int32")
    batch["reversed_rows"] = np.array([1, 0, 1], "int32")
    found = model(batch)
    ranks = np.pad(batch["permutation_ranks"], [(0, 0), (5, 0)], constant_values=-1)
    queries, keys = ranks[:, :, None], ranks[:, None]
    seen = (keys < queries) | ((keys == -1) & (queries == -1))
    seen[:, :5, 5:] = False
    whole = model(
        {
            "token_ids": np.concatenate([batch["memory_ids"], batch["token_ids"]], axis=1),
            "segment_ids": np.pad(batch["segment_ids"], [(0, 0), (5, 0)]),
            "permutation_mask": seen,
            "padding_mask": np.concatenate([batch["memory_mask"], batch["padding_mask"]], axis=1),
            "reversed_rows": batch["reversed_rows"],
            "mask_positions": batch["mask_positions"] + 5,
        }
    )
    np.testing.assert_allclose(array(found["logits"]), array(whole["logits"]), 1e-5, 1e-5)
    forwards = model({**batch, "reversed_rows": np.zeros(3, "int32")})["logits"]
    assert (np.abs(array(forwards) - array(found["logits"])).max(axis=(1, 2)) > 0.1).tolist() == [
        True,
        False,
        True,
    ]


@pytest.mark.parametrize(
    "memory, reuse, expected",
    [
        (4, None, [3, 4, 5, 6]),
        (9, None, [-2, -1, 0, 1, 2, 3, 4, 5, 6]),
        (3, 2, [-1, 0, 1]),
        (30, None, list(range(-5, 7))),
    ],
)
def test_the_memory_holds_the_newest_inputs_of_each_layer(memory, reuse, expected):
    ids = np.random.default_rng(3).integers(0, 89, (1, 12)).astype("int32")
    model = make_model(memory_length=memory, reuse_length=reuse).backbone
    table = array(model.token_embedding)
    before = [np.stack([table[ids[0, :5]]])] * 2
    found = model({"token_ids": ids[:, 5:], "memory": before})["memory"]
    np.testing.assert_array_equal(array(found[0])[0], table[ids[0, np.array(expected) + 5]])


def test_what_a_call_remembers_says_what_of_it_is_padding():
    # Padding is before the text; rows come in three calls, and are as they are alone.
    ids = np.random.default_rng(5).integers(0, 89, (2, 15)).astype("int32")
    real = (np.arange(15) >= np.array([[0], [3]])).astype("int32")
    model = make_model(memory_length=9, initializer_range=0.3).backbone

    def calls(ids, real):
        memory, found = {}, []
        for start in (0, 5, 10):
            batch = {"token_ids": ids[:, start : start + 5], **memory}
            if real is not None:
                batch["padding_mask"] = real[:, start : start + 5]
            outputs = model(batch)
            memory = {name: outputs[name] for name in ("memory", "memory_mask") if name in outputs}
            found.append(array(outputs["sequence_output"]))
        return np.concatenate(found, axis=1), memory

    found, memory = calls(ids, real)
    np.testing.assert_array_equal(array(memory["memory_mask"]), real[:, 6:] * 0 + 1)
    whole, memory = calls(ids[:1], None)
    assert "memory_mask" not in memory
    np.testing.assert_allclose(found[:1], whole, 1e-5, 1e-5)
    begun = model({"token_ids": ids[:, :5], "padding_mask": real[:, :5]})
    np.testing.assert_array_equal(array(begun["memory_mask"]), real[:, :5])
    alone = model({"token_ids": ids[1:, 3:5]})
    after = model({"token_ids": ids[1:, 5:10], "memory": alone["memory"]})
    np.testing.assert_allclose(found[1:, 5:10], array(after["sequence_output"]), 1e-5, 1e-5)


def test_padding_of_text_and_of_memory_changes_nothing(inputs):
    model = make_model(memory_length=5)
    batch = batch_of(inputs, "permutation_ranks")
    batch["memory_mask"] = (np.arange(5) >= np.array([[0], [2], [5]])).astype("int32")
    real = batch["padding_mask"] > 0

    def outputs(ids, memory_ids):
        memory = model.backbone({"token_ids": memory_ids, "padding_mask": batch["memory_mask"]})
        return model({**batch, "token_ids": ids, "memory": memory["memory"]})

    ids, memory_ids = batch["token_ids"], inputs["memory_ids"]
    wanted = outputs(ids, memory_ids)
    found = outputs(np.where(real, ids, 7), np.where(batch["memory_mask"] > 0, memory_ids, 9))
    np.testing.assert_array_equal(
        array(found["sequence_output"])[real], array(wanted["sequence_output"])[real]
    )
    np.testing.assert_array_equal(array(found["logits"]), array(wanted["logits"]))
    # The last row's memory is padding alone.
    alone = model({name: x[2:] for name, x in batch.items() if name != "memory_mask"})
    np.testing.assert_allclose(array(wanted["logits"])[2:], array(alone["logits"]), 1e-5, 1e-5)


def test_texts_of_a_row_are_as_alone(inputs):
    model, ids = make_model(), inputs["token_ids"]
    row = {
        "token_ids": np.concatenate([ids[0], ids[1, :6]])[None],
        "pack_ids": np.repeat([[1, 2]], [11, 6], axis=1).astype("int32"),
        "cls_positions": np.array([[10, 16]], "int32"),
    }
    alone = model({"token_ids": ids[:2], "padding_mask": inputs["padding_mask"][:2]})
    together = model(row)
    np.testing.assert_allclose(
        array(together["sequence_output"])[0, 11:],
        array(alone["sequence_output"])[1, :6],
        1e-5,
        1e-5,
    )
    np.testing.assert_allclose(
        array(together["pooled_output"])[0], array(alone["pooled_output"]), 1e-5, 1e-5
    )


def test_rows_of_padding_and_of_one_token_are_finite(inputs):
    model, batch = make_model(use_pooler=True), batch_of(inputs, "permutation_ranks")
    empty = {**batch, "padding_mask": 0 * batch["padding_mask"]}
    one = {
        "token_ids": batch["token_ids"][:1, :1],
        "mask_positions": np.zeros((1, 1), "int32"),
        "permutation_ranks": np.zeros((1, 1), "int32"),
    }
    for rows in (empty, one):
        assert all(np.isfinite(array(x)).all() for x in model(rows).values())


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "mixed_float16"])
def test_half_precision_is_near_and_compiles(inputs, dtype):
    batch = {
        name: ops.convert_to_tensor(x) for name, x in batch_of(inputs, "permutation_ranks").items()
    }
    wanted = array(make_model()(batch)["logits"])
    model = make_model(dtype=dtype)
    found = compiled(lambda batch: model(batch)["logits"])(batch)
    np.testing.assert_allclose(array(found), wanted, 0.05, 0.05)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="its graphs are tested")
@pytest.mark.parametrize("memory, dropout", quick([(0, 0.0), (8, 0.0), (8, 0.1)]))
def test_gradients_are_bitwise_identical_each_time(memory, dropout):
    import tensorflow as tf

    random = np.random.default_rng(0)
    model = XLNetPretrainer(XLNet(200, 2, 64, 2, dropout=dropout, seed=0))
    model.build()
    places = np.tile(np.arange(0, 30, 6, dtype="int32"), (8, 1))
    ranks = np.full((8, 32), -1, "int32")
    np.put_along_axis(ranks, places, np.arange(5)[None], 1)
    batch = {
        "token_ids": random.integers(0, 200, (8, 32)).astype("int32"),
        "segment_ids": np.tile(np.arange(32) > 15, (8, 1)).astype("int32"),
        "permutation_ranks": ranks,
        "mask_positions": places,
        "mask_ids": random.integers(0, 200, (8, 5)).astype("int32"),
        "mask_weights": np.ones((8, 5), "float32"),
    }
    if memory:
        batch["memory_ids"] = random.integers(0, 200, (8, memory)).astype("int32")
        batch["memory_mask"] = np.ones((8, memory), "int32")
    others = [v.value for v in model.non_trainable_variables]

    @tf.function
    def found(weights, batch):
        with tf.GradientTape() as tape:
            tape.watch(weights)
            outputs, _ = model.stateless_call(weights, others, batch, training=True)
            loss = model.compute_loss(x=batch, y_pred=outputs)
        return [tf.convert_to_tensor(x) for x in tape.gradient(loss, weights)]

    weights = [tf.convert_to_tensor(v.value) for v in model.trainable_variables]
    batch = {name: tf.constant(x) for name, x in batch.items()}
    runs = {b"".join(x.numpy().tobytes() for x in found(weights, batch)) for _ in range(80)}
    assert len(runs) == 1


def test_a_memory_can_be_made_first(inputs):
    ids = {"token_ids": inputs["memory_ids"]}
    first, again = XLNet(89, 2, 24, 3, seed=1), XLNet(89, 2, 24, 3, seed=1)
    found = first.make_memory(ids)
    again(ids)
    for x, y in zip(found, again.make_memory(ids), strict=True):
        np.testing.assert_allclose(array(x), array(y), 1e-4, 1e-4)


def test_biases_come_from_the_seed_and_differ():
    first, again, other = (XLNet(12, 2, 8, 2, seed=seed) for seed in (0, 0, 1))
    for model in (first, again, other):
        model.build()
    biases = [array(w) for w in first.weights if w.name.endswith("_bias")]
    assert len(biases) == 6 and len({b.tobytes() for b in biases}) == 6
    for a, b, c in zip(first.weights, again.weights, other.weights, strict=True):
        np.testing.assert_array_equal(array(a), array(b), err_msg=a.path)
        assert np.std(a) == 0 or not np.allclose(array(a), array(c)), a.path


def test_it_reloads_with_the_same_output(inputs, tmp_path):
    batch = batch_of(inputs, "permutation_ranks")
    model = make_model(
        activation="relu", memory_length=3, reuse_length=2, max_distance=9, use_pooler=True
    )
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(array(again(batch)["logits"]), array(model(batch)["logits"]))
    assert again.backbone.get_config() == model.backbone.get_config()


@pytest.mark.runs
def test_it_learns_with_fit_what_is_beside_each_token():
    model = XLNetPretrainer(XLNet(12, 1, 32, 2, dropout=0.0, seed=0, initializer_range=0.2))
    random, rows = np.random.default_rng(0), 4000
    ids = (random.integers(0, 12, (rows, 1)) + np.arange(8)) % 12  # it grows by one
    places = random.permuted(np.tile(np.arange(8), (rows, 1)), axis=1)[:, :2].astype("int32")
    ranks = np.full((rows, 8), -1, "int32")
    np.put_along_axis(ranks, places, np.tile([[0, 1]], (rows, 1)), 1)
    batch = {
        "token_ids": ids.astype("int32"),
        "mask_positions": places,
        "permutation_ranks": ranks,
        "segment_ids": np.zeros_like(ranks),
        "mask_ids": np.take_along_axis(ids, places, axis=1).astype("int32"),
        "mask_weights": np.ones((rows, 2), "float32"),
    }
    model.compile(keras.optimizers.Adam(0.01))
    model.fit(x=batch, batch_size=16, verbose=0)
    results = model.evaluate(x=batch, batch_size=400, verbose=0, return_dict=True)
    assert results["plm_accuracy"] > 0.9 and results["plm_loss"] < 0.5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_layers": 0}, "num_layers must be a positive integer"),
        ({"num_heads": 5}, "hidden_dim must be a multiple of num_heads"),
        ({"dropout": 1.0}, "dropout must be a number in"),
        ({"memory_length": -1}, "memory_length must be a non-negative integer"),
    ],
)
def test_impossible_sizes_are_errors_at_once(options, message):
    with pytest.raises(ValueError, match=message):
        XLNet(**{"vocabulary_size": 9, "num_layers": 1, "hidden_dim": 8, "num_heads": 2, **options})


def test_two_permutations_are_refused(inputs):
    batch = batch_of(inputs, "permutation_ranks", "permutation_mask")
    with pytest.raises(ValueError, match="permutation_mask cannot be combined"):
        make_model()(batch)


def test_attention_of_both_streams_can_be_seen(inputs):
    batch = batch_of(inputs, "permutation_ranks")
    maps = attention_maps(make_model(), batch)
    assert {name: weights.shape for name, weights in maps.items()} == {
        f"xlnet/layer_{layer}/attention/{stream}": (3, 3, rows, 11)
        for layer in (0, 1)
        for stream, rows in ((0, 11), (1, 3))
    }
    for row, targets in enumerate(inputs["mask_positions"]):
        weights = maps["xlnet/layer_0/attention/1"][row]
        assert not weights[:, np.arange(3), targets].any()  # the places themselves
