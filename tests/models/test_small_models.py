import itertools

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.models import (
    ABCNN,
    AttentionalFactorizationMachine,
    HierarchicalAttentionNetwork,
    PointerGenerator,
    PointerNetwork,
)
from tests.support.layer_checks import JIT, check_every_weight_gets_a_gradient, compiled
from tests.support.quick import quick
from tests.support.small_models import (
    MODELS,
    RANDOM,
    abcnn,
    lstm,
    made,
    numbers,
    outputs_of,
)

SCORES = {"accuracy", "token_accuracy"}
# One of each class, with most of its parts; those of "max" have no step to take in empty texts.
KINDS = (
    "han_of_three_levels", "attention", "self_attention", "max", "abcnn3", "afm",
    "pointer_once", "generator",
)  # fmt: skip
every_model = pytest.mark.parametrize("name", quick(MODELS, *KINDS))
of_texts_or_sets = pytest.mark.parametrize(
    "name",
    quick([n for n in MODELS if "fm" not in n], *(n for n in KINDS if "fm" not in n)),
)


@pytest.mark.runs
@pytest.mark.parametrize(
    "name",
    [
        "han",
        "attention",
        "self_attention",
        "abcnn0",
        "abcnn3",
        "afm",
        "fm",
        "pointer_once",
        "generator_without_coverage",
    ],
)
def test_it_learns_a_small_set_by_heart_and_reloads(name, tmp_path):
    model, data = made(name)
    model.compile(optimizer=keras.optimizers.Adam(0.03), jit_compile=JIT)
    often = {key: np.concatenate([x] * 25) for key, x in data.items()}
    history = model.fit(x=often, batch_size=24, epochs=6, verbose=0, shuffle=False).history
    for score in SCORES & history.keys():
        assert history[score][-1] >= 0.9
    assert history["loss"][-1] < 0.35 * history["loss"][0]
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert again.get_config() == model.get_config()
    wanted = outputs_of(model, data)
    for key, value in outputs_of(again, data).items():
        np.testing.assert_allclose(value, wanted[key], 1e-5, 1e-5, err_msg=key)


@every_model
def test_each_reloads_with_its_weights(name, tmp_path):
    model, data = made(name)
    model.build()
    random = np.random.default_rng(3)
    for variable in model.trainable_variables:  # others than those that its seed gives
        variable.assign(random.normal(size=variable.shape) * 0.4)
    wanted = outputs_of(model, data)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert again.get_config() == model.get_config()
    found = outputs_of(again, data)
    assert found.keys() == wanted.keys()
    for key, value in found.items():
        np.testing.assert_allclose(value, wanted[key], 1e-5, 1e-5, err_msg=key)


@every_model
def test_every_weight_learns_and_two_seeds_differ(name):
    model, data = made(name)
    check_every_weight_gets_a_gradient(model, {k: x[:6] for k, x in data.items()})
    other, _ = made(name, seed=1)
    other.build()
    same = [
        np.allclose(a, b)
        for a, b in zip(model.get_weights(), other.get_weights(), strict=True)
        if np.std(a) > 0
    ]
    assert not all(same)


@pytest.mark.parametrize("dtype", quick(["mixed_bfloat16", "bfloat16"], "mixed_bfloat16"))
@every_model
def test_half_precision_is_near(name, dtype):
    model, data = made(name)
    batch = {k: x[:4] for k, x in data.items()}
    wanted = outputs_of(model, batch)
    half, _ = made(name, dtype=dtype)
    half.build()
    half.set_weights(model.get_weights())
    for key, value in outputs_of(half, batch).items():
        if not key.endswith("logits") or "pointer" not in name:
            scale = max(1, np.abs(wanted[key]).max())
            np.testing.assert_allclose(value, wanted[key], atol=0.05 * scale, err_msg=key)


@of_texts_or_sets
def test_padding_never_reaches_the_output(name):
    model, data = made(name)
    batch = {k: x[:6] for k, x in data.items()}
    if "pointer" in name:
        batch["elements"], batch["label"] = batch["elements"][:, :4], batch["label"][:, :2] % 4
        batch["padding_mask"] = np.ones((6, 4), "int32")
    else:
        names = {"token_ids": "padding_mask", "second_token_ids": "second_padding_mask"}
        for ids in batch.keys() & names.keys():
            batch[names[ids]] = (batch[ids] > 0).astype("int32")
            batch[ids] = np.where(batch[ids] > 0, batch[ids], 7)
    longer = dict(batch)
    for key, x in batch.items():
        if "token_ids" in key or "mask" in key or key == "elements":
            filler = 0 if "mask" in key else 5
            last = 1 if key == "elements" else x.ndim - 1
            longer[key] = np.pad(
                x,
                [(0, 0), *((0, 2 * (a in (1, last))) for a in range(1, x.ndim))],
                constant_values=filler,
            )
    wanted = outputs_of(model, batch)
    for key, value in outputs_of(model, longer).items():
        part = value[tuple(slice(n) for n in wanted[key].shape)]
        np.testing.assert_allclose(part, wanted[key], 1e-4, 1e-5, err_msg=key)


