import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter

import numpy as np
import pytest
import tensorflow as tf

from keras_attn.data import prepare as prepare_module
from keras_attn.data import shard_writer, sources
from keras_attn.data.prepare import prepare, report_line, sample_texts
from keras_attn.data.shards import is_prepared, read_index, read_shard
from keras_attn.errors import UserError
from keras_attn.jobs.preparing import prepare_folder
from keras_attn.text.wordpiece import WordPieceTokenizer

WORDS = [f"{a}{b}" for a, b in itertools.product("abcdefgh", "klmnopqr")]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", *WORDS]
TOKENIZER = WordPieceTokenizer(VOCABULARY)


def _documents(count, seed):
    rng = random.Random(seed)
    return [
        [
            " ".join([*rng.choices([*WORDS, "unknown"], k=rng.randrange(1, 9)), "."])
            for _ in range(rng.randrange(1, 6))
        ]
        for _ in range(count)
    ]


def _write_files(folder, files=12, documents=25):
    """Writes files of one sentence a line; returns a pattern for them and their documents."""
    folder.mkdir(exist_ok=True)
    written = {}
    for number in range(files):
        name = f"{number:02d}.txt"
        written[name] = _documents(documents, number)
        text = "\n\n".join("\n".join(document) for document in written[name])
        (folder / name).write_text(text, encoding="utf-8")
    return str(folder / "*.txt"), written


def _run(source, folder, tokenizer=TOKENIZER, log=None, **options):
    options = {"format": "lines", "tokens_per_shard": 1000, "processes": 1, **options}
    log = log if log is not None else []
    return prepare(source, tokenizer, str(folder), log=log.append, **options)


def _shards(folder):
    return {path.name: path.read_bytes() for path in folder.glob("shard-*")}


def _sentences(shard):
    """The documents of a shard as lists of sentences of words."""
    sentences = np.split(shard.ids, shard.sentence_ends[:-1])
    texts = [" ".join(VOCABULARY[number] for number in sentence) for sentence in sentences]
    bounds = [0, *shard.document_ends]
    return [texts[start:stop] for start, stop in itertools.pairwise(bounds)]


def test_shards_hold_every_document_once_and_the_report_is_a_recount(tmp_path):
    source, files = _write_files(tmp_path / "text")
    # The same document again, and lines without a token.
    copied = files["03.txt"][0]
    (tmp_path / "text/99.txt").write_text("\n".join(copied) + "\n\n \x00 \n\x01\n\n\n")
    index = _run(source, tmp_path / "shards")
    found = []
    for shard in index["shards"]:
        arrays = read_shard(str(tmp_path / "shards" / shard["file"]))
        assert shard["documents"] == len(arrays.document_ends)
        assert shard["sentences"] == len(arrays.sentence_ends)
        assert shard["tokens"] == len(arrays.ids)
        found += _sentences(arrays)
    written = [d for documents in files.values() for d in documents] + [copied]
    wanted = [[s.replace("unknown", "[UNK]") for s in document] for document in written]
    assert sorted(found) == sorted(wanted)
    sentences = [sentence for document in wanted for sentence in document]
    words = Counter(word for sentence in sentences for word in sentence.split())
    report = index["report"]
    assert report["documents"] == len(wanted)
    assert report["sentences"] == len(sentences)
    assert report["tokens"] == words.total()
    assert report["unknown_share"] == words["[UNK]"] / words.total()
    different = {"\n".join(document) for document in written}
    assert report["duplicate_documents"] == len(written) - len(different) >= 1
    assert report["lines_skipped"] == 0 and report["seconds"] > 0
    assert f"{len(wanted):,} documents" in report_line(report)
    assert index == read_index(tmp_path / "shards")
    assert index["vocabulary_sha256"] == TOKENIZER.sha256 and index["lowercase"] is True


