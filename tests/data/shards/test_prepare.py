import json
import os
import sys
from collections import Counter

import pytest

from keras_attn.data.shards import prepare as prepare_module
from keras_attn.data.shards import shard_writer
from keras_attn.data.shards.prepare import report_line
from keras_attn.data.shards.shard_files import is_prepared, read_index, read_shard
from keras_attn.errors import UserError
from tests.support.small_corpus import (
    TOKENIZER,
    make_documents,
    run,
    shard_documents,
    shard_files,
    write_files,
)


def test_shards_hold_every_document_once_and_the_report_is_a_recount(tmp_path):
    source, files = write_files(tmp_path / "text")
    # The same document again, and lines without a token.
    copied = files["03.txt"][0]
    (tmp_path / "text/99.txt").write_text("\n".join(copied) + "\n\n \x00 \n\x01\n\n\n")
    index = run(source, tmp_path / "shards")
    found = []
    for shard in index["shards"]:
        arrays = read_shard(str(tmp_path / "shards" / shard["file"]))
        assert shard["documents"] == len(arrays.document_ends)
        assert shard["sentences"] == len(arrays.sentence_ends)
        assert shard["tokens"] == len(arrays.ids)
        found += shard_documents(arrays)
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
    source, files = write_files(tmp_path / "text")
    index = run(source, tmp_path / "shards")
    owner = {"\n".join(d): name for name, documents in files.items() for d in documents}
    assert len(index["shards"]) >= 3
    for shard in index["shards"]:
        assert 800 < shard["tokens"] < 2500
        documents = shard_documents(read_shard(str(tmp_path / "shards" / shard["file"])))
        names = {owner["\n".join(d).replace("[UNK]", "unknown")] for d in documents}
        assert len(names) >= 2


def test_shards_have_up_to_twice_their_size_when_documents_come_one_by_one(tmp_path, monkeypatch):
    documents = make_documents(400, seed=1)
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
        found = [document for shard in shards for document in shard_documents(shard)]
        assert found == [[s.replace("unknown", "[UNK]") for s in d] for d in documents]


@pytest.mark.thorough
def test_the_shards_are_the_same_whatever_the_number_of_processes(tmp_path):
    source, _ = write_files(tmp_path / "text")
    alone = run(source, tmp_path / "1")
    several = run(source, tmp_path / "2", processes=2)
    assert shard_files(tmp_path / "1") == shard_files(tmp_path / "2")
    for index in (alone, several):
        index["report"].pop("seconds")
        index["report"].pop("megabytes_per_second")
    assert alone == several


@pytest.mark.parametrize("content", [b"", b" \r\n\n\t", b"\x00\n\x00"])
def test_text_without_a_word_is_an_error(tmp_path, content):
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(UserError, match="at least one word.*a.txt"):
        run(str(tmp_path / "a.txt"), tmp_path / "shards", format="auto")
    assert not is_prepared(tmp_path / "shards")


def test_a_wrong_option_or_a_missing_file_is_an_error_that_writes_nothing(tmp_path):
    source, _ = write_files(tmp_path / "text", files=1)
    for options, message in (
        ({"format": "xml"}, "format=xml"),
        ({"on_bad_text": "ignore"}, "on_bad_text=ignore"),
        ({"encoding": "utf9"}, "utf9"),
        ({"tokens_per_shard": 0}, "positive"),
    ):
        with pytest.raises(UserError, match=message):
            run(source, tmp_path / "shards", **options)
    with pytest.raises(UserError, match="missing.txt"):
        run(str(tmp_path / "missing.txt"), tmp_path / "shards")
    with pytest.raises(UserError, match="split=test"):
        run("docstrings", tmp_path / "shards", split="test")
    assert not (tmp_path / "shards").exists()


@pytest.mark.parametrize("processes", [1, 2])
def test_bad_text_is_named_by_file_and_line_or_counted(tmp_path, processes):
    source, files = write_files(tmp_path / "text", files=4)
    path = tmp_path / "text/02.txt"
    path.write_bytes(b"ak .\n\n\xff\n\nal .\n" + b"am \xe9 .\n")
    options = {"processes": processes, "tokens_per_shard": 600}
    with pytest.raises(UserError, match=r"text/02\.txt, line 3") as error:
        run(source, tmp_path / "shards", **options)
    assert "\n" not in str(error.value)
    assert not is_prepared(tmp_path / "shards")
    report = run(source, tmp_path / "shards", on_bad_text="skip", **options)["report"]
    assert report["lines_skipped"] == 2
    assert report["documents"] == sum(len(files[name]) for name in files if "02" not in name) + 2


def test_text_that_changes_while_it_is_prepared_is_an_error(tmp_path, monkeypatch):
    source, _ = write_files(tmp_path / "text", files=1)

    def write_and_append(*arguments, **options):
        with open(tmp_path / "text/00.txt", "a") as file:
            file.write("\n\nak .\n")
        return shard_writer.write_task(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(prepare_module, "write_task", write_and_append)
        with pytest.raises(UserError, match=r"00\.txt changed while it was being prepared"):
            run(source, tmp_path / "shards")
    assert not is_prepared(tmp_path / "shards")
    assert run(source, tmp_path / "shards")["report"]["documents"] == 26


def test_a_process_that_dies_is_an_error(tmp_path, monkeypatch):
    source, _ = write_files(tmp_path / "text")
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(RuntimeError, match="ended with status 1"):
        run(source, tmp_path / "shards", processes=2)
    assert not is_prepared(tmp_path / "shards")


def test_a_large_file_is_cut_into_parts_for_several_tasks(tmp_path, monkeypatch):
    from keras_attn.data.sources import documents

    written = make_documents(300, seed=5)
    text = "\n\n".join("\n".join(document) for document in written)
    (tmp_path / "a.txt").write_text(text)
    monkeypatch.setattr(documents, "PART_BYTES", 1000)
    index = run(str(tmp_path / "a.txt"), tmp_path / "shards")
    assert len(index["shards"]) > 2
    assert index["report"]["documents"] == 300
    assert index["report"]["sentences"] == sum(map(len, written))


def test_little_text_starts_no_processes_and_much_text_one_for_each_core(tmp_path, monkeypatch):
    source, _ = write_files(tmp_path / "text")
    started = []

    def write_tasks(plan, numbers, tokenizer, folder, processes):
        started.append(processes)
        return [
            (number, shard_writer.write_task(plan, number, tokenizer, folder)) for number in numbers
        ]

    monkeypatch.setattr(prepare_module, "write_tasks", write_tasks)
    run(source, tmp_path / "little", processes=None)
    assert not started
    monkeypatch.setattr(prepare_module, "_BYTES_WORTH_PROCESSES", 0)
    run(source, tmp_path / "much", processes=None)
    assert started == ([len(os.sched_getaffinity(0))] if len(os.sched_getaffinity(0)) > 1 else [])


def test_the_plan_is_json_and_names_the_files(tmp_path):
    source, files = write_files(tmp_path / "text", files=3)
    run(source, tmp_path / "shards")
    plan = json.loads((tmp_path / "shards/plan.json").read_text())
    assert [os.path.basename(file["file"]) for file in plan["source"]["files"]] == list(files)
