"""Runs that train GPT-2s."""

import json
import math
import shutil

import numpy as np
import pytest

from keras_attn import load, pretrain
from keras_attn.data.shards.shard_files import read_shard
from keras_attn.errors import UserError
from keras_attn.inference.embed_files import embed_texts
from keras_attn.inference.generate_files import generate_texts
from keras_attn.inference.predict_files import predict_texts
from keras_attn.text.byte_pairs import BytePairTokenizer
from tests.support.small_language_models import config_of, log_probabilities

pytestmark = pytest.mark.runs


def test_characters_are_counted_once_and_words_without_spaces_have_a_perplexity(corpus, tmp_path):
    # Of bytes alone: rows end within characters.
    documents = ["天地玄黃宇宙洪荒🙂日月盈昃👩‍👧辰宿列張é" * 8] * 9 + ["\u3000天 地\u00a0玄"]
    (tmp_path / "valid.txt").write_text("\n\n".join(documents) + "\n")
    config = config_of(
        corpus,
        **{
            "data.validation": str(tmp_path / "valid.txt"),
            "train.steps": 1,
            "data.length": 23,
            "data.vocab_size": 257,
        },
    )
    results = pretrain(config, workdir=str(tmp_path / "run"))
    documents = [text.strip() for text in documents]
    assert 1e30 < results["word_perplexity"] < np.finfo(np.float32).max
    loss = results["token_loss"] * sum(1 + len(text.encode()) for text in documents)
    characters = sum(map(len, documents))
    assert results["loss_per_character"] == pytest.approx(loss / characters, rel=1e-6)
    assert results["character_perplexity"] == pytest.approx(math.exp(loss / characters), rel=1e-6)
    visible = sum(len("".join(text.split())) for text in documents)
    assert results["loss_per_visible_character"] == pytest.approx(loss / visible, rel=1e-6)


def test_the_text_is_predicted_without_normalization(corpus, tmp_path):
    texts = [
        "def f():\n    return 1\n\n\n# 天。地。\n",
        "It rained.  He left.\n\n“Why?”\n\tNo.",
        "a\r\nb",
    ]
    (tmp_path / "valid.jsonl").write_text(
        "".join(json.dumps({"text": text}) + "\n" for text in texts)
    )
    config = config_of(
        corpus,
        **{
            "data.train": str(tmp_path / "valid.jsonl"),
            "train.steps": 1,
            "data.vocab_size": 290,
            "data.validation": str(tmp_path / "valid.jsonl"),
            "data.format": "jsonl",
        },
    )
    results = pretrain(config, workdir=str(tmp_path / "run"))
    tokenizer = load(str(tmp_path / "run")).tokenizer
    shard = read_shard(next((tmp_path / "run").glob("data/validation*/shard-*.npz")))
    ends = shard.sentence_ends[shard.document_ends - 1]
    found = [ids.tolist() for ids in np.split(shard.ids, ends[:-1])]
    assert tokenizer.decode(found) == texts
    assert found == [ids.tolist() for ids in np.split(*_encoded(tokenizer, texts))]
    loss = results["token_loss"] * sum(1 + len(ids) for ids in found)
    assert results["loss_per_character"] == pytest.approx(loss / sum(map(len, texts)), rel=1e-6)


def test_a_run_is_resumed_without_its_pretrained_model(corpus, tmp_path):
    def run(name, steps, **fields):
        pretrain(
            config_of(corpus, **{"train.steps": steps, **fields}),
            workdir=str(tmp_path / name),
            pretrained=begun.get(name),
        )

    begun = {"next": str(tmp_path / "first")}
    run("first", 1)
    for steps in (1, 2):
        run("next", steps, **{"model.max_length": None})
        shutil.rmtree(begun["next"], ignore_errors=True)
    results = json.loads((tmp_path / "next" / "results.json").read_text())
    assert results["steps"] == 2


def test_it_learns_what_follows(trained, generator):
    results = trained[1]
    assert results["token_accuracy"] > 0.8 and results["perplexity"] < 2
    found = generator.generate(["the cat sees a", "my café"], 6, temperature=0)
    assert found[0].startswith("the cat sees a dog") and found[1].startswith("my café is grün 🙂")


def test_perplexities_are_those_of_the_text(trained, generator, corpus):
    # Rows are consecutive: a token is predicted from the tokens before it in its row and document.
    documents = [
        " ".join(text.split("\n"))
        for text in (corpus / "valid.txt").read_text().strip().split("\n\n")
    ]
    end, stream = generator.tokenizer.end_id, []
    for ids in np.split(*_encoded(generator.tokenizer, documents)):
        stream += [end, *ids.tolist()]
    stream.append(end)
    total, count = 0.0, 0
    for start in range(0, len(stream) - 1, 24):
        row = stream[start : start + 25]
        for part in _parts(row, end):
            if len(part) > 1:
                total -= log_probabilities(generator.model, part).sum()
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
    """Splits a row at document starts; the end-of-sequence token belongs to both documents."""
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


