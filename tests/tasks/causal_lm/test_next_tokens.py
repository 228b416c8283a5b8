"""Rows for language models against documents laid out one by one."""

import numpy as np
import pytest

from keras_attn.data.shards.prepare import prepare
from keras_attn.data.shards.shard_files import read_index, read_shard
from keras_attn.errors import UserError
from keras_attn.tasks.causal_lm.examples import NextTokenExamples
from keras_attn.text.byte_pairs import train_byte_pairs
from tests.support.small_corpus import make_documents

DOCUMENTS = make_documents(60, 3)
TEXTS = [" ".join(document) for document in DOCUMENTS]
TOKENIZER = train_byte_pairs(TEXTS, 300)
END = TOKENIZER.end_id


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("text")
    (path / "a.txt").write_text("\n\n".join("\n".join(d) for d in DOCUMENTS), encoding="utf-8")
    prepare(
        str(path / "a.txt"),
        TOKENIZER,
        str(path / "shards"),
        format="lines",
        tokens_per_shard=400,
        log=lambda *_: None,
    )
    return str(path / "shards")


def shards(folder):
    return [read_shard(f"{folder}/{shard['file']}") for shard in read_index(folder)["shards"]]


def documents_of(shard):
    ends = shard.sentence_ends[shard.document_ends - 1]
    return [part.tolist() for part in np.split(shard.ids, ends[:-1])]


def told(rows):
    """Pairs of a token and the one after it, of all real places."""
    real = rows["padding_mask"] > 0
    return list(zip(rows["token_ids"][real].tolist(), rows["label"][real].tolist(), strict=True))


def test_documents_are_texts_whose_sentences_are_joined_by_a_blank(folder):
    found = [ids for shard in shards(folder) for ids in documents_of(shard)]
    assert TOKENIZER.decode(found) == TEXTS


@pytest.mark.parametrize("length", [1, 7, 64, 5000])
def test_each_token_is_told_once_after_what_is_before_it(folder, length):
    examples = NextTokenExamples(folder, TOKENIZER, length=length, exact=True)
    rows = examples.rows(0, examples.num_examples)
    expected = []
    for shard in shards(folder):
        for ids in documents_of(shard):
            whole = [END, *ids, END]
            expected += zip(whole[:-1], whole[1:], strict=True)
    assert told(rows) == expected
    assert len(rows["token_ids"]) == examples.num_examples


def test_parts_of_documents_are_numbered_and_begin_at_place_zero(folder):
    examples = NextTokenExamples(folder, TOKENIZER, length=50, exact=True)
    rows = examples.rows(0, examples.num_examples)
    several = 0
    for ids, mask, packs, places in zip(
        rows["token_ids"], rows["padding_mask"], rows["pack_ids"], rows["position_ids"], strict=True
    ):
        number, place = 1, 0
        for column in np.flatnonzero(mask):
            if column and ids[column] == END:
                number, place = number + 1, 0
            assert (packs[column], places[column]) == (number, place)
            place += 1
        several += number > 1
    assert several > 3


def test_epochs_have_the_same_tokens_in_other_orders(folder):
    examples = NextTokenExamples(folder, TOKENIZER, length=32, seed=5)
    count = examples.num_examples
    epochs = [examples.rows(e * count, (e + 1) * count) for e in range(2)]
    first, second = (sorted(told(rows)) for rows in epochs)
    assert first == second
    assert not np.array_equal(epochs[0]["token_ids"], epochs[1]["token_ids"])
    parts = [examples.rows(start, start + 3) for start in (0, 3, 6)]
    np.testing.assert_array_equal(
        np.concatenate([p["label"] for p in parts]), epochs[0]["label"][:9]
    )
    other = NextTokenExamples(folder, TOKENIZER, length=32, seed=6).rows(0, count)
    assert not np.array_equal(epochs[0]["token_ids"], other["token_ids"])


def test_shards_of_another_vocabulary_are_refused(folder):
    with pytest.raises(UserError, match="another vocabulary"):
        NextTokenExamples(folder, train_byte_pairs(TEXTS, 290))


def test_processes_give_the_same_shards(folder, tmp_path):
    for number in range(3):
        documents = make_documents(40, number)
        (tmp_path / f"{number}.txt").write_text("\n\n".join("\n".join(d) for d in documents))
    found = [
        prepare(
            str(tmp_path / "*.txt"),
            TOKENIZER,
            str(tmp_path / f"{processes}"),
            format="lines",
            tokens_per_shard=400,
            processes=processes,
            log=lambda *_: None,
        )["shards"]
        for processes in (1, 2)
    ]
    assert found[0] == found[1] and len(found[0]) > 2
