"""Sampling against the probabilities of a small language model."""

import numpy as np
import pytest
from keras import ops
from layer_checks import compiled
from markov import BEGIN, END, VOCABULARY, Markov

from keras_attn.generation import sample, uniform_noise


def _sample(model, rows=1, length=6, **options):
    same = Markov()
    same.logits = np.repeat(model.logits, rows, axis=0)
    found = sample(same.step, same.cache(rows), np.full(rows, BEGIN), length, END, **options)
    return {name: ops.convert_to_numpy(value) for name, value in found.items()}


@pytest.mark.parametrize("options, changed", [
    ({}, lambda p: p),
    ({"temperature": 0.5}, lambda p: p**2),
    ({"top_k": 2}, lambda p: p * (p >= np.sort(p)[-2])),
    ({"top_p": 0.7}, lambda p: p * (np.cumsum(np.sort(p)[::-1])[
        (p[:, None] < p).sum(1)] - p < 0.7)),
    ({"top_k": 3, "top_p": 0.9, "temperature": 2.0}, None),
])
def test_first_tokens_have_the_probabilities_of_the_model(options, changed):
    model, rows = Markov(4, spread=1.0), 4000
    shares = np.exp(model.logits[0, 0, BEGIN].astype("float64"))
    shares /= shares.sum()
    if changed is None:  # both limits, of the flatter probabilities
        def changed(p):
            p = p**0.5
            p = np.where(p >= np.sort(p)[-3], p, 0) / np.sort(p)[-3:].sum()
            order = np.sort(p)[::-1]
            return p * (np.cumsum(order)[(p[:, None] < p).sum(1)] - p < 0.9)
    wanted = changed(shares)
    wanted /= wanted.sum()
    tokens = _sample(model, rows, 1, seed=1, **options)["token_ids"][:, 0]
    found = np.bincount(tokens, minlength=VOCABULARY) / rows
    assert (found[wanted == 0] == 0).all()
    np.testing.assert_allclose(found, wanted, atol=4 * np.sqrt(0.25 / rows))


def test_log_probabilities_are_the_models_own():
    model = Markov(2)
    found = _sample(model, 20, temperature=1.7, top_k=4)
    for tokens, length, own, ended in zip(*(found[name] for name in (
            "token_ids", "lengths", "log_probabilities", "finished")), strict=True):
        assert own == pytest.approx(model.log_probability(tokens[:length]), abs=1e-4)
        assert ended == (tokens[length - 1] == END) and not tokens[length:].any()
    assert len({tuple(row) for row in found["token_ids"]}) > 5


def test_a_seed_gives_the_same_and_another_one_others():
    model = Markov(0)
    first, again, other = (_sample(model, 30, seed=seed)["token_ids"] for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    np.testing.assert_array_equal(first[:4], _sample(model, 4, seed=1)["token_ids"])
    noise = uniform_noise(2, 3, seed=5)
    assert noise.shape == (2, 3) and noise.dtype == np.float32
    assert (noise >= 0).all() and (noise < 1).all()


def test_the_largest_noise_takes_the_last_token_that_may_come():
    model = Markov(4)
    shares = model.logits[0, 0, BEGIN]
    noise = np.full((1, 1), np.nextafter(np.float32(1), np.float32(0)))
    token = _sample(model, 1, 1, noise=noise, top_k=2)["token_ids"][0, 0]
    assert token == np.argsort(-shares)[1]
    prefix = np.array([[3]])
    assert _sample(model, 1, 1, noise=noise, prefix=prefix)["token_ids"][0, 0] == 3


def test_compiled_it_draws_the_same():
    model = Markov(1, rows=3)

    def draw(begin):
        return sample(model.step, model.cache(3), begin, 6, END, seed=3, top_p=0.9, no_repeat=2)

    begin = ops.convert_to_tensor(np.full(3, BEGIN))
    for name, value in compiled(draw)(begin).items():
        np.testing.assert_allclose(value, draw(begin)[name], rtol=1e-5, err_msg=name)


@pytest.mark.parametrize("options", [
    {"temperature": -1}, {"top_k": 0}, {"top_p": 0.0}, {"top_p": 1.5}, {"length": 0}])
def test_wrong_arguments_are_named(options):
    (name, value), = options.items()
    name = "max_length" if name == "length" else name
    with pytest.raises(ValueError, match=f"{name}={value}"):
        _sample(Markov(), **options)
