"""ModernBERT folders of transformers: outputs, tokenizer and round trip."""

import json
import pathlib
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file

from keras_attn import convert
from keras_attn.convert import read_ready
from keras_attn.errors import UserError
from keras_attn.ops.masks import MASKED

FOLDER = pathlib.Path(__file__).parents[1] / "golden" / "modernbert"
NAMES = [path.name for path in sorted(FOLDER.iterdir()) if path.is_dir()]
TOKENIZED = json.loads((FOLDER / "tokenized.json").read_text())


@pytest.fixture(scope="module")
def arrays():
    with np.load(FOLDER / "outputs.npz", allow_pickle=False) as file:
        return dict(file)


def batch_of(arrays):
    ids = arrays["inputs/token_ids"]
    return {
        "token_ids": ids,
        "padding_mask": arrays["inputs/padding_mask"],
        "segment_ids": np.ones_like(ids)
        * (np.arange(19) > 0),  # a passage from the second token on
        "mask_positions": np.tile(np.arange(19, dtype="int32"), (3, 1)),
    }


@pytest.mark.parametrize("name", NAMES)
def test_outputs_equal_those_of_transformers(name, arrays):
    (key,) = [key for key in arrays if key.startswith(f"{name}/")]
    expected, batch = arrays[key], batch_of(arrays)
    found = np.asarray(read_ready(FOLDER / name).make_model()(batch)[key.partition("/")[2]])
    real = batch["padding_mask"] > 0
    if "span" in key:
        real = found[..., 0] > MASKED
    if expected.ndim == 3:
        found, expected = found[real], expected[real]
    np.testing.assert_allclose(found, expected, 1e-5, 1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_is_written_as_it_was_read(name, tmp_path):
    convert(FOLDER / name, tmp_path / "ours", "huggingface")
    theirs, ours = (load_file(f / "model.safetensors") for f in (FOLDER / name, tmp_path / "ours"))
    assert theirs.keys() == ours.keys()
    for key, array in theirs.items():
        np.testing.assert_array_equal(ours[key], array, err_msg=key)
    text, own = (
        json.loads((f / "tokenizer.json").read_text()) for f in (FOLDER / name, tmp_path / "ours")
    )
    assert own == text
    one, other = (read_ready(f) for f in (FOLDER / name, tmp_path / "ours"))
    assert one.architecture == other.architecture and one.heads == other.heads
    assert one.files == other.files


def test_ids_and_spans_equal_those_of_transformers():
    tokenizer = read_ready(FOLDER / "encoder").tokenizer
    for text, ids, spans in TOKENIZED["texts"]:
        found, _, places = tokenizer.encode_with_spans([text])
        assert found.tolist() == ids, text
        assert tokenizer.encode([text])[0].tolist() == ids
        for (start, stop), (first, last) in zip(places, spans, strict=True):
            assert text[start:stop].strip() == text[first:last].strip(), text
    ((first, second, row),) = TOKENIZED["pairs"]
    layout, (ids, ends) = tokenizer.row_layout, tokenizer.encode([first, second])
    parts = np.split(ids, ends[:1])
    ours = [*layout.before, *parts[0], *layout.between, *parts[1], *layout.after]
    assert [int(number) for number in ours] == row


def test_special_tokens_in_text_are_ordinary_text():
    tokenizer = read_ready(FOLDER / "encoder").tokenizer
    ids, _ = tokenizer.encode(["a [MASK] b [UNK]"])
    assert not set(ids.tolist()) & set(tokenizer.special_ids.tolist())
    assert tokenizer.decode([ids]) == ["a [MASK] b [UNK]"]


def test_older_settings_of_positions_and_layers_mean_the_same(tmp_path):
    shutil.copytree(FOLDER / "encoder", tmp_path / "old")
    config = json.loads((tmp_path / "old" / "config.json").read_text())
    del config["rope_parameters"], config["layer_types"]
    config |= {
        "global_attn_every_n_layers": 2,
        "global_rope_theta": 160000.0,
        "local_rope_theta": 10000.0,
    }
    (tmp_path / "old" / "config.json").write_text(json.dumps(config))
    assert read_ready(tmp_path / "old").architecture == read_ready(FOLDER / "encoder").architecture


@pytest.mark.parametrize(
    "change, message",
    [
        ({"layer_types": ["sliding_attention"] * 4}, "layer_types must be a full_attention"),
        ({"rope_parameters": {"full_attention": {"rope_type": "yarn"}}}, "must have the type"),
        ({"mlp_bias": True}, "mlp_bias must be False"),
        ({"norm_bias": 1}, "norm_bias must be true or false"),
        ({"decoder_bias": False}, "decoder_bias must be True"),
        ({"classifier_activation": "relu"}, "classifier_activation must be gelu"),
        ({"classifier_pooling": "max"}, "classifier_pooling must be cls or mean"),
        ({"local_attention": -2}, "window must be an integer"),
    ],
)
def test_settings_that_are_not_supported(change, message, tmp_path):
    shutil.copytree(FOLDER / "classifier", tmp_path / "other")
    config = json.loads((tmp_path / "other" / "config.json").read_text())
    (tmp_path / "other" / "config.json").write_text(json.dumps({**config, **change}))
    with pytest.raises(UserError, match=message):
        read_ready(tmp_path / "other")


@pytest.mark.parametrize(
    "change, message",
    [
        ({"pre_tokenizer": {"type": "Whitespace"}}, "pre_tokenizer.type"),
        ({"model": {"type": "WordPiece"}}, "model.type"),
        ({"added_tokens": []}, "Token ids|\\[UNK\\]"),
        ({"decoder": {"type": "Unheard"}}, "Cannot read"),
    ],
)
def test_other_tokenizers(change, message, tmp_path):
    shutil.copytree(FOLDER / "encoder", tmp_path / "other")
    path = tmp_path / "other" / "tokenizer.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(UserError, match=message):
        read_ready(tmp_path / "other")
