"""Distillation: an embedder that learns the similarities of another one."""

import json
import types

import numpy as np
import pytest

from keras_attn import finetune, load
from keras_attn.checkpoints.text_settings import TextSettings
from keras_attn.defaults import default_config
from keras_attn.errors import UserError
from keras_attn.tasks.embedding.groups import GroupExamples, Groups, TextReader
from keras_attn.tasks.embedding.metrics import embedding_metrics
from keras_attn.tasks.embedding.teacher import teacher_embeddings
from keras_attn.text.wordpiece import WordPieceTokenizer
from tests.support.stopped_runs import stop_at_first_checkpoint

RUN = types.SimpleNamespace(say=lambda *_: None)


class _Teacher:
    """Embeds a text as its length, and the code of its first letter."""

    def embed(self, texts):
        assert len({*texts}) == len(texts)
        return np.array([[len(text), ord(text[0])] for text in texts], np.float32)


def test_equal_texts_have_one_number_and_are_embedded_once():
    groups = Groups([["a", "bb", "ccc"], ["bb", "bb", "dddd"]], None, ())
    found = teacher_embeddings(RUN, _Teacher(), groups)
    assert found["text_numbers"].tolist() == [[0, 1], [1, 1], [2, 3]]
    lengths, letters = np.moveaxis(found["teacher_embedding"], -1, 0)
    assert lengths.tolist() == [[1, 2], [2, 2], [3, 4]]
    assert letters.tolist() == [[97, 98], [98, 98], [99, 100]]


@pytest.mark.parametrize("columns", [1, 3])
def test_embeddings_stay_with_their_texts(columns):
    letters = "abcdefghij"
    tokenizer = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters])
    texts = [[f"{letters[(n + k) % 10]} a" for n in range(9)] for k in range(columns)]
    groups = Groups(texts, None, ())
    examples = GroupExamples(
        groups,
        TextReader(TextSettings(), tokenizer),
        teacher_embeddings(RUN, _Teacher(), groups),
        length=8,
        batch_size=4,
    )
    for number in range(examples.num_batches):
        batch = examples.batch(number)
        real = batch["sample_weight"] > 0
        first = batch["token_ids"][real, :, 1] - 5  # of the letters
        np.testing.assert_array_equal(batch["teacher_embedding"][real, :, 1] - ord("a"), first)
        assert batch["text_numbers"].shape == batch["token_ids"].shape[:2]


WORDS = [f"{a}{b}" for a in "abcdef" for b in "uvwxyz"]


def made_up(count, seed):
    """Sentences of three words; the other one has the same words, spelled backwards."""
    words = np.random.default_rng(seed).choice(WORDS, (count, 3))
    return [
        {"text": " ".join(row), "same": " ".join(word[::-1] for word in row[::-1])} for row in words
    ]


def embedding_config(folder, rows, family=None, **fields):
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = default_config("embedding", family)
    config.model.family = family
    config.update_from_flattened_dict(
        {
            "data.task": "embedding",
            "data.train": str(path),
            "data.holdout": 0.0,
            "data.text": "text",
            "data.vocab_size": 200,
            "train.batch_size": 32,
            "train.learning_rate": 0.003,
            "eval.report": False,
            **fields,
        }
    )
    return config


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    """The workdir of an embedder of pairs."""
    folder = tmp_path_factory.mktemp("teacher")
    fields = {"data.text_pair": "same", "train.steps": 200}
    finetune(embedding_config(folder, made_up(400, 0), **fields), workdir=str(folder / "run"))
    return str(folder / "run")


def mrr(model, rows):
    columns = [[row[name] for row in rows] for name in ("text", "same")]
    vectors = np.stack([model.embed(column) for column in columns], axis=1)
    return embedding_metrics(vectors, Groups(columns, None, ()))["mrr"]


@pytest.mark.runs
def test_a_student_of_another_size_and_tokenizer_learns_from_single_texts(teacher, tmp_path):
    # Texts of both spellings, but no pairs.
    texts = [text for row in made_up(300, 1) for text in row.values()]
    rows, test = [{"text": text} for text in texts], made_up(100, 2)
    fields = {"data.vocab_size": 90, "model.hidden_dim": 32, "train.steps": 300}
    for name, weight in (("alone", 0.0), ("taught", 1.0)):
        own = {"train.teacher": teacher, "train.distillation": weight}
        config = embedding_config(tmp_path, rows, "attentive_lstm", **fields, **own)
        finetune(config, workdir=str(tmp_path / name))
    expert, student, alone = (
        load(str(folder)) for folder in (teacher, tmp_path / "taught", tmp_path / "alone")
    )
    assert expert.embed(["au"]).shape == (1, 128) and student.embed(["au"]).shape == (1, 32)
    # With dropout masks alone, nothing says which texts are the same.
    assert mrr(expert, test) > 0.9 and mrr(student, test) > 0.35 and mrr(alone, test) < 0.15
    heads = json.loads((tmp_path / "taught/config.json").read_text())["heads"]
    assert (heads["distillation"], heads["distillation_temperature"]) == (1.0, 2.0)


@pytest.mark.runs
def test_a_stopped_run_with_a_teacher_resumes_bitwise(teacher, tmp_path):
    fields = {"data.text_pair": "same", "train.teacher": teacher, "train.steps": 4}
    fields |= {"checkpoint.every": 2, "train.accumulate": 2}
    config = embedding_config(tmp_path, made_up(80, 3), **fields)
    whole = finetune(config, workdir=str(tmp_path / "whole"))
    stop_at_first_checkpoint(finetune, config, tmp_path / "cut")
    again = finetune(config, workdir=str(tmp_path / "cut"))
    assert again["weights_sha256"] == whole["weights_sha256"]
    assert again["data_sha256"] == whole["data_sha256"] and "teacher" in whole["data_sha256"]


@pytest.mark.runs
def test_lines_of_text_need_no_dropout(teacher, tmp_path):
    (tmp_path / "texts.txt").write_text("".join(f"{row['text']}\n" for row in made_up(20, 5)))
    fields = {"data.train": str(tmp_path / "texts.txt"), "model.dropout": 0.0, "train.steps": 1}
    fields |= {"train.teacher": teacher, "train.distillation": 1.0}
    found = finetune(embedding_config(tmp_path, [], **fields), workdir=str(tmp_path / "run"))
    assert found["steps"] == 1
    config = embedding_config(tmp_path, [], **{**fields, "train.distillation": 0.9})
    with pytest.raises(UserError, match="different dropout masks"):
        finetune(config, workdir=str(tmp_path / "other"))


@pytest.mark.runs
def test_a_batch_of_one_row_is_an_error(teacher, tmp_path):
    fields = {"data.text_pair": "same", "data.negative": "text", "train.loss": "triplet"}
    fields |= {"train.batch_size": 1, "train.teacher": teacher}
    config = embedding_config(tmp_path, made_up(8, 4), **fields)
    with pytest.raises(UserError, match="train.teacher compares the rows of a batch"):
        finetune(config, workdir=str(tmp_path / "run"))
