"""Left-to-right decoding with XLNetPretrainer, against its permutations and Hugging Face."""

import numpy as np
import pytest
from keras import ops

from keras_attn.generation import beam_search, sample
from tests.support.golden_xlnet import GENERATED, GOLDEN, array, as_golden, make_model
from tests.support.quick import quick

PROMPT, NEW = 5, 6
IDS = np.random.default_rng(4).integers(1, 89, (3, PROMPT + NEW)).astype("int32")
# Memories for a whole row, and for fewer tokens.
MEMORIES = 0, PROMPT + NEW, 3


def model_of(memory, **options):
    return make_model(memory_length=memory, initializer_range=0.3, **options)


def log_probabilities(logits):
    return array(ops.log_softmax(ops.convert_to_tensor(logits)))


def steps(model, ids, real=None, prompt=PROMPT, extra=0):
    """Logits after the prompt and after each token that follows it, `(B, N, V)`."""
    length = ids.shape[1]
    mask = (
        None
        if real is None
        else ops.convert_to_tensor(np.pad(real, [(0, 0), (0, extra)], constant_values=1))
    )
    cache = model.make_cache(len(ids), length + extra)
    logits, cache = model.decode(ids[:, :prompt], 0, cache, mask)
    found = [array(logits)]
    for index in range(prompt, length):
        logits, cache = model.decode(ids[:, index : index + 1], index, cache, mask)
        found.append(array(logits))
    return np.stack(found, axis=1)


@pytest.mark.thorough
def test_each_step_predicts_the_first_position_after_the_context_of_a_permutation():
    model = model_of(0)
    found = steps(model, IDS)
    for place in range(PROMPT, PROMPT + NEW):
        # From here on from left to right.
        ranks = np.maximum(np.arange(PROMPT + NEW) - place, -1)
        row = {
            "token_ids": IDS,
            "permutation_ranks": np.tile(ranks, (3, 1)).astype("int32"),
            "mask_positions": np.full((3, 1), place, "int32"),
        }
        wanted = array(model(row)["logits"])[:, 0]
        np.testing.assert_allclose(found[:, place - PROMPT], wanted, 1e-5, 1e-5)


def test_steps_with_memory_are_one_pass_of_a_permutation_from_left_to_right():
    model = model_of(PROMPT + NEW)
    ranks = np.maximum(np.arange(PROMPT + NEW) - PROMPT, -1)
    places = np.arange(PROMPT, PROMPT + NEW)
    row = {
        "token_ids": IDS,
        "permutation_ranks": np.tile(ranks, (3, 1)).astype("int32"),
        "mask_positions": np.tile(places, (3, 1)).astype("int32"),
        "mask_ids": IDS[:, PROMPT:],
    }
    outputs = model(row)
    found = steps(model, IDS)[:, :-1]
    np.testing.assert_allclose(found, array(outputs["logits"]), 1e-5, 1e-5)
    added = np.take_along_axis(log_probabilities(found), IDS[:, PROMPT:, None], 2)[..., 0]
    np.testing.assert_allclose(added, -array(outputs["errors"]), 1e-4, 1e-4)


@pytest.mark.thorough
def test_a_short_memory_holds_the_inputs_of_the_latest_tokens():
    # A call with one more position, of which nothing is reused.
    model = model_of(3, reuse_length=1)
    given = {"token_ids": IDS[:, :PROMPT]}
    memory = [x[:, -3:] for x in model.backbone.make_memory(given)]
    found = steps(model, IDS)
    for index in range(PROMPT, PROMPT + NEW):
        outputs = model(
            {
                "token_ids": np.stack([IDS[:, index], 0 * IDS[:, index]], axis=1),
                "padding_mask": np.tile([[1, 0]], (3, 1)).astype("int32"),
                "mask_positions": np.ones((3, 1), "int32"),
                "memory": memory,
            }
        )
        memory = outputs["memory"]
        wanted = array(outputs["logits"])[:, 0]
        np.testing.assert_allclose(found[:, index - PROMPT + 1], wanted, 1e-5, 1e-5)
    long = steps(model_of(PROMPT + NEW), IDS)
    assert np.abs(long - found).max() > 0.01


@pytest.mark.thorough
@pytest.mark.parametrize("memory", MEMORIES)
def test_padding_before_a_prompt_and_room_after_it_change_nothing(memory):
    model = model_of(memory)
    wanted = steps(model, IDS)
    padded = np.pad(IDS, [(0, 0), (4, 0)], constant_values=7)
    real = np.pad(np.ones_like(IDS), [(0, 0), (4, 0)])
    found = steps(model, padded, real, PROMPT + 4, extra=2)
    np.testing.assert_allclose(found, wanted, 1e-5, 1e-5)
    alone = steps(model, IDS[1:2])
    np.testing.assert_allclose(alone[0], wanted[1], 1e-5, 1e-5)


@pytest.mark.parametrize("memory", quick(MEMORIES, 3))
def test_a_token_is_not_known_before_it_is_predicted(memory):
    model, other = model_of(memory), IDS.copy()
    other[:, PROMPT + 2] += 1
    found, changed = steps(model, IDS), steps(model, other)
    np.testing.assert_array_equal(found[:, :3], changed[:, :3])
    assert np.abs(found - changed)[:, 3:].max(axis=(0, 2)).min() > 1e-3


