"""GPT-2 against GPT2LMHeadModel of Hugging Face, and against itself."""

import pathlib

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.generation import beam_search, sample
from keras_attn.models import GPT2, GPT2LanguageModel
from tests.support.layer_checks import compiled, gradients
from tests.support.quick import quick

GOLDEN = pathlib.Path(__file__).parents[1] / "golden" / "gpt2.npz"
# Below "transformer.h.<i>."; ours below "gpt2/layer_<i>/".
LAYER = {
    "attention/query_key_value_kernel": "attn.c_attn.weight",
    "attention/query_key_value_bias": "attn.c_attn.bias",
    "attention/output_kernel": "attn.c_proj.weight",
    "attention/output_bias": "attn.c_proj.bias",
    "attention_norm/gamma": "ln_1.weight",
    "attention_norm/beta": "ln_1.bias",
    "feed_forward/intermediate/kernel": "mlp.c_fc.weight",
    "feed_forward/intermediate/bias": "mlp.c_fc.bias",
    "feed_forward/output/kernel": "mlp.c_proj.weight",
    "feed_forward/output/bias": "mlp.c_proj.bias",
    "feed_forward_norm/gamma": "ln_2.weight",
    "feed_forward_norm/beta": "ln_2.bias",
}
REST = {
    "token_embedding": "wte.weight",
    "position_embedding/embeddings": "wpe.weight",
    "norm/gamma": "ln_f.weight",
    "norm/beta": "ln_f.bias",
}
END = 88


def ours(path, arrays, prefix):
    """The array that belongs to our variable `path`, from those named as by Hugging Face."""
    path = path.split("gpt2/", 1)[1]
    if path in REST:
        return arrays[f"{prefix}transformer.{REST[path]}"]
    layer, rest = path.split("/", 1)
    return arrays[f"{prefix}transformer.h.{layer.removeprefix('layer_')}.{LAYER[rest]}"]


@pytest.fixture(scope="module")
def golden():
    with np.load(GOLDEN, allow_pickle=False) as file:
        return dict(file)


@pytest.fixture
def batch(golden):
    return {k.removeprefix("inputs/"): v for k, v in golden.items() if k.startswith("inputs/")}


def make_model(**options):
    model = GPT2LanguageModel(
        GPT2(
            89,
            2,
            24,
            3,
            intermediate_dim=56,
            max_length=20,
            **{"dropout": 0.0, "seed": 1, **options},
        )
    )
    model.build()
    return model


@pytest.fixture
def model(golden):
    model = make_model()
    for variable in model.trainable_variables:
        variable.assign(ours(variable.path, golden, "weights/"))
    return model


def array(x):
    return ops.convert_to_numpy(ops.cast(x, "float32"))


def test_outputs_equal_those_of_hugging_face(golden, batch, model):
    outputs = model(batch)
    real = batch["padding_mask"] > 0  # there a row without a key differs, and means nothing
    for name in ("sequence_output", "logits"):
        np.testing.assert_allclose(
            array(outputs[name])[real], golden[name][real], 1e-5, 1e-5, err_msg=name
        )
    last = golden["sequence_output"][np.arange(3), batch["padding_mask"].sum(axis=1) - 1]
    np.testing.assert_allclose(array(outputs["pooled_output"]), last, 1e-5, 1e-5)


def test_loss_and_gradients_equal_those_of_hugging_face(golden, batch, model):
    others = [v.value for v in model.non_trainable_variables]
    batch = {name: ops.convert_to_tensor(x) for name, x in batch.items()}

    def loss(weights):
        outputs, _ = model.stateless_call(weights, others, batch, training=True)
        return model.compute_loss(x=batch, y_pred=outputs)

    weights = [ops.convert_to_numpy(v) for v in model.trainable_variables]
    value = loss([ops.convert_to_tensor(w) for w in weights])
    np.testing.assert_allclose(ops.convert_to_numpy(value), golden["loss"], 1e-5)
    for variable, found in zip(model.trainable_variables, gradients(loss, weights), strict=True):
        expected = ours(variable.path, golden, "gradients/")
        np.testing.assert_allclose(found, expected, 1e-5, 1e-5, err_msg=variable.path)


