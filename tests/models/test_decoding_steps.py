"""What models share that decode: `start_decoding`, `decode` and `reorder_cache`."""

import inspect

import numpy as np
import pytest
from keras import ops

from keras_attn.models import (
    GPT2,
    BahdanauSeq2Seq,
    GPT2LanguageModel,
    LuongSeq2Seq,
    PointerGenerator,
    PointerNetwork,
    Transformer,
    XLNet,
)

SOURCE = {
    "token_ids": np.array([[4, 7, 3, 2], [5, 6, 0, 0]], "int32"),
    "padding_mask": np.array([[1, 1, 1, 1], [1, 1, 0, 0]], "int32"),
}
TARGET = np.array([[2, 6, 8], [2, 4, 7]], "int32")

MODELS = {
    "Transformer": lambda: Transformer(20, 1, 8, 2, 16, seed=0),
    "Bahdanau": lambda: BahdanauSeq2Seq(20, 6, seed=0),
    "Luong": lambda: LuongSeq2Seq(20, 6, seed=0),
    "PointerGenerator": lambda: PointerGenerator(20, 2, 4, 4, seed=0),
    "PointerGenerator without coverage": lambda: PointerGenerator(
        20, 2, 4, 4, coverage=False, seed=0
    ),
}


def next_tokens(outputs):
    """Log probabilities."""
    if "probabilities" in outputs:
        return np.log(np.maximum(ops.convert_to_numpy(outputs["probabilities"]), 1e-30))
    return ops.convert_to_numpy(ops.log_softmax(outputs["logits"]))


def log_probabilities(logits):
    return ops.convert_to_numpy(ops.log_softmax(logits))


@pytest.mark.parametrize("name", MODELS)
def test_every_decoder_takes_and_returns_the_same(name):
    model = MODELS[name]()
    for method in ("start_decoding", "decode", "reorder_cache"):
        parameters, expected = (
            inspect.signature(getattr(one, method)).parameters
            for one in (model, MODELS["Transformer"]())
        )
        assert list(parameters) == list(expected)
    cache, memory = model.start_decoding(SOURCE, 3)  # though it was never called
    full = next_tokens(model({**SOURCE, "target_ids": TARGET}))
    whole, _, attention = model.decode(
        TARGET, 0, cache, memory, SOURCE["padding_mask"], return_attention_scores=True
    )
    real = full > -60  # id 21 is in no source
    np.testing.assert_allclose(log_probabilities(whole)[real], full[real], atol=1e-4)
    found = ops.convert_to_numpy(attention)
    assert found.shape == (2, 3, 4) and not found[1, :, 2:].any()
    np.testing.assert_allclose(found.sum(-1), 1, atol=1e-5)
    logits, cache = model.decode(TARGET[:, :1], 0, cache, memory, SOURCE["padding_mask"])
    logits, _ = model.decode(TARGET[:, 1:], 1, cache, memory, SOURCE["padding_mask"])
    real, full = real[:, 1:], full[:, 1:]
    np.testing.assert_allclose(log_probabilities(logits)[real], full[real], atol=1e-4)


@pytest.mark.parametrize("name", MODELS)
def test_targets_of_a_source_continue_from_one_another(name):
    model = MODELS[name]()
    cache, memory = model.start_decoding(SOURCE, 3, rows=2)
    swapped = np.array([1, 0, 2, 2])
    first = np.array([2, 4, 2, 9], "int32")
    _, cache = model.decode(first[:, None], 0, cache, memory, SOURCE["padding_mask"])
    cache = model.reorder_cache(cache, swapped)
    last = np.array([3, 5, 6, 7], "int32")
    found, _ = model.decode(last[:, None], 1, cache, memory, SOURCE["padding_mask"])
    sources = {key: x.repeat(2, axis=0) for key, x in SOURCE.items()}
    full = next_tokens(model({**sources, "target_ids": np.stack([first[swapped], last], axis=1)}))[
        :, 1
    ]
    real = full > -60
    np.testing.assert_allclose(log_probabilities(found)[:, 0][real], full[real], atol=1e-4)


def gpt2():
    return GPT2LanguageModel(GPT2.from_size("tiny", vocabulary_size=20, seed=0))


@pytest.mark.parametrize(
    ("make", "ask"),
    [
        (MODELS["Transformer"], lambda model: model.encode(SOURCE)),
        (MODELS["Bahdanau"], lambda model: model.encode(SOURCE)),
        (MODELS["Luong"], lambda model: model.encode(SOURCE)),
        (
            lambda: PointerNetwork(2, 4, seed=0),
            lambda model: model.predict_indices({"elements": np.ones((1, 3, 2), "float32")}),
        ),
        (gpt2, lambda model: model.decode(TARGET, 0, model.make_cache(2, 3))[0]),
        (
            lambda: gpt2().backbone,
            lambda model: model.token_products(model.decode(TARGET, 0, model.make_cache(2, 3))[0]),
        ),
        (
            lambda: gpt2().backbone,
            lambda model: model.token_products(np.ones((1, model.hidden_dim), "float32")),
        ),
        (
            lambda: XLNet.from_size("tiny", vocabulary_size=20, seed=0),
            lambda model: model.token_products(np.ones((1, 2, model.hidden_dim), "float32")),
        ),
    ],
)
def test_a_model_that_was_never_called_is_built_by_what_it_is_asked(make, ask):
    built, fresh = make(), make()
    built.build()
    np.testing.assert_array_equal(*(ops.convert_to_numpy(ask(one)) for one in (fresh, built)))
    assert [one.path for one in fresh.weights] == [one.path for one in built.weights]
