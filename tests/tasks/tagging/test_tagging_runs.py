"""Runs of tagging: training, resuming, prediction, evaluation, export and conversion."""

import json
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

import keras_attn
from keras_attn import finetune, load
from keras_attn.defaults import default_config, finetuning_defaults
from keras_attn.errors import UserError
from keras_attn.export.saved_model import export
from keras_attn.inference.evaluate import evaluate
from keras_attn.inference.predict_files import predict_file, predict_texts
from tests.support.stopped_runs import stop_at_first_checkpoint

pytestmark = pytest.mark.runs
HUGGING_FACE = pathlib.Path(__file__).parents[2] / "golden/hugging_face"
TITLES = {"mr": "PER", "lake": "LOC"}


def made_up(count, seed=0):
    """Sentences in which a title and the word after it are an entity."""
    random, found = np.random.default_rng(seed), []
    for _ in range(count):
        words, tags = [], []
        while len(words) < random.integers(3, 9):
            if random.random() < 0.4:
                title = str(random.choice([*TITLES]))
                words += [title, str(random.choice(["wu", "wanda", "abc"]))]
                tags += [f"B-{TITLES[title]}", f"I-{TITLES[title]}"]
            else:
                words.append(str(random.choice(["wu", "and", "sees", "wanda", "."])))
                tags.append("O")
        found.append((words, tags))
    return found


def write_conll(path, sentences):
    path.write_text(
        "".join(
            "".join(f"{word} X {tag}\n" for word, tag in zip(*sentence, strict=True)) + "\n"
            for sentence in sentences
        )
    )
    return str(path)


def tagging_config(folder, family=None, **fields):
    train = write_conll(folder / "train.conll", made_up(200))
    config = default_config("tagging", family) if family else finetuning_defaults()
    config.update_from_flattened_dict(
        {
            "data.task": "tagging",
            "data.train": train,
            "data.validation": train,
            "data.vocab_size": 90,
            "train.steps": 4,
            "train.batch_size": 16,
            "train.learning_rate": 0.005,
            "model.dropout": 0.0,
            **fields,
        }
    )
    if family:
        config.model.family = family
    return config


@pytest.fixture(scope="module", params=[False, True], ids=["softmax", "crf"])
def tagger(request, tmp_path_factory):
    """The workdir of a tagger that knows its training data, and its results and config."""
    folder = tmp_path_factory.mktemp("tagger")
    config = tagging_config(
        folder,
        **{"train.steps": 100, "eval.every": 50, "eval.metric": "f1", "model.crf": request.param},
    )
    return folder / "run", finetune(config, workdir=str(folder / "run")), config


def test_a_small_model_learns_its_data_by_heart(tagger):
    workdir, results, _ = tagger
    assert results["f1"] == results["accuracy"] == 1.0
    # Words like "wu" have several tags.
    assert 0 < results["to_beat"]["f1"] < 0.9
    assert {kind: own["f1"] for kind, own in results["types"].items()} == {"LOC": 1.0, "PER": 1.0}
    labels = json.loads((workdir / "labels.json").read_text())
    assert labels["scheme"] == "iob2"
    assert set(labels["names"]) == {"O", "B-PER", "I-PER", "B-LOC", "I-LOC"}
    assert "most frequent tag of each word" in (workdir / "report.html").read_text()


def test_the_same_call_resumes_and_has_the_same_results(tagger):
    workdir, results, config = tagger
    again = finetune(config, workdir=str(workdir))
    names = ("f1", "accuracy", "weights_sha256", "steps")
    assert {name: again[name] for name in names} == {name: results[name] for name in names}


def test_evaluation_is_by_the_tags_that_are_predicted(tagger, tmp_path):
    workdir, _, _ = tagger
    sentences = made_up(20, seed=1)
    path = write_conll(tmp_path / "test.conll", sentences)
    found = evaluate(str(workdir), path, batch_size=3)
    assert found["examples"] == 20 and found["words"] == sum(len(w) for w, _ in sentences)
    model = load(str(workdir))
    tags = [row["tags"] for row in model.tag([words for words, _ in sentences])]
    right = [
        a == b
        for own, row in zip(tags, sentences, strict=True)
        for a, b in zip(own, row[1], strict=True)
    ]
    assert found["accuracy"] == pytest.approx(np.mean(right)) and found["f1"] > 0.9
    write_conll(tmp_path / "test.conll", [(["x", "y"], ["O", "B-ORG"])])
    with pytest.raises(UserError, match="'B-ORG' in .*test.conll, line 2"):
        evaluate(str(workdir), path)


