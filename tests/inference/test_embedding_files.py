"""Files of embeddings hold the vectors of the texts, in their order."""

import json
import pathlib
import sys

import numpy as np
import pytest
from pyarrow import parquet

from keras_attn.errors import UserError
from keras_attn.inference import embed_files
from keras_attn.inference.embed_files import embed_file, embed_texts
from keras_attn.inference.loading import load
from keras_attn.tasks.tagging.tagger import listed_sentences

CLASSIFIER = str(pathlib.Path(__file__).parents[1] / "golden/hugging_face/classifier")
TEXTS = ["great film", "", "bad", "a good film", "the cat"]


def _read(path):
    if path.suffix == ".npy":
        return np.load(path)
    if path.suffix == ".jsonl":
        return np.array([json.loads(line) for line in path.read_text().splitlines()])
    table = parquet.read_table(path)
    assert table.column_names == ["embedding"]
    return np.array(table["embedding"].to_pylist())


@pytest.mark.parametrize("ending", embed_files.OUTPUTS)
def test_each_format_holds_all_vectors(ending, tmp_path, monkeypatch):
    monkeypatch.setattr(embed_files, "CHUNK", 2)  # the last chunk is smaller
    (tmp_path / "in.jsonl").write_text("".join(json.dumps({"text": x}) + "\n" for x in TEXTS))
    path = tmp_path / f"out{ending}"
    embed_file(CLASSIFIER, str(tmp_path / "in.jsonl"), output=str(path))
    np.testing.assert_allclose(_read(path), load(CLASSIFIER).embed(TEXTS), atol=1e-6)
    assert sorted(x.name for x in tmp_path.iterdir()) == ["in.jsonl", path.name]


def test_no_texts_are_an_array_of_no_vectors(tmp_path):
    (tmp_path / "in.tsv").write_text("text\n")
    for ending in embed_files.BINARY:
        embed_file(CLASSIFIER, str(tmp_path / "in.tsv"), output=str(tmp_path / f"out{ending}"))
    size = load(CLASSIFIER).embed([]).shape[1]
    assert size > 0 and np.load(tmp_path / "out.npy").shape == (0, size)
    assert parquet.read_table(tmp_path / "out.parquet").num_rows == 0


def test_parquet_without_pyarrow_leaves_no_file(tmp_path, monkeypatch):
    for name in ("pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UserError, match=r"require pyarrow .*Received: .*out.parquet"):
        embed_texts(CLASSIFIER, ["a"], str(tmp_path / "out.parquet"))
    assert not list(tmp_path.iterdir())


def test_a_batch_has_few_padding_rows():
    model = load(CLASSIFIER)
    expected = model.embed(TEXTS)
    np.testing.assert_array_equal(model.embed(TEXTS, batch_size=10**12), expected)


def test_texts_that_are_not_strings_are_an_error():
    """Also those that Python would take for pairs of strings."""
    model = load(CLASSIFIER)
    for texts in ("a", None, 3):
        with pytest.raises(UserError, match="texts must be a list of strings. Received: "):
            model.embed(texts)
    for texts in (["a", None], ["b", ("a", "c")], [[]], [b"a"]):
        with pytest.raises(UserError, match=f"Texts must be strings.*as text {len(texts)}"):
            model.embed(texts)
    for texts in ([("a", "b"), "cd"], [("a", "b"), ("a", "b", "c")], [["a"]], [("a", "b"), (1, 2)]):
        message = f"Texts must be pairs of strings. .*as text {len(texts)}"
        with pytest.raises(UserError, match=message):
            model.predict(texts)
    with pytest.raises(UserError, match="must be strings if text_pairs is given.*'a', 'b'"):
        model.predict([("a", "b")], ["c"])
    for sentences in ("a", None, ["a"], [3], [["a"], None]):
        with pytest.raises(UserError, match="sentences must be a list of lists of words"):
            listed_sentences(sentences)
    for name, options in (("top_k", {"top_k": 1.5}), ("batch_size", {"batch_size": 0.5})):
        with pytest.raises(UserError, match=f"{name} must be a positive integer"):
            model.search(["a"], ["b"], **options)