def go_on(model, prompt, search):
    """What a search of a step function finds after a prompt, which is read at once."""
    rows, length = prompt.shape
    cache = model.make_cache(rows, 20)
    if length > 1:
        _, cache = model.decode(ops.convert_to_tensor(prompt[:, :-1]), 0, cache)

    def step(ids, index, cache):
        return model.decode(ids[:, None], length - 1 + index, cache)

    return search(step, cache, ops.convert_to_tensor(prompt[:, -1]))


def test_greedy_and_beam_search_go_on_as_hugging_face(golden, batch, model):
    prompt = batch["token_ids"][:1, :4]
    found = go_on(model, prompt, lambda *start: sample(*start, 12, END, temperature=0))
    np.testing.assert_array_equal(array(found["token_ids"]), golden["greedy"])
    found = go_on(
        model,
        np.repeat(prompt, 4, axis=0),
        lambda step, cache, begin: beam_search(
            step, cache, begin[:1], 4, 12, END, length_penalty=0.0
        ),
    )
    np.testing.assert_array_equal(array(found["token_ids"])[0], golden["beams"])


@pytest.mark.thorough
@pytest.mark.parametrize("beams", [1, 3])
def test_hypotheses_with_one_cache_are_those_with_a_cache_each(batch, beams):
    model, ids, real = make_model(), batch["token_ids"][:, :6], np.ones((3, 5), "int32")
    real[0, :4], real[1, :1] = 0, 0  # padding before the prompts
    places = ops.convert_to_tensor(np.maximum(real.cumsum(axis=1) - 1, 0).astype("int32"))
    last = ops.convert_to_tensor(real.sum(axis=1).astype("int32"))

    def prompt(length):
        mask = np.concatenate([real, np.ones((3, length), "int32")], axis=1)
        cache = model.make_cache(3, 5 + length)
        _, cache = model.decode(
            ops.convert_to_tensor(ids[:, :5]), 0, cache, ops.convert_to_tensor(mask), places
        )
        return cache, mask

    def each():
        cache, mask = prompt(8)
        cache = keras.tree.map_structure(lambda x: ops.repeat(x, beams, axis=0), cache)
        mask = ops.convert_to_tensor(np.repeat(mask, beams, axis=0))
        return (
            cache,
            None,
            lambda ids, index, cache: model.decode(
                ids[:, None], 5 + index, cache, mask, ops.repeat(last + index, beams)[:, None]
            ),
        )

    def shared():
        cache = model.share_cache(prompt(8 * beams)[0], beams, 8)
        return (
            cache,
            model.reorder_cache,
            lambda ids, index, cache: model.decode_beams(
                ids, index, cache, ops.convert_to_tensor(real), last + index
            ),
        )

    found = []
    for cache, reorder, step in (each(), shared()):
        found.append(
            beam_search(
                step, cache, ops.convert_to_tensor(ids[:, 5]), beams, 8, END, reorder=reorder
            )
        )
    assert len({tuple(row) for row in array(found[0]["token_ids"]).reshape(-1, 8)}) > beams
    for name, value in found[0].items():
        np.testing.assert_allclose(array(found[1][name]), array(value), 1e-5, 1e-5, err_msg=name)


