import pytest
import tensorflow as tf

from keras_attn.data.shards.prepare import sample_texts
from keras_attn.data.shards.prepare_folder import prepare_folder
from keras_attn.data.shards.shard_files import read_shard
from keras_attn.data.sources import text_sources as sources
from keras_attn.errors import UserError
from tests.support.small_corpus import WORDS, run, shard_documents, write_files


def test_docstrings_are_a_source(tmp_path, monkeypatch):
    monkeypatch.setattr(sources.docstrings, "fingerprint", lambda: "same")
    monkeypatch.setattr(
        sources.docstrings, "docstring_documents", lambda split: [["ak al ."], [f"{split} ."]]
    )
    train = run("docstrings", tmp_path / "train")
    assert train["report"]["documents"] == 2 and train["report"]["tokens"] == 5
    assert train["source"]["source"]["docstrings"] == "train"
    texts = list(sample_texts("docstrings", split="validation"))
    assert texts == ["ak al .", "validation ."]


def test_a_vocabulary_is_trained_on_the_split_that_is_prepared(tmp_path, monkeypatch):
    words = {"train": "abra", "validation": "zulu"}
    monkeypatch.setattr(sources.docstrings, "fingerprint", lambda: "same")
    monkeypatch.setattr(
        sources.docstrings, "docstring_documents", lambda split: [[f"{words[split]} ."]] * 9
    )
    for split, word in words.items():
        folder = tmp_path / split
        index = prepare_folder("docstrings", str(folder), vocab_size=80, split=split, log=[].append)
        assert word in (folder / "vocab.txt").read_text().splitlines()
        assert index["report"]["unknown_share"] == 0


def test_a_sample_comes_from_all_files_and_has_about_the_size_asked_for(tmp_path):
    source, files = write_files(tmp_path / "text", documents=100)
    everything = list(sample_texts(source, format="lines"))
    assert sorted(everything) == sorted(s for f in files.values() for d in f for s in d)
    sample = list(sample_texts(source, format="lines", limit_bytes=12_000))
    assert sample == list(sample_texts(source, format="lines", limit_bytes=12_000))
    assert 12_000 <= sum(map(len, sample)) <= 12_000 + 12 * 300
    for documents in files.values():
        assert documents[0][0] in sample


@pytest.mark.parametrize("content", ["", " \n\n\t"])
def test_a_sample_of_nothing_is_an_error(tmp_path, content):
    (tmp_path / "a.txt").write_text(content)
    with pytest.raises(UserError, match="at least one word.*a.txt"):
        list(sample_texts(str(tmp_path / "a.txt")))


@pytest.mark.thorough
def test_tfds_records_are_documents(tmp_path):
    import tensorflow_datasets as tfds

    texts = [f"{word} is one. It is {word}\nak al." for word in WORDS[:20]]
    records = {"text": texts, "number": list(range(20)), "other": ["x"] * 20}
    tfds.dataset_builders.store_as_tfds_dataset(
        name="plain_texts",
        version="1.0.0",
        data_dir=tmp_path / "tfds",
        features=tfds.features.FeaturesDict(
            {"text": tfds.features.Text(), "number": tf.int64, "other": tf.string}
        ),
        split_datasets={"train": tf.data.Dataset.from_tensor_slices(records)},
    )
    tfds.core.add_data_dir(str(tmp_path / "tfds"))
    index = run("tfds:plain_texts", tmp_path / "shards", tokens_per_shard=60)
    assert len(index["shards"]) > 1
    assert index["report"]["documents"] == 20 and index["report"]["sentences"] == 60
    found = [
        shard_documents(read_shard(str(tmp_path / "shards" / shard["file"])))
        for shard in index["shards"]
    ]
    firsts = {document[0].split()[0] for documents in found for document in documents}
    assert firsts == set(WORDS[:20])
    assert len(list(sample_texts("tfds:plain_texts"))) == 60
    assert len(sources.plan_source("tfds:plain_texts", tokens_per_shard=1)["tasks"]) == 20
    assert len(sources.plan_source("tfds:plain_texts", most_tasks=3)["tasks"]) <= 3
    part = run("tfds:plain_texts:train[:25%]", tmp_path / "part")
    assert part["report"]["documents"] == 5
    versioned = run("tfds:plain_texts:1.0.0:train", tmp_path / "other", field="other")
    assert versioned["report"]["tokens"] == 20
    for source, options, message in (
        ("tfds:plain_texts:test", {}, "one of train"),
        ("tfds:plain_texts", {"field": "number"}, "other, text. Received: number"),
        ("tfds:no_such_texts", {}, "Unknown TFDS dataset"),
    ):
        with pytest.raises(UserError, match=message):
            run(source, tmp_path / "none", **options)


def test_lines_of_a_text_as_it_stands_are_no_sentences(tmp_path):
    path = tmp_path / "a.py"
    path.write_text("def f():\n    return 1\n\nprint(f())\n" * 20)
    assert sources.plan_source(str(path))["format"] == "lines"
    assert sources.plan_source(str(path), verbatim=True)["format"] == "paragraphs"
    assert sources.plan_source(str(path), verbatim=True, format="lines")["format"] == "lines"
