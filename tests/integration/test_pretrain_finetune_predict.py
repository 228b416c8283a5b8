"""From text to predictions with the commands and from Python."""

import csv
import functools
import hashlib
import json
import re
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

import keras_attn
from keras_attn.data.sources.table_formats import FORMATS
from keras_attn.defaults import finetuning_defaults
from keras_attn.errors import UserError
from keras_attn.inference.predict_files import predict_file, predict_texts
from keras_attn.tasks.finetuning.choices import rows_drawn
from keras_attn.tasks.pretraining.masked_examples import PretrainingExamples
from keras_attn.text.wordpiece import WordPieceTokenizer
from keras_attn.workdir import Workdir
from tests.support.started_commands import ROOT, results, run, steps_recorded

pytestmark = pytest.mark.runs


def test_the_loss_per_character_is_computed_from_masked_words(pretrained):
    found, config = results(pretrained), json.loads((pretrained / "config.json").read_text())
    data = config["config"]["data"]
    tokenizer = WordPieceTokenizer.from_file(str(pretrained / "vocab.txt"), data["lowercase"])
    examples = PretrainingExamples(
        str(pretrained / "data/validation"),
        tokenizer,
        exact=True,
        length=data["length"],
        max_predictions=data["max_predictions"],
    )
    rows = examples.rows(0, examples.num_examples)
    hidden = [
        tokenizer.vocabulary[number].removeprefix("##")
        for number in rows["mask_ids"][rows["mask_weights"] > 0]
    ]
    assert found["mlm_loss_per_character"] * len("".join(hidden)) == pytest.approx(
        found["mlm_loss"] * len(hidden)
    )


def test_pretraining_writes_a_workdir_with_results(pretrained, texts):
    found = results(pretrained)
    assert found["steps"] == 20 and found["examples"] == 160
    assert {
        "mlm_accuracy",
        "mlm_loss",
        "nsp_accuracy",
        "nsp_loss",
        "seconds",
        "examples_per_second",
        "weights_sha256",
    } <= set(found)
    assert {"keras", "tensorflow", "numpy", "python", "keras_attn"} <= set(found["versions"])
    assert {"vocab.txt", "train/shard-00000-000.npz"} <= set(found["data_sha256"])
    for name in ("train.txt", "valid.txt"):
        sha = hashlib.sha256((texts / name).read_bytes()).hexdigest()
        assert found["data_sha256"][str(texts / name)] == sha
    assert steps_recorded(pretrained) == list(range(1, 21))
    names = {path.name for path in pretrained.iterdir()}
    assert names >= {
        "config.json",
        "vocab.txt",
        "checkpoints",
        "metrics.jsonl",
        "results.json",
        "events",
        "model.keras",
        "data",
    }


def test_the_classifier_learned_the_sentiment_words(finetuned):
    assert results(finetuned)["accuracy"] > 0.9


def test_predictions_of_a_file_keep_its_order_and_equal_those_from_python(finetuned, tmp_path):
    rows = [("bas ben bin bas", "good"), ("tas ten tin", "bad"), ("", "?")] * 40
    texts = [text for text, _ in rows]
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps({"text": t, "other": 1}) + "\n" for t in texts))
    _, err = run(
        "finetune.predict",
        f"--workdir={finetuned}",
        f"--input={source}",
        f"--output={tmp_path / 'out.tsv'}",
    )
    assert "120 rows predicted, 0 skipped" in err
    head, *lines = (tmp_path / "out.tsv").read_text().splitlines()
    assert head == "label\tbad\tgood" and len(lines) == 120
    known = keras_attn.load(finetuned).predict(texts)
    for line, row, (_, wanted) in zip(lines, known, rows, strict=True):
        label, *shares = line.split("\t")
        assert label == row["label"] and label == (wanted if wanted != "?" else label)
        np.testing.assert_allclose(
            [float(s) for s in shares], list(row["probabilities"].values()), atol=2e-6
        )


