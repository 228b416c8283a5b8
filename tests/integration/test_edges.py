"""Runs with extreme fields, and full disks."""

import errno
import json
import os
import subprocess

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn import finetune, load, pretrain
from keras_attn.data.shards.prepare_folder import prepare_folder
from keras_attn.data.shards.shard_files import read_shard
from keras_attn.data.sources.tables import read_table
from keras_attn.defaults import as_bert, finetuning_defaults, pretraining_defaults
from keras_attn.errors import UserError
from keras_attn.inference.predict_files import predict_file
from keras_attn.io import atomic_write
from keras_attn.tasks.pretraining.cooccurrences import cooccurrence_vectors
from keras_attn.tasks.pretraining.initial_weights import true_ids
from keras_attn.tasks.pretraining.masked_examples import PretrainingExamples
from keras_attn.text.wordpiece import WordPieceTokenizer
from keras_attn.workdir import Workdir
from tests.support.started_commands import TINY, config_flags, results, run, weights

pytestmark = pytest.mark.runs


def _pretrain(texts, workdir, **fields):
    config = pretraining_defaults()
    config.update_from_flattened_dict(
        {
            **TINY,
            "train.steps": 2,
            "data.train": str(texts / "train.txt"),
            "data.validation": str(texts / "valid.txt"),
            **fields,
        }
    )
    return pretrain(config, workdir=str(workdir))


def _finetune(folder, rows, **fields):
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = finetuning_defaults()
    config.update_from_flattened_dict(
        {
            "data.train": str(folder / "rows.jsonl"),
            "data.validation": str(folder / "rows.jsonl"),
            "data.text": "a",
            "data.label": "label",
            "data.length": 16,
            "data.vocab_size": 100,
            "train.steps": 2,
            "train.batch_size": 8,
            "eval.report": False,
            **fields,
        }
    )
    return finetune(config, workdir=str(folder / "run"))


@pytest.mark.slow
@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_packed_finetuning_learns_like_unpacked_finetuning(tmp_path, pooling):
    rows = [{"a": "word " * (k % 7), "label": k % 2} for k in range(30)]
    losses = []
    for name, pack in {"alone": 1, "packed": 4}.items():
        (tmp_path / name).mkdir()
        _finetune(
            tmp_path / name,
            rows,
            **{
                "data.pack": pack,
                "data.by_length": True,
                "train.steps": 6,
                "train.accumulate": 2,
                "model.dropout": 0.0,
                "model.pooling": pooling,
            },
        )
        lines = (tmp_path / name / "run/metrics.jsonl").read_text().splitlines()
        losses.append([json.loads(line)["loss"] for line in lines])
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)
    assert losses[0][0] != losses[0][-1]


@pytest.mark.parametrize(
    "fields",
    [
        {"train.batch_size": 1, "train.accumulate": 1, "eval.batch_size": 1, "eval.limit": 3},
        {"data.validation": None},
        {
            "data.length": 5,
            "eval.batch_size": 512,
            "model.initial_bias": "zeros",
            "train.learning_rate": 1e-9,
        },
        {"model.initial_embeddings": "random", "data.pack": 3},
        pytest.param(
            {"train.precision": "mixed_bfloat16", "train.jit": True}, marks=pytest.mark.slow
        ),
        {"train.precision": "mixed_float16", "data.pack": 3, "data.short_fraction": 1.0},
    ],
    ids=str,
)
def test_pretraining_works_with_extreme_fields(texts, tmp_path, fields):
    found = _pretrain(texts, tmp_path / "run", **fields)
    assert found["steps"] == 2
    assert ("mlm_loss" in found) == (fields.get("data.validation", "") is not None)
    if "model.initial_bias" in fields:
        bias = weights(tmp_path / "run", 2)["model/bert_pretrainer/mlm_bias"]
        np.testing.assert_allclose(bias, 0, atol=1e-6)


def test_the_output_bias_is_initialized_with_log_frequencies(texts, tmp_path):
    _pretrain(texts, tmp_path / "run", **{"train.steps": 1, "train.learning_rate": 1e-9})
    (shard,) = (tmp_path / "run/data/train").glob("shard-*.npz")
    bias = weights(tmp_path / "run", 1)["model/bert_pretrainer/mlm_bias"]
    counts = np.bincount(read_shard(str(shard)).ids, minlength=len(bias))
    assert np.corrcoef(bias[5:], np.log(counts[5:] + 1))[0, 1] > 0.8
    assert np.all(bias[:5] == bias.min()) and np.exp(bias).sum() == pytest.approx(1, abs=1e-5)


