"""Runs with initial weights from checkpoints of other libraries, and further pretraining."""

import json
import pathlib
import shutil

import numpy as np
import pytest

import keras_attn
from keras_attn import finetune, pretrain
from keras_attn.defaults import as_bert, finetuning_defaults, pretraining_defaults
from keras_attn.errors import UserError
from keras_attn.inference.predict_files import predict_file
from tests.support.started_commands import ROOT, run, weights

GOLDEN = pathlib.Path(ROOT) / "tests/golden/hugging_face"


def _pretraining(texts, **fields):
    config = pretraining_defaults()
    config.update_from_flattened_dict(
        {
            "data.train": str(texts / "train.txt"),
            "data.format": "lines",
            "data.length": 16,
            "data.max_predictions": 4,
            "train.batch_size": 8,
            "train.steps": 2,
            "train.learning_rate": 1e-9,
            **fields,
        }
    )
    return config


def _model(folder, step):
    """Weights of a checkpoint by path without the name of the task model."""
    return {
        name.split("/", 2)[2]: value
        for name, value in weights(folder, step).items()
        if name.startswith("model/bert_")
    }


@pytest.mark.slow
def test_finetuning_from_a_foreign_folder_and_from_its_workdir_is_the_same(texts, tmp_path):
    keras_attn.convert(GOLDEN / "pretraining", tmp_path / "run")
    config = finetuning_defaults()
    config.update_from_flattened_dict(
        {
            "data.train": str(texts / "train.tsv"),
            "data.text": "text",
            "data.label": "label",
            "data.length": 16,
            "train.steps": 3,
            "train.learning_rate": 0.01,
        }
    )
    found = [
        finetune(config, tmp_path / name, start)["weights_sha256"]
        for name, start in (("one", GOLDEN / "pretraining"), ("two", tmp_path / "run"))
    ]
    assert found[0] == found[1]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pretraining", "masked_lm", "untied"])
def test_pretraining_continues_with_existing_heads(name, texts, tmp_path):
    config = _pretraining(texts)
    pretrain(config, tmp_path / "run", GOLDEN / name)
    start = keras_attn.convert.read(GOLDEN / name)
    after = _model(tmp_path / "run", 2)
    assert after.keys() == start.weights.keys()
    for path, value in start.weights.items():
        np.testing.assert_allclose(after[path], value, atol=1e-6, err_msg=path)
    saved = json.loads((tmp_path / "run/config.json").read_text())
    assert saved["heads"] == start.heads
    assert (tmp_path / "run/vocab.txt").read_text().split() == list(start.tokenizer.vocabulary)


@pytest.mark.slow
def test_missing_heads_are_errors_or_initialized_with_new_heads(texts, tmp_path, capfd):
    message = "no weights for mlm_bias, mlm_dense, mlm_norm.*model.new_heads"
    with pytest.raises(UserError, match=message):
        pretrain(_pretraining(texts), tmp_path / "run", GOLDEN / "encoder")
    config = _pretraining(texts, **{"model.new_heads": True})
    pretrain(config, tmp_path / "run", GOLDEN / "encoder")
    assert (
        "randomly initialized heads: mlm_bias, mlm_dense, mlm_norm, nsp_dense"
        in capfd.readouterr().out
    )
    after = _model(tmp_path / "run", 2)
    before = keras_attn.convert.read(GOLDEN / "encoder").weights
    for path, value in before.items():
        np.testing.assert_allclose(after[path], value, atol=1e-6, err_msg=path)
    assert {path.split("/")[0] for path in after.keys() - before.keys()} == {
        "mlm_dense",
        "mlm_norm",
        "mlm_bias",
        "nsp_dense",
    }


