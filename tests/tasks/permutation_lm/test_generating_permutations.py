"""Text generation with a trained XLNet."""

import json
import shutil

import numpy as np
import pytest
from keras import ops

from keras_attn import load, pretrain
from keras_attn.errors import UserError
from keras_attn.inference.generate_files import SEPARATOR, generate_texts
from keras_attn.tasks.generator import Generator
from tests.support.quick import quick
from tests.support.small_language_models import config_of

pytestmark = pytest.mark.runs

PROMPTS = ["the cat sees", "", "a dog hears the bird the bird", "one, two and"]


@pytest.fixture(scope="module")
def run(corpus, tmp_path_factory):
    """A run of two layers: with one, the memory makes no difference."""
    folder = tmp_path_factory.mktemp("layers")
    config = config_of(corpus, "sentencepiece", **{"model.num_layers": 2, "train.steps": 100})
    pretrain(config, workdir=str(folder))
    return folder


@pytest.fixture(scope="module", params=[0, 64], ids="memory={}".format)
def generator(request, run):
    """Without memory, and with one for all tokens by default."""
    found = load(str(run))
    assert found.task == "permutation_lm" and isinstance(found, Generator)
    assert found.memory_length == 0
    found.memory_length = request.param
    return found


def log_probabilities(generator, ids, begun):
    """Of the tokens after the first `begun`, by the pretraining model and NumPy."""
    model, length = generator.model, len(ids)
    places = np.arange(begun, length)
    # Without memory, all tokens before a position are context, else only those before the last of
    # the prompt.
    known = places if not generator.memory_length else np.full_like(places, begun - 1)
    outputs = model(
        {
            "token_ids": np.tile(ids, (len(places), 1)).astype("int32"),
            "permutation_ranks": np.maximum(np.arange(length) - known[:, None], -1).astype("int32"),
            "mask_positions": places[:, None].astype("int32"),
        }
    )
    logits = np.float64(ops.convert_to_numpy(outputs["logits"]))[:, 0]
    logits[:, generator.tokenizer.never_generated] = -np.inf
    logits -= np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return logits[np.arange(len(places)), ids[begun:]]


@pytest.mark.parametrize("options", [{"temperature": 0}, {"temperature": 1.0}, {"beams": 3}])
def test_probabilities_are_those_of_the_pretraining_model_from_left_to_right(generator, options):
    options = {**options, "memory_length": generator.memory_length}
    rows = generator.encode(PROMPTS)
    ids = np.stack([np.pad(row, (16 - len(row), 0)) for row in rows])
    real = np.stack([np.arange(16) >= 16 - len(row) for row in rows]).astype("int32")
    found = generator.found(ids, real, np.arange(4, dtype="int32"), np.int32(0), 9, **options)
    for name in ("token_ids", "lengths", "log_probabilities"):
        found[name] = ops.convert_to_numpy(found[name])
        if "beams" in options:
            found[name] = found[name][:, 0]
    for number, row in enumerate(rows):
        new = found["token_ids"][number, : found["lengths"][number]]
        assert not np.isin(new, generator.tokenizer.never_generated).any()
        wanted = log_probabilities(generator, np.concatenate([row, new]), len(row)).sum()
        assert found["log_probabilities"][number] == pytest.approx(wanted, abs=1e-3)


@pytest.mark.parametrize("options", quick([{"seed": 3}, {"beam": 3}], {"seed": 3}))
def test_a_text_does_not_depend_on_its_batch(generator, options):
    found = generator.generate(PROMPTS, 7, nbest=1, **options)
    for size in (1, 3):
        again = generator.generate(PROMPTS, 7, nbest=1, batch_size=size, **options)
        for (one,), (other,) in zip(found, again, strict=True):
            assert one["log_probability"] == pytest.approx(other["log_probability"], abs=1e-4)
            assert {**one, "log_probability": 0} == {**other, "log_probability": 0}


def test_a_text_is_its_prompt_and_its_continuation(generator):
    found = generator.generate(PROMPTS, 9, seed=5, nbest=2)
    for prompt, texts in zip(PROMPTS, found, strict=True):
        assert all(one["text"] == prompt + one["continuation"] for one in texts)
        assert texts[0]["text"] != texts[1]["text"] and not texts[0]["finished"]


def test_a_long_prompt_is_continued_as_in_the_texts(trained):
    prompt = "the cat sees a dog a dog hears the bird the"
    assert load(str(trained[0])).generate(prompt, 1, temperature=0) == f"{prompt} bird"


def test_white_space_of_a_prompt_is_normalized(trained):
    texts = load(str(trained[0])).generate(["the  cat\nsees", "the cat sees"], 5, temperature=0)
    assert texts[0] == texts[1] and texts[0].startswith("the cat sees ")


def test_the_command_writes_texts(trained, tmp_path, capsys):
    path = tmp_path / "texts.jsonl"
    generate_texts(str(trained[0]), PROMPTS, str(path), max_tokens=5, beam=2, nbest=2)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines == load(str(trained[0])).generate(PROMPTS, 5, beam=2, nbest=2)
    generate_texts(str(trained[0]), ["the cat"], max_tokens=5, temperature=0, precision="bfloat16")
    printed = capsys.readouterr().out
    assert printed.startswith("the cat") and printed.endswith(f"\n{SEPARATOR}\n")


def test_the_memory_is_an_option_that_defaults_to_what_a_training_row_attends_to(run, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    config = json.loads((folder / "config.json").read_text())
    config["architecture"]["memory_length"] = 16
    (folder / "config.json").write_text(json.dumps(config))
    model, plain = load(str(folder)), load(str(run))
    assert model.memory_length == 16 + 24
    options = {"max_tokens": 9, "temperature": 0, "nbest": 1}
    default = model.generate(PROMPTS, **options)
    assert default == plain.generate(PROMPTS, memory_length=40, **options)
    for length in (0, 3):
        assert default != plain.generate(PROMPTS, memory_length=length, **options)
    with pytest.raises(UserError, match="memory_length must be an integer of at least 0"):
        plain.generate("the cat", memory_length=-1)
