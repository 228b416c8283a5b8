"""GPT2ForSequenceClassification, which has no end-of-sequence token, no bias and no dropout."""

import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from keras_attn import convert, finetune, load
from keras_attn.data.text_examples import TextExamples
from keras_attn.defaults import finetuning_defaults
from keras_attn.errors import UserError
from tests.support.other_families import MODELS, PAIRS, TEXTS, array, copied
from tests.support.quick import quick

NAME = "gpt2_classifier"
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}


@pytest.fixture(scope="module")
def logits():
    with np.load(MODELS / "outputs.npz", allow_pickle=False) as file:
        return {name: file[f"{NAME}/{name}/logits"] for name in ("texts", "pairs")}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gpt2") / "run"
    convert.convert(MODELS / NAME, folder)
    return folder


def softmax(x):
    shares = np.exp(x - x.max(-1, keepdims=True))
    return shares / shares.sum(-1, keepdims=True)


def test_it_predicts_as_in_transformers(logits, run):
    assert json.loads((run / "config.json").read_text())["config"]["data"]["end_mark"] is False
    for folder in (MODELS / NAME, run):
        predictor = load(str(folder))
        assert predictor.labels == ["bad", "good", "so so"]
        for name, texts in (("texts", TEXTS), ("pairs", PAIRS)):
            expected = softmax(logits[name])
            np.testing.assert_allclose(predictor.probabilities(texts), expected, **TOLERANCE)
            # In one batch with shorter and longer texts.
            np.testing.assert_allclose(
                predictor.probabilities(texts, batch_size=1), expected, **TOLERANCE
            )


def test_an_empty_text_is_one_end_of_sequence_token(run):
    predictor = load(str(run))
    found = predictor.probabilities(["", "the cat", ""])
    batch = {"token_ids": np.array([[predictor.tokenizer.end_id]])}
    expected = softmax(array(predictor.model(batch)["logits"]))[0]
    np.testing.assert_allclose(found[[0, 2]], [expected, expected], **TOLERANCE)
    np.testing.assert_allclose(found[1], predictor.probabilities(["the cat"])[0], **TOLERANCE)
    np.testing.assert_allclose(predictor.probabilities([("", "")])[0], expected, **TOLERANCE)
    assert np.isfinite(predictor.embed(["", "a"])).all()


def test_sequences_contain_only_the_text(run):
    tokenizer = load(str(run)).tokenizer
    ids = [tokenizer.encode([text])[0].tolist() for text in ("the cat", " sat on")]
    both = ids[0] + ids[1]

    def row(length):
        batch = TextExamples(
            ["the cat"], [" sat on"], None, tokenizer, length=length, batch_size=1, shuffle=False
        ).batch(0)
        return batch["token_ids"][0][batch["padding_mask"][0] > 0].tolist()

    assert row(len(both) + 3) == row(len(both)) == both
    assert row(len(both) - 1) != both and len(row(len(both) - 1)) == len(both) - 1


@pytest.mark.parametrize(
    "problem, kept, kind",
    quick(
        [("multi_label_classification", 3, "multilabel"), ("regression", 1, "regression")],
        ("regression", 1, "regression"),
    ),
)
def test_other_tasks_are_read_and_written_too(logits, problem, kept, kind, tmp_path):
    names = {str(number): f"LABEL_{number}" for number in range(kept)}
    folder = copied(NAME, tmp_path, problem_type=problem, id2label=names)
    arrays = load_file(folder / "model.safetensors")
    arrays["score.weight"] = arrays["score.weight"][:kept]
    save_file(arrays, folder / "model.safetensors")
    predictor, expected = load(str(folder)), logits["texts"][:, :kept]
    assert predictor.kind == kind
    if kind == "multilabel":
        expected = 1 / (1 + np.exp(-expected))
    np.testing.assert_allclose(predictor.probabilities(TEXTS), expected, **TOLERANCE)
    convert.convert(folder, tmp_path / "run")
    convert.convert(tmp_path / "run", tmp_path / "back", "huggingface")
    back = load_file(tmp_path / "back" / "model.safetensors")
    assert {name: value.tobytes() for name, value in back.items()} == {
        name: value.tobytes() for name, value in arrays.items()
    }
    found = json.loads((tmp_path / "back" / "config.json").read_text())
    assert found["problem_type"] == problem and found["id2label"] == names