def test_shards_mix_files_and_none_is_small(tmp_path):
    source, files = _write_files(tmp_path / "text")
    index = _run(source, tmp_path / "shards")
    owner = {"\n".join(d): name for name, documents in files.items() for d in documents}
    assert len(index["shards"]) >= 3
    for shard in index["shards"]:
        assert 800 < shard["tokens"] < 2500
        documents = _sentences(read_shard(str(tmp_path / "shards" / shard["file"])))
        names = {owner["\n".join(d).replace("[UNK]", "unknown")] for d in documents}
        assert len(names) >= 2


def test_shards_have_up_to_twice_their_size_when_documents_come_one_by_one(tmp_path, monkeypatch):
    documents = _documents(400, seed=1)
    tokens = [sum(len(sentence.split()) for sentence in document) for document in documents]
    for characters in (1, 500, 10**9):
        monkeypatch.setattr(shard_writer, "_CHARACTERS", characters)
        writer = shard_writer.ShardWriter(str(tmp_path), f"{characters}", TOKENIZER, 500)
        for document in documents:
            writer.add(document)
        writer.close()
        sizes = [shard["tokens"] for shard in writer.shards]
        assert sum(sizes) == sum(tokens) and len(sizes) > 4
        assert all(500 <= size < 500 + max(tokens) for size in sizes[:-1])
        assert 500 <= sizes[-1] < 1000
        shards = [read_shard(str(tmp_path / shard["file"])) for shard in writer.shards]
        found = [document for shard in shards for document in _sentences(shard)]
        assert found == [[s.replace("unknown", "[UNK]") for s in d] for d in documents]


def test_the_shards_are_the_same_whatever_the_number_of_processes(tmp_path):
    source, _ = _write_files(tmp_path / "text")
    alone = _run(source, tmp_path / "1")
    several = _run(source, tmp_path / "2", processes=2)
    assert _shards(tmp_path / "1") == _shards(tmp_path / "2")
    for index in (alone, several):
        index["report"].pop("seconds")
        index["report"].pop("megabytes_per_second")
    assert alone == several