@pytest.mark.slow
def test_similar_tokens_have_similar_initial_embeddings(texts, tmp_path):
    tables = {}
    for kind in ("cooccurrences", "random"):
        _pretrain(
            texts,
            tmp_path / kind,
            **{"train.steps": 1, "train.learning_rate": 1e-9, "model.initial_embeddings": kind},
        )
        name = "model/bert_pretrainer/bert_encoder/token_embedding"
        tables[kind] = weights(tmp_path / kind, 1)[name]
    np.testing.assert_allclose(
        np.linalg.norm(tables["cooccurrences"], axis=1),
        np.linalg.norm(tables["random"], axis=1).mean(),
        rtol=0.4,
    )
    np.testing.assert_allclose(tables["cooccurrences"][:5], tables["random"][:5], atol=1e-6)
    # Counts of the whole text, of which the examples contain masked segments.
    (shard,) = (tmp_path / "random/data/train").glob("shard-*.npz")
    size, width = tables["random"].shape
    expected = cooccurrence_vectors(read_shard(str(shard)).ids[None], size, width, np.arange(5))
    used = expected.any(axis=1)
    cosines = [
        (x[used] @ x[used].T)[np.triu_indices(used.sum(), 1)]
        for x in (expected, tables["cooccurrences"], tables["random"])
    ]
    found = np.corrcoef(cosines)[0]
    assert found[1] > 0.6 and abs(found[2]) < 0.1


@pytest.mark.parametrize("pack", [1, 3])
def test_tokens_are_counted_before_masking(pretrained, pack):
    tokenizer = WordPieceTokenizer.from_file(str(pretrained / "vocab.txt"))
    found = []
    for fraction in (0.15, 0.5):
        examples = PretrainingExamples(
            str(pretrained / "data/train"),
            tokenizer,
            length=32,
            max_predictions=20,
            masked_fraction=fraction,
            pack=pack,
        )
        batch = examples.rows(0, 40)
        found.append(true_ids(batch))
        assert np.any(batch["token_ids"] == tokenizer.mask_id)
        assert not np.any(found[-1] == tokenizer.mask_id)
    np.testing.assert_array_equal(*found)


@pytest.mark.slow
@pytest.mark.parametrize(
    "recipe",
    [pretraining_defaults, pytest.param(lambda: as_bert(pretraining_defaults()), id="bert")],
)
def test_a_run_without_a_newer_field_resumes(texts, tmp_path, recipe):
    def go_on(steps):
        config = recipe()
        config.update_from_flattened_dict(
            {
                **TINY,
                "train.steps": steps,
                "train.batch_size": 8,
                "data.train": str(texts / "train.txt"),
                "data.validation": None,
            }
        )
        return pretrain(config, workdir=str(tmp_path / "run"))

    go_on(2)
    path = tmp_path / "run/config.json"
    saved = json.loads(path.read_text())
    del saved["config"]["model"]["initial_embeddings"]
    path.write_text(json.dumps(saved))
    assert go_on(4)["steps"] == 4
    assert json.loads(path.read_text())["config"]["model"]["initial_embeddings"] == "random"


@pytest.mark.slow  # bitwise comparison with a command, which compiles with all optimizations
def test_a_prepared_folder_is_training_data(pretrained, texts, tmp_path):
    found = _pretrain(
        texts,
        tmp_path / "run",
        **{
            "data.train": str(pretrained / "data/train"),
            "train.steps": 20,
            "model.dropout": 0.0,
            "data.vocab": str(pretrained / "vocab.txt"),
        },
    )
    assert found["weights_sha256"] == results(pretrained)["weights_sha256"]
    assert found["data_sha256"] == results(pretrained)["data_sha256"]


def test_a_prepared_folder_has_its_vocabulary_and_casing(texts, tmp_path):
    prepare_folder(
        str(texts / "train.txt"), str(tmp_path / "shards"), vocab_size=250, lowercase=False
    )
    fields = {"data.train": str(tmp_path / "shards")}
    _pretrain(texts, tmp_path / "run", **fields)
    vocabularies = [(tmp_path / f"{folder}/vocab.txt").read_bytes() for folder in ("shards", "run")]
    assert vocabularies[0] == vocabularies[1]
    config = json.loads((tmp_path / "run/config.json").read_text())["config"]
    assert config["data"]["lowercase"] is False
    with pytest.raises(UserError, match="data.lowercase=True differs from False of .*shards"):
        _pretrain(texts, tmp_path / "other", **fields, **{"data.lowercase": True})


