"""Sampling against the probabilities of a small language model."""

import keras
import numpy as np
import pytest
import scipy.stats
from keras import ops

from keras_attn.generation import sample
from keras_attn.generation.sampling import _draw, uniform_noise
from tests.support.layer_checks import compiled
from tests.support.markov import BEGIN, END, VOCABULARY, Markov


def _sample(model, rows=1, length=6, **options):
    same = Markov()
    same.logits = np.repeat(model.logits, rows, axis=0)
    found = sample(same.step, same.cache(rows), np.full(rows, BEGIN), length, END, **options)
    return {name: ops.convert_to_numpy(value) for name, value in found.items()}


@pytest.mark.parametrize(
    "options, changed",
    [
        ({}, lambda p: p),
        ({"temperature": 0.5}, lambda p: p**2),
        ({"top_k": 2}, lambda p: p * (p >= np.sort(p)[-2])),
        (
            {"top_p": 0.7},
            lambda p: p * (np.cumsum(np.sort(p)[::-1])[(p[:, None] < p).sum(1)] - p < 0.7),
        ),
        ({"top_k": 3, "top_p": 0.9, "temperature": 2.0}, None),
    ],
)
def test_first_tokens_have_the_probabilities_of_the_model(options, changed):
    model, rows = Markov(4, spread=1.0), 4000
    shares = np.exp(model.logits[0, 0, BEGIN].astype("float64"))
    shares /= shares.sum()
    if changed is None:  # both limits, of the more uniform probabilities

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


def test_each_token_of_a_row_is_drawn_by_itself():
    model, rows = Markov(4, spread=1.0), 4000
    tokens = _sample(model, rows, 2, seed=1)["token_ids"]
    found = np.zeros((VOCABULARY, VOCABULARY))
    np.add.at(found, tuple(tokens.T), 1 / rows)
    wanted = np.zeros_like(found)
    for first in range(VOCABULARY):
        if first == END:
            wanted[END, 0] = np.exp(model.log_probability((END,)))
        else:
            wanted[first] = [
                np.exp(model.log_probability((first, second))) for second in range(VOCABULARY)
            ]
    np.testing.assert_allclose(found, wanted, atol=4 * np.sqrt(0.25 / rows))


def test_log_probabilities_are_the_models_own():
    model = Markov(2)
    found = _sample(model, 20, temperature=1.7, top_k=4, min_length=1)
    for tokens, length, own, ended in zip(
        *(found[name] for name in ("token_ids", "lengths", "log_probabilities", "finished")),
        strict=True,
    ):
        assert own == pytest.approx(model.log_probability(tokens[:length]), abs=1e-4)
        assert ended == (tokens[length - 1] == END) and not tokens[length:].any()
    assert len({tuple(row) for row in found["token_ids"]}) > 5


def test_a_seed_gives_the_same_and_another_one_others():
    model = Markov(0)
    first, again, other = (_sample(model, 30, seed=seed)["token_ids"] for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    np.testing.assert_array_equal(first[:4], _sample(model, 4, seed=1)["token_ids"])


def test_a_row_draws_by_its_number_whatever_its_place():
    model, numbers = Markov(0), np.array([3, 0, 5], "int32")
    found = _sample(model, 6, seed=1)["token_ids"]
    some = _sample(model, 3, seed=1, numbers=numbers)["token_ids"]
    np.testing.assert_array_equal(some, found[numbers])


def _hash(x):
    """The hash in Python's integers, which have no end."""
    x = (x + 0x9E3779B9) % 2**32
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B), (16, 1)):
        x = (x ^ x >> shift) * factor % 2**32
    return x


@pytest.mark.parametrize("seed", [0, 7, 2**31 - 2, 2**32 - 1])
def test_noise_is_uniform_and_the_same_everywhere(seed):
    rows = np.arange(20_000)
    found = [ops.convert_to_numpy(uniform_noise(rows, index, seed)) for index in range(3)]
    for index, one in enumerate(found):
        hashes = [_hash(_hash(seed) + row) for row in range(50)]
        expected = [(_hash(_hash(row + index) + row) >> 8) / 2**24 for row in hashes]
        np.testing.assert_array_equal(one[:50], np.float32(expected))
        assert one.dtype == np.float32 and one[0] > 0 and one.min() >= 0 and one.max() < 1
        assert scipy.stats.kstest(one, "uniform").pvalue > 1e-3
    other = ops.convert_to_numpy(uniform_noise(rows, 0, seed - 1))
    pairs = [(found[0], found[1]), (found[0][:-1], found[0][1:]), (found[0], other)]
    assert all(abs(np.corrcoef(*pair)[0, 1]) < 4 / np.sqrt(len(rows)) for pair in pairs)