@pytest.mark.slow
def test_further_pretraining_of_a_foreign_checkpoint_keeps_its_dropout(texts, tmp_path):
    config = _pretraining(texts)
    as_bert(config)
    config.model.dropout = None
    config.train.update(batch_size=8, steps=1)
    pretrain(config, tmp_path / "run", GOLDEN / "pretraining")
    saved = json.loads((tmp_path / "run/config.json").read_text())
    assert saved["architecture"]["dropout"] == saved["architecture"]["attention_dropout"] == 0.1
    assert len(saved["data_sha256"]["pretrained"]) == 64


def test_sentence_order_requires_new_heads_for_a_model_without_next_sentences(texts, tmp_path):
    fields = {"data.segments": "sentence_order"}
    with pytest.raises(UserError, match="no weights for nsp_dense, pooler"):
        pretrain(_pretraining(texts, **fields), tmp_path / "run", GOLDEN / "masked_lm")
    with pytest.raises(UserError, match="sentence_order requires the head"):
        pretrain(
            _pretraining(texts, **fields, **{"model.next_sentence": False}),
            tmp_path / "run",
            GOLDEN / "pretraining",
        )
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_the_next_sentence_head_is_not_reused_for_sentence_order(texts, tmp_path, capsys):
    fields = {"data.segments": "sentence_order", "train.steps": 1, "train.learning_rate": 1e-9}
    pretrain(_pretraining(texts, **fields), tmp_path / "run", GOLDEN / "pretraining")
    assert "randomly initialized heads: nsp_dense\n" in capsys.readouterr().out
    before = keras_attn.convert.read(GOLDEN / "pretraining").weights
    after = _model(tmp_path / "run", 1)
    for path, same in (("pooler/kernel", True), ("nsp_dense/kernel", False)):
        path = path if path in before else f"bert_encoder/{path}"
        assert np.allclose(after[path], before[path], atol=1e-6) == same
    pretrain(_pretraining(texts, **fields), tmp_path / "more", tmp_path / "run")
    assert "at random" not in capsys.readouterr().out


@pytest.mark.slow
def test_a_classifier_keeps_its_head_only_for_the_same_classes(texts, tmp_path):
    config = finetuning_defaults()
    config.update_from_flattened_dict(
        {
            "data.train": str(tmp_path / "rows.tsv"),
            "data.text": "text",
            "data.label": "label",
            "data.length": 16,
            "data.holdout": 0.0,
            "train.steps": 1,
            "train.learning_rate": 1e-9,
        }
    )
    before = keras_attn.convert.read(GOLDEN / "classifier").weights["logits_dense/kernel"]
    before = np.asarray(before)
    for labels, same in ((("bad", "good", "so so"), True), (("no", "yes"), False)):
        rows = "".join(f"a b\t{label}\n" for label in labels)
        (tmp_path / "rows.tsv").write_text("text\tlabel\n" + rows)
        finetune(config, tmp_path / "_".join(labels), GOLDEN / "classifier")
        after = _model(tmp_path / "_".join(labels), 1)["logits_dense/kernel"]
        found = after.shape == before.shape and np.allclose(after, before, atol=1e-6)
        assert found == same
    config.model.pooling = "cls"
    with pytest.raises(UserError, match="pooler"):
        finetune(config, tmp_path / "other", GOLDEN / "masked_lm")


@pytest.mark.thorough
def test_a_foreign_classifier_reads_pairs_and_single_texts_from_files(tmp_path):
    (tmp_path / "in.csv").write_text("text,b\na b,c\nd,e\n")
    model = keras_attn.load(GOLDEN / "classifier")
    for pair, texts in ((None, ["a b", "d"]), ("b", [("a b", "c"), ("d", "e")])):
        predict_file(
            GOLDEN / "classifier",
            str(tmp_path / "in.csv"),
            str(tmp_path / "out.jsonl"),
            text_pair=pair,
        )
        found = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
        assert [row["label"] for row in found] == [row["label"] for row in model.predict(texts)]
        np.testing.assert_allclose(
            [row["probabilities"]["bad"] for row in found],
            [row["probabilities"]["bad"] for row in model.predict(texts)],
            atol=1e-5,
        )


