"""Beam search against all sequences of a small language model."""

import numpy as np
import pytest
from keras import ops

from keras_attn.generation import beam_search, sample
from tests.support.layer_checks import compiled
from tests.support.markov import BEGIN, END, VOCABULARY, Markov
from tests.support.quick import quick

LENGTH = 4
WIDE = 4**LENGTH


def _search(model, beams, length=LENGTH, **options):
    rows = len(model.logits)
    found = beam_search(
        model.step, model.cache(rows * beams), np.full(rows, BEGIN), beams, length, END, **options
    )
    return {name: ops.convert_to_numpy(value) for name, value in found.items()}


def _score(model, tokens, penalty, row=0):
    return model.log_probability(tokens, row) / ((5 + len(tokens)) / 6) ** penalty


@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.5])
def test_a_wide_beam_finds_the_best_of_all_sequences(penalty):
    model = Markov.of_seeds(range(5))
    found = _search(model, WIDE, length_penalty=penalty)
    for row in range(5):
        scores = {tokens: _score(model, tokens, penalty, row) for tokens in model.sequences(LENGTH)}
        wanted = sorted(scores, key=scores.get, reverse=True)[:10]
        for number, tokens in enumerate(wanted):
            length = found["lengths"][row, number]
            assert tuple(found["token_ids"][row, number, :length]) == tokens
            assert (found["token_ids"][row, number, length:] == 0).all()
            assert found["finished"][row, number]
            assert found["scores"][row, number] == pytest.approx(scores[tokens], abs=1e-5)
            assert found["log_probabilities"][row, number] == pytest.approx(
                model.log_probability(tokens, row), abs=1e-5
            )


def _in_python(model, row, beams, length, penalty, early=False, allowed=lambda tokens: True):
    """Beam search in Python, up to the last step unless it may end early."""
    alive, finished = [(0.0, ())], []
    for _ in range(length):
        if early and len(finished) >= beams:
            break
        grown = [
            ((*tokens, new), model.log_probability((*tokens, new), row))
            for _, tokens in alive
            for new in range(VOCABULARY)
            if allowed((*tokens, new))
        ]
        best = sorted(grown, key=lambda one: -one[1])[: 2 * beams]
        finished += [tokens for tokens, _ in best[:beams] if tokens[-1] == END]
        alive = [(value, tokens) for tokens, value in best if tokens[-1] != END][:beams]

    def score(tokens):
        return _score(model, tokens, penalty, row)

    ended = sorted(finished, key=score, reverse=True)[:beams]
    return [*ended, *sorted((tokens for _, tokens in alive), key=score, reverse=True)][:beams]


@pytest.mark.parametrize(
    "beams, penalty",
    quick(
        [(beams, penalty) for beams in (2, 3) for penalty in (0.0, 0.6, 1.5)],
        (2, 0.0),
        (3, 0.6),
        (2, 1.5),
    ),
)
def test_rows_that_end_early_miss_nothing(beams, penalty):
    model, limits = Markov.of_seeds(range(5), rows=4), np.tile([14, 4, 9, 1], 5)
    model.logits[..., END] += 1.5
    found = _search(model, beams, 14, length_penalty=penalty, max_lengths=limits)
    for row, limit in enumerate(limits):
        assert _tokens(found, row) == _in_python(model, row, beams, limit, penalty)
    ended = sum((found["lengths"] < limits[:, None] - 2).all(axis=1))
    assert ended > 5, "rows that end long before their limits"


def _tokens(found, row):
    """The hypotheses of a row that there are."""
    return [
        tuple(one[:length])
        for one, length, score in zip(
            found["token_ids"][row], found["lengths"][row], found["scores"][row], strict=True
        )
        if score > -1e29
    ]


def test_rows_may_end_with_as_many_hypotheses_as_beams():
    others, model = 0, Markov.of_seeds(range(5), rows=3)
    found = _search(model, 3, 9, early_stopping=True)
    for row in range(15):
        wanted = _in_python(model, row, 3, 9, 0.6, early=True)
        assert _tokens(found, row) == wanted
        others += wanted != _in_python(model, row, 3, 9, 0.6)
    assert others, "rows in which a longer search finds better ones"


def test_limits_leave_the_best_of_what_may_come():
    prefixes, least, size = [(2, -1, 3), (-1, 1, -1), (3, 3, -1)] * 5, 4, 2

    def allowed(tokens, prefix):
        place, new = len(tokens) - 1, tokens[-size:]
        if place < len(prefix) and prefix[place] >= 0:
            return tokens[-1] == prefix[place]
        if tokens[-1] == END and place < least:
            return False
        return len(new) < size or new not in [
            tokens[i : i + size] for i in range(len(tokens) - size)
        ]

    repeated, model = 0, Markov.of_seeds(range(5), rows=3)
    found = _search(model, 3, 8, prefix=np.array(prefixes), min_length=least, no_repeat=size)
    for row, prefix in enumerate(prefixes):
        wanted = _in_python(
            model, row, 3, 8, 0.6, allowed=lambda tokens, prefix=prefix: allowed(tokens, prefix)
        )
        assert _tokens(found, row) == wanted
        repeated += sum(len(set(tokens)) < len(tokens) for tokens in wanted)
        for tokens, score, own in zip(
            wanted,
            *(found[name][row] for name in ("scores", "log_probabilities")),
            strict=False,
        ):
            assert own == pytest.approx(model.log_probability(tokens, row), abs=1e-4)
            assert score == pytest.approx(_score(model, tokens, 0.6, row), abs=1e-4)
    assert repeated > 5, "tokens may come again, where their neighbours are others"


