"""Tables of TensorFlow Datasets against the examples that were stored."""

import socket
import urllib.request
from collections import Counter

import pytest

from keras_attn.data.sources.tables import read_table
from keras_attn.data.sources.text_sources import plan_source, read_task
from tests.support.refused_tables import refused


def _store(folder, name, labels_of=lambda labels: labels, **splits):
    """A TFDS data set of texts and labels; -1 is a hidden label."""
    import tensorflow as tf
    import tensorflow_datasets as tfds

    def split(texts, labels):
        constant = tf.constant if isinstance(labels[0], int) else tf.ragged.constant
        columns = {"text": texts, "label": constant(labels, tf.int64)}
        return tf.data.Dataset.from_tensor_slices(columns)

    tfds.dataset_builders.store_as_tfds_dataset(
        name=name,
        version="1.0.0",
        data_dir=folder,
        features=tfds.features.FeaturesDict(
            {
                "text": tfds.features.Text(),
                "label": labels_of(tfds.features.ClassLabel(names=["no", "yes"])),
            }
        ),
        split_datasets={key: split(*columns) for key, columns in splits.items()},
    )
    tfds.core.add_data_dir(str(folder))


@pytest.mark.thorough
def test_tfds_examples_are_rows_and_classes_their_names(tmp_path):
    _store(tmp_path, "toy_reviews", train=(["a", "é\tü", "c"], [0, 1, 1]), test=(["x"], [-1]))
    columns = {"text": "text", "label": "label"}
    for source in ("tfds:toy_reviews", "tfds:toy_reviews:1.0.0", "tfds:toy_reviews:1.0.0:train"):
        table = read_table(source, **columns)
        assert sorted(zip(table.texts, table.labels, strict=True)) == [
            ("a", "no"), ("c", "yes"), ("é\tü", "yes")
        ]  # fmt: skip
    assert len(read_table("tfds:toy_reviews:train[1:]", **columns)) == 2
    assert len(read_table("tfds:toy_reviews:train+test", text="text")) == 4
    assert read_table("tfds:toy_reviews:test", text="text").texts == ["x"]
    assert "example 1" in refused("label", "tfds:toy_reviews:test", label="label")
    refused("one of train, test.*Received: tran", "tfds:toy_reviews:tran")
    refused("one of train, test.*Received: all", "tfds:toy_reviews:all[0:7]")
    refused("must contain an example", "tfds:toy_reviews:train[0:0]")
    refused("Did you mean text", "tfds:toy_reviews", text="texts")
    refused("not found", "tfds:toy_revue")
    refused("not found", "tfds:toy_reviews:2.0.0")
    refused(r"tfds:NAME\[/CONFIG\]", "tfds:")


def test_a_tfds_name_without_a_split_is_that_of_the_split_asked_for(tmp_path):
    _store(tmp_path, "two_splits", train=(["a"], [0]), validation=(["v"], [1]))
    table = read_table("tfds:two_splits", text="text", split="validation")
    assert table.texts == ["v"]
    assert table.where(0) == "tfds:two_splits:validation, example 1"
    assert read_table("tfds:two_splits:train", text="text", split="validation").texts == ["a"]
    refused("one of train, validation, .*Received: test", "tfds:two_splits", split="test")


def test_every_split_that_tfds_can_name_is_read_once(tmp_path):
    texts = [sign * 40 for sign in "abcdxyz"]
    _store(tmp_path, "split_texts", train=(texts[:4], [0] * 4), test=(texts[4:], [1] * 3))
    for split, number in (("train+test", 7), ("all", 7), ("train[:2]+test", 5), ("test", 3)):
        table = read_table(f"tfds:split_texts:{split}", text="text")
        assert len(table) == len(set(table.texts)) == number
        plan = plan_source(f"tfds:split_texts:{split}", tokens_per_shard=1)
        read = [read_task(plan, task, Counter()) for task in range(len(plan["tasks"]))]
        found = [text for documents in read for (text,) in documents]
        assert len(found) == len(set(found)) == number and set(found) <= set(texts)


def test_undecodable_tfds_text_is_an_error_or_counted(tmp_path):
    _store(tmp_path, "latin_reviews", train=([b"na\xefve", b"fine"], [0, 1]))
    assert "example" in refused("utf-8.*on_bad_text=skip", "tfds:latin_reviews")
    table = read_table("tfds:latin_reviews", text="text", on_bad_text="skip")
    assert (table.texts, table.skipped) == (["fine"], {"encoding": 1})