@pytest.mark.runs
def test_finetuning_keeps_the_end_of_sequence_setting(run, tmp_path):
    table = tmp_path / "rows.tsv"
    table.write_text(
        "text\tlabel\n"
        + "".join(
            f"the {word} sat {number}\t{word}\n"
            for number in range(4)
            for word in ("bad", "good", "so so")
        )
    )

    def tuned(source, place, steps=1):
        config = finetuning_defaults()
        config.data.update(train=str(table), text="text", label="label", length=12, holdout=0.25)
        config.train.update(steps=steps, batch_size=4, schedule="constant", warmup_fraction=0.0)
        finetune(config, workdir=str(tmp_path / place), pretrained=str(source))
        return load(str(tmp_path / place)).tokenizer.append_eos

    assert tuned(run, "own") is False
    assert tuned(run, "own", steps=2) is False  # resumes
    assert tuned(MODELS / "gpt2", "other") is True
    for place, message in (("own", "a bias"), ("other", "an end-of-sequence token")):
        with pytest.raises(
            UserError, match=f"GPT-2 classifier of transformers .* Received: {message}"
        ):
            convert.convert(tmp_path / place, tmp_path / "back", "huggingface")
        assert not (tmp_path / "back").exists()


@pytest.mark.parametrize(
    "heads, message",
    [
        ({"dropout": 0.1}, "Received: dropout=0.1"),
        ({"pooling": "mean"}, "Received: pooling=mean"),
        ({"label_mean": 2.0, "label_deviation": 3.0}, "Received: a bias"),
    ],
)
def test_a_classifier_that_transformers_does_not_support_is_not_written(
    run, heads, message, tmp_path
):
    shutil.copytree(run, tmp_path / "run")
    path = tmp_path / "run" / "config.json"
    found = json.loads(path.read_text())
    found["heads"].update(heads)
    path.write_text(json.dumps(found))
    with pytest.raises(UserError, match=message):
        convert.convert(tmp_path / "run", tmp_path / "back", "huggingface")


@pytest.mark.parametrize("format, name", [("kerashub", "KerasHub"), ("openai", "openai/gpt-2")])
def test_other_libraries_support_only_language_models(format, name, tmp_path):
    with pytest.raises(UserError, match=f"{name} supports only GPT-2 language models"):
        convert.convert(MODELS / NAME, tmp_path / "out", format)


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"id2label": {"0": "a", "1": "b"}}, r"score.weight must have shape \(2, 12\)"),
        ({"id2label": {"0": "a", "1": "a", "2": "b"}}, "must be distinct"),
        ({"id2label": {"1": "a", "2": "b", "3": "c"}}, "must name the classes 0, 1"),
        ({"pad_token_id": 0}, "pad_token_id must be null or a token that does not occur in text"),
        ({"pad_token_id": 270}, "pad_token_id must be null or a token that does not occur in text"),
        ({"pad_token_id": "282"}, "pad_token_id must be"),
        ({"architectures": ["GPT2LMHeadModel"]}, "unknown: score.weight"),
    ],
)
def test_an_invalid_classifier_is_rejected(fields, message, tmp_path):
    with pytest.raises(UserError, match=message):
        convert.read(copied(NAME, tmp_path, **fields))


def test_unknown_and_misshapen_tensors_and_pickles_are_rejected(tmp_path):
    folder = copied(NAME, tmp_path)
    path = folder / "model.safetensors"
    arrays = load_file(path)
    for changed, message in (
        ({name: x for name, x in arrays.items() if name != "score.weight"}, "Missing: score.wei"),
        ({**arrays, "score.bias": np.zeros(3, np.float32)}, "unknown: score.bias"),
        ({**arrays, "lm_head.weight": arrays["transformer.wte.weight"]}, "unknown: lm_head.wei"),
        ({**arrays, "score.weight": arrays["score.weight"].astype("int32")}, "must be one of"),
    ):
        save_file(changed, path)
        with pytest.raises(UserError, match=message):
            convert.read(folder)
    path.rename(folder / "pytorch_model.bin")
    with pytest.raises(UserError, match="is a pickle, which can run code"):
        convert.read(folder)
