"""Checkpoints of other libraries: outputs equal theirs, and conversions are bitwise identical."""

import dataclasses
import itertools
import json
import pathlib
import shutil

import h5py
import huggingface_hub
import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file, save_file

from keras_attn import convert, load
from keras_attn.convert import read_ready
from keras_attn.errors import UserError
from keras_attn.families.bert import google, huggingface, kerashub
from keras_attn.ops.masks import MASKED
from tests.support.google_folders import google_weights, write_google
from tests.support.quick import quick

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
HUGGING_FACE, KERAS_HUB = GOLDEN / "hugging_face", GOLDEN / "keras_hub"
NAMES = (
    "encoder", "pretraining", "masked_lm", "untied", "classifier", "regression", "reader", "tagger",
    "prenorm_encoder", "prenorm_masked_lm", "prenorm_classifier", "prenorm_tagger",
)  # fmt: skip


@pytest.fixture(scope="module")
def outputs():
    with np.load(HUGGING_FACE / "outputs.npz", allow_pickle=False) as file:
        return dict(file)


def with_tanh(folder, name):
    """Copies a golden folder, with the activation of google-research/bert and KerasHub."""
    copy = folder / name
    shutil.copytree(HUGGING_FACE / name, copy)
    config = json.loads((copy / "config.json").read_text())
    config["hidden_act"] = "gelu_new"
    (copy / "config.json").write_text(json.dumps(config))
    return copy


def tensors(folder):
    """Returns all tensors of a folder."""
    found = {}
    for path in sorted(pathlib.Path(folder).glob("*.safetensors")):
        found |= load_file(path)
    return found


def assert_same_bits(found, expected):
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].dtype == array.dtype and found[name].shape == array.shape, name
        assert found[name].tobytes() == array.tobytes(), name


@pytest.mark.parametrize("name", NAMES)
def test_outputs_equal_those_of_transformers(name, outputs):
    inputs = {
        key.removeprefix("inputs/"): value
        for key, value in outputs.items()
        if key.startswith("inputs/")
    }
    real = inputs["padding_mask"] > 0
    inputs["mask_positions"] = np.tile(np.arange(11, dtype=np.int32), (3, 1))
    model = read_ready(HUGGING_FACE / name).make_model()
    found = model(inputs)
    expected = {
        key.split("/")[1]: value for key, value in outputs.items() if key.startswith(f"{name}/")
    }
    assert expected
    for key, value in expected.items():
        ours = np.asarray(found[key])
        if key == "span_logits":  # transformers also returns logits of the question
            real = ours[:, :, 0] > MASKED
            assert real.sum() == 4 + 3 + 3 + 3  # with [CLS]
        if value.ndim == 3:  # one row per token
            ours, value = ours[real], value[real]
        np.testing.assert_allclose(ours, value, 1e-5, 1e-5, err_msg=key)


def test_a_folder_like_bert_base_uncased_is_read_completely(tmp_path, outputs):
    """It names BertForMaskedLM, and has old names of layer norms and duplicate tensors."""
    folder = tmp_path / "model"
    shutil.copytree(HUGGING_FACE / "pretraining", folder)
    config = json.loads((folder / "config.json").read_text())
    config["architectures"] = ["BertForMaskedLM"]
    (folder / "config.json").write_text(json.dumps(config))
    arrays = {}
    for name, array in tensors(folder).items():
        name = name.replace("LayerNorm.weight", "LayerNorm.gamma")
        arrays[name.replace("LayerNorm.bias", "LayerNorm.beta")] = array
    arrays["bert.embeddings.position_ids"] = np.arange(16)[None]
    arrays["cls.predictions.decoder.weight"] = arrays["bert.embeddings.word_embeddings.weight"]
    arrays["cls.predictions.decoder.bias"] = arrays["cls.predictions.bias"]
    save_file(arrays, folder / "model.safetensors")
    first, second = convert.read(folder), convert.read(HUGGING_FACE / "pretraining")
    assert (first.kind, first.heads, first.architecture) == (
        second.kind,
        second.heads,
        second.architecture,
    )
    for path, value in second.weights.items():
        np.testing.assert_array_equal(first.weights[path], value, err_msg=path)


