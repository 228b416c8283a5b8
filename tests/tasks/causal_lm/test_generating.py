"""Text generation with a trained GPT-2."""

import itertools
import json

import numpy as np
import pytest

from keras_attn import load
from keras_attn.errors import UserError
from keras_attn.inference.generate_files import SEPARATOR, generate_texts
from keras_attn.models import GPT2, GPT2LanguageModel
from keras_attn.ops.kernels import tensorflow_graphs as graphs
from keras_attn.tasks import generator as generating
from keras_attn.tasks.generator import Generator
from keras_attn.text.byte_pairs import BytePairTokenizer, padding_row_name
from tests.support.quick import THOROUGH
from tests.support.small_language_models import log_probabilities


def test_decoding_with_a_cache_equals_whole_passes(generator):
    for prompt in ("", "a dog", "the bird sees the cat my café is"):
        ids = generator.tokenizer.encode([prompt])[0].tolist() or [generator.tokenizer.end_id]
        begun = len(ids)
        for _ in range(9):
            logits = generator.model({"token_ids": np.array([ids], np.int32)})["logits"]
            ids.append(int(np.argmax(np.asarray(logits)[0, -1])))
            if ids[-1] == generator.tokenizer.end_id:
                break
        (found,) = generator.generate([prompt], 9, temperature=0, nbest=1)[0]
        finished = ids[-1] == generator.tokenizer.end_id
        added = ids[begun : len(ids) - finished]
        assert found["continuation"] == generator.tokenizer.decode([added])[0]
        assert found["text"] == prompt + found["continuation"]
        assert found["finished"] == finished
        wanted = log_probabilities(generator.model, ids)[begun - 1 :].sum()
        assert found["log_probability"] == pytest.approx(wanted, abs=1e-4)


@pytest.mark.parametrize("options", [{"temperature": 0}, {"beams": 2}])
def test_its_loop_copies_no_cache(generator, options):
    rows = np.ones((2, 16), np.int32)
    graph = generator.found.get_concrete_function(
        rows, rows, np.arange(2, dtype=np.int32), np.int32(0), 4, **options
    ).graph.as_graph_def()
    bodies = [
        {node.op for node in function.node_def}
        for function in graph.library.function
        if "while_body" in function.signature.name
    ]
    assert any("TensorStridedSliceUpdate" in body for body in bodies)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "options",
    [
        {"temperature": 0},
        {"seed": 3},
        {"top_p": None, "min_tokens": 3},
        {"top_k": 5, "no_repeat": 2},
        {"beam": 3, "no_repeat": 2, "min_tokens": 2},
    ],
)
def test_a_choice_that_is_compiled_is_the_same(generator, options, monkeypatch):
    calls, both, found = [], graphs.worth_compiling, []
    for least in (2**62, 1):
        monkeypatch.setattr(graphs, "WORTH_COMPILING", least)
        monkeypatch.setattr(graphs, "worth_compiling", lambda x: calls.append(both(x)) or calls[-1])
        fresh = Generator(generator.model, generator.tokenizer)
        found.append(fresh.generate(["the cat", "a dog hears", ""], 9, **options))
        assert calls and set(calls) == {least == 1}
        calls.clear()
    assert found[0] == found[1]


@pytest.mark.thorough
def test_half_precision_generates_similar_text(trained, generator, tmp_path):
    half = load(str(trained[0]), precision="bfloat16")
    assert half.model.backbone.token_embedding.dtype == "bfloat16"
    prompts = ["the cat sees a", "my café", "a dog hears"]
    for options in ({"temperature": 0}, {"beam": 2}):
        found, wanted = (
            made.generate(prompts, 5, nbest=1, **options) for made in (half, generator)
        )
        same = [(a, b) for (a,), (b,) in zip(found, wanted, strict=True) if a["text"] == b["text"]]
        assert len(same) >= 2
        for a, b in same:
            assert a["log_probability"] == pytest.approx(b["log_probability"], abs=0.2)
    out = tmp_path / "texts.jsonl"
    generate_texts(str(trained[0]), prompts, str(out), precision="bfloat16", max_tokens=5, beam=2)
    assert [json.loads(line)[0]["text"] for line in out.read_text().splitlines()] == [
        one["text"] for (one,) in found
    ]
    with pytest.raises(UserError, match="precision must be float32 or bfloat16"):
        load(str(trained[0]), precision="float64")


@pytest.mark.thorough
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"temperature": 1.5, "seed": 3}, marks=THOROUGH),
        {"beam": 3},
        pytest.param({"temperature": 1.0, "top_k": 5, "nbest": 2}, marks=THOROUGH),
    ],
)
def test_a_text_does_not_depend_on_its_batch(generator, options):
    prompts = ["", "the", "a dog hears the bird the bird", "my café is", "the cat"]
    options = {"nbest": 1, **options}
    found = generator.generate(prompts, 7, **options)
    for size in (1, 2):
        _assert_same(generator.generate(prompts, 7, batch_size=size, **options), found)
    _assert_same([generator.generate("the cat", 7, number=4, **options)], found[4:])