@pytest.mark.thorough
def test_the_number_of_rows_may_be_unknown():
    if keras.backend.backend() != "tensorflow":
        pytest.skip("only TensorFlow traces functions of unknown shapes")
    import tensorflow as tf

    model = Markov(2)

    every = ({}, {"top_k": 3}, {"top_p": 0.8})

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([None], tf.int32)])
    def draw(begin):
        cache = {name: begin * 0 for name in ("row", "before")}
        return [
            sample(model.step, cache, begin, 3, END, seed=3, **options)["token_ids"]
            for options in every
        ]

    for rows in (1, 5):
        for options, found in zip(every, draw(np.full(rows, BEGIN, "int32")), strict=True):
            expected = _sample(model, rows, 3, seed=3, **options)["token_ids"]
            np.testing.assert_array_equal(found, expected)


def test_the_largest_noise_takes_the_last_token_that_may_come():
    logits = Markov(4).logits[0, 0, BEGIN][None]
    noise = ops.convert_to_tensor(np.float32([np.nextafter(np.float32(1), np.float32(0))]))
    (token,) = ops.convert_to_numpy(_draw(ops.convert_to_tensor(logits), noise, 2, None))
    assert token == np.argsort(-logits[0])[1]
    forced = np.where(np.arange(VOCABULARY) == 3, logits, -1e30).astype("float32")
    (token,) = ops.convert_to_numpy(_draw(ops.convert_to_tensor(forced), noise, None, None))
    assert token == 3