@pytest.mark.parametrize("name", quick(NAMES, "encoder", "pretraining", "classifier"))
def test_transformers_to_workdir_and_back_is_bitwise_identical(name, tmp_path):
    convert.convert(HUGGING_FACE / name, tmp_path / "run")
    convert.convert(tmp_path / "run", tmp_path / "back", "huggingface")
    assert_same_bits(tensors(tmp_path / "back"), tensors(HUGGING_FACE / name))
    was, now = (
        json.loads((folder / "config.json").read_text())
        for folder in (HUGGING_FACE / name, tmp_path / "back")
    )
    for field in now.keys() & was.keys():
        assert was[field] is None or now[field] == was[field], field
    first, second = (convert.read(folder) for folder in (HUGGING_FACE / name, tmp_path / "back"))
    assert first.tokenizer.vocabulary == second.tokenizer.vocabulary
    for field in ("kind", "architecture", "heads", "lowercase", "files"):
        assert getattr(first, field) == getattr(second, field), field


def test_a_pre_norm_model_is_exported_to_transformers(tmp_path):
    source = GOLDEN / "workdirs_0_1/bert"  # with gelu_tanh and next-sentence prediction
    convert.convert(source, tmp_path / "encoder", "huggingface", task="encoder")
    first, second = (convert.read(folder) for folder in (source, tmp_path / "encoder"))
    assert json.loads((tmp_path / "encoder/config.json").read_text())["model_type"] == (
        "roberta-prelayernorm"
    )
    kept = {"initial_attention": second.architecture["initial_attention"]}  # of training only
    assert second.architecture == {**first.architecture, **kept}
    for path, value in second.weights.items():
        np.testing.assert_array_equal(first.weights[path], value, err_msg=path)
    with pytest.raises(UserError, match="has activation=gelu_erf; train with model.activation"):
        convert.convert(source, tmp_path / "other", "huggingface")
    convert.convert(HUGGING_FACE / "prenorm_masked_lm", tmp_path / "run")
    convert.convert(
        tmp_path / "run", tmp_path / "with", "workdir", task="pretraining", new_heads=True
    )
    with pytest.raises(UserError, match="has next_sentence=False; convert without .*masked_lm"):
        convert.convert(tmp_path / "with", tmp_path / "other", "huggingface")
    with pytest.raises(UserError, match="KerasHub supports only .* norm_first=False"):
        convert.convert(source, tmp_path / "other", "kerashub", task="encoder")


def test_squared_relu_is_read_and_written_and_normalized_queries_are_refused(tmp_path):
    folder = tmp_path / "theirs"
    shutil.copytree(HUGGING_FACE / "encoder", folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "hidden_act": "relu2"}))
    convert.convert(folder, tmp_path / "run")
    trained = read_ready(tmp_path / "run")
    assert trained.architecture["activation"] == "relu2"
    convert.convert(tmp_path / "run", tmp_path / "back", "huggingface")
    assert json.loads((tmp_path / "back/config.json").read_text())["hidden_act"] == "relu2"
    normed = {**trained.architecture, "activation": "gelu_tanh", "qk_norm": True}
    normed = dataclasses.replace(trained, architecture=normed)
    for format in (google, huggingface, kerashub):
        with pytest.raises(UserError, match="supports only BERT .* qk_norm=False. Received: qk_n"):
            format.write(str(tmp_path / "refused"), normed)


@pytest.mark.thorough
def test_multilabel_classifiers_stay_multilabel(tmp_path):
    folder = tmp_path / "multilabel"
    shutil.copytree(HUGGING_FACE / "classifier", folder)
    fields = json.loads((folder / "config.json").read_text())
    fields["problem_type"] = "multi_label_classification"
    (folder / "config.json").write_text(json.dumps(fields))
    convert.convert(folder, tmp_path / "run")
    predictor = load(str(tmp_path / "run"))
    single = load(str(HUGGING_FACE / "classifier"))
    texts = ["a film", "", "another one"]
    odds = np.log(single.probabilities(texts))
    found = predictor.probabilities(texts)
    # Differences of log probabilities equal differences of logits.
    np.testing.assert_allclose(np.diff(np.log(found / (1 - found))), np.diff(odds), atol=1e-5)
    assert predictor.kind == "multilabel"
    convert.convert(tmp_path / "run", tmp_path / "back", "huggingface")
    config = json.loads((tmp_path / "back" / "config.json").read_text())
    assert config["problem_type"] == "multi_label_classification"
    with pytest.raises(UserError, match="multilabel=False"):
        convert.convert(tmp_path / "run", tmp_path / "google", "google")


