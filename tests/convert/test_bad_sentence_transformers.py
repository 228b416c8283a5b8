"""Damaged and unsupported folders of sentence-transformers are rejected in one line."""

import json

import pytest

from keras_attn import convert, load
from keras_attn.errors import UserError
from tests.support.sentence_transformers_folders import edit, make_folder

TYPE = "sentence_transformers.models."


@pytest.fixture
def folder(tmp_path):
    return make_folder(tmp_path / "model", "dense")


def rejected(folder, message):
    with pytest.raises(UserError, match=message) as error:
        convert.convert(folder, folder.parent / "out")
    assert "\n" not in str(error.value)
    assert not (folder.parent / "out").exists()


@pytest.mark.parametrize(
    ("number", "fields", "message"),
    [
        (1, {"type": TYPE + "CNN"}, "modules must be Transformer, Pooling.*CNN.*modules.json"),
        (1, {"type": "custom.Pooling"}, "modules must be .*'custom.Pooling'.*modules.json"),
        (1, {"type": 3}, "modules must be .*Transformer, 3, Dense"),
        (0, {"type": TYPE + "StaticEmbedding"}, "modules must be .*StaticEmbedding"),
        (1, {"path": "../1_Pooling"}, "path must be a folder beside modules.json.*'../1_Pooling'"),
        (1, {"path": "/etc"}, "path must be a folder beside modules.json.*'/etc'"),
        (1, {"path": ".."}, "path must be a folder beside modules.json"),
        (1, {"path": "a/../b"}, "path must be a folder beside modules.json"),
        (2, {"path": None}, "path must be a folder beside modules.json.*None in .*modules.json"),
        (2, {"path": "5_Dense"}, "5_Dense/config.json"),
        (1, {"path": ""}, "word_embedding_dimension must be 12, .* None in .*model/config.json"),
    ],
)
def test_an_unsupported_module_is_rejected(folder, number, fields, message):
    path = folder / "modules.json"
    modules = json.loads(path.read_text())
    modules[number] |= fields
    path.write_text(json.dumps(modules))
    rejected(folder, message)


@pytest.mark.parametrize("content", ["{}", "[1]", "[", "[]"])
def test_a_damaged_list_of_modules_is_rejected(folder, content):
    (folder / "modules.json").write_text(content)
    rejected(folder, "modules.*modules.json")


def test_a_list_of_modules_that_cannot_be_read_is_not_ignored(folder):
    path = folder / "modules.json"
    path.unlink()
    path.symlink_to("missing")  # of an incomplete download
    rejected(folder, "Cannot read .*modules.json")
    path.unlink()
    path.mkdir()
    rejected(folder, "Cannot read .*modules.json")