def test_after_a_kill_it_goes_on_and_ends_with_the_same_shards(tmp_path):
    source, _ = _write_files(tmp_path / "text", documents=2000)
    _run(source, tmp_path / "unbroken", tokens_per_shard=10_000)
    folder = tmp_path / "killed"
    code = (
        "import sys\n"
        "from tests.data.test_prepare import _run\n"
        "_run(sys.argv[1], sys.argv[2], tokens_per_shard=10_000, processes=2)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, source, str(folder)])
    while not list(folder.glob("task-*.json")) and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    time.sleep(1)  # its processes see the end of their input
    done = {path: path.stat().st_mtime_ns for path in folder.glob("task-*.json")}
    assert done and not is_prepared(folder)
    # What a process was writing must not be taken for whole.
    half = next(iter(sorted({f"shard-{n:05d}-000.npz" for n in range(99)} - set(_shards(folder)))))
    (folder / half).write_bytes(b"PK half a shard")
    (folder / f"{half}.1.unfinished").write_bytes(b"PK")
    log = []
    index = _run(source, folder, tokens_per_shard=10_000, log=log)
    assert f"{len(done)} of" in log[0]
    assert all(path.stat().st_mtime_ns == before for path, before in done.items())
    assert {shard["file"] for shard in index["shards"]} == set(_shards(tmp_path / "unbroken"))
    assert _shards(folder) == _shards(tmp_path / "unbroken")
    assert not list(folder.glob("*.unfinished"))


def test_the_same_call_again_does_nothing_and_another_source_starts_anew(tmp_path):
    source, files = _write_files(tmp_path / "text", files=2)
    folder = tmp_path / "shards"
    index = _run(source, folder)
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    log = []
    assert _run(source, folder, log=log) == index and not log
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    other = WordPieceTokenizer([*VOCABULARY, "unknown"])
    changed = _run(source, folder, other)
    assert changed["report"]["unknown_share"] == 0
    (tmp_path / "text/00.txt").write_text("ak .\n")
    index = _run(source, folder, other)
    assert index["report"]["documents"] == 1 + len(files["01.txt"])
    assert {shard["file"] for shard in index["shards"]} == set(_shards(folder))


def test_a_prepared_folder_is_a_source_if_its_vocabulary_fits(tmp_path):
    source, _ = _write_files(tmp_path / "text", files=1)
    folder = str(tmp_path / "shards")
    index = _run(source, folder)
    assert _run(folder, tmp_path / "unused") == index
    assert _run(tmp_path / "shards", tmp_path / "unused") == index
    assert not (tmp_path / "unused").exists()
    with pytest.raises(UserError, match="prepared with this vocabulary"):
        _run(folder, tmp_path / "unused", WordPieceTokenizer([*VOCABULARY, "x"]))
    with pytest.raises(UserError, match="lowercase=True"):
        _run(folder, tmp_path / "unused", WordPieceTokenizer(VOCABULARY, lowercase=False))


@pytest.mark.parametrize("content", [b"", b" \r\n\n\t", b"\x00\n\x00"])
def test_text_without_a_word_is_an_error(tmp_path, content):
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(UserError, match="at least one word.*a.txt"):
        _run(str(tmp_path / "a.txt"), tmp_path / "shards", format="auto")
    assert not is_prepared(tmp_path / "shards")


def test_a_wrong_option_or_a_missing_file_is_an_error_that_writes_nothing(tmp_path):
    source, _ = _write_files(tmp_path / "text", files=1)
    for options, message in (
        ({"format": "csv"}, "format=csv"),
        ({"on_bad_text": "ignore"}, "on_bad_text=ignore"),
        ({"encoding": "utf9"}, "utf9"),
        ({"tokens_per_shard": 0}, "positive"),
    ):
        with pytest.raises(UserError, match=message):
            _run(source, tmp_path / "shards", **options)
    with pytest.raises(UserError, match="missing.txt"):
        _run(str(tmp_path / "missing.txt"), tmp_path / "shards")
    with pytest.raises(UserError, match="split=test"):
        _run("docstrings", tmp_path / "shards", split="test")
    assert not (tmp_path / "shards").exists()


@pytest.mark.parametrize("processes", [1, 2])
def test_bad_text_is_named_by_file_and_line_or_counted(tmp_path, processes):
    source, files = _write_files(tmp_path / "text", files=4)
    path = tmp_path / "text/02.txt"
    path.write_bytes(b"ak .\n\n\xff\n\nal .\n" + b"am \xe9 .\n")
    options = {"processes": processes, "tokens_per_shard": 600}
    with pytest.raises(UserError, match=r"text/02\.txt, line 3") as error:
        _run(source, tmp_path / "shards", **options)
    assert "\n" not in str(error.value)
    assert not is_prepared(tmp_path / "shards")
    report = _run(source, tmp_path / "shards", on_bad_text="skip", **options)["report"]
    assert report["lines_skipped"] == 2
    assert report["documents"] == sum(len(files[name]) for name in files if "02" not in name) + 2


def test_a_process_that_dies_is_an_error(tmp_path, monkeypatch):
    source, _ = _write_files(tmp_path / "text")
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(RuntimeError, match="ended with status 1"):
        _run(source, tmp_path / "shards", processes=2)
    assert not is_prepared(tmp_path / "shards")


def test_a_full_disk_is_an_error_and_leaves_nothing_half_written(tmp_path):
    source, _ = _write_files(tmp_path / "text", documents=200)
    # A limit on the size of files stands for a full disk: the plan fits, a shard does not.
    code = (
        "import resource, signal, sys\n"
        "from tests.data.test_prepare import UserError, _run\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (9_000, 9_000))\n"
        "try:\n"
        "    _run(sys.argv[1], sys.argv[2], tokens_per_shard=5_000)\n"
        "except UserError as error:\n"
        "    print(error)\n"
    )
    folder = tmp_path / "shards"
    done = subprocess.run(
        [sys.executable, "-c", code, source, str(folder)], capture_output=True, text=True
    )
    assert "free space" in done.stdout and "shard-00000-000.npz" in done.stdout, done.stderr
    assert [path.name for path in folder.iterdir()] == ["plan.json"]
    _run(source, folder, tokens_per_shard=5_000)
    _run(source, tmp_path / "unbroken", tokens_per_shard=5_000)
    assert _shards(folder) == _shards(tmp_path / "unbroken")


def test_a_large_file_is_cut_into_parts_for_several_tasks(tmp_path, monkeypatch):
    from keras_attn.data import documents

    written = _documents(300, seed=5)
    text = "\n\n".join("\n".join(document) for document in written)
    (tmp_path / "a.txt").write_text(text)
    monkeypatch.setattr(documents, "PART_BYTES", 1000)
    index = _run(str(tmp_path / "a.txt"), tmp_path / "shards")
    assert len(index["shards"]) > 2
    assert index["report"]["documents"] == 300
    assert index["report"]["sentences"] == sum(map(len, written))


def test_docstrings_are_a_source(tmp_path, monkeypatch):
    monkeypatch.setattr(sources.docstrings, "fingerprint", lambda: "same")
    monkeypatch.setattr(
        sources.docstrings, "docstring_documents", lambda split: [["ak al ."], [f"{split} ."]]
    )
    train = _run("docstrings", tmp_path / "train")
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
    source, files = _write_files(tmp_path / "text", documents=100)
    everything = list(sample_texts(source, format="lines"))
    assert sorted(everything) == sorted(s for f in files.values() for d in f for s in d)
    sample = list(sample_texts(source, format="lines", limit_bytes=12_000))
    assert sample == list(sample_texts(source, format="lines", limit_bytes=12_000))
    assert 12_000 <= sum(map(len, sample)) <= 12_000 + 12 * 300
    for documents in files.values():
        assert documents[0][0] in sample


def test_tfds_records_are_documents(tmp_path):
    import tensorflow as tf
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
    index = _run("tfds:plain_texts", tmp_path / "shards", tokens_per_shard=60)
    assert len(index["shards"]) > 1
    assert index["report"]["documents"] == 20 and index["report"]["sentences"] == 60
    found = [
        _sentences(read_shard(str(tmp_path / "shards" / shard["file"])))
        for shard in index["shards"]
    ]
    firsts = {document[0].split()[0] for documents in found for document in documents}
    assert firsts == set(WORDS[:20])
    assert len(list(sample_texts("tfds:plain_texts"))) == 60
    assert len(sources.plan_source("tfds:plain_texts", tokens_per_shard=1)["tasks"]) == 20
    assert len(sources.plan_source("tfds:plain_texts", most_tasks=3)["tasks"]) <= 3
    part = _run("tfds:plain_texts:train[:25%]", tmp_path / "part")
    assert part["report"]["documents"] == 5
    versioned = _run("tfds:plain_texts:1.0.0:train", tmp_path / "other", field="other")
    assert versioned["report"]["tokens"] == 20
    for source, options, message in (
        ("tfds:plain_texts:test", {}, "one of train"),
        ("tfds:plain_texts", {"field": "number"}, "other, text. Received: number"),
        ("tfds:no_such_texts", {}, "TFDS knows"),
    ):
        with pytest.raises(UserError, match=message):
            _run(source, tmp_path / "none", **options)


def test_little_text_starts_no_processes_and_much_text_one_for_each_core(tmp_path, monkeypatch):
    source, _ = _write_files(tmp_path / "text")
    started = []

    def write_tasks(plan, numbers, tokenizer, folder, processes):
        started.append(processes)
        return [
            (number, shard_writer.write_task(plan, number, tokenizer, folder)) for number in numbers
        ]

    monkeypatch.setattr(prepare_module, "write_tasks", write_tasks)
    _run(source, tmp_path / "little", processes=None)
    assert not started
    monkeypatch.setattr(prepare_module, "_BYTES_WORTH_PROCESSES", 0)
    _run(source, tmp_path / "much", processes=None)
    assert started == ([len(os.sched_getaffinity(0))] if len(os.sched_getaffinity(0)) > 1 else [])


def test_the_plan_is_json_and_names_the_files(tmp_path):
    source, files = _write_files(tmp_path / "text", files=3)
    _run(source, tmp_path / "shards")
    plan = json.loads((tmp_path / "shards/plan.json").read_text())
    assert [os.path.basename(file["file"]) for file in plan["source"]["files"]] == list(files)


def test_a_second_process_is_kept_out_of_a_folder_while_one_prepares_text_in_it(
    tmp_path, monkeypatch
):
    source, _ = _write_files(tmp_path / "text")
    _run(source, tmp_path / "alone")
    folder = tmp_path / "shards"
    write_task, refused = shard_writer.write_task, []

    def write_and_try_another(*arguments, **options):
        with pytest.raises(UserError, match=f"One process.*{folder}, in use by process") as error:
            _run(source, folder, tokens_per_shard=500)
        refused.append(error)
        return write_task(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(prepare_module, "write_task", write_and_try_another)
        _run(source, folder)
    assert len(refused) > 1
    assert _shards(folder) == _shards(tmp_path / "alone")
    names = [{path.name for path in (tmp_path / name).iterdir()} for name in ("shards", "alone")]
    assert names[0] == names[1]
    # What is done can be read by many.
    with monkeypatch.context() as patch:
        patch.setattr(prepare_module, "lock_file", None)
        _run(source, folder)
    _run(source, folder, tokens_per_shard=500)
    assert _shards(folder) != _shards(tmp_path / "alone")


def test_a_folder_named_like_a_pattern_leaves_its_neighbours_alone(tmp_path):
    source, _ = _write_files(tmp_path / "text", files=1)
    _run(source, tmp_path / "run1")
    before = sorted(path.name for path in (tmp_path / "run1").iterdir())
    _run(source, tmp_path / "run[1]")
    assert sorted(path.name for path in (tmp_path / "run1").iterdir()) == before


@pytest.mark.parametrize("beside", [[], ["plan.json"]])
@pytest.mark.parametrize("name", ["index.json", "plan.json", "task-1.json", "shard-old.npz"])
def test_a_folder_with_files_of_something_else_is_refused(tmp_path, name, beside):
    source, _ = _write_files(tmp_path / "text", files=1)
    folder = tmp_path / "mine"
    folder.mkdir()
    for file in {name, *beside}:
        (folder / file).write_text('{"mine": 1}')
    with pytest.raises(UserError, match="something else"):
        _run(source, folder)
    assert {path.name for path in folder.iterdir()} == {name, *beside}


def test_a_folder_left_half_emptied_is_prepared_anew(tmp_path, monkeypatch):
    source, _ = _write_files(tmp_path / "text")
    _run(source, tmp_path / "whole", tokens_per_shard=500)
    _run(source, tmp_path / "shards")
    (tmp_path / "shards" / "mine.unfinished").write_text("")
    remove, removed = tf.io.gfile.remove, []

    def killed(path):
        if len(removed) == 3:
            raise KeyboardInterrupt
        removed.append(path)
        remove(path)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(tf.io.gfile, "remove", killed)
        _run(source, tmp_path / "shards", tokens_per_shard=500)
    _run(source, tmp_path / "shards", tokens_per_shard=500)
    assert _shards(tmp_path / "shards") == _shards(tmp_path / "whole")
    assert (tmp_path / "shards" / "mine.unfinished").exists()