def test_a_resumed_run_is_bitwise_identical(corpus, tmp_path):
    fields = {"train.schedule": "constant", "train.warmup_fraction": 0.0, "model.dropout": 0.1}
    wanted = pretrain(
        config_of(corpus, **fields, **{"train.steps": 6}), workdir=str(tmp_path / "whole")
    )
    for steps in (3, 6):
        found = pretrain(
            config_of(corpus, **fields, **{"train.steps": steps}), workdir=str(tmp_path / "broken")
        )
    assert found["weights_sha256"] == wanted["weights_sha256"]


def test_a_run_starts_from_another(trained, corpus, tmp_path):
    begun = pretrain(
        config_of(
            corpus, **{"train.steps": 1, "train.learning_rate": 1e-9, "data.vocab_size": 999}
        ),
        workdir=str(tmp_path / "next"),
        pretrained=str(trained[0]),
    )
    for name in ("perplexity", "word_perplexity", "token_accuracy"):
        assert begun[name] == pytest.approx(trained[1][name], rel=1e-4)
    with pytest.raises(UserError, match="model.num_layers=2 differs from the pretrained model"):
        pretrain(
            config_of(corpus, **{"model.num_layers": 2}),
            workdir=str(tmp_path / "other"),
            pretrained=str(trained[0]),
        )
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("positions", [None, 30])
def test_a_model_generates_up_to_its_trained_positions(corpus, tmp_path, capsys, positions):
    config = config_of(corpus, **{"model.max_length": positions, "train.steps": 1})
    pretrain(config, workdir=str(tmp_path / "run"))
    assert ("positions 25 to 30 are not trained" in capsys.readouterr().out) == bool(positions)
    generator, most = load(str(tmp_path / "run")), positions or 24
    assert generator.max_length == most
    (found,) = generator.generate("", most - 1, min_tokens=most - 1, nbest=1)
    assert not found["finished"]
    with pytest.raises(UserError, match=f"at most {most} tokens, the positions of the model"):
        generator.generate("", most)


def test_a_pretrained_model_keeps_its_positions(trained, corpus, tmp_path):
    config = config_of(corpus, **{"model.max_length": None, "train.steps": 1})
    pretrain(config, workdir=str(tmp_path / "run"), pretrained=str(trained[0]))
    assert load(str(tmp_path / "run")).max_length == 48


def test_a_tokenizer_may_be_given(trained, corpus, tmp_path):
    pretrain(config_of(corpus, **{"data.vocab": str(trained[0])}), workdir=str(tmp_path / "run"))
    found, given = (
        BytePairTokenizer.read(str(folder)) for folder in (tmp_path / "run", trained[0])
    )
    assert found.sha256 == given.sha256


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"data.length": 49}, "data.length=49 exceeds the model's 48 positions"),
        ({"model.size": "huge"}, "model.size must be one of tiny,.*Received: model.size=huge"),
        ({"model.num_heads": 3}, "hidden_dim must be a multiple of num_heads"),
        ({"data.vocab_size": 256}, "vocab_size must be at least 257.*Received: vocab_size=256"),
        ({"data.vocab": "nowhere"}, "must contain vocab.json and merges.txt. Received: nowhere"),
        ({"data.train": "nowhere.txt"}, "nowhere.txt"),
        ({"data.format": "tfrecord"}, "format must be one of auto, lines"),
    ],
)
def test_wrong_fields_are_named_and_leave_no_folder(corpus, tmp_path, fields, message):
    with pytest.raises(UserError, match=message):
        pretrain(config_of(corpus, **fields), workdir=str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_commands_of_other_models_refuse_it(trained, tmp_path):
    with pytest.raises(UserError, match="Use `python -m pretrain.generate`"):
        predict_texts(str(trained[0]), ["a"])
    with pytest.raises(UserError, match="Embeddings require an encoder or a classifier"):
        embed_texts(str(trained[0]), ["a"], str(tmp_path / "out.npy"))
    with pytest.raises(UserError, match="does not contain a model"):
        generate_texts(str(tmp_path), ["a"])


def test_a_resumed_run_may_split_its_steps_in_more_parts(corpus, tmp_path):
    fields = {"train.steps": 4, "train.schedule": "constant", "train.warmup_fraction": 0.0}
    whole = pretrain(config_of(corpus, **fields), workdir=str(tmp_path / "whole"))
    pretrain(config_of(corpus, **{**fields, "train.steps": 2}), workdir=str(tmp_path / "parts"))
    parts = pretrain(
        config_of(corpus, **fields, **{"train.accumulate": 4}), workdir=str(tmp_path / "parts")
    )
    assert parts["steps"] == 4
    assert parts["loss"] == pytest.approx(whole["loss"], rel=1e-4)