@pytest.mark.parametrize("dtype", quick(["float32", "mixed_bfloat16"], "float32"))
def test_decoding_step_by_step_gives_the_logits_of_one_pass(batch, dtype):
    model = make_model(dtype=dtype)
    close = 0.06 if dtype != "float32" else 1e-5  # bfloat16 has 8 bits
    ids = ops.convert_to_tensor(batch["token_ids"])
    wanted = array(model({"token_ids": ids})["logits"])
    kernel = model.backbone.logits_kernel()
    steps = [
        compiled(lambda ids, index, cache: model.decode(ids, index, cache)),
        compiled(lambda ids, index, cache: model.decode(ids, index, cache, logits_kernel=kernel)),
    ]
    cache = model.make_cache(3, 13)
    for i in range(13):
        logits, cache = steps[i % 2](
            ids[:, i : i + 1], ops.convert_to_tensor(i, dtype="int32"), cache
        )
        np.testing.assert_allclose(array(logits), wanted[:, i], close, close)


def test_prompts_of_any_length_end_together_where_padding_is_before_them(batch):
    model, ids, mask = make_model(), batch["token_ids"], batch["padding_mask"]
    lengths = mask.sum(axis=1)
    left = np.stack([np.roll(row, 13 - n) for row, n in zip(ids, lengths, strict=True)])
    real = np.arange(20) >= (13 - lengths)[:, None]
    places = np.maximum(np.arange(13) - (13 - lengths)[:, None], 0)
    logits, _ = model.decode(
        ops.convert_to_tensor(left),
        0,
        model.make_cache(3, 20),
        ops.convert_to_tensor(real.astype("int32")),
        ops.convert_to_tensor(places.astype("int32")),
    )
    for row, length in enumerate(lengths):
        alone = model({"token_ids": ids[row : row + 1, :length]})["logits"]
        np.testing.assert_allclose(array(logits)[row], array(alone)[0, -1], 1e-5, 1e-5)


def test_a_token_changes_no_logits_before_it(batch):
    model = make_model()
    wanted = array(model(batch)["logits"])
    other = {**batch, "token_ids": batch["token_ids"].copy()}
    other["token_ids"][0, 5] += 1
    found = array(model(other)["logits"])
    np.testing.assert_array_equal(found[0, :5], wanted[0, :5])
    assert np.abs(found[0, 5:] - wanted[0, 5:]).max(axis=-1).min() > 1e-6


def test_padding_changes_no_logits_and_no_loss(batch):
    model = make_model()
    other = {**batch, "token_ids": np.where(batch["padding_mask"] > 0, batch["token_ids"], 7)}
    real = batch["padding_mask"] > 0
    outputs, others = model(batch), model(other)
    np.testing.assert_array_equal(array(outputs["logits"])[real], array(others["logits"])[real])
    np.testing.assert_array_equal(
        array(model.compute_loss(x=batch, y_pred=outputs)),
        array(model.compute_loss(x=other, y_pred=others)),
    )


def test_documents_of_a_row_are_as_alone(batch):
    model, ids = make_model(), batch["token_ids"]
    packed = np.concatenate([ids[0], ids[1, :7]])[None].astype("int32")
    row = {
        "token_ids": packed,
        "pack_ids": np.repeat([[1, 2]], [13, 7], axis=1).astype("int32"),
        "position_ids": np.concatenate([np.arange(13), np.arange(7)])[None].astype("int32"),
        "cls_positions": np.array([[12, 19]], "int32"),
    }
    apart = {"token_ids": ids[:2], "padding_mask": batch["padding_mask"][:2]}
    together, alone = model(row), model(apart)
    np.testing.assert_allclose(
        array(together["logits"])[0, :13], array(alone["logits"])[0], 1e-5, 1e-5
    )
    np.testing.assert_allclose(
        array(together["logits"])[0, 13:], array(alone["logits"])[1, :7], 1e-5, 1e-5
    )
    np.testing.assert_allclose(
        array(together["pooled_output"])[0], array(alone["pooled_output"]), 1e-5, 1e-5
    )
    # The first token of the second document must not be predicted from the first document.
    losses = [
        float(model.compute_loss(x=x, y_pred=y)) for x, y in ((row, together), (apart, alone))
    ]
    np.testing.assert_allclose(losses[0], losses[1], 1e-5)