@pytest.mark.parametrize(
    "name", quick(["encoder", "pretraining", "classifier", "regression"], "encoder", "pretraining")
)
def test_transformers_to_google_and_back_is_bitwise_identical(name, tmp_path):
    start = with_tanh(tmp_path, name)
    convert.convert(start, tmp_path / "google", "google")
    convert.convert(tmp_path / "google", tmp_path / "run")
    convert.convert(tmp_path / "run", tmp_path / "back", "huggingface")
    assert_same_bits(tensors(tmp_path / "back"), tensors(start))
    assert convert.read(tmp_path / "back").files == convert.read(start).files


def test_keras_hub_to_workdir_and_back_is_bitwise_identical(tmp_path):
    convert.convert(KERAS_HUB, tmp_path / "run")
    convert.convert(tmp_path / "run", tmp_path / "back", "kerashub")
    found, expected = {}, {}
    for arrays, folder in ((found, tmp_path / "back"), (expected, KERAS_HUB)):
        with h5py.File(folder / "model.weights.h5") as file:

            def note(name, entry, arrays=arrays):
                if isinstance(entry, h5py.Dataset):
                    arrays[name] = entry[()]

            file.visititems(note)
    assert len(expected) == 5 + 3 * 16 + 2
    assert_same_bits(found, expected)


def test_outputs_equal_those_of_keras_hub():
    with np.load(KERAS_HUB / "outputs.npz", allow_pickle=False) as file:
        golden = dict(file)
    inputs = {
        key.removeprefix("inputs/"): golden.pop(key)
        for key in list(golden)
        if key.startswith("inputs/")
    }
    found = read_ready(KERAS_HUB).make_model()(inputs)
    real = inputs["padding_mask"] > 0
    np.testing.assert_allclose(
        np.asarray(found["sequence_output"])[real], golden["sequence_output"][real], 1e-5, 1e-5
    )
    np.testing.assert_allclose(found["pooled_output"], golden["pooled_output"], 1e-5, 1e-5)


GELU = np.sqrt(2 / np.pi)


def google_forward(weights, ids, segments, mask, heads):
    """The formulas of google-research/bert's modeling.py and run_pretraining.py, in float64."""
    w = {name: value.astype(np.float64) for name, value in weights.items()}

    def norm(x, name):
        mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - mean) / np.sqrt(variance + 1e-12) * w[f"{name}/gamma"] + w[f"{name}/beta"]

    def dense(x, name):
        return x @ w[f"{name}/kernel"] + w[f"{name}/bias"]

    def gelu(x):
        return x * 0.5 * (1 + np.tanh(GELU * (x + 0.044715 * x**3)))

    def split(x):
        return x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)

    table = w["bert/embeddings/word_embeddings"]
    x = table[ids] + w["bert/embeddings/token_type_embeddings"][segments]
    x = norm(
        x + w["bert/embeddings/position_embeddings"][: ids.shape[1]], "bert/embeddings/LayerNorm"
    )
    for layer in itertools.count():
        name = f"bert/encoder/layer_{layer}"
        if f"{name}/output/dense/kernel" not in w:
            break
        q, k, v = (
            split(dense(x, f"{name}/attention/self/{part}")) for part in ("query", "key", "value")
        )
        scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(q.shape[-1])
        scores = np.exp(scores - 10000.0 * (1 - mask[:, None, None, :]))
        context = (scores / scores.sum(-1, keepdims=True)) @ v
        context = context.transpose(0, 2, 1, 3).reshape(x.shape)
        x = norm(
            dense(context, f"{name}/attention/output/dense") + x,
            f"{name}/attention/output/LayerNorm",
        )
        inner = gelu(dense(x, f"{name}/intermediate/dense"))
        x = norm(dense(inner, f"{name}/output/dense") + x, f"{name}/output/LayerNorm")
    pooled = np.tanh(dense(x[:, 0], "bert/pooler/dense"))
    hidden = norm(
        gelu(dense(x, "cls/predictions/transform/dense")), "cls/predictions/transform/LayerNorm"
    )
    return {
        "sequence_output": x,
        "pooled_output": pooled,
        "mlm_logits": hidden @ table.T + w["cls/predictions/output_bias"],
        "nsp_logits": pooled @ w["cls/seq_relationship/output_weights"].T
        + w["cls/seq_relationship/output_bias"],
    }


