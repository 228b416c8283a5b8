"""Groups of texts: files, columns, and batches compared with single texts."""

import json

import numpy as np
import pytest
from ml_collections import ConfigDict

from keras_attn.checkpoints.text_settings import TextSettings
from keras_attn.data.batches import TableBatches
from keras_attn.errors import UserError
from keras_attn.tasks.embedding.groups import (
    GroupExamples,
    Groups,
    TextReader,
    check_columns,
    check_groups,
    choose_loss,
    read_groups,
    row_lengths,
)
from keras_attn.text.wordpiece import WordPieceTokenizer

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "d"]
PAD, CLS, SEP, A, B, C, D = 0, 2, 3, 5, 6, 7, 8
NONE = dict.fromkeys(("text", "text_pair", "negative", "label"))


@pytest.fixture(scope="module")
def tokenizer():
    return WordPieceTokenizer(PIECES)


def write(tmp_path, rows):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_columns_are_read(tmp_path):
    path = write(
        tmp_path,
        [{"x": "a", "y": "b", "z": "c", "s": 1}, {"x": "d", "y": "c", "z": "a", "s": "0.5"}],
    )
    found = read_groups(path, {**NONE, "text": "x", "text_pair": "y", "label": "s"})
    assert found.columns == [["a", "d"], ["b", "c"]] and found.scores.tolist() == [1.0, 0.5]
    found = read_groups(path, {**NONE, "text": "x", "text_pair": "y", "negative": "z"})
    assert found.columns == [["a", "d"], ["b", "c"], ["c", "a"]] and found.scores is None
    assert found.text_pairs == ["b", "c"] and found.take([1]).columns == [["d"], ["c"], ["a"]]
    assert read_groups(path, {**NONE, "text": "x"}).text_pairs is None


@pytest.mark.parametrize("score", ["high", float("nan"), "inf", "", 1e300, "-1e16"])
def test_unscored_pairs_are_an_error_or_skipped(tmp_path, score):
    path = write(tmp_path, [{"x": "a", "y": "b", "s": 1}, {"x": "a", "y": "b", "s": score}])
    columns = {**NONE, "text": "x", "text_pair": "y", "label": "s"}
    with pytest.raises(UserError, match="line 2"):
        read_groups(path, columns)
    found = read_groups(path, columns, on_bad_text="skip")
    assert len(found) == 1 and found.skipped == 1


def test_empty_texts_are_an_error_or_skipped(tmp_path):
    path = write(tmp_path, [{"x": "a", "y": "b"}, {"x": "a", "y": None}])
    columns = {**NONE, "text": "x", "text_pair": "y"}
    with pytest.raises(UserError, match="must not be empty.*line 2"):
        read_groups(path, columns)
    assert read_groups(path, columns, on_bad_text="skip").skipped == 1


def test_texts_are_lower_cased_before_a_cased_tokenizer():
    cased = WordPieceTokenizer(PIECES, lowercase=False)
    read = TextReader(TextSettings(lowercase=True), cased)
    assert read.tokens(["A b"]).ids.tolist() == [A, B]
    assert TextReader(TextSettings(), cased).tokens(["A b"]).ids.tolist() == [1, B]


@pytest.mark.parametrize(
    "columns, loss, message",
    [
        ({}, None, "data.text must be set"),
        ({"text": "x", "label": "s"}, None, "data.label requires pairs"),
        ({"text": "x", "negative": "z"}, None, "data.negative requires pairs"),
        ({"text": "x", "text_pair": "y", "negative": "z", "label": "s"}, None, "either"),
        ({"text": "x", "text_pair": "y"}, "triplet", "triplet requires data.negative"),
        ({"text": "x", "text_pair": "y"}, "cosine", "cosine requires data.label"),
        ({"text": "x", "text_pair": "y", "label": "s"}, "in_batch_negatives", "not use scores"),
    ],
)
def test_columns_that_do_not_suit_are_an_error(columns, loss, message):
    with pytest.raises(UserError, match=message):
        check_columns({**NONE, **columns}, loss)