def test_tfrecords_are_training_data(pretrained, texts, tmp_path):
    vocab = str(pretrained / "vocab.txt")
    examples = PretrainingExamples(
        str(pretrained / "data/train"),
        WordPieceTokenizer.from_file(vocab, True),
        length=32,
        max_predictions=5,
    )
    rows = examples.rows(0, 60)
    names = {
        "token_ids": "input_ids",
        "padding_mask": "input_mask",
        "segment_ids": "segment_ids",
        "mask_positions": "masked_lm_positions",
        "mask_ids": "masked_lm_ids",
        "mask_weights": "masked_lm_weights",
        "next_sentence_label": "next_sentence_labels",
    }
    with tf.io.TFRecordWriter(str(tmp_path / "made.tfrecord")) as writer:
        for row in range(60):
            features = tf.train.Features()
            for ours, theirs in names.items():
                values = features.feature[theirs]
                values = values.float_list if ours == "mask_weights" else values.int64_list
                values.value.extend(np.atleast_1d(rows[ours][row]).tolist())
            writer.write(tf.train.Example(features=features).SerializeToString())
    found = _pretrain(
        texts,
        tmp_path / "run",
        **{
            "data.train": str(tmp_path / "made.tfrecord"),
            "data.vocab": vocab,
            "train.steps": 1,
            "train.learning_rate": 1e-9,
        },
    )
    assert set(found["data_sha256"]) >= {"vocab.txt", str(tmp_path / "made.tfrecord")}
    bias = weights(tmp_path / "run", 1)["model/bert_pretrainer/mlm_bias"]
    counts = np.bincount(rows["token_ids"].ravel(), minlength=len(bias)) + 1.0
    counts[:5] = 1  # the special tokens
    np.testing.assert_allclose(bias, np.log(counts / counts.sum()), atol=1e-5)


def test_rows_without_any_text_train_and_predict(finetuned, tmp_path):
    rows = [{"a": "", "label": "no"}, {"a": "", "label": "yes"}] * 5
    found = _finetune(tmp_path, rows, **{"data.vocab": str(finetuned / "vocab.txt")})
    assert found["accuracy"] == 0.5
    assert set(load(tmp_path / "run").predict([""])[0]["probabilities"]) == {"no", "yes"}


def test_labels_are_unchanged_in_every_format(finetuned, tmp_path):
    fields = {"data.vocab": str(finetuned / "vocab.txt")}
    rows = [{"a": "bas", "label": 'the "best", truly'}, {"a": "tin", "label": '"'}] * 4
    _finetune(tmp_path, rows, **fields)
    for name in ("out.tsv", "out.csv", "out.jsonl"):
        predict_file(tmp_path / "run", str(tmp_path / "rows.jsonl"), str(tmp_path / name))
        labels = read_table(str(tmp_path / name), text="label").texts
        assert len(labels) == 8 and set(labels) <= {'the "best", truly', '"'}
    Workdir(tmp_path / "run").write_json("labels.json", {"names": ["x\ty", "z"], "pairs": False})
    with pytest.raises(UserError, match="tabs or line breaks.*out.tsv"):
        predict_file(tmp_path / "run", str(tmp_path / "rows.jsonl"), str(tmp_path / "out.tsv"))


def test_pairs_and_numbers_can_be_predicted(tmp_path):
    for name in ("pairs", "numbers"):
        (tmp_path / name).mkdir()
    rows = [{"a": "bas ben", "b": "tin", "label": str(i % 2)} for i in range(12)]
    found = _finetune(tmp_path / "pairs", rows, **{"data.text_pair": "b"})
    assert {"accuracy", "f1"} <= set(found)
    predictor = load(tmp_path / "pairs/run")
    ahead = predictor.predict(["bas", "ben tin"], ["ben", ""])
    assert ahead == predictor.predict([("bas", "ben"), ("ben tin", "")])
    with pytest.raises(UserError, match="two text columns.*in.txt"):
        predict_file(tmp_path / "pairs/run", "in.txt")
    rows = [{"a": "bas " * (i % 5), "label": i % 5 / 2} for i in range(20)]
    found = _finetune(tmp_path / "numbers", rows, **{"data.regression": True})
    assert {"pearson", "spearman", "mean_squared_error"} <= set(found)
    (value,) = load(tmp_path / "numbers/run").predict(["bas"])
    assert set(value) == {"value"} and np.isfinite(value["value"])


