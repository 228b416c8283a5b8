"""Arguments with which a BertEncoder takes single ingredients of ModernBERT."""

import numpy as np
import pytest
from keras import ops

from keras_attn.models import BertEncoder, BertPretrainer, ModernBertEncoder

IDS = np.random.default_rng(0).integers(1, 50, (2, 40))


def paths_and_shapes(encoder):
    encoder.build()
    return {v.path.partition("/")[2]: tuple(v.shape) for v in encoder.variables}


def bert(**options):
    return BertEncoder(50, 4, 16, 2, dropout=0.0, initializer_range=0.3, seed=0, **options)


def changed(**options):
    """The variables that BERT loses, gains or has in another shape."""
    plain, other = paths_and_shapes(bert()), paths_and_shapes(bert(**options))
    return {path for path, _ in plain.items() ^ other.items()}


def test_each_ingredient_changes_its_own_weights_only():
    assert changed(positions="rotary") == {"position_embedding/embeddings"}
    assert changed(local_every=2) == changed(window=4) == set()
    assert changed(feed_forward="geglu") == {
        f"layer_{i}/feed_forward/intermediate/{name}"
        for i in range(4)
        for name in ("kernel", "bias")
    }
    norms = {path for path in paths_and_shapes(bert()) if path.endswith("norm/beta")}
    assert changed(norm_bias=False) == norms
    assert changed(use_bias=False) == {
        path
        for path in paths_and_shapes(bert())
        if path.endswith("bias") and not path.startswith("pooler")
    }
    assert changed(initial_outputs="zeros") == set()
    assert changed(qk_norm=True) == {
        f"layer_{i}/attention/{name}_scale" for i in range(4) for name in ("query", "key")
    }
    norm_first = paths_and_shapes(bert(norm_first=True))
    without = paths_and_shapes(bert(norm_first=True, first_norm=False))
    assert norm_first.keys() - without.keys() == {
        "layer_0/attention_norm/gamma",
        "layer_0/attention_norm/beta",
    }


def test_all_ingredients_together_are_modernbert():
    encoder = bert(
        positions="rotary",
        feed_forward="geglu",
        use_bias=False,
        norm_bias=False,
        norm_first=True,
        first_norm=False,
        local_every=3,
        window=4,
        rotary_base=160000.0,
        num_segments=0,
        use_pooler=False,
        activation="gelu_erf",
        layer_norm_epsilon=1e-5,
        intermediate_dim=24,
    )
    other = ModernBertEncoder(50, 4, 16, 2, window=4)
    assert paths_and_shapes(encoder) == paths_and_shapes(other)
    other.set_weights(encoder.get_weights())
    found, expected = (
        ops.convert_to_numpy(one({"token_ids": IDS})["sequence_output"]) for one in (encoder, other)
    )
    np.testing.assert_array_equal(found, expected)


def test_a_token_out_of_reach_of_all_windows_has_no_effect():
    # Each of three local layers reaches two positions further.
    encoder = bert(local_every=4, window=4, positions="rotary")
    encoder.build()
    encoder.encoder_layers.pop(0)  # the global one
    other = IDS.copy()
    other[:, 20] += 1
    one, two = (
        ops.convert_to_numpy(encoder({"token_ids": ids % 50})["sequence_output"])
        for ids in (IDS, other)
    )
    moved = np.abs(one - two).max(axis=(0, 2)) > 1e-6
    assert np.flatnonzero(moved).tolist() == list(range(14, 27))


def test_either_argument_of_local_layers_has_the_default_of_modernbert():
    for options, expected in (
        ({"local_every": 2}, (2, 128)),
        ({"window": 8}, (3, 8)),
        ({}, (None, None)),
    ):
        encoder = bert(**options)
        assert (encoder.local_every, encoder.window) == expected
        encoder.build()
        windows = [layer.window for layer in encoder.encoder_layers]
        every, window = expected
        assert windows == [window // 2 if every and i % every else None for i in range(4)]


def test_the_head_of_a_masked_language_model_has_the_biases_of_its_encoder():
    model = BertPretrainer(bert(use_bias=False, norm_bias=False), next_sentence=False)
    model.build()
    heads = {v.path.partition("/")[2] for v in model.variables if "encoder" not in v.path}
    assert heads == {"mlm_dense/kernel", "mlm_norm/gamma", "mlm_bias"}


def test_a_layer_with_outputs_initialized_with_0_is_the_identity():
    layer = bert(norm_first=True, initial_outputs="zeros")
    layer.build()
    x = np.random.default_rng(0).normal(size=(2, 5, 16)).astype("float32")
    np.testing.assert_array_equal(ops.convert_to_numpy(layer.encoder_layers[0](x)), x)
    other = bert(norm_first=True)
    other.build()
    assert np.abs(ops.convert_to_numpy(other.encoder_layers[0](x)) - x).max() > 0.1


def test_logit_cap_bounds_logits_and_the_loss_is_that_of_bounded_logits():
    batch = {
        "token_ids": IDS,
        "mask_positions": np.array([[1, 4], [0, 9]]),
        "mask_ids": np.array([[7, 3], [11, 0]]),
        "mask_weights": np.array([[1.0, 1.0], [1.0, 0.0]], "float32"),
    }
    plain, capped = (
        BertPretrainer(bert(), next_sentence=False, logit_cap=cap, seed=0) for cap in (None, 2.0)
    )
    free = ops.convert_to_numpy(plain(batch)["mlm_logits"])
    outputs = capped(batch)
    logits = ops.convert_to_numpy(outputs["mlm_logits"])
    assert np.abs(free).max() > 2
    np.testing.assert_allclose(logits, 2 * np.tanh(free / 2), rtol=1e-5, atol=1e-5)
    chosen = np.take_along_axis(logits, batch["mask_ids"][..., None], axis=-1)[..., 0]
    wanted = np.log(np.exp(logits.astype("float64")).sum(axis=-1)) - chosen
    np.testing.assert_allclose(ops.convert_to_numpy(outputs["mlm_errors"]), wanted, rtol=1e-5)
    assert BertPretrainer.from_config(capped.get_config()).logit_cap == 2.0


def test_distillation_with_logit_cap_is_an_error():
    models = [BertPretrainer(bert(), next_sentence=False, logit_cap=cap) for cap in (None, 2.0)]
    for model in models:
        model.build()
    for student, teacher in (models, reversed(models)):
        with pytest.raises(ValueError, match="distillation is not supported with logit_cap"):
            student.set_teacher(teacher)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"initial_outputs": "ones"}, "initial_outputs must be 'random' or 'zeros'"),
        ({"positions": "sinus"}, "positions must be 'learned' or 'rotary'"),
        ({"feed_forward": "swiglu"}, "feed_forward must be 'dense' or 'geglu'"),
        ({"first_norm": False}, "first_norm=False requires norm_first=True"),
        (
            {"positions": "rotary", "initial_attention": "neighbours"},
            "'neighbours' requires learned positions",
        ),
        ({"window": 4, "initial_attention": "neighbours"}, "'neighbours' requires .* global"),
    ],
)
def test_arguments_that_do_not_fit(options, message):
    with pytest.raises(ValueError, match=message):
        bert(**options)
