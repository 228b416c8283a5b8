"""Rows of causal language models, compared with the documents."""

import numpy as np
import pytest

from keras_attn.data.shards.prepare import prepare
from keras_attn.errors import UserError
from keras_attn.tasks.causal_lm.examples import NextTokenExamples
from keras_attn.text.byte_pairs import train_byte_pairs
from tests.support.prepared_documents import TEXTS, documents_of_shards, prepare_documents
from tests.support.small_corpus import make_documents

TOKENIZER = train_byte_pairs(TEXTS, 300)
END = TOKENIZER.end_id


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return prepare_documents(tmp_path_factory.mktemp("text"), TOKENIZER)


def targets_of(rows):
    """Returns pairs of a token and its target, without padding."""
    real = rows["padding_mask"] > 0
    return list(zip(rows["token_ids"][real].tolist(), rows["label"][real].tolist(), strict=True))


def test_the_sentences_of_a_document_are_joined_by_a_space(folder):
    found = [ids for documents in documents_of_shards(folder) for ids in documents]
    assert TOKENIZER.decode(found) == TEXTS


@pytest.mark.parametrize("length", [1, 7, 64, 5000])
def test_each_token_is_predicted_once_from_the_tokens_before_it(folder, length):
    examples = NextTokenExamples(folder, TOKENIZER, length=length, exact=True)
    rows = examples.rows(0, examples.num_examples)
    expected = []
    for documents in documents_of_shards(folder):
        for ids in documents:
            whole = [END, *ids, END]
            expected += zip(whole[:-1], whole[1:], strict=True)
    assert targets_of(rows) == expected
    assert len(rows["token_ids"]) == examples.num_examples


def test_the_documents_of_a_row_are_numbered_and_start_at_position_zero(folder):
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
    first, second = (sorted(targets_of(rows)) for rows in epochs)
    assert first == second
    assert not np.array_equal(epochs[0]["token_ids"], epochs[1]["token_ids"])
    parts = [examples.rows(start, start + 3) for start in (0, 3, 6)]
    np.testing.assert_array_equal(
        np.concatenate([p["label"] for p in parts]), epochs[0]["label"][:9]
    )
    other = NextTokenExamples(folder, TOKENIZER, length=32, seed=6).rows(0, count)
    assert not np.array_equal(epochs[0]["token_ids"], other["token_ids"])


def test_shards_of_another_vocabulary_are_an_error(folder):
    with pytest.raises(UserError, match="another vocabulary"):
        NextTokenExamples(folder, train_byte_pairs(TEXTS, 290))


# tests/data/shards prepares shards in several processes, too.
@pytest.mark.thorough
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
