"""Runs that train GPT-2s, and what their workdirs go on with."""

import itertools
import json
import math

import numpy as np
import pytest

from keras_attn import load, pretrain
from keras_attn.defaults import language_modeling_defaults
from keras_attn.errors import UserError
from keras_attn.jobs.embedding import embed_texts
from keras_attn.jobs.generating import BETWEEN, generate_texts
from keras_attn.jobs.loading import load_predictor
from keras_attn.text.byte_pairs import BytePairTokenizer

SENTENCES = ["the cat sees a dog", "a dog hears the bird", "the bird sees the cat",
             "my café is grün 🙂"]


def _write(path, count, seed):
    """Documents in which each sentence has its own follower."""
    random = np.random.default_rng(seed)
    documents = []
    for _ in range(count):
        first = random.integers(len(SENTENCES))
        documents.append([SENTENCES[(first + n) % len(SENTENCES)]
                          for n in range(random.integers(2, 5))])
    path.write_text("\n\n".join("\n".join(document) for document in documents) + "\n")
    return documents


def _config(folder, **fields):
    config = language_modeling_defaults()
    config.update_from_flattened_dict({
        "data.train": str(folder / "train.txt"), "data.validation": str(folder / "valid.txt"),
        "data.format": "lines", "data.vocab_size": 320, "data.length": 24,
        "model.num_layers": 1, "model.hidden_dim": 32, "model.num_heads": 2,
        "model.max_length": 48, "train.steps": 4, "train.batch_size": 8,
        "train.learning_rate": 0.01, "eval.batch_size": 8, **fields})
    return config


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    _write(folder / "train.txt", 400, 0)
    _write(folder / "valid.txt", 30, 1)
    return folder


@pytest.fixture(scope="module")
def trained(corpus):
    """The workdir of a run, and its results."""
    config = _config(corpus, **{"train.steps": 150, "eval.every": 75})
    return corpus / "run", pretrain(config, workdir=str(corpus / "run"))


@pytest.fixture(scope="module")
def generator(trained):
    return load(str(trained[0]))


def _log_probabilities(model, ids):
    """Of each token after the first, by one whole pass and NumPy's float64."""
    logits = np.asarray(model({"token_ids": np.array([ids], np.int32)})["logits"], np.float64)[0]
    shares = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    return shares[np.arange(len(ids) - 1), ids[1:]]


def test_characters_are_counted_once_and_words_without_blanks_have_a_perplexity(corpus, tmp_path):
    # Of bytes alone: rows end within characters.
    documents = ["天地玄黃宇宙洪荒🙂日月盈昃👩‍👧辰宿列張é" * 8] * 9 + ["\u3000天 地\u00a0玄"]
    (tmp_path / "valid.txt").write_text("\n\n".join(documents) + "\n")
    config = _config(corpus, **{"data.validation": str(tmp_path / "valid.txt"), "train.steps": 1,
                                "data.length": 23, "data.vocab_size": 257})
    results = pretrain(config, workdir=str(tmp_path / "run"))
    documents = [text.strip() for text in documents]
    assert 1e30 < results["word_perplexity"] < np.finfo(np.float32).max
    loss = results["token_loss"] * sum(1 + len(text.encode()) for text in documents)
    characters = sum(map(len, documents))
    assert results["loss_per_character"] == pytest.approx(loss / characters, rel=1e-6)
    assert results["character_perplexity"] == pytest.approx(math.exp(loss / characters), rel=1e-6)
    visible = sum(len("".join(text.split())) for text in documents)
    assert results["loss_per_visible_character"] == pytest.approx(loss / visible, rel=1e-6)


def test_it_learns_what_follows(trained, generator):
    results = trained[1]
    assert results["token_accuracy"] > 0.8 and results["perplexity"] < 2
    found = generator.generate(["the cat sees a", "my café"], 6, temperature=0)
    assert found[0].startswith("the cat sees a dog") and found[1].startswith("my café is grün 🙂")


