"""The pointer-generator network: decoding, coverage and copies."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.generation import beam_search, sample
from tests.support.layer_checks import compiled
from tests.support.small_models import BEGIN, END, made, outputs_of


def steps_of(model, inputs, rows=1):
    cache, memory = model.start_decoding(inputs, 3, rows)

    def step(ids, index, cache):
        logs, cache, attention = model.decode(
            ids[:, None], index, cache, memory, return_attention_scores=True
        )
        return logs[:, 0], cache, attention[:, 0]

    return step, cache


@pytest.mark.parametrize("name", ["generator", "generator_without_coverage"])
def test_decoding_a_step_at_a_time_is_one_full_pass(name):
    model, data = made(name)
    full = outputs_of(model, data)
    step, cache = steps_of(model, {"token_ids": data["token_ids"]})
    before = np.zeros(data["token_ids"].shape)
    for t in range(3):
        np.testing.assert_allclose(full["coverage"][:, t], before, 1e-5, 1e-6)
        logs, cache, attention = step(data["target_ids"][:, t], t, cache)
        np.testing.assert_allclose(
            np.exp(ops.convert_to_numpy(logs)), full["probabilities"][:, t], 1e-4, 1e-6
        )
        np.testing.assert_allclose(
            ops.convert_to_numpy(attention), full["attention"][:, t], 1e-4, 1e-6
        )
        before = before + full["attention"][:, t]
    np.testing.assert_allclose(full["probabilities"].sum(-1), 1, 1e-5)
    assert not full["attention"].transpose(0, 2, 1)[data["token_ids"] == 0].any()


def test_coverage_moves_the_attention_as_in_a_loop():
    model, data = made("generator")
    model.build()
    random = np.random.default_rng(0)
    for variable in model.trainable_variables:
        variable.assign(random.normal(size=variable.shape) * 0.4)
    inputs = {k: ops.convert_to_tensor(x[:2]) for k, x in data.items()}
    found = ops.convert_to_numpy(model(inputs)["attention"])
    memory, state = model._encode(inputs)
    states, *_ = model.decoder(model._embed(inputs["target_ids"]), initial_state=state)
    w = {v.name: ops.convert_to_numpy(v) for v in model.score.weights}
    h, s = ops.convert_to_numpy(memory["encoded"]), ops.convert_to_numpy(states)
    kernel = ops.convert_to_numpy(model.coverage_kernel)[0]
    for b in range(2):
        coverage = np.zeros(6)
        for t in range(3):
            e = (
                np.tanh(
                    h[b] @ w["key_kernel"]
                    + s[b, t] @ w["query_kernel"]
                    + coverage[:, None] * kernel
                    + w["bias"]
                )
                @ w["vector"][:, 0]
            )
            a = np.exp(e) * (data["token_ids"][b] > 0)
            a = a / a.sum()
            np.testing.assert_allclose(found[b, t], a, 1e-4, 1e-6)
            coverage = coverage + a


@pytest.mark.thorough
def test_a_generator_copies_unknown_words_greedily_and_by_beams():
    model, data = made("generator")
    model.compile(optimizer=keras.optimizers.Adam(0.03))  # under XLA, where Keras likes to
    often = {key: np.concatenate([x] * 80) for key, x in data.items()}
    model.fit(x=often, batch_size=24, verbose=0)
    begin = np.full(24, BEGIN, "int32")

    def greedy(token_ids):
        step, cache = steps_of(model, {"token_ids": token_ids})
        return sample(
            step, cache, begin, 3, END, temperature=0, return_attention=True, source_length=6
        )

    def beams(token_ids):
        step, cache = steps_of(model, {"token_ids": token_ids}, 2)
        return beam_search(step, cache, begin, 2, 3, END)

    ids = ops.convert_to_tensor(data["token_ids"])
    one = ops.convert_to_numpy(greedy(ids)["token_ids"])
    two = ops.convert_to_numpy(compiled(beams)(ids)["token_ids"])[:, 0]
    assert (one == data["label"]).mean() > 0.95 and (two == data["label"]).mean() > 0.95
    unknown = data["label"] >= 10
    assert unknown.any() and (one == data["label"])[unknown].mean() > 0.9
    assert outputs_of(model, data)["generation_probability"][unknown].mean() < 0.5