def _logits(size, rows=64, spread=3.0):
    logits = np.random.default_rng(size).normal(0, spread, (rows, size)).astype("float32")
    logits[:, size // 3] = -1e30
    return logits - logits.max(axis=1, keepdims=True)


LIMITS = [(None, None), (None, 0.3), (None, 0.9), (None, 0.999), (None, 1.0), (40, None), (40, 0.8)]


@pytest.mark.parametrize("top_k, top_p", LIMITS)
@pytest.mark.parametrize("size", [7, 128, 1000, 5003])
def test_tokens_are_those_of_numpys_sums_of_what_may_come(size, top_k, top_p):
    logits = _logits(size)
    noise = np.linspace(0, 0.999, len(logits)).astype("float32")
    found = _draw(*map(ops.convert_to_tensor, (logits, noise)), top_k, top_p)
    check_drawn(logits, noise, ops.convert_to_numpy(found), top_k, top_p)


# XLA takes seconds to compile the sorting of a size; 5003 fills the last block in part.
@pytest.mark.thorough
@pytest.mark.parametrize("size", [7, 128, 1000, 5003])
def test_compiled_draws_are_those_of_numpys_sums(size):
    logits = _logits(size)
    noise = np.linspace(0, 0.999, len(logits)).astype("float32")
    draw = compiled(lambda *x: [_draw(*x, *limits) for limits in LIMITS])
    drawn = draw(*map(ops.convert_to_tensor, (logits, noise)))
    for limits, found in zip(LIMITS, drawn, strict=True):
        check_drawn(logits, noise, ops.convert_to_numpy(found), *limits)


def check_drawn(logits, noise, found, top_k, top_p):
    size = logits.shape[1]
    for row, bound, token in zip(logits.astype("float64"), noise, found, strict=True):
        order = np.argsort(-row)
        shares = np.exp(row[order[:top_k]])
        shares /= shares.sum()
        shares[np.cumsum(shares) - shares >= (top_p or 1)] = 0
        if not top_k or top_k >= size:  # in the order of the vocabulary
            order, shares = np.arange(size), shares[np.argsort(order)]
        shares /= shares.sum()
        ends = np.cumsum(shares)
        place = list(order[:top_k]).index(token)
        # By rounding a neighbour may come in its place.
        assert ends[place] > bound - 1e-5 and ends[place] - shares[place] < bound + 1e-5
        assert shares[place] > 0


@pytest.mark.parametrize("compile", [False, True])
def test_at_the_ends_of_blocks_rounding_draws_nothing_that_may_not_come(compile):
    logits = np.random.default_rng(0).normal(size=5120).astype("float32")
    logits[np.arange(5120) % 128 < 64] = -1e30
    logits -= logits.max()
    ends = np.cumsum(np.exp(logits.astype("float64")))[127::128]
    near = np.floor(ends / ends[-1] * 2**24)[:-1, None] + np.arange(-8, 9)
    noise = (near.ravel() * 2.0**-24).astype("float32")
    draw = (
        compiled(lambda *x: _draw(*x, None, None))
        if compile
        else (lambda *x: _draw(*x, None, None))
    )
    found = ops.convert_to_numpy(
        draw(ops.convert_to_tensor(np.tile(logits, (len(noise), 1))), ops.convert_to_tensor(noise))
    )
    assert (logits[found] > -1e29).all()


def test_a_nucleus_contains_the_most_likely_token_at_least():
    for top_p in (1e-6, 1e-40, 1e-46):
        found = _draw(
            *map(ops.convert_to_tensor, (np.float32([[-3, -2, 0, -1]]), np.float32([0.5]))),
            None,
            top_p,
        )
        np.testing.assert_array_equal(ops.convert_to_numpy(found), [2])


def test_tokens_as_likely_as_the_last_that_stays_stay_too():
    logits = np.log(np.float32([[0.2, 0.2, 0.4, 0.2]]) / 0.4)
    noise = np.linspace(0, 0.999, 100).astype("float32")
    found = ops.convert_to_numpy(
        _draw(
            ops.convert_to_tensor(np.repeat(logits, 100, axis=0)),
            ops.convert_to_tensor(noise),
            None,
            0.5,
        )
    )
    np.testing.assert_array_equal(np.bincount(found), [20, 20, 40, 20])


def test_a_row_ends_where_no_token_may_follow():
    for temperature in (0, 1.0):
        found = _sample(Markov(1), 3, 8, temperature=temperature, no_repeat=1, min_length=6)
        assert (found["lengths"] == VOCABULARY - 1).all() and not found["finished"].any()
        assert (np.sort(found["token_ids"][:, :4]) == np.arange(1, VOCABULARY)).all()
        assert not found["token_ids"][:, 4:].any()


def test_the_hottest_draws_nothing_that_may_not_come():
    found = _sample(Markov(3), 200, 4, temperature=1e30, min_length=3, prefix=np.full((200, 1), 2))
    assert (found["token_ids"][:, 0] == 2).all() and (found["token_ids"][:, :3] != END).all()


def test_the_coldest_is_greedy():
    model = Markov(3)
    greedy = _sample(model, 4, temperature=0)
    for temperature in (1e-4, 1e-30):
        for name, value in _sample(model, 4, temperature=temperature).items():
            np.testing.assert_array_equal(value, greedy[name])


# tests/tasks/causal_lm compiles that of a model.
@pytest.mark.thorough
def test_compiled_it_draws_the_same():
    model = Markov(1, rows=3)

    def draw(begin):
        return sample(model.step, model.cache(3), begin, 6, END, seed=3, top_p=0.9, no_repeat=2)

    begin = ops.convert_to_tensor(np.full(3, BEGIN))
    for name, value in compiled(draw)(begin).items():
        np.testing.assert_allclose(
            *map(ops.convert_to_numpy, (value, draw(begin)[name])), rtol=1e-5, err_msg=name
        )


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": -1},
        {"temperature": float("inf")},
        {"no_repeat": -1},
        {"top_k": 0},
        {"top_p": 0.0},
        {"top_p": 1.5},
        {"length": 0},
    ],
)
def test_wrong_arguments_are_named(options):
    ((name, value),) = options.items()
    name = "max_length" if name == "length" else name
    with pytest.raises(ValueError, match=f"{name} must be .* Received: {name}={value}"):
        _sample(Markov(), **options)


def test_a_prefix_may_be_a_list_with_a_row_for_each():
    found = _sample(Markov(3), 2, 4, prefix=[[2, -1], [3, 2]])
    assert found["token_ids"][0, 0] == 2 and tuple(found["token_ids"][1, :2]) == (3, 2)
    with pytest.raises(ValueError, match="prefix must be.*B=2"):
        _sample(Markov(3), 2, 4, prefix=[[2]])


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logits_that_are_nan_have_a_log_probability_of_nan(temperature):
    def step(token_ids, index, cache):
        return ops.full((2, VOCABULARY), np.nan), cache

    begin = np.full(2, BEGIN, "int32")
    found = sample(step, ops.zeros((2, 1)), begin, 3, END, temperature=temperature)
    assert np.isnan(ops.convert_to_numpy(found["log_probabilities"])).all()