def test_perplexities_are_those_of_the_text(trained, generator, corpus):
    # Rows are cut from the documents one after the other: each token is told after what is before
    # it in its row and its document.
    documents = [" ".join(text.split("\n"))
                 for text in (corpus / "valid.txt").read_text().strip().split("\n\n")]
    end, stream = generator.tokenizer.end_id, []
    for ids in np.split(*_encoded(generator.tokenizer, documents)):
        stream += [end, *ids.tolist()]
    stream.append(end)
    total, count = 0.0, 0
    for start in range(0, len(stream) - 1, 24):
        row = stream[start:start + 25]
        for part in _parts(row, end):
            if len(part) > 1:
                total -= _log_probabilities(generator.model, part).sum()
                count += len(part) - 1
    assert count == len(stream) - 1
    results, words = trained[1], sum(len(text.split()) for text in documents)
    assert results["token_loss"] == pytest.approx(total / count, rel=1e-5)
    assert results["perplexity"] == pytest.approx(math.exp(total / count), rel=1e-5)
    assert results["word_perplexity"] == pytest.approx(math.exp(total / words), rel=1e-5)
    characters = sum(map(len, documents))
    assert results["loss_per_character"] == pytest.approx(total / characters, rel=1e-5)
    wanted = math.exp(total / characters)
    assert results["character_perplexity"] == pytest.approx(wanted, rel=1e-5)
    visible = sum(len(text.replace(" ", "")) for text in documents)
    assert results["loss_per_visible_character"] == pytest.approx(total / visible, rel=1e-5)


def _parts(row, end):
    """A row cut where documents begin; the mark ends one and begins the next."""
    parts, part = [], []
    for token in row:
        part.append(token)
        if token == end and len(part) > 1:
            parts.append(part)
            part = [token]
    return [*parts, part]


def _encoded(tokenizer, texts):
    ids, ends = tokenizer.encode(texts)
    return ids, ends[:-1]


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
        added = ids[begun:len(ids) - finished]
        assert found["continuation"] == generator.tokenizer.decode([added])[0]
        assert found["text"] == prompt + found["continuation"]
        assert found["finished"] == finished
        wanted = _log_probabilities(generator.model, ids)[begun - 1:].sum()
        assert found["log_probability"] == pytest.approx(wanted, abs=1e-4)


def test_its_loop_copies_no_cache(generator):
    rows = np.ones((2, 16), np.int32)
    graph = generator.found.get_concrete_function(
        rows, np.ones((2, 20), np.int32), np.arange(2, dtype=np.int32), np.int32(0), 4,
        temperature=0).graph.as_graph_def()
    bodies = [{node.op for node in function.node_def} for function in graph.library.function
              if "while_body" in function.signature.name]
    assert any("TensorStridedSliceUpdate" in body for body in bodies)


def test_half_precision_goes_on_alike(trained, generator, tmp_path):
    half = load(str(trained[0]), precision="bfloat16")
    assert half.model.backbone.token_embedding.dtype == "bfloat16"
    prompts = ["the cat sees a", "my café", "a dog hears"]
    for options in ({"temperature": 0}, {"beam": 2}):
        found, wanted = (made.generate(prompts, 5, nbest=1, **options)
                         for made in (half, generator))
        same = [(a, b) for (a,), (b,) in zip(found, wanted, strict=True) if a["text"] == b["text"]]
        assert len(same) >= 2
        for a, b in same:
            assert a["log_probability"] == pytest.approx(b["log_probability"], abs=0.2)
    out = tmp_path / "texts.jsonl"
    generate_texts(str(trained[0]), prompts, str(out), precision="bfloat16", max_tokens=5, beam=2)
    assert [json.loads(line)[0]["text"] for line in out.read_text().splitlines()] == \
        [one["text"] for (one,) in found]
    with pytest.raises(UserError, match="precision must be float32 or bfloat16"):
        load(str(trained[0]), precision="float64")


@pytest.mark.parametrize("options", [{"temperature": 1.5, "seed": 3}, {"beam": 3},
                                     {"temperature": 1.0, "top_k": 5, "nbest": 2}])
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
    # 32 bits of it count, and without one each draws anew.
    assert generator.generate(prompts, 12, temperature=2.0, seed=1 - 2**32) == first
    largest = generator.generate(prompts, 12, temperature=2.0, seed=2**32 - 1)
    assert largest == generator.generate(prompts, 12, temperature=2.0, seed=-1) != first
    anew = [generator.generate(prompts, 12, temperature=2.0, seed=None) for _ in range(2)]
    assert anew[0] != anew[1]


def test_numbers_of_numpy_are_taken(generator):
    options = {"max_tokens": 5, "temperature": 1.5, "top_k": 5, "top_p": 0.75, "seed": 3,
               "min_tokens": 2, "no_repeat": 3, "nbest": 2, "batch_size": 2}
    others = {name: np.float32(value) if isinstance(value, float) else np.int64(value)
              for name, value in options.items()}
    assert generator.generate(["the"], **others) == generator.generate(["the"], **options)