@pytest.mark.parametrize(
    "beams, early",
    quick(
        [(beams, early) for beams in (1, 2, 3) for early in (False, True)],
        (1, False),
        (2, True),
        (3, False),
    ),
)
def test_scores_are_those_of_the_model_and_in_order(beams, early):
    model = Markov.of_seeds(range(5))
    found = _search(model, beams, length=8, early_stopping=early)
    for row in range(5):
        kept = found["scores"][row] > -1e29
        for tokens, length, score, own in zip(
            *(
                found[name][row][kept]
                for name in ("token_ids", "lengths", "scores", "log_probabilities")
            ),
            strict=True,
        ):
            tokens = tuple(tokens[:length])
            assert own == pytest.approx(model.log_probability(tokens, row), abs=1e-4)
            assert score == pytest.approx(_score(model, tokens, 0.6, row), abs=1e-4)
        ended = found["finished"][row] & kept
        assert (np.diff(found["scores"][row][ended]) <= 0).all()
        assert (np.diff(ended.astype(int)) <= 0).all(), "those that ended come first"
        distinct = {tuple(tokens) for tokens in found["token_ids"][row][kept]}
        assert len(distinct) == kept.sum()


def test_one_beam_is_greedy():
    model = Markov.of_seeds(range(10))
    one = _search(model, 1, length=9)
    greedy = sample(model.step, model.cache(10), np.full(10, BEGIN), 9, END, temperature=0)
    greedy = {name: ops.convert_to_numpy(value) for name, value in greedy.items()}
    np.testing.assert_array_equal(one["token_ids"][:, 0], greedy["token_ids"])
    np.testing.assert_array_equal(one["lengths"][:, 0], greedy["lengths"])
    np.testing.assert_allclose(
        one["log_probabilities"][:, 0], greedy["log_probabilities"], rtol=1e-5
    )


@pytest.mark.thorough
def test_rows_do_not_depend_on_each_other():
    model = Markov(3, rows=4)
    together = _search(model, 3, length=10)
    for row in range(4):
        alone = Markov(3, rows=4)
        alone.logits = model.logits[row : row + 1]
        for name, value in _search(alone, 3, length=10).items():
            np.testing.assert_allclose(
                together[name][row : row + 1], value, rtol=1e-5, err_msg=name
            )


# tests/models compile searches of models.
@pytest.mark.thorough
def test_compiled_it_finds_the_same():
    model = Markov(1, rows=2)

    def search(begin):
        return beam_search(model.step, model.cache(2 * 3), begin, 3, 7, END)

    begin = ops.convert_to_tensor(np.full(2, BEGIN))
    for name, value in compiled(search)(begin).items():
        np.testing.assert_allclose(
            *map(ops.convert_to_numpy, (value, search(begin)[name])), rtol=1e-5, err_msg=name
        )


def test_lengths_prefixes_and_repetitions_are_as_asked_for():
    model = Markov.of_seeds(range(5))
    found = _search(model, 4, length=8, min_length=5)
    assert (found["lengths"] >= 6).all()
    prefix = np.array([[2, 2, 3, -1, 1]] * 5)
    found = _search(model, 4, length=8, prefix=prefix, min_length=5)
    kept = found["scores"] > -1e29
    assert kept.any(axis=1).all()
    assert (found["token_ids"][kept][:, [0, 1, 2, 4]] == [2, 2, 3, 1]).all()
    for size in (1, 2):
        found = _search(model, 4, length=8, no_repeat=size)
        for row in range(5):
            for tokens, length in zip(found["token_ids"][row], found["lengths"][row], strict=True):
                parts = [tuple(tokens[i : i + size]) for i in range(length - size + 1)]
                assert len(set(parts)) == len(parts)


def test_coverage_counts_what_the_attention_left_out():
    random = np.random.default_rng(0)
    attention = random.dirichlet(np.ones(3), size=VOCABULARY).astype("float32")
    model = Markov(2)

    def step(token_ids, index, cache):
        logits, cache = model.step(token_ids, index, cache)
        return logits, cache, ops.take(ops.convert_to_tensor(attention), token_ids, axis=0)

    found = beam_search(
        step,
        model.cache(WIDE),
        np.full(1, BEGIN),
        WIDE,
        LENGTH,
        END,
        coverage_penalty=0.4,
        source_length=3,
        return_attention=True,
    )
    found = {name: ops.convert_to_numpy(value)[0] for name, value in found.items()}

    def score(tokens):
        seen = np.sum([attention[token] for token in (BEGIN, *tokens[:-1])], axis=0)
        return _score(model, tokens, 0.6) + 0.4 * np.sum(np.log(np.minimum(seen, 1)))

    wanted = sorted(model.sequences(LENGTH), key=lambda tokens: -score(tokens))
    for number, tokens in enumerate(wanted[:5]):
        assert tuple(found["token_ids"][number, : len(tokens)]) == tokens
        assert found["scores"][number] == pytest.approx(score(tokens), abs=1e-4)
        np.testing.assert_allclose(
            found["attention"][number, : len(tokens)], attention[[BEGIN, *tokens[:-1]]], rtol=1e-6
        )
        assert not found["attention"][number, len(tokens) :].any()