def test_a_text_without_a_word_and_a_batch_of_one():
    for name in MODELS:
        model, data = made(name)
        batch = {k: x[:1] for k, x in data.items()}
        for key in batch.keys() & {"token_ids", "padding_mask", "second_token_ids"}:
            batch[key] = np.zeros_like(batch[key])
        outputs = model({k: ops.convert_to_tensor(x) for k, x in batch.items()})
        assert np.isfinite(float(model.compute_loss(batch, y_pred=outputs))), name


@of_texts_or_sets
def test_a_batch_of_no_token_no_sentence_or_no_target_has_a_finite_loss(name):
    model, data = made(name)
    read = {"token_ids", "second_token_ids", "elements", "padding_mask"}
    targets = {"label", "target_ids", "sample_weight"} if data["label"].ndim > 1 else set()
    for names, axis in (
        (read, 1),
        (targets, 1),
        (read | targets, 1),
        (read, -1 if name == "han" else 1),
    ):
        batch = {k: np.take(x, [], axis) if k in names else x for k, x in data.items()}
        outputs = model({k: ops.convert_to_tensor(x) for k, x in batch.items()})
        sums = [model.compute_loss(batch, y_pred=outputs), model.metric_sums(outputs, batch)]
        assert all(np.isfinite(float(x)) for x in keras.tree.flatten(sums))


def test_a_factorization_machine_sums_the_products_of_all_pairs():
    (plain, data), (attentive, _) = made("fm"), made("afm")
    for model in (plain, attentive):
        model.build()
        model.embedding.assign(RANDOM.normal(size=(4, 5)))
        model.weight.assign(RANDOM.normal(size=(4, 1)))
        model.bias.assign([0.3])
    attentive.interaction.vector.assign(np.zeros((3, 1)))
    for model, attends in ((plain, False), (attentive, True)):
        v, w = ops.convert_to_numpy(model.embedding), ops.convert_to_numpy(model.weight)
        expected = []
        for x, real in zip(data["feature_values"], data["padding_mask"] > 0, strict=True):
            products = [
                v[i] @ v[j] * x[i] * x[j]
                for i, j in itertools.combinations(np.flatnonzero(real), 2)
            ]
            pooled = np.mean(products) if attends else np.sum(products)
            expected.append(0.3 + w[real, 0] @ x[real] + pooled)
        found = outputs_of(model, data)["logits"][:, 0]
        np.testing.assert_allclose(found, expected, 1e-4, 1e-5)


def test_a_block_without_attention_is_a_wide_convolution_and_means():
    model, data = made("abcnn0")
    found = outputs_of(model, data)["logits"]
    kernel, bias = (ops.convert_to_numpy(w) for w in model.convolutions[0].weights)
    table = ops.convert_to_numpy(model.embedding.embeddings)
    for row in range(4):
        means = []
        for name in ("token_ids", "second_token_ids"):
            ids = data[name][row]
            x = np.pad(table[ids[ids > 0]], ((2, 2), (0, 0)))
            places = [
                np.tanh(np.tensordot(x[t : t + 3], kernel, 2) + bias) for t in range(len(x) - 2)
            ]
            steps = [np.mean(places[t : t + 3], axis=0) for t in range(len(places) - 2)]
            assert len(steps) == (ids > 0).sum()
            means.append(np.mean(steps, axis=0))
        match = 1 / (1 + np.linalg.norm(means[0] - means[1]))
        features = np.concatenate([*means, [match]])
        dense, offset = (ops.convert_to_numpy(w) for w in model.logits_dense.weights)
        np.testing.assert_allclose(found[row], features @ dense + offset, 1e-4, 1e-5)


def test_variants_return_the_matches_that_they_use():
    for variant, names in enumerate((set(), {"input"}, {"pooling"}, {"input", "pooling"})):
        outputs = outputs_of(abcnn(variant, 2), made("abcnn0")[1])
        assert outputs.keys() == {"logits"} | {
            f"{name}_attention_{i}" for name in names for i in range(2)
        }
        for name in names:
            size = 6 if name == "input" else 8
            assert outputs[f"{name}_attention_1"].shape == (24, size, size)


def test_at_first_a_word_matches_itself_better_than_others():
    ids = np.arange(1, 41)[None]
    found = ABCNN(50, 2, max_length=40, variant=1, seed=0)(
        {"token_ids": ids, "second_token_ids": ids}
    )
    matches = ops.convert_to_numpy(found["input_attention_0"])[0]
    assert np.allclose(np.diag(matches), 1)
    assert matches[~np.eye(40, dtype=bool)].max() < 0.1