def test_evaluation_reads_data_of_another_scheme(tagger, tmp_path):
    workdir, _, _ = tagger
    sentences = made_up(20, seed=1)
    expected = evaluate(str(workdir), write_conll(tmp_path / "iob2.conll", sentences))
    # In IOB1 the first word of an entity has I-, unless one of the same type precedes it.
    iob1 = []
    for words, tags in sentences:
        pairs = zip(["O", *tags], tags, strict=False)
        iob1.append((words, [t if t[2:] == a[2:] else t.replace("B-", "I-") for a, t in pairs]))
    path = write_conll(tmp_path / "iob1.conll", iob1)
    with pytest.raises(UserError, match=r"scheme iob2 \(data.scheme, --scheme\)"):
        evaluate(str(workdir), path)
    assert evaluate(str(workdir), path, scheme="iob1") == expected


def test_entities_of_raw_texts_have_their_characters(tagger, tmp_path):
    workdir, _, _ = tagger
    text = "Wu sees  MR  Wanda,and lake abc."
    (found,) = load(str(workdir)).predict([text])
    assert [text[word["start"] : word["end"]] for word in found["words"]] == [
        "Wu", "sees", "MR", "Wanda", ",", "and", "lake", "abc", "."
    ]  # fmt: skip
    places = [(e["type"], e["text"], e["start"], e["end"]) for e in found["entities"]]
    assert places == [("PER", "MR  Wanda", 9, 18), ("LOC", "lake abc", 23, 31)]
    assert all(text[e["start"] : e["end"]] == e["text"] for e in found["entities"])
    predict_texts(str(workdir), [text, ""], output=str(tmp_path / "out.conll"))
    lines = (tmp_path / "out.conll").read_text().split("\n")
    assert lines[2:4] == ["MR\tB-PER", "Wanda\tI-PER"] and lines[-3:] == ["", "", ""]
    export(str(workdir), str(tmp_path / "exported"))
    served = tf.saved_model.load(str(tmp_path / "exported"))
    outputs = served.signatures["serving_default"](text=tf.constant([text, "", "mr 我 \u200b"]))
    tags = [word["tag"].encode() for word in found["words"]]
    assert outputs["tags"][0].numpy().tolist() == tags
    assert outputs["words"][1].numpy().tolist() == [b""] * 9
    assert [word.decode() for word in outputs["words"][2, :4].numpy()] == ["mr", "我", "\u200b", ""]
    spans = zip(outputs["start"][2, :2].numpy(), outputs["end"][2, :2].numpy(), strict=True)
    assert [*spans] == [(0, 2), (3, 6)]  # bytes
    np.testing.assert_allclose(
        outputs["probabilities"][0], [word["probability"] for word in found["words"]], atol=1e-5
    )


@pytest.mark.parametrize("ending", ["conll", "jsonl", "txt"])
def test_files_of_words_and_of_texts_are_predicted(tagger, tmp_path, ending):
    workdir, _, _ = tagger
    sentences = made_up(5, seed=2)
    path, output = tmp_path / f"in.{ending}", tmp_path / "out.jsonl"
    if ending == "conll":
        write_conll(path, sentences)
    elif ending == "jsonl":
        path.write_text("".join(json.dumps({"tokens": words}) + "\n" for words, _ in sentences))
    else:
        path.write_text("".join(" ".join(words) + "\n" for words, _ in sentences))
    predict_file(str(workdir), str(path), str(output), batch_size=2)
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    found = [
        row["tags"] if "tags" in row else [word["tag"] for word in row["words"]] for row in rows
    ]
    assert found == [tags for _, tags in sentences]


def test_long_sentences_are_predicted_in_windows(tagger):
    model = load(str(tagger[0]))
    (words, tags) = (sum(part, []) for part in zip(*made_up(60), strict=True))
    (found,) = model.tag([words])
    assert len(found["tags"]) == len(words) > 3 * model.length and not model.cut[model.length]
    assert np.mean([a == b for a, b in zip(found["tags"], tags, strict=True)]) > 0.9
    assert model.tag([]) == [] and model.tag([[]]) == [{"tags": [], "probabilities": []}]
    with pytest.raises(UserError, match="list of lists of words"):
        model.tag(["a text"])


