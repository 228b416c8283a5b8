"""Tiny RoBERTa, DistilBERT, ELECTRA and ModernBERT: pretrained, then finetuned for each task."""

import json

import numpy as np
import pytest
import tensorflow as tf

from keras_attn import finetune, load, pretrain
from keras_attn.convert import read
from keras_attn.defaults import default_config
from keras_attn.export.saved_model import export
from tests.support import squad_files

pytestmark = pytest.mark.runs
PRETRAINING = {
    "roberta": "masked_lm",
    "distilbert": "masked_lm",
    "electra": "replaced_tokens",
    "modernbert": "masked_lm",
}
CLASSES = ("bad", "fair", "good")
TEXTS = ["good film 7", "", "It's a  bad,\n\n fair   [MASK] film 😀 " * 9]
# Task: metric that the run reaches 0.9 of, and fields of its config.
TASKS = {
    "classification": (
        "accuracy",
        {"data.text": "text", "data.label": "class"},
    ),
    "tagging": ("f1", {"data.task": "tagging"}),
    "span_qa": ("f1", {"data.task": "reading_comprehension", "data.max_question": 4}),
    "embedding": (
        "mrr",
        {"data.task": "embedding", "data.text": "text", "data.text_pair": "pair"},
    ),
}
# With the tokenizers of ModernBERT and RoBERTa inside; those with WordPiece are exported as BERT.
EXPORTED = {
    "modernbert": ("classification", "tagging", "embedding"),
    "roberta": ("tagging", "embedding"),  # classification in test_roberta_and_distilbert.py
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Data of each task, as `<task>.*`, and texts."""
    folder = tmp_path_factory.mktemp("encoders")
    draw = np.random.default_rng(0)
    rows = [
        {
            "text": f"{CLASSES[k]} " * draw.integers(1, 5) + f"film {n}",
            "pair": f"Film {n} is {CLASSES[k]}.",
            "class": CLASSES[k],
        }
        for n, k in enumerate(draw.integers(0, 3, 60).tolist())
    ]
    for task in ("classification", "embedding"):
        count = 60 if task == "classification" else 16
        lines = "".join(json.dumps(row) + "\n" for row in rows[:count])
        (folder / f"{task}.jsonl").write_text(lines)
    (folder / "texts.txt").write_text("".join(f"{row['text']}\n{row['pair']}\n\n" for row in rows))
    lines = "".join(f"film O\n{CLASSES[n % 3]} B-X\n{n} O\n\n" for n in range(24))
    (folder / "tagging.txt").write_text(lines)
    passages = [
        squad_files.paragraph(
            f"The film {n} was {CLASSES[n % 3]}.", (str(n), "How?", CLASSES[n % 3])
        )
        for n in range(24)
    ]
    squad_files.write(folder / "span_qa.json", *passages)
    return folder


@pytest.fixture(scope="module", params=PRETRAINING)
def pretrained(request, folder):
    """The name of a family, and the workdir of a pretrained model of it."""
    family = request.param
    config = default_config(PRETRAINING[family], family)
    texts = str(folder / "texts.txt")
    config.update_from_flattened_dict(
        {
            "data.train": texts,
            "data.validation": texts,
            "data.format": "lines",
            "data.length": 32,
            "data.vocab_size": 280,
            "train.steps": 30,
            "train.batch_size": 8,
            "model.num_layers": 1,
            "model.hidden_dim": 32,
            "model.num_heads": 2,
            "model.max_length": 40,
        }
    )
    pretrain(config, workdir=str(folder / family))
    return family, folder / family


@pytest.mark.parametrize("task", TASKS)
def test_a_pretrained_encoder_is_finetuned_and_predicts(pretrained, task, folder, tmp_path):
    family, start = pretrained
    metric, fields = TASKS[task]
    (data,) = map(str, folder.glob(f"{task}.*"))
    config = default_config(task, family)
    config.update_from_flattened_dict(
        {
            "pretrained": str(start),
            "data.train": data,
            "data.validation": data,
            "data.length": 32,
            "train.steps": 60,
            "train.batch_size": 16,
            "train.learning_rate": 0.01,
            "eval.report": False,
            **fields,
        }
    )
    results = finetune(config, workdir=str(tmp_path / "run"))
    assert read(tmp_path / "run").family.name == family
    assert results[metric] > 0.9
    model = load(str(tmp_path / "run"))
    CHECKS[task](model)
    if task in EXPORTED.get(family, ()):
        export(str(tmp_path / "run"), str(tmp_path / "served"))
        loaded = tf.saved_model.load(str(tmp_path / "served"))
        served = {name: x.numpy() for name, x in loaded.serve(tf.constant(TEXTS)).items()}
        SERVED[task](model, served)


def check_classes(model):
    found = model.predict(["good good film 3", "bad film"])
    assert [row["label"] for row in found] == ["good", "bad"]


def check_tags(model):
    (found,) = model.predict(["film good 7"])
    assert [word["tag"] for word in found["words"]] == ["O", "B-X", "O"]


def check_answer(model):
    found = model.answer("How?", "The film 3 was bad.")
    assert found["answer"] == "bad" and (found["start"], found["end"]) == (15, 18)


def check_search(model):
    ((found,),) = model.search(["fair film 5"], ["Film 1 is bad.", "Film 5 is fair."], top_k=1)
    assert found["text"] == "Film 5 is fair."


CHECKS = {
    "classification": check_classes,
    "tagging": check_tags,
    "span_qa": check_answer,
    "embedding": check_search,
}


def check_served_probabilities(model, served):
    np.testing.assert_allclose(served["probabilities"], model.probabilities(TEXTS), 1e-5, 1e-6)


def check_served_tags(model, served):
    for number, found in enumerate(model.predict(TEXTS)):
        tags = [tag.decode() for tag in served["tags"][number] if tag]
        # The last words of a text that is too long are dropped.
        assert tags == [word["tag"] for word in found["words"]][: len(tags)]
        assert len(tags) == len(found["words"]) or len(tags) > 5


def check_served_vectors(model, served):
    np.testing.assert_allclose(served["embedding"], model.embed(TEXTS), atol=1e-5)


SERVED = {
    "classification": check_served_probabilities,
    "tagging": check_served_tags,
    "embedding": check_served_vectors,
}
