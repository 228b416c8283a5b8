"""RoBERTa and DistilBERT of `transformers`: outputs, gradients and folders equal theirs."""

import json
import pathlib
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from keras_attn import convert, load
from keras_attn.convert import read_ready
from keras_attn.errors import UserError
from tests.support.quick import quick
from tests.support.transformers_folders import (
    below,
    check_gradients,
    check_outputs,
    check_written_back,
    masked_lm_entries,
)

ENCODERS = pathlib.Path(__file__).parents[1] / "golden" / "encoders"
NAMES = [
    f"{family}_{model}"
    for family in ("distilbert", "roberta")
    for model in ("encoder", "masked_lm", "untied", "classifier", "tagger", "reader")
]
LENGTH = 11


@pytest.fixture(scope="module")
def arrays():
    with np.load(ENCODERS / "outputs.npz", allow_pickle=False) as file:
        return dict(file)


def batch_of(arrays, name):
    """The inputs and labels of a model, named as ours."""
    theirs = below(arrays, f"{name}/")
    batch = below(arrays, f"inputs/{name.split('_')[0]}/")
    positions = np.arange(LENGTH, dtype=np.int32)
    if "masked_lm" in name or "untied" in name:
        batch |= masked_lm_entries(theirs["labels"])
    elif "reader" in name:
        # The passage begins behind the first token, so that all labels are in it.
        batch["segment_ids"] = ((positions > 0) & (batch["padding_mask"] > 0)).astype(np.int32)
        batch["label"] = np.stack([theirs["start_positions"], theirs["end_positions"]], axis=1)
    elif "labels" in theirs:
        batch["label"] = np.where(theirs["labels"] < 0, -1, theirs["labels"])
    return batch


@pytest.mark.parametrize("name", NAMES)
def test_outputs_equal_those_of_transformers(name, arrays):
    theirs, batch = below(arrays, f"{name}/"), batch_of(arrays, name)
    found = read_ready(ENCODERS / name).make_model()(batch)
    names = {"logits": "mlm_logits"} if "mask_ids" in batch else {}
    check_outputs(found, theirs, batch, names, 1 if name == "distilbert_encoder" else 2)


@pytest.mark.parametrize(
    "name", [name for name in NAMES if not name.endswith(("encoder", "reader"))]
)
def test_losses_and_gradients_equal_those_of_transformers(name, arrays):
    theirs, batch = below(arrays, f"{name}/"), batch_of(arrays, name)
    expected = below(theirs, "gradients/")
    if name == "roberta_untied":
        # Our output bias is the one that version 5 uses.
        expected["lm_head.bias"] = expected.pop("lm_head.decoder.bias")
    if "roberta" in name:
        key = "roberta.embeddings.position_embeddings.weight"
        expected[key] = expected[key][2:]  # the rows before the first position
    check_gradients(
        read_ready(ENCODERS / name),
        lambda model: model.compute_loss(x=batch, y_pred=model(batch)),
        theirs["loss"],
        expected,
    )


@pytest.mark.parametrize("name", quick(NAMES, "distilbert_classifier", "roberta_masked_lm"))
def test_a_folder_to_a_workdir_and_back_is_bitwise_identical(name, tmp_path):
    check_written_back(ENCODERS / name, tmp_path)


def test_the_segment_of_a_roberta_is_added_to_its_positions_for_keras_hub(tmp_path, arrays):
    with pytest.raises(
        UserError, match="KerasHub supports only RoBERTa models .* activation=gelu_erf"
    ):
        convert.convert(ENCODERS / "roberta_encoder", tmp_path / "no", "kerashub")
    source = ENCODERS / "roberta_untied"
    convert.convert(source, tmp_path / "preset", "kerashub", task="encoder")
    found = convert.read(tmp_path / "preset")
    assert found.architecture["num_segments"] == 0
    batch = batch_of(arrays, "roberta_untied")
    hidden = found.make_model()(batch)["sequence_output"]
    real = batch["padding_mask"] > 0
    expected = arrays["roberta_untied/sequence_output"]
    np.testing.assert_allclose(np.asarray(hidden)[real], expected[real], 1e-5, 1e-5)


