"""Windows and batches of sentences, compared with loops over words."""

import numpy as np
import pytest

from keras_attn.data.batches import TableBatches
from keras_attn.tasks.tagging.examples import (
    cut_windows,
    sentence_examples,
    tokenize_words,
    values_of_words,
)
from keras_attn.text.wordpiece import WordPieceTokenizer

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##a", "b", "##b"]
PAD, UNK, CLS, SEP, A, AA, B, BB = 0, 1, 2, 3, 5, 6, 7, 8


@pytest.fixture(scope="module")
def tokenizer():
    return WordPieceTokenizer(PIECES)


def random_sentences(random, count=30, longest=15):
    return [
        ["a" * int(random.integers(1, 4)) for _ in range(int(random.integers(1, longest)))]
        for _ in range(count)
    ]


def test_every_word_has_a_token(tokenizer):
    tokens = tokenize_words([["ab", "\u200b"], ["b"], ["\x01", "a"]], tokenizer)
    assert tokens.ids.tolist() == [A, BB, UNK, B, UNK, A]
    assert tokens.starts.tolist() == [0, 2, 3, 4, 5, 6]
    assert tokens.bounds.tolist() == [0, 2, 3, 5] and tokens.lengths.tolist() == [3, 1, 2]


@pytest.mark.parametrize(
    "room, overlap", [(1, 0), (5, 0), (5, 2), (9, 4), (9, 100), (100, 2), (12, 12)]
)
def test_each_word_is_predicted_once_with_its_context(tokenizer, room, overlap):
    sentences = random_sentences(np.random.default_rng(room))
    tokens = tokenize_words(sentences, tokenizer)
    found = cut_windows(tokens, room, overlap)
    own = [np.arange(*pair) for pair in zip(found.own_first, found.own_last, strict=True)]
    assert np.concatenate(own).tolist() == list(range(sum(map(len, sentences))))
    for owner, first, last in zip(found.owners, found.first, found.last, strict=True):
        assert tokens.bounds[owner] <= first < last <= tokens.bounds[owner + 1]
        size = tokens.starts[last] - tokens.starts[first]
        assert size <= room or last == first + 1
    assert (found.first <= found.own_first).all() and (found.own_last <= found.last).all()
    assert len(found) >= len(sentences) and (room < 100) == (len(found) > len(sentences))
    assert len(found) <= len(sentences) + sum(2 * len(words) * 3 // room + 1 for words in sentences)
    for number in range(len(found) - 1):
        if found.owners[number] == found.owners[number + 1] and room > 3:
            begin, end = found.first[number + 1], found.last[number]
            assert tokens.starts[end] - tokens.starts[begin] <= min(overlap, room // 2)


def test_batches_are_those_of_a_loop(tokenizer):
    sentences = random_sentences(np.random.default_rng(3), 9)
    tokens = tokenize_words(sentences, tokenizer)
    labels = np.arange(sum(map(len, sentences)), dtype=np.int32)
    windows = cut_windows(tokens, 8, 3)
    examples = sentence_examples(
        tokens,
        labels,
        tokenizer,
        length=10,
        windows=windows,
        word_fields={"value": np.stack([labels, labels + 0.5], axis=1)},
        batch_size=4,
        shuffle=False,
    )
    batches, seen = TableBatches(examples), []
    rows = [
        {name: values[n] for name, values in batches.batch(i, 0, 4).items()}
        for i in range(batches.num_batches)
        for n in range(4)
    ]
    for n, row in enumerate(rows):
        if n >= len(windows):
            assert row["sample_weight"] == 0 and (row["label"] == -1).all()
            continue
        ids, words, wanted = [CLS], [0], [-1]
        for word in range(windows.first[n], windows.last[n]):
            size = tokens.starts[word + 1] - tokens.starts[word]
            ids += [A, *[AA] * (size - 1)]
            words += [word - tokens.bounds[windows.owners[n]] + 1] * size
            own = windows.own_first[n] <= word < windows.own_last[n]
            wanted += [labels[word] if own else -1, *[-1] * (size - 1)]
        padding = len(row["token_ids"]) - len(ids) - 1
        assert row["token_ids"].tolist() == [*ids, SEP, *[PAD] * padding]
        assert row["word_ids"].tolist() == [*words, 0, *[0] * padding]
        assert row["label"].tolist() == [*wanted, -1, *[-1] * padding]
        predicted = row["label"] >= 0
        values = np.stack([row["label"], row["label"] + 0.5], axis=1)
        assert (row["value"][predicted] == values[predicted]).all()
        assert (row["value"][row["word_ids"] == 0] == 0).all()
        seen += row["label"][predicted].tolist()
    assert seen == labels.tolist()
    found = values_of_words(
        [row["label"] for row in rows[: len(windows)]], windows, tokens, tokenizer
    )
    assert found.tolist() == labels.tolist()


def test_a_word_longer_than_a_row_is_truncated(tokenizer):
    tokens = tokenize_words([["a", "a" * 30, "b"]], tokenizer)
    windows = cut_windows(tokens, 6, 2)
    assert windows.first.tolist() == [0, 1, 2]
    examples = sentence_examples(
        tokens, None, tokenizer, length=8, windows=windows, batch_size=3, shuffle=False
    )
    batch = examples.batch(0)
    assert examples.num_cut == 1 and batch["padding_mask"].sum(axis=1).tolist() == [3, 8, 3]
    assert batch["word_ids"][1].tolist() == [0, *[2] * 6, 0] and "label" not in batch
