"""Distillation: a masked language model that learns the predictions of another one."""

import json
import types

import ml_collections
import pytest

from keras_attn import load, pretrain
from keras_attn.errors import UserError
from keras_attn.tasks.masked_lm.teacher import check_teacher, tokenizer_of
from keras_attn.text.wordpiece import WordPieceTokenizer
from tests.support.small_language_models import config_of, write_texts
from tests.support.stopped_runs import stop_at_first_checkpoint

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"]


def check(
    pieces=PIECES, lowercase=True, size=7, positions=16, pretrained=None, text="a.txt", kind="a"
):
    trained = types.SimpleNamespace(
        tokenizer=WordPieceTokenizer(pieces, lowercase=lowercase),
        architecture={"vocabulary_size": size, "max_length": positions},
        family=types.SimpleNamespace(tokenizers=kind),
    )
    config = {"train": {"teacher": "runs/a"}, "data": {"length": 16, "train": str(text)}}
    run = types.SimpleNamespace(
        config=ml_collections.ConfigDict({**config, "pretrained": pretrained}),
        family=types.SimpleNamespace(tokenizers="a"),
    )
    check_teacher(run, trained, {"vocabulary_size": 7}, WordPieceTokenizer(PIECES))


@pytest.mark.parametrize(
    "changed, message",
    [
        (
            {"pieces": [*PIECES, "c"], "size": 8},
            "Leave data.vocab unset.*=runs/a with 8 tokens, .*run has 7 tokens, lowercase=True$",
        ),
        ({"pieces": [*PIECES[:6], "c"]}, "lowercase=True; token 6 is 'c', not 'b'$"),
        ({"lowercase": False}, "data.lowercase=False. .*lowercase=False; .*lowercase=True$"),
        ({"size": 8}, "with 8 tokens"),  # of a padded embedding matrix
        ({"positions": 15}, "data.length=16 exceeds the 15 positions of train.teacher"),
    ],
)
def test_a_teacher_that_reads_other_rows_is_an_error(changed, message):
    check()
    with pytest.raises(UserError, match=message):
        check(**changed)


def test_a_teacher_whose_vocabulary_the_run_cannot_have_is_not_given_to_data_vocab(tmp_path):
    other = {"pieces": [*PIECES, "c"], "size": 8}
    (tmp_path / "index.json").write_text("{}")
    for changed, advice in (
        ({"pretrained": "runs/b"}, r"data.lowercase\. Choose another teacher\."),
        ({"kind": "b"}, r"data.lowercase\. Choose another teacher\."),
        ({"text": tmp_path}, "Prepare the text in another folder, with --vocab=runs/a --lowercase"),
    ):
        with pytest.raises(UserError, match=advice):
            check(**other, **changed)


def test_the_tokenizer_of_a_teacher_is_used_by_its_family():
    kind, tokenizer = object(), object()
    trained = types.SimpleNamespace(
        family=types.SimpleNamespace(tokenizers=kind), tokenizer=tokenizer
    )
    for own, wanted in ((kind, tokenizer), (object(), None)):
        run = types.SimpleNamespace(family=types.SimpleNamespace(tokenizers=own))
        assert tokenizer_of(run, trained) is wanted and not tokenizer_of(run, None)


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    write_texts(folder / "train.txt", 60, 0)
    write_texts(folder / "valid.txt", 20, 1)
    return folder


@pytest.fixture(scope="module")
def teacher(texts):
    """The workdir of a masked language model, and its results."""
    config = config_of(texts, "wordpiece", **{"train.steps": 150, "train.batch_size": 16})
    return str(texts / "run"), pretrain(config, workdir=str(texts / "run"))


def student_config(texts, teacher, **fields):
    own = {"train.teacher": teacher[0], "model.hidden_dim": 16, "data.vocab_size": 150}
    return config_of(texts, "wordpiece", **{**own, **fields})


@pytest.mark.runs
def test_a_student_learns_from_its_teacher_alone(texts, teacher, tmp_path):
    fields = {"train.distillation": 1.0, "train.steps": 300, "train.batch_size": 16}
    config = student_config(texts, teacher, **fields, **{"train.learning_rate": 0.02})
    results = pretrain(config, workdir=str(tmp_path / "run"))
    assert teacher[1]["mlm_accuracy"] > 0.8 and results["mlm_accuracy"] > 0.6
    saved = json.loads((tmp_path / "run/config.json").read_text())
    assert saved["heads"]["distillation"] == 1.0 and "teacher" in saved["data_sha256"]
    student, expert = load(str(tmp_path / "run")), load(teacher[0])
    assert student.tokenizer.vocabulary == expert.tokenizer.vocabulary
    assert student.model.count_params() < 0.6 * expert.model.count_params()


@pytest.mark.runs
def test_a_stopped_run_with_a_teacher_resumes_bitwise(texts, teacher, tmp_path):
    fields = {"checkpoint.every": 2, "model.dropout": 0.1, "data.pack": 4}
    config = student_config(texts, teacher, **fields)
    whole = pretrain(config, workdir=str(tmp_path / "whole"))
    stop_at_first_checkpoint(pretrain, config, tmp_path / "cut")
    again = pretrain(config, workdir=str(tmp_path / "cut"))
    assert again["weights_sha256"] == whole["weights_sha256"]


@pytest.mark.runs
@pytest.mark.parametrize("jit", [False, True])
def test_two_devices_learn_the_same_as_one(texts, teacher, tmp_path, jit):
    fields = {"model.dropout": 0.0, "train.learning_rate": 0.001}
    config = student_config(texts, teacher, **fields)
    one = pretrain(config, workdir=str(tmp_path / "one"), strategy="one_device")
    config.train.jit, config.train.accumulate = jit, 2
    two = pretrain(config, workdir=str(tmp_path / "two"), strategy="mirrored")
    for name in ("mlm_loss", "nsp_loss"):
        assert two[name] == pytest.approx(one[name], rel=1e-4)
    records = [
        [json.loads(line) for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]
        for name in ("one", "two")
    ]
    for own, other in zip(*records, strict=True):
        assert own["mlm_loss"] == pytest.approx(other["mlm_loss"], rel=1e-4)


@pytest.mark.runs
def test_teachers_that_do_not_suit_are_an_error(texts, teacher, tmp_path):
    (tmp_path / "vocab.txt").write_text("".join(f"{piece}\n" for piece in [*PIECES, "cat"]))
    for fields, message in (
        ({"data.vocab": str(tmp_path / "vocab.txt")}, "must have the vocabulary of the run"),
        ({"train.teacher": str(tmp_path / "none")}, "train.teacher: The folder .* does not exist"),
        ({"train.teacher": None, "train.distillation": 0.5}, "requires train.teacher"),
    ):
        config = student_config(texts, teacher, **fields)
        with pytest.raises(UserError, match=message):
            pretrain(config, workdir=str(tmp_path / "run"))
        assert not (tmp_path / "run").exists()
