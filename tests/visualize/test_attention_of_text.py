import subprocess
import sys

import numpy as np
import pytest
from small_reports import finetuned

import keras_attn
from keras_attn.errors import UserError
from keras_attn.visualize import attention_maps, attention_of_text
from tests.visualize.test_attention_maps import unpacked


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
        np.testing.assert_allclose(weights, maps[name][0, :, :len(keys), :len(keys)], atol=0.005)


def test_a_pair_is_one_row_and_what_is_too_long_is_cut(run):
    model = keras_attn.load(str(run))
    with pytest.raises(UserError, match="takes single texts"):
        attention_of_text(model, "film", "seen")
    model.pairs = None  # as of a model that takes both
    queries = next(iter(unpacked(attention_of_text(model, "film", "seen " * 40)).values()))[0]
    assert queries.count("[SEP]") == 2 and len(queries) == 16


def test_the_command_writes_a_page(run, tmp_path):
    def command(*flags):
        program = [sys.executable, "-m", "finetune.predict", f"--workdir={run}"]
        return subprocess.run([*program, *flags], capture_output=True, text=True)

    page = tmp_path / "page.html"
    done = command("--text=a lovely film", f"--attention={page}")
    assert done.returncode == 0 and not done.stdout, done.stderr
    assert page.read_text("utf-8").startswith("<!doctype html>")
    done = command("--text=a", "--text=b", f"--attention={page}")
    assert done.returncode == 2 and "--attention shows one --text" in done.stderr
    done = command("--text=a", f"--attention={tmp_path / 'page.txt'}")
    assert done.returncode == 2 and "--attention must be a file that ends in .html" in done.stderr