def _failures():
    from tensorflow_datasets.core.download.download_manager import NonMatchingChecksumError
    from tensorflow_datasets.core.download.util import DownloadError

    return [
        DownloadError("Failed to get url http://x. HTTP code: 404."),
        NonMatchingChecksumError("Artifact http://x has wrong checksum:\n* Expected: 1\n* Got: 2"),
        ConnectionError("Max retries exceeded"),
        AssertionError("Manual directory x does not exist or is empty. Create it\nand download"),
        ModuleNotFoundError("No module named 'mwparserfromhell'"),
    ]


@pytest.mark.parametrize("number", range(5))
def test_a_download_that_fails_is_an_error_in_one_line(tmp_path, monkeypatch, number):
    import tensorflow_datasets as tfds

    failure = _failures()[number]
    name = f"unreachable_reviews{number}"

    def split_generators(self, manager):
        raise failure

    members = {
        "VERSION": tfds.core.Version("1.0.0"),
        "_info": lambda self: tfds.core.DatasetInfo(
            builder=self, features=tfds.features.FeaturesDict({"text": tfds.features.Text()})
        ),
        "_split_generators": split_generators,
        "_generate_examples": lambda self: iter(()),
        "__module__": __name__,
    }
    type(f"UnreachableReviews{number}", (tfds.core.GeneratorBasedBuilder,), members)
    message = refused("pass local files. Received: tfds:unreachable", f"tfds:{name}")
    assert str(failure).splitlines()[0] in message


def test_several_labels_of_a_tfds_example_are_a_list(tmp_path):
    import tensorflow_datasets as tfds

    _store(tmp_path, "toy_tags", tfds.features.Sequence, train=(["a", "b", "c"], [[0, 1], [], [1]]))
    table = read_table("tfds:toy_tags", text="text", label="label")
    assert sorted(zip(table.texts, table.labels, strict=True)) == [
        ("a", '["no", "yes"]'), ("b", "[]"), ("c", '["yes"]')
    ]  # fmt: skip


def _downloadable(monkeypatch, folder, name, url):
    """Makes TFDS know a data set that is downloaded from a URL, and fails in the attempt."""
    import tensorflow_datasets as tfds

    def download(*_):
        raise RuntimeError("TFDS tried")

    info = tfds.core.DatasetInfo
    monkeypatch.setattr(urllib.request, "getproxies", dict)
    members = {
        "VERSION": tfds.core.Version("1.0.0"),
        "name": name,
        "url_infos": {url: None},
        "_info": lambda self: info(
            builder=self, features=tfds.features.FeaturesDict({"text": tfds.features.Text()})
        ),
        "_split_generators": download,
        "_generate_examples": download,
    }
    made = type(name, (tfds.core.GeneratorBasedBuilder,), members)
    monkeypatch.setattr(tfds, "builder", lambda _: made(data_dir=str(folder)))


def test_a_tfds_set_that_cannot_be_downloaded_is_refused_at_once(tmp_path, monkeypatch):
    # No name in .invalid is ever found (RFC 2606).
    _downloadable(monkeypatch, tmp_path, "far_reviews", "https://keras-attn.invalid/a.zip")
    refused(
        "is not in .*far_reviews.*keras-attn.invalid is not reachable .*TFDS_DATA_DIR",
        "tfds:far_reviews",
    )
    assert not (tmp_path / "far_reviews").exists()
    monkeypatch.setattr(urllib.request, "getproxies", lambda: {"https": "http://proxy"})
    refused("TFDS tried", "tfds:far_reviews")  # through the proxy
    monkeypatch.setattr(urllib.request, "getproxies", dict)
    (tmp_path / "downloads/far_reviews").mkdir(parents=True)
    (tmp_path / "downloads/far_reviews/a.zip.INFO.json").write_text("{}")
    refused("TFDS tried", "tfds:far_reviews")  # with what it downloaded before


def test_a_tfds_set_whose_host_answers_is_downloaded(tmp_path, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        _downloadable(
            monkeypatch,
            tmp_path,
            "near_reviews",
            f"http://127.0.0.1:{server.getsockname()[1]}/a.zip",
        )
        refused("TFDS tried", "tfds:near_reviews")