def test_a_prediction_depends_neither_on_its_batch_nor_on_padding(finetuned):
    predictor = keras_attn.load(finetuned)
    texts = ["bas", "tas ten " * 15, "ben kon", "", "lun tas bas"] * 3
    together = predictor.predict(texts)
    for size in (1, 4):
        apart = predictor.predict(texts, batch_size=size)
        for a, b in zip(together, apart, strict=True):
            assert a["label"] == b["label"]
            np.testing.assert_allclose(
                list(a["probabilities"].values()), list(b["probabilities"].values()), atol=1e-6
            )


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_a_missing_text_is_an_error(finetuned, missing):
    with pytest.raises(UserError, match=f"Texts must be strings. Received: {missing} as text 2"):
        keras_attn.load(finetuned).predict(["bas", missing])


def test_every_line_of_a_text_file_has_a_row(finetuned, tmp_path):
    (tmp_path / "in.txt").write_text("bas ben bin\n\ntas ten\n\n")
    predict_file(finetuned, str(tmp_path / "in.txt"), str(tmp_path / "out.csv"))
    head, *rows = csv.reader((tmp_path / "out.csv").open())
    assert head == ["label", "bad", "good"] and len(rows) == 4
    assert [rows[0][0], rows[2][0], rows[1]] == ["good", "bad", rows[3]]


@pytest.mark.parametrize(("name", "content"), [("out.tsv", "label\tbad\tgood\n"), ("o.jsonl", "")])
def test_no_rows_give_no_rows(finetuned, tmp_path, name, content):
    (tmp_path / "in.tsv").write_text("text\n")
    predict_file(finetuned, str(tmp_path / "in.tsv"), str(tmp_path / name))
    assert (tmp_path / name).read_text() == content


def _finetune(workdir, finetuned, **fields):
    config = finetuning_defaults()
    config.update_from_flattened_dict(
        {
            "data.length": 16,
            "data.vocab": str(finetuned / "vocab.txt"),
            "train.steps": 2,
            "train.batch_size": 8,
            "data.holdout": 0.0,
            **fields,
        }
    )
    return keras_attn.finetune(config, workdir=str(workdir))


_loaded = functools.cache(keras_attn.load)


def _assert_predicted(workdir, source, texts, folder, **options):
    """Predictions of a file equal predictions of its texts from Python."""
    predict_file(workdir, str(source), str(folder / "out.jsonl"), **options)
    found = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
    for row, known in zip(found, _loaded(workdir).predict(texts), strict=True):
        assert row["label"] == known["label"]
        np.testing.assert_allclose(
            list(row["probabilities"].values()), list(known["probabilities"].values()), atol=1e-6
        )