@pytest.mark.parametrize("name", ["distilbert_encoder", "roberta_encoder"])
def test_an_embedding_model_of_sentence_transformers_is_written_and_read(name, tmp_path):
    convert.convert(ENCODERS / name, tmp_path / "model", "sentence_transformers")
    texts = ["the cat sat", "", "a b"]
    expected = load(str(ENCODERS / name)).embed(texts, pooling="mean")
    np.testing.assert_array_equal(load(str(tmp_path / "model")).embed(texts), expected)
    assert convert.detect(str(tmp_path / "model"))[1] == "sentence_transformers"


def test_masked_texts_have_the_ids_of_transformers():
    model, rows = load(str(ENCODERS / "roberta_masked_lm")), []
    tokenized = json.loads((ENCODERS / "tokenized.json").read_text())
    run = model._run
    model._run = lambda batch: rows.append(batch["token_ids"][0].tolist()) or run(batch)
    for text, _ in tokenized["masked"]:
        model.fill_mask(text)
    assert rows == [ids for _, ids in tokenized["masked"]]


BAD_TOKENIZERS = {
    "add_prefix_space=True": ("tokenizer_config.json", {"add_prefix_space": True}),
    r"mask_token='\[MASK\]'": ("tokenizer_config.json", {"mask_token": "[MASK]"}),
    "post_processor=": (
        "tokenizer.json",
        {"post_processor": {"type": "RobertaProcessing", "sep": ["[SEP]", 2], "cls": ["<s>", 0]}},
    ),
    "normalizer=": ("tokenizer.json", {"normalizer": {"type": "NFKC"}}),
}


@pytest.mark.parametrize("message", BAD_TOKENIZERS)
def test_a_tokenizer_that_differs_from_roberta_is_an_error(message, tmp_path):
    file, fields = BAD_TOKENIZERS[message]
    shutil.copytree(ENCODERS / "roberta_tagger", tmp_path / "model")
    path = tmp_path / "model" / file
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))
    with pytest.raises(UserError, match=message):
        convert.read(tmp_path / "model")


def test_a_folder_like_roberta_base_is_read_completely(tmp_path):
    """It has position ids, copies of the output layer, an unused pooler and two tokenizer files."""
    folder = tmp_path / "model"
    convert.convert(ENCODERS / "roberta_masked_lm", tmp_path / "run")
    convert.convert(tmp_path / "run", folder, "huggingface")
    arrays = load_file(folder / "model.safetensors")
    arrays["roberta.embeddings.position_ids"] = np.arange(26)[None]
    arrays["lm_head.decoder.weight"] = arrays["roberta.embeddings.word_embeddings.weight"]
    arrays["lm_head.decoder.bias"] = arrays["lm_head.bias"]
    arrays["roberta.pooler.dense.weight"] = np.ones((12, 12), np.float32)
    arrays["roberta.pooler.dense.bias"] = np.ones(12, np.float32)
    save_file(arrays, folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text())
    for field in ("tie_word_embeddings", "is_decoder", "classifier_dropout"):
        config.pop(field, None)  # files of 2019 have fewer fields
    (folder / "config.json").write_text(json.dumps(config))
    first, second = convert.read(folder), convert.read(ENCODERS / "roberta_masked_lm")
    assert (first.kind, first.heads, first.architecture) == (
        second.kind,
        second.heads,
        second.architecture,
    )
    for path, value in second.weights.items():
        np.testing.assert_array_equal(first.weights[path], value, err_msg=path)
    assert first.tokenizer.vocabulary == second.tokenizer.vocabulary
    for left_out in ("tokenizer.json", "vocab.json"):
        (folder / left_out).unlink()
        other = convert.read(folder).tokenizer
        assert (other and other.sha256) == (
            None if left_out == "vocab.json" else first.tokenizer.sha256
        )
