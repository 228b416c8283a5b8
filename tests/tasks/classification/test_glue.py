"""GLUE's tasks: columns as in its files, labels as in TFDS, metrics as in its paper."""

import dataclasses

import pytest

from keras_attn.cli.config_files import find_config, load_config
from keras_attn.data.sources.table_formats import header_names
from keras_attn.data.sources.tables import read_table
from keras_attn.errors import UserError
from keras_attn.tasks.classification import glue
from keras_attn.tasks.classification.metrics import METRICS

# First lines of GLUE's own files, with a made-up row each.
FILES = {
    "sst2": ["sentence\tlabel", "a fine film \t1"],
    "cola": ["gj04\t1\t\tA fine film."],
    "rte": ["index\tsentence1\tsentence2\tlabel", "0\tA fine film.\tB.\tnot_entailment"],
    "mrpc": ["\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String", '1\t7\t8\tA "fine film.\tB.'],
    "stsb": [
        "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore",
        "0\tnews\tf\t2012\t1\ts\ts\tA fine film.\tB.\t3.800",
    ],
    "qnli": ["index\tquestion\tsentence\tlabel", "0\tA fine film?\tB.\tnot_entailment"],
    "qqp": [
        "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate",
        "0\t1\t2\tA fine film?\tB?\t1",
    ],
    "mnli": [
        "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse"
        "\tsentence1_parse\tsentence2_parse\tsentence1\tsentence2\tlabel1\tgold_label",
        "0\t1\t2\tg\t(\t(\t(\t(\tA fine film.\tB.\tneutral\tneutral",
    ],
    "wnli": ["index\tsentence1\tsentence2\tlabel", "0\tA fine film.\tB.\t1"],
}
POSITIVE = {
    "sst2": "positive",
    "cola": "acceptable",
    "mrpc": "equivalent",
    "qqp": "duplicate",
    "wnli": "entailment",
    "rte": "not_entailment",
    "qnli": "not_entailment",
    "mnli": "neutral",
}


@pytest.mark.parametrize("name", FILES)
def test_glues_own_files_are_read(tmp_path, name):
    task = glue.glue_task(name)
    (tmp_path / "train.tsv").write_text("\n".join(FILES[name]) + "\n", encoding="utf-8")
    source = task.source(str(tmp_path), "train")
    table = read_table(source, **task.columns(source))
    assert "fine film" in table.texts[0]
    if name in ("sst2", "cola"):
        assert table.text_pairs is None
    else:
        assert table.text_pairs[0][0] == "B"
    if task.regression:
        assert name == "stsb" and table.labels == ["3.800"]
    else:
        labels = task.label_set()
        assert labels.encode(table.labels).tolist() == [1]
        assert labels.names[1] == POSITIVE[name]
        assert labels.encode(list(task.label_names)).tolist() == list(range(len(labels)))


def test_the_metrics_are_those_of_glue():
    first = {name: glue.glue_task(name).metrics[0] for name in FILES}
    assert first == {
        **dict.fromkeys(("sst2", "rte", "qnli", "mnli", "wnli"), "accuracy"),
        **{"cola": "matthews", "mrpc": "f1", "qqp": "f1", "stsb": "pearson"},
    }
    assert {metric for name in first for metric in glue.glue_task(name).metrics} <= set(METRICS)


@pytest.mark.parametrize("name", FILES)
def test_columns_and_labels_are_those_of_tfds(name):
    from tensorflow_datasets.text.glue import Glue

    theirs = {config.name: config for config in Glue.BUILDER_CONFIGS}[name]
    ours = glue.glue_task(name)
    texts = [ours.tfds_text, ours.tfds_text_pair][: len(theirs.text_features)]
    assert texts == list(theirs.text_features)
    assert ours.label_names == tuple(theirs.label_classes or ())
    if name not in ("cola", "mrpc"):  # no header, and made from other files
        assert [ours.text, ours.text_pair][: len(texts)] == list(theirs.text_features.values())
        assert ours.label == theirs.label_column


def test_missing_data_come_from_tfds_and_folders_hold_glues_names(tmp_path):
    assert glue.glue_task("sst2").source(None, "train") == "tfds:glue/sst2:train"
    assert glue.glue_task("sst2").source("", "validation") == "tfds:glue/sst2:validation"
    mnli = glue.glue_task("mnli")
    assert mnli.source(None, "validation") == "tfds:glue/mnli:validation_matched"
    assert mnli.source(str(tmp_path), "validation") == str(tmp_path / "dev_matched.tsv")
    assert mnli.source("my.tsv", "validation") == "my.tsv"


# First lines of GLUE's test files.
TEST_FILES = {
    "sst2": ["index\tsentence", "0\tA fine film."],
    "cola": ["index\tsentence", "0\tA fine film."],
    "rte": ["index\tsentence1\tsentence2", "0\tA fine film.\tB."],
    "mrpc": ["index\t#1 ID\t#2 ID\t#1 String\t#2 String", "0\t7\t8\tA fine film.\tB."],
    "stsb": [
        "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2",
        "0\tnews\tf\t2012\t1\ts\ts\tA fine film.\tB.",
    ],
    "qnli": ["index\tquestion\tsentence", "0\tA fine film.\tB."],
    "qqp": ["id\tquestion1\tquestion2", "0\tA fine film.\tB."],
    "mnli": [
        "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse"
        "\tsentence1_parse\tsentence2_parse\tsentence1\tsentence2",
        "0\t1\t2\tg\t(\t(\t(\t(\tA fine film.\tB.",
    ],
    "wnli": ["index\tsentence1\tsentence2", "0\tA fine film.\tB."],
}


@pytest.mark.parametrize("name", TEST_FILES)
def test_glues_test_files_are_read_by_their_header(tmp_path, name):
    path = tmp_path / "test.tsv"
    path.write_text("\n".join(TEST_FILES[name]) + "\n", encoding="utf-8")
    columns = glue.glue_task(name).columns(str(path), header_names(str(path), "tsv", "utf-8"))
    table = read_table(str(path), text=columns["text"], text_pair=columns["text_pair"])
    pairs = None if name in ("sst2", "cola") else ["B."]
    assert (table.texts, table.text_pairs) == (["A fine film."], pairs)
    # The files with labels keep GLUE's own columns.
    path.write_text("\n".join(FILES[name]) + "\n", encoding="utf-8")
    header = header_names(str(path), "tsv", "utf-8")
    assert glue.glue_task(name).columns(str(path), header) == glue.glue_task(name).columns(
        str(path)
    )


def test_a_data_set_is_one_row_of_the_table(monkeypatch):
    snli = dataclasses.replace(glue.GLUE_TASKS["mnli"], name="snli", validation="dev", tfds="snli")
    monkeypatch.setitem(glue.GLUE_TASKS, "snli", snli)
    assert snli.source(None, "validation") == "tfds:snli:validation"
    path, argument = find_config("glue:snli")
    assert load_config(path, argument).data.task == "snli"
    assert glue.glue_task("snli") is snli


def test_an_unknown_task_is_named_with_the_nearest():
    with pytest.raises(UserError, match=r"sst2, cola.*'sst-2'. Did you mean sst2\?"):
        glue.glue_task("sst-2")


@pytest.mark.parametrize("wrong, right", [("embeding", "embedding"), ("taging", "tagging")])
def test_an_unknown_task_is_compared_with_those_of_every_kind(wrong, right):
    with pytest.raises(UserError, match=f"data.task must be one of .*Did you mean {right}"):
        glue.glue_task(wrong)