def _assert_same(found, wanted):
    """Equal texts, and probabilities up to rounding."""
    for one, other in zip(itertools.chain(*found), itertools.chain(*wanted), strict=True):
        assert one["log_probability"] == pytest.approx(other["log_probability"], abs=1e-4)
        assert {**one, "log_probability": 0} == {**other, "log_probability": 0}


def test_what_is_drawn_follows_the_seed(generator):
    prompts = [""] * 8
    first = generator.generate(prompts, 12, temperature=2.0, seed=1)
    assert generator.generate(prompts, 12, temperature=2.0, seed=1) == first
    assert generator.generate(prompts, 12, temperature=2.0, seed=2) != first
    assert len(set(first)) > 4
    # 32 bits of the seed count; without a seed each call samples differently.
    assert generator.generate(prompts, 12, temperature=2.0, seed=1 - 2**32) == first
    largest = generator.generate(prompts, 12, temperature=2.0, seed=2**32 - 1)
    assert largest == generator.generate(prompts, 12, temperature=2.0, seed=-1) != first
    anew = [generator.generate(prompts, 12, temperature=2.0, seed=None) for _ in range(2)]
    assert anew[0] != anew[1]


@pytest.mark.thorough
def test_numbers_of_numpy_are_taken(generator):
    options = {
        "max_tokens": 5,
        "temperature": 1.5,
        "top_k": 5,
        "top_p": 0.75,
        "seed": 3,
        "min_tokens": 2,
        "no_repeat": 3,
        "nbest": 2,
        "batch_size": 2,
    }
    others = {
        name: np.float32(value) if isinstance(value, float) else np.int64(value)
        for name, value in options.items()
    }
    assert generator.generate(["the"], **others) == generator.generate(["the"], **options)


@pytest.mark.thorough
def test_beams_are_ordered_by_their_probability(generator):
    (found,) = generator.generate(["the"], 6, beam=4, nbest=4)
    ranks = [(one["finished"], one["log_probability"]) for one in found]
    assert ranks == sorted(ranks, reverse=True) and len({one["text"] for one in found}) == 4
    (greedy,) = generator.generate(["the"], 6, temperature=0, nbest=1)
    assert generator.generate(["the"], 6, beam=1, nbest=1)[0] == greedy


@pytest.mark.thorough
@pytest.mark.parametrize("size", [1, 2])
def test_texts_repeat_no_sequence_of_tokens_of_their_prompts(generator, size):
    end, prompts = generator.tokenizer.end_id, ["the cat sees a dog the cat sees", "", "a dog the"]
    found = generator.generate(prompts, 9, temperature=0, no_repeat=size)
    free = generator.generate(prompts, 9, temperature=0)
    for prompt, text in zip(prompts, found, strict=True):
        ids = generator.tokenizer.encode([prompt])[0].tolist()
        for _ in range(9):
            inputs = {"token_ids": np.array([ids or [end]], np.int32)}
            logits = np.array(generator.model(inputs)["logits"])[0, -1]
            begun = ids[len(ids) - size + 1 :]
            for place in range(len(ids) - size + 1):
                if ids[place : place + size - 1] == begun:
                    logits[ids[place + size - 1]] = -np.inf
            if logits.argmax() == end:
                break
            ids.append(int(logits.argmax()))
        assert text == generator.tokenizer.decode([ids])[0]
    assert found != free


def test_files_and_prompts_are_answered(trained, generator, tmp_path, capsys):
    (tmp_path / "prompts.txt").write_text("the cat\n\na dog\n")
    generate_texts(
        str(trained[0]),
        str(tmp_path / "prompts.txt"),
        str(tmp_path / "out.jsonl"),
        max_tokens=5,
        temperature=0,
    )
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert lines == generator.generate(["the cat", "", "a dog"], 5, temperature=0, nbest=1)
    generate_texts(str(trained[0]), ["the cat"], max_tokens=5, temperature=0)
    assert capsys.readouterr().out == f"{lines[0][0]['text']}\n{SEPARATOR}\n"


def test_all_prompts_are_checked_before_generation(trained, tmp_path, monkeypatch):
    # In the second chunk of the file, whose prompts continue the numbering.
    (tmp_path / "prompts.txt").write_text("the cat\n" * 299 + "a dog " * 30 + "\n")
    monkeypatch.setattr(Generator, "generate", None)
    with pytest.raises(UserError, match="at most 48 tokens.*in text 300, max_tokens=5"):
        generate_texts(str(trained[0]), str(tmp_path / "prompts.txt"), max_tokens=5)