def test_beams_are_ordered_by_their_probability(generator):
    (found,) = generator.generate(["the"], 6, beam=4, nbest=4)
    ranks = [(one["finished"], one["log_probability"]) for one in found]
    assert ranks == sorted(ranks, reverse=True) and len({one["text"] for one in found}) == 4
    (greedy,) = generator.generate(["the"], 6, temperature=0, nbest=1)
    assert generator.generate(["the"], 6, beam=1, nbest=1)[0] == greedy


@pytest.mark.parametrize("size", [1, 2])
def test_texts_repeat_no_sequence_of_tokens_of_their_prompts(generator, size):
    end, prompts = generator.tokenizer.end_id, ["the cat sees a dog the cat sees", "",
                                               "a dog the"]
    found = generator.generate(prompts, 9, temperature=0, no_repeat=size)
    free = generator.generate(prompts, 9, temperature=0)
    for prompt, text in zip(prompts, found, strict=True):
        ids = generator.tokenizer.encode([prompt])[0].tolist()
        for _ in range(9):
            inputs = {"token_ids": np.array([ids or [end]], np.int32)}
            logits = np.array(generator.model(inputs)["logits"])[0, -1]
            begun = ids[len(ids) - size + 1:]
            for place in range(len(ids) - size + 1):
                if ids[place:place + size - 1] == begun:
                    logits[ids[place + size - 1]] = -np.inf
            if logits.argmax() == end:
                break
            ids.append(int(logits.argmax()))
        assert text == generator.tokenizer.decode([ids])[0]
    assert found != free


def test_files_and_prompts_are_answered(trained, generator, tmp_path, capsys):
    (tmp_path / "prompts.txt").write_text("the cat\n\na dog\n")
    generate_texts(str(trained[0]), str(tmp_path / "prompts.txt"), str(tmp_path / "out.jsonl"),
                   max_tokens=5, temperature=0)
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert lines == generator.generate(["the cat", "", "a dog"], 5, temperature=0, nbest=1)
    generate_texts(str(trained[0]), ["the cat"], max_tokens=5, temperature=0)
    assert capsys.readouterr().out == f"{lines[0][0]['text']}\n{BETWEEN}\n"


def test_a_run_that_goes_on_ends_with_the_same_bits(corpus, tmp_path):
    fields = {"train.schedule": "constant", "train.warmup_fraction": 0.0, "model.dropout": 0.1}
    wanted = pretrain(_config(corpus, **fields, **{"train.steps": 6}),
                      workdir=str(tmp_path / "whole"))
    for steps in (3, 6):
        found = pretrain(_config(corpus, **fields, **{"train.steps": steps}),
                         workdir=str(tmp_path / "broken"))
    assert found["weights_sha256"] == wanted["weights_sha256"]


def test_a_run_starts_from_another(trained, corpus, tmp_path):
    begun = pretrain(_config(corpus, **{"train.steps": 1, "train.learning_rate": 1e-9,
                                        "data.vocab_size": 999}),
                     workdir=str(tmp_path / "next"), pretrained=str(trained[0]))
    for name in ("perplexity", "word_perplexity", "token_accuracy"):
        assert begun[name] == pytest.approx(trained[1][name], rel=1e-4)
    with pytest.raises(UserError, match=r"must be that of the pretrained model.*num_layers=2"):
        pretrain(_config(corpus, **{"model.num_layers": 2}), workdir=str(tmp_path / "other"),
                 pretrained=str(trained[0]))
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("positions", [None, 30])
def test_a_model_goes_on_to_positions_that_were_trained(corpus, tmp_path, capsys, positions):
    config = _config(corpus, **{"model.max_length": positions, "train.steps": 1})
    pretrain(config, workdir=str(tmp_path / "run"))
    assert ("positions 25 to 30 are not trained" in capsys.readouterr().out) == bool(positions)
    generator, most = load(str(tmp_path / "run")), positions or 24
    assert generator.max_length == most
    (found,) = generator.generate("", most - 1, min_tokens=most - 1, nbest=1)
    assert not found["finished"]
    with pytest.raises(UserError, match=f"{most} tokens at most, the positions of the model"):
        generator.generate("", most)