def test_a_model_of_transformers_is_finetuned_and_converted_back(tmp_path):
    # Its tags have another order than those of a new run, so the head is newly initialized.
    config = tagging_config(tmp_path, pretrained=str(HUGGING_FACE / "tagger"))
    finetune(config, workdir=str(tmp_path / "run"))
    keras_attn.convert(str(tmp_path / "run"), str(tmp_path / "other"), format="huggingface")
    words = [["mr", "wu", "sees", "lake", "abc"]]
    (wanted,), (found,) = (load(str(tmp_path / name)).tag(words) for name in ("run", "other"))
    assert found["tags"] == wanted["tags"]
    np.testing.assert_allclose(found["probabilities"], wanted["probabilities"], atol=1e-6)
    config = tagging_config(
        tmp_path, **{"pretrained": str(tmp_path / "run"), "train.learning_rate": 1e-9}
    )
    results = finetune(config, workdir=str(tmp_path / "again"))
    first = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["accuracy"] == first["accuracy"] and results["loss"] == pytest.approx(
        first["loss"], rel=1e-3
    )  # the head is kept
    config = tagging_config(
        tmp_path, **{"pretrained": str(HUGGING_FACE / "tagger"), "model.crf": True}
    )
    finetune(config, workdir=str(tmp_path / "crf"))
    with pytest.raises(UserError, match="without a conditional random field"):
        keras_attn.convert(str(tmp_path / "crf"), str(tmp_path / "no"), format="huggingface")


def test_a_killed_run_resumes_bitwise(tmp_path):
    fields = {"model.dropout": 0.1, "checkpoint.every": 2, "eval.every": 2, "eval.metric": "f1"}
    config = tagging_config(tmp_path, **fields, **{"model.crf": True, "data.length": 10})
    whole = finetune(config, workdir=str(tmp_path / "whole"))
    stop_at_first_checkpoint(finetune, config, tmp_path / "cut")
    again = finetune(config, workdir=str(tmp_path / "cut"))
    assert again["weights_sha256"] == whole["weights_sha256"]


@pytest.mark.parametrize("family", ["attentive_lstm", "lstmn", "attentive_cnn", "hierarchical"])
def test_other_families_learn(tmp_path, family):
    fields = {"train.steps": 50, "train.learning_rate": 0.02, "model.hidden_dim": 16}
    config = tagging_config(tmp_path, family, **fields, **{"model.word_vector": "mean"})
    results = finetune(config, workdir=str(tmp_path / "run"))
    assert results["accuracy"] > results["to_beat"]["accuracy"]


@pytest.mark.parametrize("name", ["gpt2", "xlnet"])
def test_pretrained_language_models_are_finetuned(tmp_path, name):
    pretrained = str(HUGGING_FACE.with_name("language_models") / name)
    config = tagging_config(tmp_path, name, pretrained=pretrained)
    finetune(config, workdir=str(tmp_path / "run"))
    (found,) = load(str(tmp_path / "run")).predict(["mr wu sees"])
    assert [word["text"] for word in found["words"]] == ["mr", "wu", "sees"]


def test_the_crf_has_its_own_learning_rate(tmp_path):
    kernels = {}
    for rate in (1e-9, 0.1):
        config = tagging_config(
            tmp_path,
            **{"model.crf": True, "train.crf_learning_rate": rate, "train.weight_decay": 0.5},
        )
        finetune(config, workdir=str(tmp_path / f"{rate}"))
        kernels[rate] = load(str(tmp_path / f"{rate}")).model.crf_layer.transitions.numpy()
    assert np.abs(kernels[1e-9]).max() < 1e-7 and np.abs(kernels[0.1]).max() > 0.1


def test_a_head_of_the_same_tags_is_kept(tmp_path):
    first = tagging_config(tmp_path, **{"train.steps": 60})
    finetune(first, workdir=str(tmp_path / "first"))
    # In the order of a model of another library.
    labels = json.loads((tmp_path / "first" / "labels.json").read_text())
    assert labels["names"] == ["B-LOC", "B-PER", "I-LOC", "I-PER", "O"]
    second = tagging_config(
        tmp_path, **{"pretrained": str(tmp_path / "first"), "train.learning_rate": 1e-9}
    )
    assert finetune(second, workdir=str(tmp_path / "second"))["f1"] == 1.0


def test_raw_tags_and_bad_fields(tmp_path, capsys):
    config = tagging_config(tmp_path, **{"data.label": "1", "data.train": str(tmp_path / "a.txt")})
    (tmp_path / "a.txt").write_text("a N\nb V\n\nc N\n")
    config.data.validation = None
    config.data.holdout = 0.0
    results = finetune(config, workdir=str(tmp_path / "run"))
    assert "accuracy" not in results and "2 tags (raw)" in capsys.readouterr().out
    shutil.rmtree(tmp_path / "run")
    for name, value, message in (
        ("data.pack", 2, "data.pack=1"),
        ("data.text_pair", "2", "data.text_pair must be unset"),
        ("data.scheme", "iob2", "'N' after the start of the sentence in .*a.txt, line 1"),
        ("eval.metric", "f1", "eval.metric"),
    ):
        bad = config.copy_and_resolve_references()
        bad.update_from_flattened_dict({name: value})
        with pytest.raises(UserError, match=message):
            finetune(bad, workdir=str(tmp_path / "run"))
        assert not (tmp_path / "run" / "labels.json").exists()