@pytest.mark.slow
def test_extended_position_embeddings_repeat_the_shorter_ones(texts, tmp_path):
    longer = {"data.length": 40, "data.max_predictions": 6}
    with pytest.raises(UserError, match="model.max_length=\\d+"):
        pretrain(_pretraining(texts, **longer), tmp_path / "run", GOLDEN / "pretraining")
    config = _pretraining(texts, **longer, **{"model.max_length": 40})
    pretrain(config, tmp_path / "run", GOLDEN / "pretraining")
    path = "bert_encoder/position_embedding/embeddings"
    before = np.asarray(keras_attn.convert.read(GOLDEN / "pretraining").weights[path])
    after = _model(tmp_path / "run", 2)[path]
    assert before.shape == (16, 12) and after.shape == (40, 12)
    np.testing.assert_allclose(after, before[np.arange(40) % 16], atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fields", "two_tasks"),
    [
        ({"model.next_sentence": False}, False),
        ({"data.segments": "full_sentences"}, False),
        ({"data.segments": "sentence_order", "data.spans": True}, True),
    ],
    ids=str,
)
def test_pretraining_without_next_sentences_or_with_their_order(fields, two_tasks, texts, tmp_path):
    config = _pretraining(
        texts,
        **{
            "data.validation": str(texts / "valid.txt"),
            "data.vocab_size": 200,
            "model.num_layers": 1,
            "model.hidden_dim": 16,
            "model.num_heads": 2,
            **fields,
        },
    )
    found = pretrain(config, tmp_path / "run")
    assert {"mlm_accuracy", "mlm_loss"} <= found.keys()
    assert ("nsp_loss" in found) == ("nsp_accuracy" in found) == two_tasks
    pooler = [path for path in _model(tmp_path / "run", 2) if "pooler" in path]
    assert bool(pooler) == two_tasks
    assert len(keras_attn.load(tmp_path / "run").fill_mask("bas [MASK] ben.", top=3)) == 3


def test_full_sentences_have_no_next_sentence_head(texts, tmp_path):
    fields = {"data.segments": "full_sentences", "model.next_sentence": True}
    with pytest.raises(UserError, match="requires two segments per row"):
        pretrain(_pretraining(texts, **fields), tmp_path / "run")


def test_a_converted_model_cannot_be_resumed(texts, tmp_path):
    keras_attn.convert(GOLDEN / "pretraining", tmp_path / "run")
    with pytest.raises(UserError, match="Use it as --pretrained"):
        pretrain(_pretraining(texts), tmp_path / "run")


@pytest.mark.thorough
def test_a_converted_classifier_predicts(outputs_of_text, tmp_path):
    texts, expected = outputs_of_text
    for folder in (GOLDEN / "classifier", tmp_path / "run"):
        if folder != GOLDEN / "classifier":
            keras_attn.convert(GOLDEN / "classifier", folder)
        model = keras_attn.load(folder)
        assert model.labels == ["bad", "good", "so so"]
        found = [
            [row["probabilities"][label] for label in model.labels] for row in model.predict(texts)
        ]
        np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.fixture
def outputs_of_text():
    """Texts, and probabilities computed by calling the model directly."""
    from keras_attn.convert import read_ready

    texts = ["a b c", "bad cab", ""]
    saved = read_ready(GOLDEN / "classifier")
    model, rows = saved.make_model(), []
    for text in texts:
        ids, _ = saved.tokenizer.encode([text])
        ids = np.array([[saved.tokenizer.cls_id, *ids, saved.tokenizer.sep_id]], np.int32)
        logits = np.asarray(model({"token_ids": ids})["logits"], np.float64)[0]
        rows.append(np.exp(logits) / np.exp(logits).sum())
    return texts, rows


