"""Layers that are computed again for the gradient."""

import gc
import re
import weakref

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.models import (
    GPT2,
    BertEncoder,
    BertPretrainer,
    GPT2LanguageModel,
    Transformer,
    XLNet,
    XLNetPretrainer,
)
from tests.support.quick import quick

ROWS, LENGTH, WORDS = 3, 6, 30
IDS = np.random.default_rng(0).integers(1, WORDS, (ROWS, LENGTH)).astype("int32")
PADDING = np.array([[1] * 6, [1] * 4 + [0] * 2, [1] * 5 + [0]], "int32")
PLACES = np.array([[1, 3], [0, 2], [4, 1]], "int32")
MASKED = {
    "mask_positions": PLACES,
    "mask_ids": np.take_along_axis(IDS, PLACES, 1),
    "mask_weights": np.ones((ROWS, 2), "float32"),
}
BATCHES = {
    "bert": {
        "token_ids": IDS,
        "padding_mask": PADDING,
        **MASKED,
        "next_sentence_label": np.array([0, 1, 1], "int32"),
    },
    "gpt2": {"token_ids": IDS, "padding_mask": PADDING},
    "xlnet": {
        "token_ids": IDS,
        "padding_mask": PADDING,
        **MASKED,
        "permutation_ranks": np.array(
            [[-1, 0, -1, 1, -1, -1], [0, -1, 1, -1, -1, -1], [-1, 1, -1, -1, 0, -1]], "int32"
        ),
        "memory_ids": IDS[:, :3],
        "memory_mask": np.ones((ROWS, 3), "int32"),
    },
    "transformer": {
        "token_ids": IDS,
        "padding_mask": PADDING,
        "target_ids": IDS[:, ::-1].copy(),
        "label": np.roll(IDS[:, ::-1], -1, 1),
    },
}


def make_model(family, remat=False, dropout=0.3, **options):
    shape = {
        "num_layers": 2,
        "hidden_dim": 8,
        "num_heads": 2,
        "dropout": dropout,
        "seed": 1,
        "attention_dropout": dropout,
        **options,
    }
    if family == "transformer":
        backbone = model = Transformer(WORDS, **shape)
    else:
        backbone, task = {
            "bert": (BertEncoder, BertPretrainer),
            "gpt2": (GPT2, GPT2LanguageModel),
            "xlnet": (XLNet, XLNetPretrainer),
        }[family]
        backbone = backbone(WORDS, **shape)
        model = task(backbone)
    backbone.remat = remat
    model.build()
    return model


def gradients_of(model, batch):
    """Gradients of the loss, and the state of the seed generators after it."""
    batch = {name: ops.convert_to_tensor(x) for name, x in batch.items()}
    weights = [v.value for v in model.trainable_variables]
    others = [v.value for v in model.non_trainable_variables]

    def loss(weights):
        outputs, states = model.stateless_call(weights, others, batch, training=True)
        return model.compute_loss(batch, y_pred=outputs), states

    if keras.config.backend() == "jax":
        import jax

        found, states = jax.grad(loss, has_aux=True)(weights)
    elif keras.config.backend() == "torch":
        value, states = loss(weights)
        value.backward()
        found = [w.grad for w in weights]
    else:
        import tensorflow as tf

        @tf.function(autograph=False)
        def step(weights):
            with tf.GradientTape() as tape:
                tape.watch(weights)
                value, states = loss(weights)
            return tape.gradient(value, weights, unconnected_gradients="zero"), states

        found, states = step([tf.convert_to_tensor(w) for w in weights])
    return [ops.convert_to_numpy(x) for x in [*found, *states]]


@pytest.fixture
def as_written():
    """Graphs as they were traced: TensorFlow's optimizer fuses what only one of two steps does."""
    if keras.config.backend() != "tensorflow":
        yield
        return
    import tensorflow as tf

    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    yield
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": False})


@pytest.mark.parametrize(
    "family, precision",
    quick(
        [*((family, "float32") for family in BATCHES), ("gpt2", "mixed_bfloat16")],
        ("bert", "float32"),
    ),
)
def test_gradients_are_those_of_a_step_that_keeps_all(family, precision, as_written):
    kept, computed_again = (
        gradients_of(make_model(family, remat, dtype=precision), BATCHES[family])
        for remat in (False, True)
    )
    assert len(kept) == len(computed_again) > 20
    for left, right in zip(kept, computed_again, strict=True):
        if keras.config.backend() == "jax" or family == "xlnet":  # rounded differently
            tolerance = 1e-2 if "mixed" in precision else 1e-5
            np.testing.assert_allclose(
                left.astype("float32"), right.astype("float32"), tolerance, tolerance / 10
            )
        else:
            np.testing.assert_array_equal(left, right)
    assert any(np.abs(x).max() > 0 for x in kept)


@pytest.mark.parametrize("family", quick(BATCHES))
def test_fit_learns_the_same(family):
    found = []
    for remat in (False, True):
        model = make_model(family, remat)
        model.compile(keras.optimizers.SGD(0.1), jit_compile=keras.config.backend() == "jax")
        losses = [model.train_on_batch(BATCHES[family], return_dict=True) for _ in range(3)]
        found.append([value for one in losses for value in one.values()])
    np.testing.assert_allclose(found[0], found[1], 1e-5)
    assert found[0][0] != found[0][-1]


@pytest.mark.thorough
def test_frozen_layers_stay_and_layers_after_them_learn():
    found = []
    for remat in (False, True):
        model = make_model("bert", remat)
        model.backbone.encoder_layers[0].trainable = False
        found.append(gradients_of(model, BATCHES["bert"]))
    for left, right in zip(*found, strict=True):
        np.testing.assert_allclose(left, right, 1e-5, 1e-6)


def test_a_call_outside_of_training_is_not_affected():
    outputs = [make_model("gpt2", remat)(BATCHES["gpt2"]) for remat in (False, True)]
    np.testing.assert_array_equal(*(ops.convert_to_numpy(x["logits"]) for x in outputs))


@pytest.mark.thorough
@pytest.mark.skipif(keras.config.backend() != "tensorflow", reason="graphs are TensorFlow's")
def test_xla_does_not_find_out_that_the_layers_are_computed_twice():
    """It would compute them once, and keep all."""
    import tensorflow as tf

    def products(remat):
        model = make_model("gpt2", remat, 0.0)
        weights = [tf.convert_to_tensor(v.value) for v in model.trainable_variables]

        @tf.function(jit_compile=True, autograph=False)
        def step():
            with tf.GradientTape() as tape:
                tape.watch(weights)
                outputs, _ = model.stateless_call(weights, [], BATCHES["gpt2"], training=True)
                loss = tf.reduce_sum(outputs["errors"])
            return tape.gradient(loss, weights)

        text = step.experimental_get_compiler_ir()(stage="optimized_hlo")
        return len(re.findall(r"= \S+ (dot|custom-call)\(", text))

    # Of each of two layers the products of queries, scores, contexts and networks.
    assert products(True) >= products(False) + 2 * 4


@pytest.mark.thorough
@pytest.mark.skipif(keras.config.backend() != "tensorflow", reason="graphs are TensorFlow's")
def test_the_model_is_freed_after_its_steps():
    model = make_model("gpt2", True)
    gradients_of(model, BATCHES["gpt2"])
    reference = weakref.ref(model.backbone.decoder_layers[0])
    del model
    keras.backend.clear_session()
    gc.collect()
    assert reference() is None