def test_a_pretrained_model_keeps_its_positions(trained, corpus, tmp_path):
    config = _config(corpus, **{"model.max_length": None, "train.steps": 1})
    pretrain(config, workdir=str(tmp_path / "run"), pretrained=str(trained[0]))
    assert load(str(tmp_path / "run")).max_length == 48


def test_a_tokenizer_may_be_given(trained, corpus, tmp_path):
    pretrain(_config(corpus, **{"data.vocab": str(trained[0])}), workdir=str(tmp_path / "run"))
    found, given = (BytePairTokenizer.read(str(folder))
                    for folder in (tmp_path / "run", trained[0]))
    assert found.sha256 == given.sha256


@pytest.mark.parametrize("fields, message", [
    ({"data.length": 49}, "at most the positions of the model.*data.length=49, it has 48"),
    ({"model.size": "huge"}, "model.size must be one of tiny,.*Received: model.size=huge"),
    ({"model.num_heads": 3}, "hidden_dim must be a multiple of num_heads"),
    ({"data.vocab_size": 256}, "257 pieces at least. Received: data.vocab_size=256"),
    ({"data.vocab": "nowhere"}, "A folder with vocab.json and merges.txt is needed"),
    ({"data.train": "nowhere.txt"}, "nowhere.txt"),
    ({"data.format": "tfrecord"}, "format must be one of auto, lines"),
])
def test_wrong_fields_are_named_and_leave_no_folder(corpus, tmp_path, fields, message):
    with pytest.raises(UserError, match=message):
        pretrain(_config(corpus, **fields), workdir=str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("options, message", [
    ({"max_tokens": 48}, "48 tokens at most.*Received: 1 in text 1, max_tokens=48"),
    ({"max_tokens": 0}, "max_tokens must be 1, 2"),
    ({"beam": 2, "nbest": 3}, r"nbest must be in \[1, 2\]"),
    ({"top_p": 0.0}, r"top_p must be a number in \(0, 1\]. Received: top_p=0.0"),
    ({"temperature": -1.0}, "temperature must be a number of at least 0. Received: .*=-1.0"),
    ({"temperature": float("nan")}, "temperature must be a number of at least 0"),
    ({"temperature": "hot"}, "temperature must be a number of at least 0. Received: .*=hot"),
    ({"top_k": 2.5}, "top_k must be 1, 2"),
    ({"no_repeat": None}, "no_repeat must be 0, 1"),
    ({"seed": 1.5}, "seed must be a whole number"),
    ({"min_tokens": -1}, r"min_tokens must be a whole number in \[0, 7\]"),
    ({"min_tokens": 8}, r"min_tokens must be a whole number in \[0, 7\]"),
    ({"beam": 2, "length_penalty": float("nan")}, "length_penalty must be a finite number"),
    ({"length_penalty": 0.5}, "length_penalty must be left out without a beam"),
    ({"temperature": 0, "nbest": 2}, "nbest must be 1 with temperature=0"),
    ({"beam": 2, "temperature": 0.5}, "temperature must be left out with a beam"),
    ({"beam": 2, "top_k": 5}, "top_k must be left out with a beam"),
    ({"beam": 2, "top_p": 0.5}, "top_p must be left out with a beam"),
])
def test_wrong_arguments_of_generating_are_named(generator, options, message):
    with pytest.raises(UserError, match=message):
        generator.generate([""], **{"max_tokens": 7, **options})


def test_wrong_arguments_are_named_before_a_model_is_read():
    with pytest.raises(UserError, match="top_k must be left out with a beam"):
        generate_texts("nowhere", ["a"], beam=2, top_k=5)


def test_what_is_no_text_is_named(generator):
    with pytest.raises(UserError, match="Texts are needed. Received: 3 as text 2"):
        generator.generate(["a", 3])
    with pytest.raises(UserError, match="A text, or a list of them, is needed. Received: None"):
        generator.generate(None)
    assert generator.generate([]) == []


def test_commands_of_other_models_refuse_it(trained, tmp_path):
    with pytest.raises(UserError, match="pretrain.generate"):
        load_predictor(str(trained[0]))
    with pytest.raises(UserError, match="A model of BERT is needed"):
        embed_texts(str(trained[0]), ["a"], str(tmp_path / "out.npy"))
    with pytest.raises(UserError, match="A folder with a model is needed"):
        generate_texts(str(tmp_path), ["a"])
