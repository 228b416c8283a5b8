import dataclasses
import json
import types

import numpy as np
import pytest

from keras_attn.data.shards.shard_files import (
    Shard,
    is_prepared,
    read_index,
    read_shard,
    shard_reader,
    write_index,
    write_shard,
)
from keras_attn.errors import UserError
from keras_attn.tasks.causal_lm.examples import NextTokenExamples
from keras_attn.tasks.permutation_lm.examples import PermutationExamples
from keras_attn.tasks.pretraining.masked_examples import PretrainingExamples
from tests.support.quick import quick


def _shard(largest=100):
    ids = np.array([5, 6, 7, largest, 9, 10], "int32")
    return Shard(ids, np.array([2, 3, 6], "int64"), np.array([1, 3], "int64"))


@pytest.mark.parametrize("largest", [100, 2**16 - 1, 2**16, 2**31 - 1])
def test_a_shard_reads_back_whatever_the_size_of_its_ids(tmp_path, largest):
    path = str(tmp_path / "shard.npz")
    write_shard(path, _shard(largest), extra=np.ones(2))
    shard = read_shard(path)
    assert shard.ids.dtype == np.int32
    assert shard.sentence_ends.dtype == shard.document_ends.dtype == np.int64
    np.testing.assert_array_equal(shard.ids, [5, 6, 7, largest, 9, 10])
    np.testing.assert_array_equal(shard.sentence_ends, [2, 3, 6])
    np.testing.assert_array_equal(shard.document_ends, [1, 3])
    with np.load(path, allow_pickle=False) as arrays:
        assert arrays["ids"].dtype == (np.uint16 if largest < 2**16 else np.int32)


def test_equal_shards_are_equal_files(tmp_path):
    digests = {write_shard(str(tmp_path / name), _shard()) for name in "ab"}
    assert len(digests) == 1
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize(
    ("sentence_ends", "document_ends"),
    [([2, 2, 6], [1, 3]), ([2, 3, 5], [1, 3]), ([2, 3, 6], [0, 3]), ([2, 3, 6], [1, 2]), ([], [])],
)
def test_empty_sentences_empty_documents_and_wrong_ends_are_refused(sentence_ends, document_ends):
    with pytest.raises(ValueError, match="increasing"):
        Shard(np.arange(6), np.array(sentence_ends, int), np.array(document_ends, int))


@pytest.mark.parametrize("size", [0, 10, 400])
def test_a_truncated_or_missing_shard_is_an_error_that_names_it(tmp_path, size):
    path = tmp_path / "shard.npz"
    write_shard(str(path), _shard())
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(UserError, match=r"The shard .*shard\.npz is damaged"):
        read_shard(str(path))
    path.unlink()
    with pytest.raises(UserError, match=r"Cannot read .*shard\.npz: No such"):
        read_shard(str(path))


@pytest.mark.parametrize("bit", quick([1, 8, 128], 8))
def test_a_shard_with_a_wrong_bit_reads_back_or_is_an_error(tmp_path, bit):
    path = tmp_path / "shard.npz"
    write_shard(str(path), _shard())
    content = path.read_bytes()
    damaged = 0
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= bit
        path.write_bytes(changed)
        try:
            np.testing.assert_array_equal(read_shard(str(path)).ids, _shard().ids)
        except UserError as error:
            assert "shard.npz is damaged" in str(error)
            damaged += 1
    assert damaged > len(content) / 2


def test_a_folder_is_prepared_once_it_has_an_index(tmp_path):
    assert not is_prepared(tmp_path) and not is_prepared(str(tmp_path / "missing"))
    with pytest.raises(UserError, match="prepared completely"):
        read_index(tmp_path)
    index = {
        "shards": [{"file": "é", "sha256": "0", "documents": 1, "sentences": 2, "tokens": 3}],
        "vocabulary_sha256": "1",
        "lowercase": True,
    }
    write_index(tmp_path, index)
    assert is_prepared(tmp_path)
    assert read_index(tmp_path) == {"format": 2, **index}
    (tmp_path / "index.json").write_text(json.dumps({"format": 1, "shards": []}))
    with pytest.raises(UserError, match="of format 1"):
        read_index(tmp_path)


def test_a_shard_that_is_not_that_of_its_index_is_refused_when_it_is_read(tmp_path):
    path = tmp_path / "shard-0.npz"
    digest = write_shard(str(path), _shard())
    entry = {"file": path.name, "sha256": digest, "documents": 1, "sentences": 1, "tokens": 1}
    read = shard_reader(tmp_path, {"shards": [entry]})
    np.testing.assert_array_equal(read(0).ids, _shard().ids)
    write_shard(str(path), dataclasses.replace(_shard(), ids=_shard().ids[::-1]))
    with pytest.raises(UserError, match="shard-0.npz is not the shard in index.json"):
        read(0)


@pytest.mark.parametrize("make", [NextTokenExamples, PermutationExamples, PretrainingExamples])
def test_examples_are_of_the_shards_of_the_index(tmp_path, make):
    tokenizer = types.SimpleNamespace(
        sha256="x",
        lowercase=True,
        end_id=0,
        special_ids=np.arange(5),
        vocabulary_size=9,
        continuation=np.zeros(9, bool),
        mask_id=4,
    )
    path = tmp_path / "shard-0.npz"
    write_shard(str(path), _shard())
    entry = {"file": path.name, "sha256": "0" * 64, "documents": 1, "sentences": 1, "tokens": 6}
    write_index(tmp_path, {"shards": [entry], "vocabulary_sha256": "x", "lowercase": True})
    with pytest.raises(UserError, match="is not the shard in index.json"):
        make(tmp_path, tokenizer, length=8).rows(0, 1)


@pytest.mark.parametrize(
    "shards",
    [
        None,
        {},
        [1],
        [{"file": "a"}],
        [{"file": "../a", "sha256": "", "documents": 1, "sentences": 1, "tokens": 1}],
        [{"file": "a", "sha256": None, "documents": 1, "sentences": 1, "tokens": 1}],
        [{"file": "a", "sha256": "", "documents": 1, "sentences": 1, "tokens": "1"}],
        [{"file": "a", "sha256": "", "documents": 1, "sentences": 1, "tokens": 2**70}],
    ],
)
def test_an_index_of_something_else_is_refused(tmp_path, shards):
    write_index(tmp_path, {"shards": shards, "vocabulary_sha256": "x", "lowercase": True})
    with pytest.raises(UserError, match="index.json is damaged. Remove the folder and prepare"):
        read_index(tmp_path)