def test_attention_follows_the_tokens_of_every_hypothesis():
    """The attention of a token is what the step returned for the tokens before it."""
    model = Markov(4, rows=3)

    def step(token_ids, index, cache):
        logits, cache = model.step(token_ids, index, cache)
        return (
            logits,
            cache,
            ops.stack(
                [ops.cast(x, "float32") for x in (token_ids, cache["row"], token_ids * 0 + index)],
                1,
            ),
        )

    found = beam_search(
        step,
        model.cache(9),
        np.full(3, BEGIN),
        3,
        9,
        END,
        return_attention=True,
        source_length=3,
        max_lengths=np.array([9, 3, 6]),
    )
    found = {name: ops.convert_to_numpy(value) for name, value in found.items()}
    for row in range(3):
        for tokens, length, attention in zip(
            *(found[name][row] for name in ("token_ids", "lengths", "attention")), strict=True
        ):
            wanted = np.stack(
                [[BEGIN, *tokens[: length - 1]], [row] * length, np.arange(length)], 1
            )
            np.testing.assert_array_equal(attention[:length], wanted)
            assert not attention[length:].any()


def test_a_search_without_a_way_on_ends():
    model, prefix, steps = Markov(2), np.array([[2, END]]), []

    def step(token_ids, index, cache):
        steps.append(index)
        return model.step(token_ids, index, cache)

    found = beam_search(step, model.cache(4), np.full(1, BEGIN), 4, 50, END, prefix=prefix)
    found = {name: ops.convert_to_numpy(value)[0] for name, value in found.items()}
    assert len(steps) < 4, "or traced once"
    assert found["token_ids"][0, :2].tolist() == [2, END]
    assert found["finished"].tolist() == [True, False, False, False]
    assert (found["scores"][1:] < -1e29).all()


def test_a_prefix_stands_whatever_may_not_be_repeated():
    model, prefix = Markov(), np.array([[2, 2, -1]])
    found = _search(model, 2, length=5, no_repeat=1, prefix=prefix, min_length=3)
    assert (found["token_ids"][0, :, :2] == 2).all()
    assert (found["token_ids"][0, :, 2] != 2).all()
    none = _search(model, 2, length=5, prefix=np.zeros((1, 0), int))
    np.testing.assert_array_equal(none["token_ids"], _search(model, 2, length=5)["token_ids"])


def test_a_cache_of_other_hypotheses_is_refused():
    model = Markov()
    with pytest.raises(ValueError, match="first axis of the cache must have size 6"):
        beam_search(
            lambda ids, index, cache: (model.step(ids, index, model.cache(6))[0], cache),
            ops.zeros((2, 3)),
            np.full(2, BEGIN),
            3,
            4,
            END,
        )


@pytest.mark.thorough
def test_padding_of_the_source_needs_no_coverage():
    random = np.random.default_rng(0)
    attention = random.dirichlet(np.ones(3), size=VOCABULARY).astype("float32")

    def scores(attention, mask):
        table = ops.convert_to_tensor(attention)

        def step(token_ids, index, cache):
            logits, cache = model.step(token_ids, index, cache)
            return logits, cache, ops.take(table, token_ids, axis=0)

        model = Markov(2)
        found = beam_search(
            step,
            model.cache(4),
            np.full(1, BEGIN),
            4,
            6,
            END,
            coverage_penalty=0.4,
            source_length=attention.shape[1],
            source_mask=mask,
        )
        return ops.convert_to_numpy(found["scores"])

    padded = np.pad(attention, [(0, 0), (0, 2)])
    mask = ops.convert_to_tensor(np.arange(5)[None] < 3)
    np.testing.assert_allclose(scores(padded, mask), scores(attention, None), rtol=1e-6)
    assert not np.allclose(scores(padded, None), scores(attention, None))


@pytest.mark.parametrize(
    "options, message",
    [
        ({"prefix": [[1], [2]]}, "prefix must be.*B=1"),
        ({"prefix": [1]}, "prefix must be"),
        ({"beams": 0}, "beams=0"),
        ({"max_length": 0}, "max_length=0"),
        ({"no_repeat": -1}, "no_repeat=-1"),
        ({"coverage_penalty": 0.1}, "source_length"),
        ({"coverage_penalty": -1}, "coverage_penalty=-1"),
    ],
)
def test_wrong_arguments_are_named(options, message):
    model = Markov()
    options = {"beams": 2, "max_length": 4, **options}
    with pytest.raises(ValueError, match=message):
        beam_search(model.step, model.cache(2), np.full(1, BEGIN), end_id=END, **options)
