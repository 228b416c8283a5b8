"""From text to predictions by the commands, and the same from Python."""

import csv
import json
import subprocess
import sys

import numpy as np
import pytest
from started_commands import ROOT, results, run, steps_recorded

import keras_attn
from keras_attn.errors import UserError
from keras_attn.jobs.predicting import predict_file


def test_pretraining_leaves_a_workdir_with_its_results(pretrained):
    found = results(pretrained)
    assert found["steps"] == 20 and found["examples"] == 160
    assert {"mlm_accuracy", "mlm_loss", "nsp_accuracy", "nsp_loss", "seconds",
            "examples_per_second", "weights_sha256"} <= set(found)
    assert {"keras", "tensorflow", "numpy", "python", "keras_attn"} <= set(found["versions"])
    assert {"vocab.txt", "train/shard-00000-000.npz"} <= set(found["data_sha256"])
    assert steps_recorded(pretrained) == list(range(1, 21))
    names = {path.name for path in pretrained.iterdir()}
    assert names >= {"config.json", "vocab.txt", "checkpoints", "metrics.jsonl", "results.json",
                     "events", "model.keras", "data"}


def test_the_classifier_learned_what_the_words_tell(finetuned):
    assert results(finetuned)["accuracy"] > 0.9


def test_predictions_of_a_file_keep_its_order_and_equal_those_from_python(finetuned, tmp_path):
    rows = [("bas ben bin bas", "good"), ("tas ten tin", "bad"), ("", "?")] * 40
    texts = [text for text, _ in rows]
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps({"text": t, "other": 1}) + "\n" for t in texts))
    _, err = run("finetune.predict", f"--workdir={finetuned}", f"--input={source}",
                 f"--output={tmp_path / 'out.tsv'}")
    assert "120 rows predicted, 0 skipped" in err
    head, *lines = (tmp_path / "out.tsv").read_text().splitlines()
    assert head == "label\tbad\tgood" and len(lines) == 120
    known = keras_attn.load(finetuned).predict(texts)
    for line, row, (_, wanted) in zip(lines, known, rows, strict=True):
        label, *shares = line.split("\t")
        assert label == row["label"] and label == (wanted if wanted != "?" else label)
        np.testing.assert_allclose(
            [float(s) for s in shares], list(row["probabilities"].values()), atol=2e-6)


def test_a_prediction_depends_neither_on_its_batch_nor_on_padding(finetuned):
    predictor = keras_attn.load(finetuned)
    texts = ["bas", "tas ten " * 15, "ben kon", "", "lun tas bas"] * 3
    together = predictor.predict(texts)
    for size in (1, 4):
        apart = predictor.predict(texts, batch_size=size)
        for a, b in zip(together, apart, strict=True):
            assert a["label"] == b["label"]
            np.testing.assert_allclose(list(a["probabilities"].values()),
                                       list(b["probabilities"].values()), atol=1e-6)


def test_every_line_of_a_text_file_has_its_row(finetuned, tmp_path):
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


def test_predict_takes_texts_or_a_file(finetuned):
    _, err = run("finetune.predict", f"--workdir={finetuned}", "--text=bas", "--input=in.tsv",
                 status=2)
    assert err == "error: Either --text or --input is needed. Received: both\n"


def test_wrong_arguments_of_predict_are_named(finetuned, pretrained):
    predictor = keras_attn.load(finetuned)
    assert predictor.predict([]) == []
    with pytest.raises(UserError, match="list of texts.*'bas'"):
        predictor.predict("bas")
    with pytest.raises(UserError, match="takes single texts"):
        predictor.predict([("bas", "ben")])
    with pytest.raises(UserError, match="holds pretraining"):
        keras_attn.load(pretrained)
    with pytest.raises(UserError, match="config.json. Received: nowhere"):
        keras_attn.load("nowhere")


def test_the_import_brings_neither_tensorflow_nor_keras():
    code = ("import sys, keras_attn; assert 'pretrain' in dir(keras_attn);"
            "print([m for m in ('tensorflow', 'keras', 'absl', 'torch') if m in sys.modules])")
    out = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert out.stdout.strip() == "[]", out.stderr