@pytest.mark.slow
def test_the_file_format_is_given_detected_from_the_name_or_as_in_training(finetuned, tmp_path):
    texts = ["bas ben", "tas kon ten lun"]
    (tmp_path / "rows.all").write_text("good bas ben\nbad tas kon ten lun\n")
    (tmp_path / "new.all").write_text("? bas ben\n? tas kon ten lun\n")
    (tmp_path / "new.txt").write_text("bas ben\ntas kon ten lun\n")
    (tmp_path / "new.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in texts))
    workdir = tmp_path / "spaced"
    _finetune(
        workdir,
        finetuned,
        **{"data.train": str(tmp_path / "rows.all"), "data.format": "label_text"},
    )
    for name in ("new.all", "new.txt", "new.jsonl"):
        _assert_predicted(workdir, tmp_path / name, texts, tmp_path)
    both = f"{tmp_path / 'new.all'},{tmp_path / 'new.txt'}"
    _assert_predicted(workdir, both, texts * 2, tmp_path)
    # A file name ending has the same format as in training.
    (tmp_path / "rows.txt").write_text("label\ttext\ngood\tbas ben\nbad\ttas kon ten lun\n")
    workdir = tmp_path / "table"
    _finetune(
        workdir,
        finetuned,
        **{
            "data.train": str(tmp_path / "rows.txt"),
            "data.format": "tsv",
            "data.text": "text",
            "data.label": "label",
        },
    )
    _assert_predicted(workdir, tmp_path / "rows.txt", texts, tmp_path)
    _assert_predicted(workdir, tmp_path / "new.jsonl", texts, tmp_path)
    _assert_predicted(workdir, tmp_path / "new.txt", texts, tmp_path, format="lines")


@pytest.mark.runs
def test_flags_select_how_a_file_is_read(finetuned, tmp_path):
    (tmp_path / "in.data").write_bytes(b"id,review\n1,bas ben\n2,na\xefve\n3,tas ten\n")
    flags = [
        f"--workdir={finetuned}",
        f"--input={tmp_path / 'in.data'}",
        "--format=csv",
        "--text_column=review",
    ]
    out, err = run("finetune.predict", *flags, "--on_bad_text=skip")
    assert [line.split("\t")[1:3] for line in out.splitlines()] == [
        ["line", "label"],
        ["2", "good"],
        ["4", "bad"],
    ]
    assert "line 3" in err and "2 rows predicted, 1 skipped (1 encoding)" in err
    _, err = run("finetune.predict", *flags, status=2)
    assert re.fullmatch("error: The text must be utf-8.*line 3\n", err)
    with pytest.raises(UserError, match="single texts.*Received: text_pair=id"):
        predict_file(finetuned, str(tmp_path / "in.data"), format="csv", text_pair="id")


def test_the_formats_of_the_flag_are_those_of_tables_and_of_other_tasks():
    out, _ = run("finetune.predict", "--help")
    listed = re.search(r"--format  <(.*?)>", out)[1].split("|")
    assert {*FORMATS, "conll", "conllu"} == {*listed} and len(listed) == len({*listed})


@pytest.mark.slow
def test_all_files_of_cola_are_predicted(finetuned, tmp_path):
    texts = ["Bas ben bin.", 'tas "kon ten', "lun"]
    rows = [f"gj04\t{i % 2}\t{'' if i % 2 else '*'}\t{text}" for i, text in enumerate(texts)]
    (tmp_path / "dev.tsv").write_text("\n".join(rows) + "\n")
    rows = ["index\tsentence", *(f"{i}\t{text}" for i, text in enumerate(texts))]
    (tmp_path / "test.tsv").write_text("\n".join(rows) + "\n")
    train = str(tmp_path / "dev.tsv")
    _finetune(tmp_path / "run", finetuned, **{"data.task": "cola", "data.train": train})
    for name in ("dev.tsv", "test.tsv"):
        _assert_predicted(tmp_path / "run", tmp_path / name, texts, tmp_path)


@pytest.mark.runs
def test_a_file_with_a_column_given_by_name_has_a_header_in_prediction_too(finetuned, tmp_path):
    texts = ["bas ben", "tas tin", "lun"]
    rows = ["label,text", *(f"{i % 2},{text}" for i, text in enumerate(texts))]
    (tmp_path / "in.csv").write_text("\n".join(rows) + "\n")
    columns = {"data.text": "1", "data.label": "label", "data.train": str(tmp_path / "in.csv")}
    _finetune(tmp_path / "run", finetuned, **columns)
    _assert_predicted(tmp_path / "run", tmp_path / "in.csv", texts, tmp_path)


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("gone/out.tsv", "="),
        ("out.csv.gz", "ends in"),
        ("folder", "ends in"),
        ("folder.tsv", "ends in"),
        ("out", "ends in"),
        ("in.tsv/out.tsv", "="),
    ],
)
def test_an_unwritable_output_is_an_error_before_any_work(tmp_path, output, message):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder.tsv").mkdir()
    (tmp_path / "in.tsv").write_text("text\nbas\n")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UserError, match=f"--output.*{message}.*{output}") as caught:
        predict_file("no run", str(tmp_path / "in.tsv"), str(tmp_path / output))
    assert "\n" not in str(caught.value)
    with pytest.raises(UserError, match=f"--output.*{message}.*{output}"):
        predict_texts("no run", ["bas"], output=str(tmp_path / output))
    with pytest.raises(UserError, match="The folder no run does not exist"):
        predict_file("no run", str(tmp_path / "in.tsv"), str(tmp_path / "out.tsv"))
    assert sorted(tmp_path.rglob("*")) == before


