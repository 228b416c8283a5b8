"""Distillation: a classifier that learns the predictions of another one."""

import json
import types

import numpy as np
import pytest

from keras_attn import finetune, load
from keras_attn.data.packing import pack
from keras_attn.data.text_examples import TextExamples
from keras_attn.defaults import finetuning_defaults
from keras_attn.errors import UserError
from keras_attn.tasks.classification.teacher import teacher_logits
from keras_attn.text.wordpiece import WordPieceTokenizer

NAMES = ("bad", "fair", "good")
PREDICTED = np.array([[0.2, 0.5, 0.3], [1.0, 0.0, 0.0]])


class _Teacher:
    path, kind, pairs, labels = "runs/teacher", "single_label", None, ["good", "bad", "fair"]

    def probabilities(self, texts, text_pairs=None):
        return PREDICTED[:, [2, 0, 1]]  # in the order of its labels


class _Table:
    texts, text_pairs = ["a", "b"], None

    def __len__(self):
        return 2


RUN = types.SimpleNamespace(say=lambda *_: None)


def test_classes_are_matched_by_name_and_logits_are_finite():
    found = teacher_logits(RUN, _Teacher(), _Table(), NAMES, "single_label")
    assert found.dtype == np.float32 and np.isfinite(found).all()
    shares = np.exp(found) / np.exp(found).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(shares, PREDICTED, atol=1e-6)


@pytest.mark.parametrize(
    "changed, message",
    [
        (
            {"labels": ["good", "bad"]},
            r"=runs/teacher for single_label \(good, bad\); .*: single_label \(bad, fair, good\)",
        ),
        ({"kind": "multilabel"}, "for multilabel .*data: single_label .*single texts"),
        ({"pairs": True}, "pairs of texts; .*single texts"),
    ],
)
def test_a_teacher_of_other_labels_is_an_error(changed, message):
    teacher = _Teacher()
    vars(teacher).update(changed)
    with pytest.raises(UserError, match=message):
        teacher_logits(RUN, teacher, _Table(), NAMES, "single_label")


def test_logits_stay_with_their_rows_in_windows_and_packed_rows():
    words = [f"w{n}" for n in range(30)]
    tokenizer = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words])
    random = np.random.default_rng(0)
    texts = [" ".join(words[n : n + length]) for n, length in enumerate(random.integers(1, 20, 10))]
    logits = np.stack([np.arange(10), 100 + np.arange(10)], axis=1).astype(np.float32)
    examples = TextExamples(
        texts,
        None,
        np.arange(10, dtype=np.int32),
        tokenizer,
        length=8,
        batch_size=4,
        windows=2,
        row_fields={"teacher_logits": logits},
    )
    for number in range(examples.num_batches):
        batch = examples.batch(number)
        real = batch["sample_weight"] > 0
        np.testing.assert_array_equal(batch["teacher_logits"][real], logits[batch["label"][real]])
    rows = np.repeat(np.arange(2), 2)
    packed = pack(examples.batch(0), rows, count=2, length=16, most=2)
    used = packed["sample_weight"] > 0
    np.testing.assert_array_equal(packed["teacher_logits"][used], logits[packed["label"][used]])


@pytest.mark.parametrize(
    "task, field",
    [
        ("tagging", "data.group"),
        ("embedding", "data.group"),
        ("reading_comprehension", "train.teacher"),
        ("reading_comprehension", "data.group"),
    ],
)
def test_other_tasks_have_no_groups_and_some_no_teachers(task, field, tmp_path):
    config = finetuning_defaults()
    config.update_from_flattened_dict({"data.task": task, "data.train": "x.jsonl", field: "runs/a"})
    with pytest.raises(UserError, match=rf"{field} must be unset.*Received: {field}=runs/a"):
        finetune(config, workdir=str(tmp_path / "run"))


@pytest.mark.runs
def test_a_student_learns_the_predictions_of_its_teacher(tmp_path):
    random = np.random.default_rng(0)

    def write(name, labels):
        rows = [
            {"text": f"a {label} film {n}", "label": given}
            for n, (label, given) in enumerate(labels)
        ]
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
        return str(tmp_path / name)

    true = [NAMES[n] for n in random.integers(0, 3, 120)]
    config = finetuning_defaults()
    config.update_from_flattened_dict(
        {
            "data.train": write("train.jsonl", [(label, label) for label in true]),
            "data.text": "text",
            "data.label": "label",
            "data.vocab_size": 100,
            "train.steps": 60,
            "train.batch_size": 16,
            "train.learning_rate": 2e-3,
            "eval.report": False,
        }
    )
    finetune(config, workdir=str(tmp_path / "teacher"))
    teacher = load(str(tmp_path / "teacher"))
    mixed = [(label, NAMES[n]) for label, n in zip(true, random.integers(0, 3, 120), strict=True)]
    config.data.train = write("mixed.jsonl", mixed)  # labels say nothing
    config.train.teacher, config.train.distillation = str(tmp_path / "teacher"), 1.0
    finetune(config, workdir=str(tmp_path / "student"))
    student, texts = load(str(tmp_path / "student")), [f"a {label} film" for label in NAMES]
    for expected, found in zip(teacher.predict(texts), student.predict(texts), strict=True):
        assert expected["label"] == found["label"]
        for name in NAMES:
            assert found["probabilities"][name] == pytest.approx(
                expected["probabilities"][name], abs=0.1
            )
    saved = json.loads((tmp_path / "student/config.json").read_text())
    assert saved["heads"]["distillation"] == 1.0 and "teacher" in saved["data_sha256"]
