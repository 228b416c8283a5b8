"""Sequences that may not come twice, against a look at all of them."""

import numpy as np
import pytest
from keras import ops

from keras_attn.generation import beam_search, sample
from keras_attn.generation.constraints import IMPOSSIBLE, constrain
from tests.support.markov import BEGIN, END, VOCABULARY, Markov
from tests.support.quick import quick

# The last is the begin mark; padding is before the others.
PROMPTS = np.array([[1, 2, 3, 1, 2, BEGIN], [-1, -1, -1, 3, 3, BEGIN], [-1] * 5 + [BEGIN]])


def repeats(tokens, size):
    """Whether the last of the tokens end a sequence that came before."""
    parts = [tuple(tokens[i : i + size]) for i in range(len(tokens) - size + 1)]
    return bool(parts) and parts[-1] in parts[:-1]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 9])
def test_tokens_that_would_repeat_what_is_there_may_not_follow(size):
    random, forbidden = np.random.default_rng(size), 0
    for count in range(7):
        lengths = random.integers(0, 13, 20)
        prompts = [random.integers(0, 3, length).tolist() for length in lengths]
        padded = np.array([[-1] * (12 - len(one)) + one for one in prompts], "int32")
        ids = random.integers(0, 3, (20, 8)).astype("int32")  # those from count on are not there
        found = constrain(
            ops.zeros((20, 4)),
            ops.convert_to_tensor(ids),
            count,
            end_id=3,
            no_repeat=size,
            prompt=ops.convert_to_tensor(padded),
        )
        for row, prompt in enumerate(prompts):
            known = prompt + ids[row, 1 : count + 1].tolist()
            wanted = [repeats([*known, new], size) for new in range(4)]
            assert (ops.convert_to_numpy(found)[row] <= IMPOSSIBLE).tolist() == wanted
            forbidden += sum(wanted)
    assert forbidden or size == 9


def _steps(model, copies=1):
    model.logits = np.repeat(model.logits, copies, axis=0)
    return model.step, model.cache(len(model.logits))


@pytest.mark.parametrize("size", quick([1, 2, 3], 2))
def test_greedy_texts_repeat_nothing_of_their_prompt(size):
    changed = 0
    for seed in range(5):
        model = Markov(seed, rows=3)
        begin = np.full(3, BEGIN)
        step, cache = _steps(model)
        found, free = (
            ops.convert_to_numpy(
                sample(step, cache, begin, 9, END, temperature=0, prompt=prompt, no_repeat=size)[
                    "token_ids"
                ]
            )
            for prompt in (PROMPTS, None)
        )
        for row, prompt in enumerate(PROMPTS):
            known, tokens, before = [one for one in prompt if one >= 0], [], 0
            while len(tokens) < 9 and END not in tokens:
                last = tokens[-1] if tokens else BEGIN
                allowed = [
                    new for new in range(VOCABULARY) if not repeats([*known, *tokens, new], size)
                ]
                if not allowed:
                    break
                best = max(allowed, key=model.logits[row, before, last].__getitem__)
                tokens, before = [*tokens, best], last
            assert found[row].tolist() == tokens + [0] * (9 - len(tokens))
        changed += (found != free).any()
    assert changed


@pytest.mark.thorough
@pytest.mark.parametrize("size", [1, 2, 3])
def test_drawn_texts_and_beams_repeat_nothing_of_their_prompt(size):
    again = 0
    for seed in range(3):
        model, beams = Markov(seed, rows=3), 4
        drawn = sample(
            *_steps(Markov(seed, rows=3)),
            np.full(3, BEGIN),
            9,
            END,
            seed=seed,
            no_repeat=size,
            prompt=PROMPTS,
        )
        searched = beam_search(
            model.step,
            model.cache(3 * beams),
            np.full(3, BEGIN),
            beams,
            9,
            END,
            no_repeat=size,
            prompt=PROMPTS,
        )
        for found, count in ((drawn, 1), (searched, beams)):
            ids, lengths = (
                ops.convert_to_numpy(found[name]).reshape(3 * count, -1)
                for name in ("token_ids", "lengths")
            )
            real = np.ones(3 * count, bool)
            if "scores" in found:
                real = ops.convert_to_numpy(found["scores"]).reshape(-1) > -1e29
            for row in np.flatnonzero(real):
                whole = [one for one in PROMPTS[row // count] if one >= 0]
                begun = len(whole)
                whole += ids[row, : lengths[row, 0]].tolist()
                assert not any(
                    repeats(whole[:end], size) for end in range(begun + 1, len(whole) + 1)
                )
                again += len(set(whole)) < len(whole)
    assert again or size == 1


def test_a_beam_finds_the_best_of_what_may_follow_the_prompt():
    for seed in range(3):
        model, beams = Markov(seed), 4**4
        prompt = PROMPTS[:1]
        allowed = [
            one
            for one in model.sequences(4)
            if not any(repeats([*prompt[0], *one[:end]], 2) for end in range(1, len(one) + 1))
        ]
        wanted = sorted(allowed, key=model.log_probability, reverse=True)[:5]
        found = beam_search(
            model.step,
            model.cache(beams),
            np.full(1, BEGIN),
            beams,
            4,
            END,
            length_penalty=0.0,
            no_repeat=2,
            prompt=prompt,
        )
        ids = ops.convert_to_numpy(found["token_ids"])[0]
        assert [tuple(ids[n, : len(one)]) for n, one in enumerate(wanted)] == wanted


def test_a_prompt_of_other_rows_is_refused():
    with pytest.raises(ValueError, match="prompt must be.*B=2"):
        sample(*_steps(Markov(rows=2)), np.full(2, BEGIN), 4, END, prompt=PROMPTS)