@pytest.mark.slow
def test_the_commands_convert_embed_and_fill_masks(tmp_path):
    out, _ = run(
        "keras_attn.convert", f"--from={GOLDEN / 'pretraining'}", f"--to={tmp_path / 'run'}"
    )
    assert str(tmp_path / "run") in out
    out, _ = run(
        "pretrain.fill_mask", f"--workdir={tmp_path / 'run'}", "--text=a [MASK] b", "--top=3"
    )
    shares = [float(line.split("\t")[0]) for line in out.splitlines()]
    assert len(shares) == 3 and shares == sorted(shares, reverse=True)
    source, output = tmp_path / "in.txt", tmp_path / "out.npy"
    source.write_text("a b\n\nc\n")
    _, err = run(
        "finetune.embed",
        f"--workdir={tmp_path / 'run'}",
        f"--input={source}",
        f"--output={output}",
        "--pooling=cls",
    )
    assert "3 texts embedded, 0 skipped" in err
    model = keras_attn.load(tmp_path / "run")
    vectors = np.load(output, allow_pickle=False)
    np.testing.assert_allclose(vectors, model.embed(["a b", "", "c"], "cls"), atol=1e-6)
    _, err = run("keras_attn.convert", "--from=nowhere", f"--to={tmp_path / 'x'}", status=2)
    assert err.startswith("error: The folder nowhere does not exist") and err.count("\n") == 1
    _, err = run(
        "pretrain.fill_mask", f"--workdir={GOLDEN / 'encoder'}", "--text=a [MASK]", status=2
    )
    assert "without a masked-LM head" in err


def test_pooling_ignores_padding(tmp_path):
    shutil.copytree(GOLDEN / "encoder", tmp_path / "model")
    model = keras_attn.load(tmp_path / "model")
    texts = ["a", "b c d e f g", ""]
    together = model.embed(texts)
    for text, row in zip(texts, together, strict=True):
        np.testing.assert_allclose(model.embed([text])[0], row, atol=1e-5)
        ids, _ = model.tokenizer.encode([text])
        ids = np.array([[model.tokenizer.cls_id, *ids, model.tokenizer.sep_id]], np.int32)
        hidden = np.asarray(model.model({"token_ids": ids})["sequence_output"])[0]
        np.testing.assert_allclose(row, hidden.mean(axis=0), atol=1e-5)
        np.testing.assert_allclose(model.embed([text], "cls")[0], hidden[0], atol=1e-5)
    assert model.embed([]).shape == (0, 12)
    with pytest.raises(UserError, match="pooling=median"):
        model.embed(["a"], "median")


def test_mask_predictions_are_the_largest_logits():
    model = keras_attn.load(GOLDEN / "pretraining")
    ids, _ = model.tokenizer.encode(["ab"])
    tokens = model.tokenizer
    row = np.array([[tokens.cls_id, *ids, tokens.mask_id, tokens.mask_id, tokens.sep_id]], np.int32)
    places = np.array([[len(ids) + 1, len(ids) + 2]], np.int32)
    logits = np.asarray(model.model({"token_ids": row, "mask_positions": places})["mlm_logits"])
    shares = np.exp(logits[0]) / np.exp(logits[0]).sum(-1, keepdims=True)
    for predictions, expected in zip(
        model.fill_mask("ab [MASK][MASK]", top=4), shares, strict=True
    ):
        best = np.argsort(-expected)[:4]
        assert [one["token"] for one in predictions] == [tokens.vocabulary[i] for i in best]
        np.testing.assert_allclose(
            [one["probability"] for one in predictions], expected[best], rtol=1e-4
        )
    assert len(model.fill_mask(["a [MASK]", "[MASK] b"], top=1)) == 2
    with pytest.raises(UserError, match="The text must contain .MASK."):
        model.fill_mask("a b")
    with pytest.raises(UserError, match="at most 16 tokens"):
        model.fill_mask("[MASK] " + "a " * 20)