def test_explicit_labels_equal_the_tokens_that_follow(batch):
    model, ids = make_model(), batch["token_ids"][:1]
    given = {"token_ids": ids[:, :-1], "label": ids[:, 1:]}
    losses = [float(model.compute_loss(x=x, y_pred=model(x))) for x in (given, {"token_ids": ids})]
    np.testing.assert_allclose(losses[0], losses[1], 1e-5)
    weighted = {**given, "sample_weight": (np.arange(12) < 5)[None].astype("float32")}
    short = {"token_ids": ids[:, :6]}
    losses = [float(model.compute_loss(x=x, y_pred=model(x))) for x in (weighted, short)]
    np.testing.assert_allclose(losses[0], losses[1], 1e-5)
    left_out = {"token_ids": batch["token_ids"][:2], "sample_weight": np.array([1.0, 0.0])}
    losses = [
        float(model.compute_loss(x=x, y_pred=model(x))) for x in (left_out, {"token_ids": ids})
    ]
    np.testing.assert_allclose(losses[0], losses[1], 1e-5)


def test_rows_of_padding_and_of_one_token_are_finite(batch):
    model = make_model()
    empty = {"token_ids": batch["token_ids"], "padding_mask": 0 * batch["padding_mask"]}
    one = {"token_ids": batch["token_ids"][:1, :1]}
    for row in (empty, one):
        outputs = model(row)
        assert all(np.isfinite(array(x)).all() for x in outputs.values())
        assert float(model.compute_loss(x=row, y_pred=outputs)) == 0.0


def test_first_weights_are_as_wide_as_the_paper_says():
    model = GPT2(2000, 8, 64, 4, seed=0)
    model.build()
    spread = {v.path.split("/", 1)[1]: float(np.std(array(v))) for v in model.trainable_variables}
    assert spread["token_embedding"] == pytest.approx(0.02, rel=0.05)
    assert spread["position_embedding/embeddings"] == pytest.approx(0.01, rel=0.05)
    for layer in range(8):
        for name, width in (
            ("attention/query_key_value_kernel", 0.02),
            ("attention/output_kernel", 0.005),
            ("feed_forward/intermediate/kernel", 0.02),
            ("feed_forward/output/kernel", 0.005),
        ):
            assert spread[f"layer_{layer}/{name}"] == pytest.approx(width, rel=0.05)


def test_it_reloads_with_the_same_output_and_draws_the_same_weights(batch, tmp_path):
    model = make_model(activation="relu")
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(array(again(batch)["logits"]), array(model(batch)["logits"]))
    same = make_model(activation="relu")
    np.testing.assert_array_equal(array(same(batch)["logits"]), array(model(batch)["logits"]))


@pytest.mark.runs
def test_it_learns_a_sequence_by_heart_with_fit():
    model = GPT2LanguageModel(GPT2(20, 1, 32, 2, dropout=0.0, max_length=16, seed=0))
    rows = np.random.default_rng(0).integers(0, 20, (4, 16)).astype("int32")
    model.compile("adam", run_eagerly=False)
    model.optimizer.learning_rate = 0.01
    history = model.fit(x={"token_ids": np.tile(rows, (100, 1))}, batch_size=4, verbose=0)
    assert history.history["token_loss"][0] < 1.5
    results = model.evaluate(x={"token_ids": rows}, verbose=0, return_dict=True)
    assert results["token_accuracy"] > 0.9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_layers": 0}, "num_layers must be a positive integer"),
        ({"num_heads": 5}, "hidden_dim must be a multiple of num_heads"),
        ({"dropout": 1.0}, "dropout must be a number in"),
    ],
)
def test_invalid_sizes_are_errors_at_construction(options, message):
    with pytest.raises(ValueError, match=message):
        GPT2(**{"vocabulary_size": 9, "num_layers": 1, "hidden_dim": 8, "num_heads": 2, **options})
    with pytest.raises(ValueError, match="size must be one of tiny"):
        GPT2.from_size("huge", 9)