def test_predict_takes_texts_or_a_file(finetuned):
    _, err = run(
        "finetune.predict", f"--workdir={finetuned}", "--text=bas", "--input=in.tsv", status=2
    )
    assert err == "error: Give either --text or --input. Received: both\n"


def test_invalid_arguments_of_predict_are_errors(finetuned, pretrained):
    predictor = keras_attn.load(finetuned)
    assert predictor.predict([]) == []
    with pytest.raises(UserError, match="list of strings.*'bas'"):
        predictor.predict("bas")
    with pytest.raises(UserError, match="takes single texts"):
        predictor.predict([("bas", "ben")])
    with pytest.raises(UserError, match="does not support models for masked_lm"):
        predict_texts(str(pretrained), ["bas"])
    with pytest.raises(UserError, match="The folder nowhere does not exist"):
        keras_attn.load("nowhere")


@pytest.mark.runs
def test_a_limit_of_rows_keeps_all_classes(finetuned, tmp_path, capsys):
    rows = ["text\tlabel", *["bas\tmany"] * 40, "ben\tfew"]
    (tmp_path / "rows.tsv").write_text("\n".join(rows) + "\n")
    assert 40 not in rows_drawn(41, 3, seed=0)
    _finetune(
        tmp_path / "run",
        finetuned,
        **{
            "data.train": str(tmp_path / "rows.tsv"),
            "data.validation": str(tmp_path / "rows.tsv"),
            "data.text": "text",
            "data.label": "label",
            "data.limit": 3,
            "train.seed": 0,
        },
    )
    assert keras_attn.load(tmp_path / "run").labels == ["few", "many"]
    assert "warning: all training rows have the label 'many'" in capsys.readouterr().out


@pytest.mark.runs
def test_validation_from_tfds_is_its_validation_split(finetuned, tmp_path):
    splits = {"train": [["bas", "tas"], ["good", "bad"]], "validation": [["ben"], ["good"]]}
    for name, remaining in (("two_parts", splits), ("one_part", {"train": splits["train"]})):
        columns = {
            split: tf.data.Dataset.from_tensor_slices({"text": texts, "label": labels})
            for split, (texts, labels) in remaining.items()
        }
        tfds.dataset_builders.store_as_tfds_dataset(
            name=name,
            version="1.0.0",
            data_dir=tmp_path / "tfds",
            split_datasets=columns,
            features=tfds.features.FeaturesDict({"text": tf.string, "label": tf.string}),
        )
    tfds.core.add_data_dir(str(tmp_path / "tfds"))
    fields = {"data.text": "text", "data.label": "label", "data.train": "tfds:two_parts"}
    found = _finetune(
        tmp_path / "run", finetuned, **fields, **{"data.validation": "tfds:two_parts:1.0.0"}
    )
    of_rows = hashlib.sha256(b"ben\0\1" + b"\1" + b"good\0\1").hexdigest()
    assert found["data_sha256"]["validation rows"] == of_rows
    with pytest.raises(UserError, match="one of train, or .*Received: validation"):
        _finetune(tmp_path / "none", finetuned, **fields, **{"data.validation": "tfds:one_part"})


def test_a_run_killed_at_its_start_has_its_labels(finetuned, tmp_path, monkeypatch):
    start = Workdir.start

    def killed(self, *arguments, **options):
        start(self, *arguments, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(Workdir, "start", killed)
    (tmp_path / "rows.tsv").write_text("text\tlabel\nbas\tgood\ntas\tbad\n")
    with pytest.raises(KeyboardInterrupt):
        _finetune(
            tmp_path / "run",
            finetuned,
            **{
                "data.train": str(tmp_path / "rows.tsv"),
                "data.text": "text",
                "data.label": "label",
            },
        )
    assert Workdir(tmp_path / "run").read_json("labels.json")["names"] == ["bad", "good"]


def test_the_package_imports_neither_tensorflow_nor_keras():
    code = (
        "import sys, keras_attn; assert 'pretrain' in dir(keras_attn);"
        "print([m for m in ('tensorflow', 'keras', 'absl', 'torch') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert out.stdout.strip() == "[]", out.stderr