def test_a_checkpoint_of_google_equals_its_formulas(tmp_path):
    weights = google_weights()
    folder = write_google(tmp_path / "google", weights)
    random = np.random.default_rng(1)
    ids = random.integers(0, 31, (3, 9)).astype(np.int32)
    segments = (np.arange(9) > 4).astype(np.int32)[None].repeat(3, 0)
    mask = np.array([[1] * 9, [1] * 5 + [0] * 4, [1] * 8 + [0]], np.int32)
    model = read_ready(folder, lowercase=True).make_model()
    found = model(
        {
            "token_ids": ids,
            "segment_ids": segments,
            "padding_mask": mask,
            "mask_positions": np.tile(np.arange(9, dtype=np.int32), (3, 1)),
        }
    )
    for name, expected in google_forward(weights, ids, segments, mask, 3).items():
        ours = np.asarray(found[name])
        if expected.ndim == 3:
            ours, expected = ours[mask > 0], expected[mask > 0]
        np.testing.assert_allclose(ours, expected, 1e-5, 1e-5, err_msg=name)


def squad_weights():
    """Returns random weights with the names and shapes of run_squad.py."""
    random = np.random.default_rng(4)
    return {name: value for name, value in google_weights().items() if "cls/" not in name} | {
        "cls/squad/output_weights": random.standard_normal((2, 12)).astype("float32"),
        "cls/squad/output_bias": random.standard_normal(2).astype("float32"),
    }


@pytest.mark.thorough
def test_the_threshold_of_a_question_answerer_is_converted(tmp_path):
    convert.convert(HUGGING_FACE / "reader", tmp_path / "run")
    passage = "a red cat sees " * 9
    always = load(str(tmp_path / "run")).answer("red cat", passage)  # it has 16 positions
    assert always["answer"] and always["answer"] in passage
    (tmp_path / "run/reading.json").write_text('{"threshold": -1e9}')
    for step, (name, format) in enumerate((("theirs", "huggingface"), ("ours", "workdir"))):
        convert.convert(tmp_path / ("run", "theirs")[step], tmp_path / name, format)
        reader = load(str(tmp_path / name))
        assert reader.threshold == -1e9 and reader.answer("red cat", passage)["answer"] == ""
    config = json.loads((tmp_path / "theirs/config.json").read_text())
    (tmp_path / "theirs/config.json").write_text(
        json.dumps({**config, "no_answer_threshold": "high"})
    )
    with pytest.raises(UserError, match="no_answer_threshold must be a number"):
        convert.read(tmp_path / "theirs")


@pytest.mark.thorough
def test_a_question_answerer_of_google_equals_its_formula(tmp_path):
    weights = squad_weights()
    model = read_ready(write_google(tmp_path / "google", weights), lowercase=True).make_model()
    ids = np.random.default_rng(1).integers(0, 31, (2, 9)).astype(np.int32)
    segments = (np.arange(9) > 3).astype(np.int32)[None].repeat(2, 0)
    found = model({"token_ids": ids, "segment_ids": segments})
    expected = np.asarray(found["sequence_output"]) @ weights["cls/squad/output_weights"].T
    np.testing.assert_allclose(
        np.asarray(found["span_logits"])[:, 4:8],
        (expected + weights["cls/squad/output_bias"])[:, 4:8],
        1e-5,
        1e-5,
    )


@pytest.mark.parametrize("make_weights", quick([google_weights, squad_weights], google_weights))
def test_google_to_workdir_and_back_is_bitwise_identical(make_weights, tmp_path):
    weights = make_weights()
    folder = write_google(tmp_path / "google", weights)
    with pytest.raises(UserError, match="does not specify whether text is lower-cased"):
        convert.convert(folder, tmp_path / "run")
    convert.convert(folder, tmp_path / "run", lowercase=False)
    convert.convert(tmp_path / "run", tmp_path / "back", "google")
    reader = tf.train.load_checkpoint(str(tmp_path / "back/bert_model.ckpt"))
    names = reader.get_variable_to_shape_map()
    assert_same_bits({name: reader.get_tensor(name) for name in names}, weights)
    assert convert.read(tmp_path / "back").lowercase is False