def test_the_folder_of_a_glue_task_contains_both_splits(texts, tmp_path):
    for split, name in (("train", "train.tsv"), ("valid", "dev.tsv")):
        head, *rows = (texts / f"{split}.tsv").read_text().splitlines()
        numbered = [row.replace("good", "1").replace("bad", "0") for row in rows]
        (tmp_path / name).write_text("\n".join(["sentence\tlabel", *numbered]) + "\n")
    config = finetuning_defaults()
    config.update_from_flattened_dict(
        {
            "data.task": "sst2",
            "data.train": str(tmp_path),
            "data.length": 16,
            "data.vocab_size": 100,
            "train.steps": 2,
        }
    )
    found = finetune(config, workdir=str(tmp_path / "run"))
    assert 0 <= found["accuracy"] <= 1
    assert set(found["data_sha256"]) == {
        "vocab.txt",
        "train rows",
        "validation rows",
        *(str(tmp_path / name) for name in ("train.tsv", "dev.tsv")),
    }


@pytest.mark.slow
def test_ten_thousand_rows_are_predicted_in_order(finetuned, tmp_path):
    texts = ["bas ben", "tas ten"] * 5000
    (tmp_path / "in.tsv").write_text(
        "text\tnumber\n" + "".join(f"{text}\t{i}\n" for i, text in enumerate(texts))
    )
    run(
        "finetune.predict",
        f"--workdir={finetuned}",
        f"--input={tmp_path / 'in.tsv'}",
        f"--output={tmp_path / 'out.jsonl'}",
        "--batch_size=256",
    )
    labels = [json.loads(line)["label"] for line in (tmp_path / "out.jsonl").open()]
    assert labels == ["good", "bad"] * 5000


def test_a_full_disk_at_the_end_keeps_saved_files_and_leaves_no_partial_file(
    texts, tmp_path, monkeypatch
):
    _pretrain(texts, tmp_path / "run")
    results, open_new = tmp_path / "run" / "results.json", atomic_write.open_new
    results.unlink()

    def full(path, *binary):
        return open("/dev/full", "wb") if "results.json" in path else open_new(path, *binary)

    with monkeypatch.context() as patched:
        patched.setattr(atomic_write, "open_new", full)
        with pytest.raises(UserError, match=r"Cannot write .*results.json: No space left.*MB free"):
            _pretrain(texts, tmp_path / "run")
    assert not list(results.parent.glob("results.json*"))
    with monkeypatch.context() as patched:
        patched.setattr(keras.Model, "save", _full_disk)
        with pytest.raises(UserError, match=r"Cannot write .*model.keras: No space left.*MB free"):
            _pretrain(texts, tmp_path / "run")
    assert json.loads(results.read_text())["steps"] == 2
    assert not (results.parent / "model.keras.tmp").exists()
    assert _pretrain(texts, tmp_path / "run")["steps"] == 2


def _full_disk(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.slow
def test_on_a_full_disk_the_command_prints_one_line_and_resumes_when_there_is_space(
    corpus, tmp_path
):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", "size=1200k", "tmpfs", str(disk)]
    if subprocess.run(mounting, capture_output=True).returncode:
        pytest.skip("mounting a small disk is not allowed here")
    try:
        flags = [
            f"--workdir={disk / 'run'}",
            *corpus,
            *config_flags(**{"model.hidden_dim": 64, "checkpoint.every": 5}),
        ]
        _, err = run("pretrain", *flags, status=2)
        assert "error: Cannot write" in err and "Traceback" not in err
        assert f"on the disk mounted at {disk})" in err
        left = sorted(path.name for path in (disk / "run" / "checkpoints").iterdir())
        assert left == ["index.json", "step-5.npz"]
        subprocess.run(["mount", "-o", "remount,size=20m", str(disk)], check=True)
        _, err = run("pretrain", *flags)
        assert "resuming from the checkpoint of step 5" in err
    finally:
        subprocess.run(["umount", str(disk)], check=True)