@pytest.mark.parametrize(
    ("file", "fields", "message"),
    [
        ("1_Pooling", {"embedding_dimension": 24}, "embedding_dimension must be 12"),
        ("1_Pooling", {"embedding_dimension": ...}, "word_embedding_dimension must be 12.*None"),
        ("1_Pooling", {"pooling_mode": "sum"}, "pooling_mode must be one or more of cls, max"),
        ("1_Pooling", {"pooling_mode": ["cls", 3]}, "pooling_mode must be one or more of"),
        ("1_Pooling", {"pooling_mode": ..., "pooling_mode_sum": True}, "pooling_mode_sum is not"),
        ("1_Pooling", {"pooling_mode": ..., "pooling_mode_cls_token": 1}, "cls_token must be true"),
        ("1_Pooling", {"include_prompt": "no"}, "include_prompt must be true or false"),
        ("2_Dense", {"in_features": 24}, "in_features must be 12.*24"),
        ("2_Dense", {"in_features": True}, "in_features must be a positive integer"),
        ("2_Dense", {"out_features": 10**9}, r"linear.weight must have shape \(1000000000, 12\)"),
        ("2_Dense", {"out_features": ...}, "out_features must be a positive integer.*None"),
        ("2_Dense", {"bias": None}, "bias must be true or false"),
        ("2_Dense", {"activation_function": "os.system"}, "activation_function must be .*os.sys"),
        ("2_Dense", {"activation_function": None}, "activation_function must be one of torch.nn"),
        ("2_Dense", {"use_residual": True}, "use_residual must be unset. Received: True"),
        ("2_Dense", {"module_input_name": "token_embeddings"}, "must be sentence_embedding"),
        ("3_Normalize", {"module_input_name": "token_embeddings"}, "must be sentence_embedding"),
        ("sentence_bert_config.json", {"max_seq_length": 2}, "an integer of at least 3. .* 2 in"),
        ("sentence_bert_config.json", {"max_seq_length": "9"}, "max_seq_length must be an integer"),
        ("sentence_bert_config.json", {"do_lower_case": 1}, "do_lower_case must be true or false"),
        ("sentence_bert_config.json", {"transformer_task": "fill-mask"}, "transformer_task must"),
        ("sentence_bert_config.json", {"processor_kwargs": {"a": 1}}, "kwargs must be unset"),
        ("config_sentence_transformers.json", {"prompts": {"a": 1}}, "prompts must be an object"),
        ("config_sentence_transformers.json", {"prompts": []}, "prompts must be an object"),
        ("config_sentence_transformers.json", {"default_prompt_name": "x"}, "one of the prompts"),
        ("config_sentence_transformers.json", {"model_type": "SparseEncoder"}, "model_type must"),
    ],
)
def test_an_invalid_setting_is_rejected_with_its_file_and_name(folder, file, fields, message):
    path = folder / file / "config.json" if (folder / file).is_dir() else folder / file
    edit(path, **fields)
    rejected(folder, f"{message}.*{file}")


@pytest.mark.parametrize(
    "file",
    ["1_Pooling/config.json", "2_Dense/config.json", "3_Normalize/config.json"]
    + ["sentence_bert_config.json", "config_sentence_transformers.json"],
)
def test_damaged_files_are_rejected(folder, file):
    (folder / file).write_text("[]")
    rejected(folder, f"must be a JSON object.*{file}")
    (folder / file).write_bytes(b"\xff")
    rejected(folder, f"must be JSON.*{file}")


def test_missing_and_damaged_weights_are_rejected(folder):
    path = folder / "2_Dense/model.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    rejected(folder, "Cannot read .*2_Dense/model.safetensors: not a complete safetensors file")
    path.write_bytes(content)
    edit(folder / "2_Dense/config.json", bias=False)
    rejected(folder, "tensors in .*2_Dense do not match .*unknown: linear.bias")
    path.unlink()
    rejected(folder, "2_Dense lacks model.safetensors")
    (folder / "2_Dense/pytorch_model.bin").write_bytes(content)
    rejected(folder, "2_Dense/pytorch_model.bin is a pickle")
    (folder / "1_Pooling/config.json").unlink()
    rejected(folder, "Cannot read .*1_Pooling/config.json")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"max_length": 2}, "max_length must be an integer of at least 3"),
        ({"include_prompt": 1}, "include_prompt must be true or false"),
        ({"prompts": None}, "prompts must be an object"),
        ({"default_prompt": "x"}, "default_prompt must be one of the prompts"),
        ({"default_prompt": ["x"]}, "default_prompt must be one of the prompts"),
    ],
)
def test_an_invalid_embedding_json_of_a_workdir_is_rejected(folder, fields, message):
    workdir = folder.parent / "run"
    convert.convert(folder, workdir)
    edit(workdir / "embedding.json", **fields)
    with pytest.raises(UserError, match=f"{message}.*embedding.json"):
        load(workdir)
    (workdir / "embedding.json").unlink()
    with pytest.raises(UserError, match="lacks embedding.json"):
        load(workdir)


def test_an_invalid_head_of_a_workdir_is_rejected(folder):
    workdir = folder.parent / "run"
    convert.convert(folder, workdir)
    edit(workdir / "config.json", heads={"pooling": ["sum"], "steps": []})
    with pytest.raises(UserError, match="is not the config.json of a workdir"):
        load(workdir)