def test_attention_of_documents_is_a_distribution_over_what_is_there():
    model, data = made("han")
    outputs = outputs_of(model, data)
    real = data["token_ids"] > 0
    assert not outputs["word_attention"][~real].any()
    np.testing.assert_allclose(outputs["word_attention"].sum(-1), real.any(-1), 1e-5)
    np.testing.assert_allclose(outputs["sentence_attention"].sum(-1), real.any((-1, -2)), 1e-5)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["pointer", "pointer_once"])
def test_positions_found_alone_are_those_of_forced_labels(name):
    model, data = made(name)
    model.build()
    inputs = {k: data[k][:6] for k in ("elements", "padding_mask")}
    inputs["padding_mask"][2:, 3] = 0
    found, attention = (
        ops.convert_to_numpy(x) for x in model.predict_indices(inputs, return_attention_scores=True)
    )
    assert not (found[2:] == 3).any() and not attention[2:, :, 3].any()
    forced = outputs_of(model, {**inputs, "label": np.where(found < 0, 0, found)})
    real = found >= 0
    np.testing.assert_array_equal(forced["logits"].argmax(-1)[real], found[real])
    np.testing.assert_allclose(forced["attention"][real], attention[real], 1e-4, 1e-5)
    if name == "pointer_once":
        assert [sorted(row) for row in found] == [[0, 1, 2, 3, 4]] * 2 + [[-1, 0, 1, 2, 4]] * 4
    again = compiled(lambda inputs: model.predict_indices(inputs, 3))(
        {k: ops.convert_to_tensor(x) for k, x in inputs.items()}
    )
    np.testing.assert_array_equal(ops.convert_to_numpy(again), found[:, :3])


@pytest.mark.runs
def test_a_pointer_network_sorts_more_numbers_than_it_has_learnt():
    model, _ = made("pointer_once")
    model.compile(optimizer=keras.optimizers.Adam(0.01), jit_compile=JIT)
    model.fit(x=numbers(64 * 200, 4), batch_size=64, verbose=0)
    new = numbers(64, 6, seed=9)
    found = ops.convert_to_numpy(
        model.predict_indices({k: new[k] for k in ("elements", "padding_mask")})
    )
    assert (np.sort(found) == np.arange(6)).all()
    assert (found == new["label"]).mean() > 0.5  # by chance a sixth


def test_a_label_that_is_masked_costs_a_bounded_loss():
    for name, label in (("pointer_once", "label"), ("generator", "label")):
        model, data = made(name)
        batch = {k: ops.convert_to_tensor(x[:2]) for k, x in data.items()}
        batch[label] = ops.full(
            (2, 5 if name == "pointer_once" else 3), 4 if name == "pointer_once" else 11, "int32"
        )
        loss = float(model.compute_loss(batch, y_pred=model(batch)))
        assert 0 < loss < 30


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: lstm("sum"), "reduce='sum'"),
        (lambda: lstm(num_heads=3), "num_heads=3"),
        (lambda: lstm(dropout=1.0), "dropout=1.0"),
        (lambda: abcnn(4), "variant=4"),
        (lambda: lstm(attention_units=0), "attention_units=0"),
        (lambda: lstm("mean", attention_units=7), "attention_units is only supported with"),
        (lambda: abcnn(1, 0), "num_blocks=0"),
        (lambda: HierarchicalAttentionNetwork(0, 2), "vocabulary_size=0"),
        (lambda: HierarchicalAttentionNetwork(2, 2, dropout=-1), "dropout=-1"),
        (lambda: AttentionalFactorizationMachine(3, 1), "num_fields=1"),
        (lambda: AttentionalFactorizationMachine(3, 2, dropout=1), "dropout=1"),
        (lambda: AttentionalFactorizationMachine(3, 2, attention_l2=-1), "attention_l2=-1"),
        (lambda: PointerNetwork(0), "element_dim=0"),
        (
            lambda: PointerNetwork(1)(
                {"elements": np.zeros((2, 5, 3)), "label": np.zeros((2, 5), int)}
            ),
            r"elements must have .* element_dim=1. Received: elements.shape=\(2, 5, 3\)",
        ),
        (
            lambda: PointerNetwork(1).predict_indices({"elements": np.zeros((2, 5))}),
            r"elements.shape=\(2, 5\)",
        ),
        (lambda: PointerGenerator(9, -1), "num_oov=-1"),
        (lambda: PointerGenerator(0), "vocabulary_size=0"),
        (lambda: PointerGenerator(9, attention_units=0), "attention_units=0"),
        (lambda: PointerGenerator(9, unknown_id=9), "unknown_id=9"),
    ],
)
def test_wrong_arguments_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
