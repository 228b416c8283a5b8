"""Distillation: a tagger that learns the predictions of another one."""

import json
import types

import numpy as np
import pytest

from keras_attn import finetune, load
from keras_attn.defaults import finetuning_defaults
from keras_attn.errors import UserError
from keras_attn.tasks.tagging.sentences import Sentence, Sentences
from keras_attn.tasks.tagging.teacher import teacher_logits
from tests.support.stopped_runs import stop_at_first_checkpoint

NAMES = ("ADJ", "NOUN", "VERB")
PREDICTED = np.array([[0.2, 0.5, 0.3], [1.0, 0.0, 0.0], [0.1, 0.8, 0.1]])
RUN = types.SimpleNamespace(say=lambda *_: None)
SENTENCES = Sentences([Sentence(["a", "b"], [], "", []), Sentence(["c"], [], "", [])], ())


class _Teacher:
    path, labels, scheme = "runs/teacher", ["VERB", "ADJ", "NOUN"], "raw"

    def probabilities(self, sentences):
        assert sentences == [["a", "b"], ["c"]]
        return PREDICTED[:, [2, 0, 1]]  # in the order of its labels


def test_tags_are_matched_by_name_and_logarithms_are_finite():
    found = teacher_logits(RUN, _Teacher(), SENTENCES, NAMES, "raw")
    assert found.dtype == np.float32 and np.isfinite(found).all()
    np.testing.assert_allclose(np.exp(found), PREDICTED, atol=1e-6)


@pytest.mark.parametrize(
    "names, scheme, message",
    [
        (
            ("ADJ", "NOUN"),
            "raw",
            r"=runs/teacher for ADJ, NOUN, VERB \(raw\); .*: ADJ, NOUN \(raw\)",
        ),
        (NAMES, "iob2", r"\(raw\); training data: ADJ, NOUN, VERB \(iob2\)"),
    ],
)
def test_a_teacher_of_other_tags_is_an_error(names, scheme, message):
    with pytest.raises(UserError, match=message):
        teacher_logits(RUN, _Teacher(), SENTENCES, names, scheme)


def tagging_config(folder, sentences, **fields):
    """A config for words of letters: the tag is the case of the last letter."""
    path = folder / "train.jsonl"
    rows = [{"tokens": words, "tags": tags} for words, tags in sentences]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = finetuning_defaults()
    config.update_from_flattened_dict(
        {
            "data.task": "tagging",
            "data.train": str(path),
            "data.holdout": 0.0,
            "data.vocab_size": 90,
            "data.lowercase": False,
            "train.batch_size": 16,
            "train.learning_rate": 0.003,
            "model.dropout": 0.0,
            "eval.report": False,
            **fields,
        }
    )
    return config


def made_up(count, random, tags=None):
    """Sentences of words of four letters, tagged by the last one, or at random."""
    found = []
    for _ in range(count):
        letters = random.choice([*"abAB"], (random.integers(2, 12), 4))
        words = ["".join(word) for word in letters]
        own = ["UP" if word[-1].isupper() else "LOW" for word in words]
        found.append((words, own if tags is None else [*map(str, random.choice(tags, len(words)))]))
    return found


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    """The workdir of a tagger that knows the tags, with a conditional random field."""
    folder, random = tmp_path_factory.mktemp("teacher"), np.random.default_rng(0)
    config = tagging_config(folder, made_up(300, random), **{"train.steps": 100, "model.crf": True})
    finetune(config, workdir=str(folder / "run"))
    return str(folder / "run")


@pytest.mark.runs
@pytest.mark.parametrize("crf", [False, True])
def test_a_student_with_another_tokenizer_learns_from_its_teacher_alone(teacher, tmp_path, crf):
    random = np.random.default_rng(1)
    config = tagging_config(
        tmp_path,
        made_up(200, random, tags=["UP", "LOW"]),  # labels say nothing
        **{
            "data.vocab_size": 400,  # whole words
            "data.length": 12,  # windows
            "model.word_vector": "mean",
            "model.crf": crf,
            "train.steps": 100,
            "train.teacher": teacher,
            "train.distillation": 1.0,
        },
    )
    finetune(config, workdir=str(tmp_path / "run"))
    student, expert = load(str(tmp_path / "run")), load(teacher)
    assert student.tokenizer.vocabulary_size > expert.tokenizer.vocabulary_size
    sentences, tags = zip(*made_up(50, random), strict=True)
    own, wanted = (
        np.concatenate([row["tags"] for row in model.tag(sentences)]) for model in (student, expert)
    )
    assert np.mean(wanted == np.concatenate(tags)) > 0.98 and np.mean(own == wanted) > 0.95
    heads = json.loads((tmp_path / "run/config.json").read_text())["heads"]
    assert (heads["distillation"], heads["distillation_temperature"]) == (1.0, 2.0)


@pytest.mark.runs
def test_a_stopped_run_with_a_teacher_resumes_bitwise(teacher, tmp_path):
    config = tagging_config(
        tmp_path,
        made_up(60, np.random.default_rng(2)),
        **{
            "train.teacher": teacher,
            "train.steps": 6,
            "checkpoint.every": 2,
            "model.dropout": 0.1,
            "data.length": 12,
        },
    )
    whole = finetune(config, workdir=str(tmp_path / "whole"))
    stop_at_first_checkpoint(finetune, config, tmp_path / "cut")
    again = finetune(config, workdir=str(tmp_path / "cut"))
    assert again["weights_sha256"] == whole["weights_sha256"]
    assert again["data_sha256"] == whole["data_sha256"] and "teacher" in whole["data_sha256"]


@pytest.mark.runs
def test_teachers_that_do_not_suit_are_an_error(teacher, tmp_path):
    config = tagging_config(
        tmp_path,
        made_up(20, np.random.default_rng(3), tags=["UP", "LOW", "NONE"]),
        **{"train.teacher": teacher},
    )
    with pytest.raises(UserError, match=r"for LOW, UP \(raw\); .*: LOW, NONE, UP \(raw\)"):
        finetune(config, workdir=str(tmp_path / "run"))
    config.train.teacher = str(tmp_path / "none")
    with pytest.raises(UserError, match="train.teacher: The folder .*none does not exist"):
        finetune(config, workdir=str(tmp_path / "run"))