@pytest.mark.parametrize("memory", MEMORIES)
def test_hypotheses_of_a_prompt_continue_one_another(memory):
    model, beams = model_of(memory), 2
    real = np.array([[1] * PROMPT, [0, 0, 1, 1, 1], [0, 1, 1, 1, 1]], "int32")
    mask = np.pad(real, [(0, 0), (0, 2 * beams)], constant_values=1)
    cache = model.make_cache(3, PROMPT + 2 * beams)
    _, cache = model.decode(IDS[:, :PROMPT], 0, cache, ops.convert_to_tensor(mask))
    cache = model.share_cache(cache, beams, 2)
    first, last = np.arange(1, 7, dtype="int32"), np.arange(11, 17, dtype="int32")
    _, cache = model.decode_beams(first, 0, cache)
    parents = np.array([1, 0, 2, 2, 5, 4])
    cache = model.reorder_cache(cache, ops.convert_to_tensor(parents))
    found, _ = model.decode_beams(last, 1, cache)
    whole = np.concatenate(
        [IDS[:, :PROMPT].repeat(beams, axis=0), np.stack([first[parents], last], axis=1)], axis=1
    )
    seen = np.pad(real.repeat(beams, axis=0), [(0, 0), (0, 2)], constant_values=1)
    np.testing.assert_allclose(array(found), steps(model, whole, seen)[:, -1], 1e-5, 1e-5)


def search(model, prompt, beams=None, length=NEW, **options):
    """Continues a prompt, as `keras_attn.tasks.generator.Generator` does."""
    before = prompt.shape[1] - 1
    cache = model.make_cache(len(prompt), before + length * (beams or 1))
    _, cache = model.decode(prompt[:, :-1], 0, cache)

    def step(token_ids, index, cache):
        return model.decode(token_ids[:, None], before + index, cache)

    if not beams:
        return sample(step, cache, prompt[:, -1], length, 0, temperature=0, **options)
    cache = model.share_cache(cache, beams, length)
    reorder = model.reorder_cache
    begin = prompt[:, -1]
    return beam_search(
        model.decode_beams, cache, begin, beams, length, 0, reorder=reorder, **options
    )


@pytest.mark.parametrize("memory", quick(MEMORIES, 3))
@pytest.mark.parametrize("dtype", quick(["float32", "bfloat16"], "float32"))
def test_greedy_decoding_is_a_beam_search_with_one_beam_and_has_the_probabilities_of_steps(
    memory, dtype
):
    model, prompt = model_of(memory, dtype=dtype), IDS[:, :PROMPT]
    greedy, beam = search(model, prompt), search(model, prompt, 1)
    tokens = array(greedy["token_ids"]).astype("int32")
    np.testing.assert_array_equal(tokens, array(beam["token_ids"])[:, 0])
    lengths = array(greedy["lengths"])
    whole = np.concatenate([prompt, tokens], axis=1)
    # The last token of the prompt is already a step.
    logits = log_probabilities(steps(model, whole, prompt=PROMPT - 1))[:, 1:-1]
    added = np.take_along_axis(logits, tokens[..., None], 2)[..., 0]
    wanted = (added * (np.arange(NEW) < lengths[:, None])).sum(axis=1)
    for found in (greedy["log_probabilities"], beam["log_probabilities"][:, 0]):
        np.testing.assert_allclose(array(found), wanted, 1e-3, 1e-3 if dtype == "float32" else 0.3)


@pytest.fixture(scope="module")
def generated():
    with np.load(GENERATED, allow_pickle=False) as file:
        return dict(file)


@pytest.fixture(scope="module")
def golden():
    with np.load(GOLDEN, allow_pickle=False) as file:
        return dict(file)


def test_whole_rows_are_continued_as_by_hugging_face(golden, generated):
    model = as_golden(golden, memory_length=0)
    prompt, tokens = generated["token_ids"][:, :PROMPT], generated["greedy/token_ids"]
    found = array(search(model, prompt, length=tokens.shape[1])["token_ids"])
    np.testing.assert_array_equal(found, tokens)
    logits = steps(model, np.concatenate([prompt, tokens], axis=1))[:, :-1]
    np.testing.assert_allclose(logits, generated["greedy/logits"], 1e-5, 1e-5)
    wanted = generated["beams/token_ids"]
    found = search(model, prompt[:1], *wanted.shape, length_penalty=0.0)
    np.testing.assert_array_equal(array(found["token_ids"])[0], wanted)


def test_steps_with_memory_equal_those_of_hugging_face(golden, generated):
    found = steps(as_golden(golden), generated["token_ids"])
    np.testing.assert_allclose(found, generated["memory/logits"], 1e-5, 1e-5)


def test_the_memory_of_a_cache_is_that_of_the_backbone_by_default_and_at_most_the_row():
    model = model_of(3)
    for options, length in (({}, 3), ({"memory_length": 5}, 5), ({"memory_length": 99}, 8)):
        cache = model.make_cache(2, 8, **options)
        assert {tuple(x.shape) for x in cache["memory"]} == {(2, length, 24)}
    assert "memory" not in model.make_cache(2, 8, memory_length=0)