@pytest.mark.thorough
def test_as_many_tokens_are_generated_as_fit(generator, monkeypatch):
    monkeypatch.setattr(generating, "MAX_TOKENS", 40)
    sentence, options = "the cat sees a dog ", {"nbest": 1, "temperature": 2.0, "seed": 4}
    prompts = ["", sentence, sentence * 3, sentence * 3]
    lengths = np.diff(generator.tokenizer.encode(prompts)[1], prepend=0).tolist()
    assert 8 < lengths[2] < 48
    _assert_same(
        generator.generate(prompts, **options),
        [
            generator.generate([prompt], min(40, 48 - length), number=number, **options)[0]
            for number, (prompt, length) in enumerate(zip(prompts, lengths, strict=True))
        ],
    )
    with pytest.raises(UserError, match="at most 48 tokens.*in text 5, at least 1 new ones"):
        generator.generate([*prompts, sentence * 20])
    more = 49 - lengths[2]
    with pytest.raises(UserError, match=f"in text 3, at least {more} new ones"):
        generator.generate(prompts, min_tokens=more)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"max_tokens": 48}, "at most 48 tokens.*Received: 1 in text 1, max_tokens=48"),
        ({"max_tokens": 0}, "max_tokens must be a positive integer"),
        ({"beam": 2, "nbest": 3}, r"nbest must be in \[1, beam=2\]"),
        ({"top_p": 0.0}, r"top_p must be a number in \(0, 1\]. Received: top_p=0.0"),
        ({"temperature": -1.0}, "temperature must be a number of at least 0. Received: .*=-1.0"),
        ({"temperature": float("nan")}, "temperature must be a number of at least 0"),
        ({"temperature": "hot"}, "temperature must be a number of at least 0. Received: .*=hot"),
        ({"top_k": 2.5}, "top_k must be a positive integer"),
        ({"no_repeat": None}, "no_repeat must be an integer of at least 0"),
        ({"seed": 1.5}, "seed must be an integer"),
        ({"min_tokens": -1}, r"min_tokens must be an integer in \[0, 7\]"),
        ({"min_tokens": 8}, r"min_tokens must be an integer in \[0, 7\]"),
        ({"beam": 2, "length_penalty": float("nan")}, "length_penalty must be a finite number"),
        ({"length_penalty": 0.5}, "length_penalty requires beam"),
        ({"memory_length": 8}, "memory_length must be unset for a model without memory"),
        ({"temperature": 0, "nbest": 2}, "nbest must be 1 with temperature=0"),
        (
            {"temperature": 0, "top_k": 5},
            "top_k must be left out with temperature=0.*top_k=5, temp",
        ),
        (
            {"temperature": 1e-9, "seed": 7},
            "seed must be left out with temperature=0.*temp.*=1e-09",
        ),
        ({"beam": 2, "seed": 7}, "seed must be left out with beam"),
        ({"beam": 2, "temperature": 0.5}, "temperature must be left out with beam"),
        ({"beam": 2, "top_k": 5}, "top_k must be left out with beam"),
        ({"beam": 2, "top_p": 0.5}, "top_p must be left out with beam"),
    ],
)
def test_invalid_arguments_of_generate_are_errors(generator, options, message):
    with pytest.raises(UserError, match=message):
        generator.generate([""], **{"max_tokens": 7, **options})


def test_invalid_arguments_are_errors_before_a_model_is_read():
    with pytest.raises(UserError, match="top_k must be left out with beam"):
        generate_texts("nowhere", ["a"], beam=2, top_k=5)


def test_prompts_that_are_not_strings_are_errors(generator):
    with pytest.raises(UserError, match="Prompts must be strings. Received: 3 as text 2"):
        generator.generate(["a", 3])
    with pytest.raises(UserError, match="prompts must be a string or a list. Received: None"):
        generator.generate(None)
    assert generator.generate([]) == []


@pytest.mark.thorough
def test_padded_rows_of_the_vocabulary_are_never_generated(generator):
    """An embedding matrix with untrained rows, which would have the largest logits."""
    tokenizer = generator.tokenizer
    size = tokenizer.vocabulary_size
    wide = BytePairTokenizer(
        [*tokenizer.vocabulary, *map(padding_row_name, range(size, size + 9))], tokenizer.merges
    )
    backbone = generator.model.backbone
    model = GPT2LanguageModel(
        GPT2(
            **{
                **{
                    name: value
                    for name, value in backbone.get_config().items()
                    if name
                    in ("num_layers", "hidden_dim", "num_heads", "intermediate_dim", "max_length")
                },
                "vocabulary_size": size + 9,
            }
        )
    )
    model.build()
    trained = {one.path: np.array(one) for one in generator.model.trainable_variables}
    for new in model.trainable_variables:
        old = trained[new.path]
        new.assign(np.pad(old, [(0, 9), (0, 0)]) if "token" in new.path else old)
    table = np.array(model.backbone.token_embedding)
    table[size:] = 5 * table[wide.end_id]
    model.backbone.token_embedding.assign(table)
    made = Generator(model, wide)
    for options in ({"temperature": 0}, {"beam": 3}, {"temperature": 9.0, "top_p": None}):
        for prompt in ("the cat", "my café", "a dog hears"):
            assert "[row" not in made.generate(prompt, 9, **options)
    assert made.generate("the cat", 9, temperature=0) == generator.generate(
        "the cat", 9, temperature=0
    )