def test_one_of_several_checkpoints_of_google_is_selected_by_name(tmp_path):
    folder = write_google(tmp_path / "google", google_weights())
    for file in folder.glob("bert_model.ckpt.*"):
        shutil.copy(file, folder / file.name.replace("bert_model", "other"))
    with pytest.raises(UserError, match="bert_model.ckpt, other.ckpt"):
        convert.read(folder)
    assert convert.read(folder / "other.ckpt").kind == "pretraining"


def test_a_model_on_the_hub_is_read_from_its_cache(tmp_path, monkeypatch):
    """The layout of the cache of huggingface_hub, without a network."""
    commit = "0123456789abcdef0123456789abcdef01234567"
    cached = tmp_path / "models--someone--small-bert"
    shutil.copytree(HUGGING_FACE / "pretraining", cached / "snapshots" / commit)
    (cached / "refs").mkdir()
    (cached / "refs/main").write_text(commit)
    download = huggingface_hub.snapshot_download

    def offline(*args, **options):
        wanted = huggingface_hub.utils.filter_repo_objects(
            [
                "config.json",
                "model.safetensors",
                "pytorch_model.bin",
                "onnx/model.safetensors",
                "special_tokens_map.json",
                "optimizer.pt",
            ],
            allow_patterns=options["allow_patterns"],
            ignore_patterns=options["ignore_patterns"],
        )
        # No pickle is downloaded.
        assert list(wanted) == ["config.json", "model.safetensors", "special_tokens_map.json"]
        return download(*args, **options, cache_dir=tmp_path, local_files_only=True)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", offline)
    assert convert.read("hf:someone/small-bert").kind == "pretraining"
    convert.convert(f"hf:someone/small-bert@{commit}", tmp_path / "run")
    assert convert.read(tmp_path / "run").kind == "pretraining"
    with pytest.raises(UserError, match="hf:someone/else") as error:
        convert.read("hf:someone/else")
    assert "\n" not in str(error.value)


def test_an_unknown_name_and_a_missing_network_are_different_errors(monkeypatch):
    missing = huggingface_hub.utils.RepositoryNotFoundError

    def fail(error):
        def download(*args, **options):
            raise error

        monkeypatch.setattr(huggingface_hub, "snapshot_download", download)

    fail(missing.__new__(missing))  # its arguments depend on the version
    with pytest.raises(UserError, match="has no public model 'someone/else'"):
        convert.read("hf:someone/else")
    fail(OSError("Name or service not known"))
    with pytest.raises(UserError, match="not in the cache: Name or service not known"):
        convert.read("hf:someone/else")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_read_exactly_as_float32(dtype, tmp_path):
    shutil.copytree(HUGGING_FACE / "pretraining", tmp_path / "model")
    halves = {
        name: value.astype(dtype)
        for name, value in load_file(tmp_path / "model/model.safetensors").items()
    }
    save_file(halves, tmp_path / "model/model.safetensors")
    convert.convert(tmp_path / "model", tmp_path / "back", "huggingface")
    assert_same_bits(
        tensors(tmp_path / "back"),
        {name: value.astype(np.float32) for name, value in halves.items()},
    )


def test_a_preset_of_keras_2_is_read(tmp_path):
    shutil.copytree(KERAS_HUB, tmp_path / "old")
    with h5py.File(tmp_path / "old/model.weights.h5", "a") as file:
        file.move("layers", "_layer_checkpoint_dependencies")
    found, expected = (convert.read(folder).weights for folder in (tmp_path / "old", KERAS_HUB))
    assert_same_bits(
        {name: np.asarray(value) for name, value in found.items()},
        {name: np.asarray(value) for name, value in expected.items()},
    )


def test_a_loaded_model_keeps_its_initializers_and_shares_no_memory_with_another():
    saved = read_ready(HUGGING_FACE / "pretraining")
    models = [saved.make_model() for _ in range(2)]
    initializer = models[0].mlm_dense.kernel_initializer
    assert 0.01 < np.std(initializer((100, 100))) < 0.03
    expected = models[1].get_weights()
    for variable in models[0].variables:
        variable.assign_add(tf.ones_like(variable))
    for found, value in zip(models[1].get_weights(), expected, strict=True):
        np.testing.assert_array_equal(found, value)
    for path, weight in saved.weights.items():
        np.testing.assert_array_equal(np.asarray(weight), np.asarray(saved.weights[path]))
