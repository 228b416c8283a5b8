import subprocess
import sys
import types

import keras
import numpy as np
import pytest

import keras_attn
from finetune.predict import show_attention
from keras_attn.errors import UserError
from keras_attn.visualize import attention_maps, attention_of_text
from tests.support.attention_page import unpacked
from tests.support.small_reports import finetuned


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return finetuned(tmp_path_factory.mktemp("run"))[0]


def test_a_page_of_a_text_has_its_tokens_and_every_layer(run):
    model = keras_attn.load(str(run))
    batch = model.encode(["a lovely film"])
    found = unpacked(attention_of_text(model, "a lovely film"))
    maps = attention_maps(model.model, batch)
    assert list(found) == list(maps) and len(maps) == len(model.model.backbone.encoder_layers)
    for name, (queries, keys, weights) in found.items():
        assert queries == keys
        assert queries[0] == "[CLS]" and queries[-1] == "[SEP]"
        assert "".join(queries[1:-1]).replace("##", "") == "alovelyfilm"
        np.testing.assert_allclose(weights, maps[name][0, :, : len(keys), : len(keys)], atol=0.005)


def test_a_pair_is_one_row_and_what_is_too_long_is_cut(run):
    model = keras_attn.load(str(run))
    with pytest.raises(UserError, match="takes single texts"):
        attention_of_text(model, "film", "seen")
    model.pairs = None  # as of a model that takes both
    queries = next(iter(unpacked(attention_of_text(model, "film", "seen " * 40)).values()))[0]
    assert queries.count("[SEP]") == 2 and len(queries) == 16


@pytest.mark.thorough
def test_the_command_writes_a_page(run, tmp_path):
    page = tmp_path / "page.html"
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "finetune.predict",
            f"--workdir={run}",
            "--text=a lovely film",
            f"--attention={page}",
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and not done.stdout, done.stderr
    assert page.read_text("utf-8").startswith("<!doctype html>")


class Plain(keras.Model):
    def call(self, inputs, training=None):
        return {"sequence_output": inputs["token_ids"][:, :, None]}


def test_a_model_without_attention_is_an_error_with_advice():
    batch = {name: np.ones((1, 3), "int32") for name in ("token_ids", "padding_mask")}
    model = types.SimpleNamespace(encode=lambda *_: batch, model=Plain(), path="runs/plain")
    with pytest.raises(UserError, match="no attention weights.*Received: runs/plain, a Plain"):
        attention_of_text(model, "a film")


@pytest.mark.parametrize(
    ("texts", "name", "message"),
    [
        (["a", "b"], "page.html", "--attention requires exactly one --text"),
        (["a"], "page.txt", "--attention must be a file that ends in .html"),
    ],
)
def test_the_command_shows_one_text_as_html(run, tmp_path, texts, name, message):
    values = types.SimpleNamespace(
        workdir=str(run), text=texts, text_pair=None, attention=str(tmp_path / name)
    )
    with pytest.raises(UserError, match=message):
        show_attention(values)
    assert not list(tmp_path.iterdir())