@pytest.mark.parametrize(
    ("fields", "scores", "message"),
    [
        ({}, [1, 1], "cosent compares pairs with different scores.* the score 1 for all"),
        ({}, [0.5], "train.loss=cosent compares the rows of a batch.* 1 training row"),
        ({"loss": "cosine", "teacher": "x"}, [0.5], "train.teacher compares the rows of a batch"),
        ({"batch_size": 1}, [0, 1], "Raise train.batch_size. Received: train.batch_size=1"),
        ({"loss": "cosine"}, [-2, 1], "scores from -1 to 1.*scores from -2 to 1"),
    ],
)
def test_training_data_from_which_nothing_is_learned_are_an_error(fields, scores, message):
    train = {"loss": "cosent", "teacher": None, "batch_size": 2, "distillation": None}
    config = ConfigDict({"train": {**train, **fields}, "model": {"dropout": 0.1}})
    groups = Groups([["a"] * len(scores), ["b"] * len(scores)], np.array(scores, np.float32), ())
    with pytest.raises(UserError, match=message):
        check_groups(config, groups)


def test_the_loss_is_chosen_from_the_columns():
    assert choose_loss({**NONE, "label": "s"}) == "cosent"
    assert choose_loss(NONE) == "in_batch_negatives"


def test_batches_are_groups_of_padded_rows(tmp_path, tokenizer):
    rows = [
        {"x": "a b", "y": "c", "z": "d d d"},
        {"x": "a", "y": "b b", "z": "d"},
        {"x": "c", "y": "d", "z": "a"},
    ]
    groups = read_groups(
        write(tmp_path, rows), {**NONE, "text": "x", "text_pair": "y", "negative": "z"}
    )
    read = TextReader(TextSettings(), tokenizer)
    assert row_lengths(groups, read).tolist() == [5, 4, 3]
    examples = GroupExamples(groups, read, length=5, batch_size=2, buckets=(3, 4), shuffle=False)
    batches = TableBatches(examples)
    first, last = batches.batch(0, 0, 2), batches.batch(1, 0, 2)
    assert first["token_ids"].tolist() == [
        [[CLS, A, B, SEP, PAD], [CLS, C, SEP, PAD, PAD], [CLS, D, D, D, SEP]],
        [[CLS, A, SEP, PAD, PAD], [CLS, B, B, SEP, PAD], [CLS, D, SEP, PAD, PAD]],
    ]
    assert (first["padding_mask"] == (first["token_ids"] != PAD)).all()
    assert last["token_ids"].shape == (2, 3, 3) and last["sample_weight"].tolist() == [1.0, 0.0]


def test_columns_are_shuffled_alike_and_single_texts_are_pairs(tmp_path, tokenizer):
    words = [" ".join("abcd"[n // 4**k % 4] for k in range(3)) for n in range(20)]
    groups = read_groups(write(tmp_path, [{"x": word} for word in words]), {**NONE, "text": "x"})
    settings = TextSettings(prompts={"q": "D "}, default_prompt="q", include_prompt=False)
    examples = GroupExamples(
        groups, TextReader(settings, tokenizer), length=8, batch_size=5, seed=3
    )
    seen = []
    for number in range(4):
        ids = examples.batch(number)["token_ids"]
        assert (ids[:, 0] == ids[:, 1]).all() and (ids[:, 0, 1] == D).all()
        pooled = examples.batch(number)["pooling_mask"]
        assert (pooled[:, :, :2] == 0).all() and (pooled[:, :, 2:6] == 1).all()
        seen += map(tuple, ids[:, 0])
    assert len(set(seen)) == 20 and seen != sorted(seen)


def test_scores_stay_with_their_pair(tmp_path, tokenizer):
    rows = [{"x": "a " * (n % 3 + 1), "y": "b " * (n + 1), "s": n} for n in range(9)]
    groups = read_groups(
        write(tmp_path, rows), {**NONE, "text": "x", "text_pair": "y", "label": "s"}
    )
    examples = GroupExamples(
        groups, TextReader(TextSettings(), tokenizer), length=16, batch_size=4, seed=1
    )
    for number in range(3):
        batch = examples.batch(number)
        real = batch["sample_weight"] > 0
        lengths = batch["padding_mask"][:, 1].sum(axis=1) - 3
        np.testing.assert_array_equal(batch["label"][real], lengths[real])
